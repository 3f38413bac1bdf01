package hubbub_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// namedFile is a path of this repository as a document writes it.
var namedFile = regexp.MustCompile("[`(]((?:bus|protocol|activitylog|peers|cmd|scripts|deploy)/[A-Za-z0-9_./-]+|[A-Z]+\\.md|architecture_test\\.go)[`)#]")

// TestDocumentsNameRealFiles fails when a document names a file that is gone.
func TestDocumentsNameRealFiles(t *testing.T) {
	for _, doc := range []string{"README.md", "ARCHITECTURE.md", "CHANGELOG.md"} {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Error(err)
			continue
		}
		found := namedFile.FindAllStringSubmatch(string(text), -1)
		for _, m := range found {
			if _, err := os.Stat(m[1]); err != nil {
				t.Errorf("%s names %s, which does not exist", doc, m[1])
			}
		}
		if doc == "ARCHITECTURE.md" && len(found) < 40 {
			t.Errorf("only %d files found in %s", len(found), doc)
		}
	}
}

// namedTest is a test as the README names it.
var namedTest = regexp.MustCompile("`(Test[A-Za-z0-9]+)`")

// TestPromisesHaveTheirTests fails when the README names a test that is gone.
func TestPromisesHaveTheirTests(t *testing.T) {
	tests := map[string]bool{}
	for _, s := range sources(t) {
		if !s.test() {
			continue
		}
		for _, m := range regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9]+)\(`).FindAllStringSubmatch(s.text, -1) {
			tests[m[1]] = true
		}
	}
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, promises, _ := strings.Cut(string(text), "## What is promised")
	named := namedTest.FindAllStringSubmatch(promises, -1)
	for _, m := range named {
		if !tests[m[1]] {
			t.Errorf("the README names %s, which does not exist", m[1])
		}
	}
	if len(named) < 15 {
		t.Errorf("only %d tests are named in the README", len(named))
	}
}
