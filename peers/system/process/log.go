package process

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"

	"hubbub/protocol/datafolder"
)

// watchLog adds a file to those that are kept below MaxLog.
func (l *Launcher) watchLog(path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.logs[path] = true
}

func (l *Launcher) cutLogs() {
	l.mu.Lock()
	paths := slices.Collect(maps.Keys(l.logs))
	l.mu.Unlock()
	for _, path := range paths {
		if err := cutLog(path, l.opts.MaxLog); err != nil {
			l.log.Warn().Err(err).Msg("agent log not cut; it grows until the next look")
		}
	}
}

// cutLog moves the content of a log that is too large to the file beside it and
// empties the log. The agent keeps appending to the open file, so the file itself
// stays.
func cutLog(path string, bound int64) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() <= bound {
		return nil
	}
	if err != nil {
		return err
	}
	if err := copyEnd(path, path+".1", info.Size(), bound); err != nil {
		return fmt.Errorf("keeping the older part of %s: %w", path, err)
	}
	return os.Truncate(path, 0)
}

// copyEnd writes the last bytes of a file to another.
func copyEnd(from, to string, size, bytes int64) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to+".partial", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, io.NewSectionReader(in, max(0, size-bytes), bytes))
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	return datafolder.Rename(to+".partial", to)
}

// lastWords bounds what is read of a log to learn how an agent ended, in bytes.
const lastWords = 1 << 20

// saysSince reports whether a log holds some words since it had a size.
func saysSince(path string, size int64, words string) bool {
	in, err := os.Open(path)
	if err != nil {
		return false
	}
	defer in.Close() //nolint:errcheck // only read
	info, err := in.Stat()
	if err != nil {
		return false
	}
	if info.Size() < size {
		size = 0 // it was cut since
	}
	text, _ := io.ReadAll(io.NewSectionReader(in, max(size, info.Size()-lastWords), lastWords)) //nolint:errcheck // what was read counts
	return bytes.Contains(text, []byte(words))
}
