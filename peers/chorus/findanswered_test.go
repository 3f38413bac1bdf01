package chorus

import (
	"path/filepath"
	"strings"
	"testing"

	"hubbub/peers/store/storetest"
)

// TestFindAnswered_UsesAnIndex checks that the cost does not grow with the channel.
func TestFindAnswered_UsesAnIndex(t *testing.T) {
	s, err := OpenStore(filepath.Join(t.TempDir(), "chorus"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for query, indexes := range map[string][]string{answeredNamedQuery: {"inbound_source", "inbound_message"}, answeredLastQuery: {"PRIMARY KEY", "inbound_channel"}} {
		plan, err := storetest.Plan(s.db, query, []any{"chorus:ops.c", 0, "m"}[:2+strings.Count(query, "?3")/2]...)
		for _, index := range indexes {
			if err != nil || !strings.Contains(plan, index) || strings.Contains(plan, "SCAN inbound") || strings.Contains(plan, "autoindex") {
				t.Errorf("%s is answered by %s, %v", query, plan, err)
			}
		}
	}
}
