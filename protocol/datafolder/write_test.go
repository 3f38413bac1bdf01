package datafolder_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"hubbub/protocol/datafolder"
)

func TestWriteFile_ReplacesWholeFile(t *testing.T) {
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

// TestWriteNew_KeepsExistingFile writes one file several times at once: all callers
// find the content of one of them.
func TestWriteNew_KeepsExistingFile(t *testing.T) {
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

// TestKey_IsMadeOnceAndKept checks that a key is made once, that the same one is read again, and
// that a file that is not a key, or that others can read, is refused.
func TestKey_IsMadeOnceAndKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "x.key")
	first, err := datafolder.Key(path)
	again, err2 := datafolder.Key(path)
	if err != nil || err2 != nil || len(first) != datafolder.KeyBytes || !slices.Equal(first, again) {
		t.Fatalf("the keys are %x and %x; %v, %v", first, again, err, err2)
	}
	refuse := func(mode os.FileMode, content []byte, says string) {
		t.Helper()
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := datafolder.Key(path); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%d bytes with mode %o: %v", len(content), mode, err)
		}
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o666} {
		refuse(mode, first, "chmod 600")
	}
	for _, n := range []int{0, 1, 31, 33, 64} {
		refuse(0o600, make([]byte, n), "restore it")
	}
}
