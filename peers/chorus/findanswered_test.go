package chorus

import (
	"path/filepath"
	"strings"
	"testing"

	"hubbub/peers/store"
)

// TestFindAnswered_UsesAnIndex checks that the cost does not grow with the channel.
func TestFindAnswered_UsesAnIndex(t *testing.T) {
	s, err := OpenStore(filepath.Join(t.TempDir(), "chorus"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for query, indexes := range map[string][]string{answeredNamedQuery: {"inbound_source", "inbound_message"}, answeredLastQuery: {"PRIMARY KEY", "inbound_channel"}} {
		type step struct {
			id, parent, unused int
			detail             string
		}
		var plan []string
		tx, args := store.On(t.Context(), s.db), []any{"chorus:ops.c", 0, "m"}[:2+strings.Count(query, "?3")/2]
		for _, p := range store.All(tx, func(s *step) []any { return []any{&s.id, &s.parent, &s.unused, &s.detail} }, "EXPLAIN QUERY PLAN "+query, args...) {
			plan = append(plan, p.detail)
		}
		all := strings.Join(plan, "\n")
		for _, index := range indexes {
			if tx.Err() != nil || !strings.Contains(all, index) || strings.Contains(all, "SCAN inbound") || strings.Contains(all, "autoindex") {
				t.Errorf("%s is answered by %s, %v", query, all, tx.Err())
			}
		}
	}
}
