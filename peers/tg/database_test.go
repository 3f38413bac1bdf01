package tg

import (
	"path/filepath"
	"strings"
	"testing"

	"hubbub/peers/store/storetest"
)

// TestQueries_UseIndexes checks that the queries before each send, and for each part of an album,
// do not scan a table.
func TestQueries_UseIndexes(t *testing.T) {
	db, err := Open(filepath.Join(t.TempDir(), "tg.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for query, index := range map[string]string{selectNthSend: "sends_begun", selectAlbum: "events_album"} {
		args := make([]any, 5)
		if !strings.Contains(query, "?5") {
			args = args[:strings.Count(query, "?")]
		}
		plan, err := storetest.Plan(db, query, args...)
		first, _, _ := strings.Cut(plan, "\n")
		if err != nil || !strings.Contains(first, "USING INDEX "+index) && !strings.Contains(first, "USING COVERING INDEX "+index) {
			t.Errorf("%s is answered by %s, %v", query, plan, err)
		}
	}
}
