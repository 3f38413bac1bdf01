package docs

import (
	"io/fs"
	"strings"
	"testing"
)

// TestTopics_ListEveryPage checks that the list and the folder agree, and that
// each page begins with a title.
func TestTopics_ListEveryPage(t *testing.T) {
	listed := map[string]bool{}
	for _, topic := range Topics() {
		listed[topic.File()] = true
		if !strings.HasPrefix(topic.Text, "# ") {
			t.Errorf("%s.md does not begin with a title", topic.Name)
		}
	}
	files, err := fs.Glob(pages, "*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !listed[file] {
			t.Errorf("%s is not a topic of hubbub help", file)
		}
	}
}
