package tg

import (
	"path/filepath"
	"testing"
	"time"

	"hubbub/peers/store"
)

// TestACommandLeavesTheDatabaseOfAnOlderBridgeAsItIs: programs are replaced before
// the bridge is restarted, and who looks meanwhile must not stop the bridge that runs.
func TestACommandLeavesTheDatabaseOfAnOlderBridgeAsItIs(t *testing.T) {
	path := filepath.Join(t.TempDir(), Database)
	old, err := store.Open(path, versions()[:1])
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	db, err := OpenBeside(path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := NewCode(t.Context(), db, time.Hour); err != nil {
		t.Errorf("a code cannot be made: %v", err)
	}
	if _, err := Admissions(t.Context(), db); err != nil {
		t.Errorf("the admissions cannot be listed: %v", err)
	}
	if _, err := Revoke(t.Context(), db, 77); err != nil {
		t.Errorf("an admission cannot be taken back: %v", err)
	}
	if _, err := WebhookOf(t.Context(), db, 1); err != nil {
		t.Errorf("the webhook cannot be read: %v", err)
	}
	var version int
	if err := old.QueryRow("PRAGMA user_version").Scan(&version); err != nil || version != 1 {
		t.Errorf("the database has version %d after the commands (%v), and its bridge knows 1", version, err)
	}
}
