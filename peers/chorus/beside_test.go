package chorus

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hubbub/peers/store"
)

// TestACommandLeavesTheDatabaseOfAnOlderGatewayAsItIs: programs are replaced before
// the gateway is restarted.
func TestACommandLeavesTheDatabaseOfAnOlderGatewayAsItIs(t *testing.T) {
	folder := t.TempDir()
	old, err := store.Open(filepath.Join(folder, databaseFile), versions()[:1])
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	if _, err := OpenStoreBeside(folder); err == nil || !strings.Contains(err.Error(), "restart hubbub-chorus") {
		t.Errorf("OpenStoreBeside = %v; want an error that says what to do", err)
	}
	var version int
	if err := old.QueryRow("PRAGMA user_version").Scan(&version); err != nil || version != 1 {
		t.Errorf("the database has version %d (%v), and its gateway knows 1", version, err)
	}
	s, err := OpenStore(folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{folder, filepath.Join(folder, "new")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		s, err := OpenStoreBeside(dir)
		if err != nil {
			t.Fatalf("OpenStoreBeside of %s = %v", dir, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
