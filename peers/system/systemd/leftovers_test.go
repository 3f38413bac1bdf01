package systemd_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"hubbub/peers/system/systemd"
)

// TestRemoveLeftovers_KeepsStartsInProgress checks that environment files, which hold keys, are removed. The file of a start
// in progress stays, and so do other files.
func TestRemoveLeftovers_KeepsStartsInProgress(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "data [of mine")
	launch := filepath.Join(folder, "launch")
	if err := os.MkdirAll(launch, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, age := range map[string]time.Duration{"tg-1.env-1": time.Hour, "tg-2.env-2": 0, "tg-1.token": time.Hour} {
		path := filepath.Join(launch, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Time{}, time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	systemd.New(folder, nil).RemoveLeftovers()
	for name, stays := range map[string]bool{"tg-1.env-1": false, "tg-2.env-2": true, "tg-1.token": true} {
		if _, err := os.Stat(filepath.Join(launch, name)); errors.Is(err, fs.ErrNotExist) == stays {
			t.Errorf("%s: %v", name, err)
		}
	}
}
