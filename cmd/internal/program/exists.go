package program

import (
	"errors"
	"io/fs"
	"os"
)

// FileExists reports whether a file may exist. A file that this user may not access counts as
// existing, so that opening it reports the reason.
func FileExists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
