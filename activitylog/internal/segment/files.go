package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Path returns the path of the sealed file number n of the log at path. A log consists of the
// active segment, such as activity.db, and of sealed files beside it: activity-000001.db and so
// on.
func Path(path string, n int) string {
	return fmt.Sprintf("%s-%06d.db", strings.TrimSuffix(path, ".db"), n)
}

// Numbers lists the sealed files of the log at path, in order.
func Numbers(path string) (numbers []int, err error) {
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
		if bad == nil && filepath.Base(Path(path, int(n))) == e.Name() {
			numbers = append(numbers, int(n))
		}
	}
	slices.Sort(numbers)
	return numbers, err
}

// FilesBeside lists the files whose paths begin with prefix, in order. It returns none if their
// folder cannot be read. Unlike filepath.Glob, it takes every character of the path literally.
func FilesBeside(prefix string) (paths []string) {
	folder, begin := filepath.Split(prefix)
	entries, _ := os.ReadDir(filepath.Dir(prefix)) // sorted, also those before an error
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), begin) {
			paths = append(paths, folder+e.Name())
		}
	}
	return paths
}

// ChecksumSuffix ends the name of the file with the checksum of a sealed file, in the format of
// sha256sum. It is written last: a file with a checksum is never written again.
const ChecksumSuffix = ".sha256"

// PreparedSuffix ends the name of the file that becomes the next active segment.
const PreparedSuffix = ".partial"

// A Run says which bus writes to which segment of which log, from some row.
type Run struct {
	Segment int
	Log     string
	Bus     string
}

// Failpoint is called between steps that a kill may interrupt. Tests replace it.
var Failpoint = func(string) {}
