package deadletter

import (
	"path"
	"strings"
	"testing"

	"hubbub/docs"
)

// TestDatabases_AreDocumented checks that the list of what must not be lost has every database
// with an outbox, and every folder of them.
func TestDatabases_AreDocumented(t *testing.T) {
	for _, topic := range docs.Topics() {
		if topic.Name != "operating" {
			continue
		}
		_, text, _ := strings.Cut(topic.Text(), "\n## Data\n")
		text, _, _ = strings.Cut(text, "\n## ")
		for _, pattern := range databases {
			name := "`" + strings.ReplaceAll(path.Base(pattern), "*", "NAME") + "`"
			folder, _, below := strings.Cut(pattern, "/")
			if !strings.Contains(text, name) || below && !strings.Contains(text, "`"+folder+"/`") {
				t.Errorf("docs/operating.md does not list %s", pattern)
			}
		}
		return
	}
	t.Error("there is no page about operating")
}
