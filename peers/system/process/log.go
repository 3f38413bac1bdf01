package process

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"hubbub/protocol/datafolder"
	"hubbub/protocol/text"

	"github.com/rs/zerolog"
)

// watchLog adds a log file to the watched ones, from an offset.
func (l *Launcher) watchLog(path string, from int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.logs[path]; !known {
		l.logs[path] = from
	}
}

func (l *Launcher) lookAtLogs() {
	l.mu.Lock()
	logs := maps.Clone(l.logs)
	l.mu.Unlock()
	for path, from := range logs {
		to := l.passOn(path, from)
		if cut, err := cutLog(path, l.opts.MaxLog); err != nil {
			l.log.Warn().Err(err).Msg("agent log not cut; it grows until the next check")
		} else if cut {
			to = 0
		}
		l.mu.Lock()
		l.logs[path] = to
		l.mu.Unlock()
	}
}

// maxPassedOn bounds the lines of a log that are forwarded at one check.
const maxPassedOn = 10

// passOn forwards the warnings in an agent's log after an offset to the spawner's log, which
// people check first. It returns the new offset.
func (l *Launcher) passOn(path string, from int64) (to int64) {
	text, end := since(path, from)
	whole := text[:bytes.LastIndexByte(text, '\n')+1]
	peer := "agent:" + strings.TrimSuffix(filepath.Base(path), ".log")
	n := 0
	for line := range bytes.Lines(whole) {
		var entry map[string]any
		if json.Unmarshal(line, &entry) != nil {
			continue // the reason of the exit includes such output
		}
		name, _ := entry["level"].(string)
		level, err := zerolog.ParseLevel(name)
		if err != nil || level < zerolog.WarnLevel || level > zerolog.PanicLevel {
			continue
		}
		if n++; n > maxPassedOn {
			l.log.Warn().Str("peer", peer).Str("log", path).Msg("agent logged further warnings; see its log")
			break
		}
		message, _ := entry["message"].(string)
		for _, ours := range []string{zerolog.LevelFieldName, zerolog.TimestampFieldName, zerolog.MessageFieldName,
			"peer"} {
			delete(entry, ours)
		}
		l.log.WithLevel(level).Str("peer", peer).Fields(entry).Msg(message)
	}
	return end - int64(len(text)-len(whole))
}

// cutLog moves the content of an oversized log to the older file and truncates the log. The agent
// keeps appending to the open file, so the file itself stays.
func cutLog(path string, bound int64) (cut bool, err error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() <= bound {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := copyEnd(path, path+".1", info.Size(), bound); err != nil {
		return false, fmt.Errorf("keeping the older part of %s: %w", path, err)
	}
	err = os.Truncate(path, 0)
	return err == nil, err
}

// copyEnd copies the last bytes of a file to another.
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

// maxRead bounds the bytes of a log that are read at once.
const maxRead = 1 << 20

// since returns the text of a log after an offset, or the last part of it, and where the text
// ends.
func since(path string, size int64) (text []byte, end int64) {
	info, err := os.Stat(path)
	if err != nil || info.Size() == size { // an idle agent costs no more than this
		return nil, size
	}
	in, err := os.Open(path)
	if err != nil {
		return nil, size
	}
	defer in.Close() //nolint:errcheck // only read
	if info, err = in.Stat(); err != nil {
		return nil, size
	}
	if info.Size() < size {
		size = 0 // it was cut in between
	}
	size = max(size, info.Size()-maxRead)
	text, _ = io.ReadAll(io.NewSectionReader(in, size, maxRead)) //nolint:errcheck // what was read counts
	return text, size + int64(len(text))
}

// maxWords bounds the characters of an agent's last output.
const maxWords = 300

// lastWords returns what a program wrote after the last log entry, such as why it exits.
func lastWords(log []byte) string {
	var words []string
	for line := range strings.Lines(string(log)) {
		switch line = strings.TrimSpace(line); {
		case strings.HasPrefix(line, "{"):
			words = nil
		case line != "" && !strings.HasPrefix(line, "Try "): // a hint about help is not a reason
			words = append(words, line)
		}
	}
	return text.Clip(strings.Join(words, " "), maxWords)
}
