package write

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/internal/segment"
	"hubbub/protocol/datafolder"
)

// A Removal counts the files and rows removed from a log.
type Removal struct {
	Segments int   `json:"segments"`
	Rows     int64 `json:"deleted"`
	Bytes    int64 `json:"bytes"`
}

// enforce removes the oldest sealed files until the log is within the retention.
func enforce(ctx context.Context, k activitylog.Retention, path string, now time.Time) (r Removal, err error) {
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

// Prune removes the sealed files of a log whose rows are all older than before, the oldest first.
// It frees their disk space at once. A bus may write at the same time, and readers that have such
// a file open can finish reading it.
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
			return r, fmt.Errorf("%w at %s", activitylog.ErrNoLog, path)
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

// lastTime returns the time of the last row in the first of these files. If a wrong clock wrote
// rows that are later than now, the time is that of the next file without such rows. It returns
// false if there is no such file.
func lastTime(files []sealedFile, now time.Time) (last time.Time, ok bool, err error) {
	for _, f := range files {
		if !f.done {
			return last, false, nil
		}
		v, err := segment.Open(f.path)
		if err != nil {
			return last, false, err
		}
		last = time.UnixMicro(v.Span().Until)
		if err := errors.Join(v.Err, v.Conn.Close()); err != nil || !last.After(now) {
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
	numbers, err := segment.Numbers(path)
	for _, n := range numbers {
		f := sealedFile{path: segment.Path(path, n)}
		info, err := os.Stat(f.path)
		if err != nil {
			continue // it was just removed
		}
		f.size = info.Size()
		_, err = os.Stat(f.path + segment.ChecksumSuffix)
		f.done = err == nil
		list = append(list, f)
	}
	return list, err
}

// remove removes one file, and its checksum last: without it, the file would be sealed again.
func (r *Removal) remove(log string, f sealedFile) error {
	if r.Segments == 0 {
		if err := datafolder.SyncFile(log + "-wal"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			// the next id in the active segment may not be durable yet
			return fmt.Errorf("removing %s: %w", f.path, err)
		}
	}
	v, err := segment.Open(f.path)
	if err != nil {
		return fmt.Errorf("removing %s: %w", f.path, err)
	}
	rows := v.Rows()
	tree, err := v.KeptTree()
	if err = errors.Join(err, v.Err, v.Conn.Close()); err == nil && tree != nil {
		err = datafolder.WriteFile(segment.KeptTreePath(f.path), tree)
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) { // use the space of the file itself
		if err = os.Remove(f.path); err == nil {
			err = datafolder.WriteFile(segment.KeptTreePath(f.path), tree)
		}
	}
	if err != nil {
		return fmt.Errorf("removing %s: %w", f.path, err)
	}
	for _, end := range []string{"", segment.ChecksumSuffix, "-wal", "-shm"} {
		if err := os.Remove(f.path + end); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing a segment of the activity log: %w (may this user write its folder?)", err)
		}
		segment.Failpoint("unlinked" + end)
	}
	r.Segments, r.Rows, r.Bytes = r.Segments+1, r.Rows+rows, r.Bytes+f.size
	return nil
}
