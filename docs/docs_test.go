package docs

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
)

// TestTopics_ListEveryPage checks that the list and the folder agree, and that
// each page begins with a title.
func TestTopics_ListEveryPage(t *testing.T) {
	listed := map[string]bool{}
	for _, topic := range Topics() {
		listed[topic.File()] = true
		if !strings.HasPrefix(topic.Text(), "# ") {
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

// TestSettings_CanBeCopied checks that the documented parts of settings files are TOML.
func TestSettings_CanBeCopied(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{"README": string(readme)}
	for _, topic := range Topics() {
		texts[topic.Name] = topic.Text()
	}
	block := regexp.MustCompile("(?ms)^```toml\n(.*?)^```$")
	found := 0
	for name, text := range texts {
		for _, m := range block.FindAllStringSubmatch(text, -1) {
			found++
			var settings map[string]any
			if _, err := toml.Decode(m[1], &settings); err != nil {
				t.Errorf("%s: %v in\n%s", name, err, m[1])
			}
		}
	}
	if found < 4 {
		t.Errorf("only %d blocks of settings were found", found)
	}
}
