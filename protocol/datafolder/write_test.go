package datafolder_test

import (
	"os"
	"path/filepath"
	"testing"

	"hubbub/protocol/datafolder"
)

func TestWriteReplacesAFileWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	for _, text := range []string{"first", "second"} {
		if err := datafolder.Write(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		info, err2 := os.Stat(path)
		if err != nil || err2 != nil || string(got) != text || info.Mode().Perm() != 0o600 {
			t.Errorf("%q, %v, %v", got, info, err)
		}
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("it left %v, %v", left, err)
	}
	if err := datafolder.Write(filepath.Join(path, "below"), nil); err == nil {
		t.Error("a file below a file was written")
	}
}
