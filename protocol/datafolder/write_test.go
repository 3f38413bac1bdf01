package datafolder_test

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"hubbub/protocol/datafolder"
)

func TestWriteReplacesAFileWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	for _, text := range []string{"first", "second"} {
		if err := datafolder.WriteFile(path, []byte(text)); err != nil {
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
	if err := datafolder.WriteFile(filepath.Join(path, "below"), nil); err == nil {
		t.Error("a file below a file was written")
	}
}

// TestWriteFirstKeepsWhatIsThere has several write a file at once: all find the content
// of one of them.
func TestWriteFirstKeepsWhatIsThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	var group sync.WaitGroup
	found := make([]string, 8)
	for i := range found {
		group.Go(func() {
			if err := datafolder.WriteNew(path, []byte{byte('a' + i)}); err != nil {
				t.Error(err)
			}
			content, err := os.ReadFile(path)
			if err != nil {
				t.Error(err)
			}
			found[i] = string(content)
		})
	}
	group.Wait()
	if first := slices.Compact(found); len(first) != 1 || len(first[0]) != 1 {
		t.Errorf("they found %q", found)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("it left %v, %v", left, err)
	}
}
