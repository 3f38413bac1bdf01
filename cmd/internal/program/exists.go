package program

import (
	"errors"
	"io/fs"
	"os"
)

// FileExists reports whether there may be a file. A file that this user may not look at is
// not missing: opening it says so.
func FileExists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
