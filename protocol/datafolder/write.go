package datafolder

import (
	"errors"
	"os"
	"path/filepath"
)

// Write writes a file that only its owner can read, whole or not at all. It
// replaces the file that is there, and survives a crash of the machine.
func Write(path string, content []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // made with mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) //nolint:errcheck // renamed away, as a rule
	_, err = tmp.Write(content)
	if err = errors.Join(err, GiveToOwner(tmp), tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}
