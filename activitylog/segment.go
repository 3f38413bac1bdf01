package activitylog

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A log consists of the active segment, which takes new rows, and of sealed files beside it, by
// number: activity.db, activity-000001.db and so on.

// segmentPath returns the path of the sealed file number n of the log at path.
func segmentPath(path string, n int) string {
	return fmt.Sprintf("%s-%06d.db", strings.TrimSuffix(path, ".db"), n)
}

// segmentNumbers lists the sealed files of the log at path, in order.
func segmentNumbers(path string) (numbers []int, err error) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	prefix := filepath.Base(strings.TrimSuffix(path, ".db")) + "-"
	for _, e := range entries {
		digits, begins := strings.CutPrefix(e.Name(), prefix)
		digits, ends := strings.CutSuffix(digits, ".db")
		if !begins || !ends || len(digits) < 6 {
			continue
		}
		n, bad := strconv.ParseUint(digits, 10, 31)
		if bad == nil && filepath.Base(segmentPath(path, int(n))) == e.Name() {
			numbers = append(numbers, int(n))
		}
	}
	slices.Sort(numbers)
	return numbers, err
}

// IsSealed reports whether name is that of a sealed file of a log, or of a file that belongs to
// one.
func IsSealed(log, name string) bool {
	rest, ok := strings.CutPrefix(name, filepath.Base(strings.TrimSuffix(log, ".db"))+"-")
	digits, _, _ := strings.Cut(rest, ".")
	_, err := strconv.ParseUint(digits, 10, 31)
	return ok && err == nil && len(digits) >= 6
}

// Sealed returns the files that belong to a copy of the active segment of the log at path: the
// sealed files before it, each after its checksum if it has one. The copy contains what was
// sealed later.
func Sealed(path, live string) (files []string, err error) {
	numbers, err := segmentNumbers(path)
	if err != nil {
		return nil, err
	}
	before := math.MaxInt
	if _, err := os.Stat(live); err == nil {
		v, err := openView(live)
		if err != nil {
			return nil, err
		}
		if place, _, ok := v.lastRun(); ok {
			before = place.segment
		}
		if err := errors.Join(v.err, v.conn.Close()); err != nil {
			return nil, err
		}
	}
	files = keptTrees(path)
	for _, n := range numbers {
		if n >= before {
			break
		}
		files = append(files, segmentPath(path, n)+checksumSuffix, segmentPath(path, n))
	}
	return files, nil
}

// checksumSuffix names the file with the checksum of a sealed file, as sha256sum writes it. It is
// written last: a file that has one is never written again.
const checksumSuffix = ".sha256"

// preparedSuffix names the file that becomes the next active segment.
const preparedSuffix = ".partial"
