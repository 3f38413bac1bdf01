package activitylog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"hubbub/protocol/datafolder"
)

// DefaultRetention is how much of a log is kept.
const DefaultRetention = "90d"

// A Retention limits how much of a log is kept, by age or by size. The zero Retention keeps
// everything.
type Retention struct {
	Age   time.Duration
	Bytes int64
}

// Forever reports whether everything is kept.
func (k Retention) Forever() bool { return k == Retention{} }

// byteUnits are the suffixes of a number of bytes, the longest first.
var byteUnits = []struct {
	name string
	size float64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9},
	{"TB", 1e12}}

// ParseRetention parses an age such as 90d or 36h, a number of bytes such as 20GiB or 500MB, or
// "forever".
func ParseRetention(text string) (k Retention, err error) {
	if text == "forever" {
		return k, nil
	}
	for _, unit := range byteUnits {
		digits, ok := strings.CutSuffix(text, unit.name)
		if !ok {
			continue
		}
		if n, err := strconv.ParseFloat(digits, 64); err == nil && n*unit.size >= 1 && n*unit.size < 1<<60 {
			return Retention{Bytes: int64(n * unit.size)}, nil
		}
		break
	}
	if k.Age, err = ParseSpan(text); err != nil || k.Age <= 0 {
		return Retention{}, fmt.Errorf("%q is neither an age such as 90d, nor bytes such as 20GiB, nor forever", text)
	}
	return k, nil
}

// String describes the retention in words.
func (k Retention) String() string {
	switch {
	case k.Forever():
		return "forever"
	case k.Age == 0:
		for i := len(byteUnits)/2 - 1; i >= 0; i-- {
			if u := byteUnits[i]; float64(k.Bytes) >= u.size {
				return strconv.FormatFloat(float64(k.Bytes)/u.size, 'f', -1, 64) + " " + u.name
			}
		}
		return fmt.Sprintf("%d bytes", k.Bytes)
	case k.Age%(24*time.Hour) == 0:
		return fmt.Sprintf("%d days", k.Age/(24*time.Hour))
	}
	return k.Age.String()
}

// A Removal counts what was removed from a log.
type Removal struct {
	Segments int   `json:"segments"`
	Rows     int64 `json:"deleted"`
	Bytes    int64 `json:"bytes"`
}

// enforce removes the oldest sealed files until the rest is within the retention.
func (k Retention) enforce(ctx context.Context, path string, now time.Time) (r Removal, err error) {
	if k.Age > 0 {
		return prune(ctx, path, now.Add(-k.Age), now)
	}
	files, err := sealedFiles(path)
	if err != nil {
		return r, err
	}
	sum := int64(0)
	for _, end := range []string{"", "-wal"} {
		if info, err := os.Stat(path + end); err == nil {
			sum += info.Size()
		}
	}
	for _, f := range files {
		sum += f.size
	}
	for _, f := range files {
		if sum <= k.Bytes || !f.done {
			return r, nil
		}
		sum -= f.size
		if err := r.remove(path, f); err != nil {
			return r, err
		}
	}
	return r, nil
}

// Prune removes the sealed files of a log whose rows are all older than a time, the oldest first.
// It frees their disk space at once. A bus may write meanwhile, and readers of such a file can
// finish reading it.
func Prune(ctx context.Context, path string, before time.Time) (r Removal, err error) {
	return prune(ctx, path, before, time.Now())
}

func prune(ctx context.Context, path string, before, now time.Time) (r Removal, err error) {
	files, err := sealedFiles(path)
	if err != nil {
		return r, err
	}
	if len(files) == 0 {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return r, fmt.Errorf("%w at %s", ErrNoLog, path)
		}
	}
	for i, f := range files {
		if err := ctx.Err(); err != nil {
			return r, err
		}
		if !f.done {
			return r, nil
		}
		last, ok, err := lastTime(files[i:], now)
		if err != nil {
			return r, fmt.Errorf("pruning %s: %w", f.path, err)
		}
		if !ok || !last.Before(before) {
			return r, nil
		}
		if err := r.remove(path, f); err != nil {
			return r, err
		}
	}
	return r, nil
}

// lastTime returns the time of the last row of the first of these files. A wrong clock wrote rows
// that are later than now; such a file is taken to be as old as the next file without them.
// lastTime reports false if there is no such file.
func lastTime(files []sealedFile, now time.Time) (last time.Time, ok bool, err error) {
	for _, f := range files {
		if !f.done {
			return last, false, nil
		}
		v, err := openView(f.path)
		if err != nil {
			return last, false, err
		}
		last = time.UnixMicro(v.span().until)
		if err := errors.Join(v.err, v.conn.Close()); err != nil || !last.After(now) {
			return last, err == nil, err
		}
	}
	return last, false, nil
}

// A sealedFile is a rotated file of a log, with or without its checksum.
type sealedFile struct {
	path string
	size int64
	done bool // it has its checksum
}

func sealedFiles(path string) (list []sealedFile, err error) {
	numbers, err := segmentNumbers(path)
	for _, n := range numbers {
		f := sealedFile{path: segmentPath(path, n)}
		info, err := os.Stat(f.path)
		if err != nil {
			continue // it was removed meanwhile
		}
		f.size = info.Size()
		_, err = os.Stat(f.path + checksumSuffix)
		f.done = err == nil
		list = append(list, f)
	}
	return list, err
}

// remove removes one file. It removes the checksum last: without it, the file would be sealed
// again.
func (r *Removal) remove(log string, f sealedFile) error {
	if r.Segments == 0 {
		if err := syncFile(log + "-wal"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			// the active segment may not yet say durably where ids continue
			return fmt.Errorf("removing %s: %w", f.path, err)
		}
	}
	v, err := openView(f.path)
	if err != nil {
		return fmt.Errorf("removing %s: %w", f.path, err)
	}
	rows := v.rows()
	tree, err := v.tree()
	if err = errors.Join(err, v.err, v.conn.Close()); err == nil && tree != nil {
		err = datafolder.WriteFile(treePath(f.path), tree)
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) { // the file's own space has to suffice
		if err = os.Remove(f.path); err == nil {
			err = datafolder.WriteFile(treePath(f.path), tree)
		}
	}
	if err != nil {
		return fmt.Errorf("removing %s: %w", f.path, err)
	}
	for _, end := range []string{"", checksumSuffix, "-wal", "-shm"} {
		if err := os.Remove(f.path + end); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing a segment of the activity log: %w (may this user write its folder?)", err)
		}
		failpoint("unlinked" + end)
	}
	r.Segments, r.Rows, r.Bytes = r.Segments+1, r.Rows+rows, r.Bytes+f.size
	return nil
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
