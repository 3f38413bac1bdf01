package tg

import (
	"path/filepath"
	"strings"
	"testing"

	"hubbub/peers/store"
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
		type step struct {
			id, parent, unused int
			detail             string
		}
		tx := autocommit(t, db)
		plan := store.All(tx, func(s *step) []any { return []any{&s.id, &s.parent, &s.unused, &s.detail} }, "EXPLAIN QUERY PLAN "+query, args...)
		if tx.Err() != nil || len(plan) == 0 || !strings.Contains(plan[0].detail, "USING INDEX "+index) && !strings.Contains(plan[0].detail, "USING COVERING INDEX "+index) {
			t.Errorf("%s is answered by %+v, %v", query, plan, tx.Err())
		}
	}
}
