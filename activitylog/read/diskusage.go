package read

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"hubbub/activitylog"
	"hubbub/activitylog/internal/segment"
)

// DiskUsageOf returns the disk usage of the log at path, which is zero for a missing log.
func DiskUsageOf(ctx context.Context, path string) (f activitylog.DiskUsage, err error) {
	for _, name := range segment.FilesBeside(strings.TrimSuffix(path, ".db")) {
		base := filepath.Base(name)
		ofSealed := IsSealed(path, base) && !strings.HasSuffix(base, segment.KeptTreeSuffix)
		if !strings.HasPrefix(base, filepath.Base(path)) && !ofSealed {
			continue
		}
		if info, err := os.Stat(name); err == nil { // otherwise it was just removed
			f.Bytes += info.Size()
		}
	}
	if f.Bytes == 0 {
		return f, nil
	}
	r := Open(path)
	defer r.Close()
	first, _, err := r.After(ctx, Filter{}, nil, 1)
	if err != nil || len(first) == 0 {
		return f, err
	}
	f.Since = first[0].Time()
	return f, nil
}

// IsSealed reports whether name is the name of a sealed file of a log, or of a file beside one.
func IsSealed(log, name string) bool {
	rest, ok := strings.CutPrefix(name, filepath.Base(strings.TrimSuffix(log, ".db"))+"-")
	digits, _, _ := strings.Cut(rest, ".")
	_, err := strconv.ParseUint(digits, 10, 31)
	return ok && err == nil && len(digits) >= 6
}

// Sealed returns the files that belong to a copy of the active segment of the log at path: the
// sealed files before it, each after its checksum. Rows sealed after the copy was made are in the
// copy.
func Sealed(path, live string) (files []string, err error) {
	numbers, err := segment.Numbers(path)
	if err != nil {
		return nil, err
	}
	before := math.MaxInt
	if _, err := os.Stat(live); err == nil {
		v, err := segment.Open(live)
		if err != nil {
			return nil, err
		}
		if place, _, ok := v.LastRun(); ok {
			before = place.Segment
		}
		if err := errors.Join(v.Err, v.Conn.Close()); err != nil {
			return nil, err
		}
	}
	files = segment.KeptTrees(path)
	for _, n := range numbers {
		if n >= before {
			break
		}
		files = append(files, segment.Path(path, n)+segment.ChecksumSuffix, segment.Path(path, n))
	}
	return files, nil
}
