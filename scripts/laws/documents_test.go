package laws

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// namedPath is a path of this repository as a document writes it: `bus/publish.go`,
// or, with a name that is declared there, `bus/publish.go:targets`,
// `bus/publish.go:message.finish` or `bus/publish.go:(*message).finish`.
var namedPath = regexp.MustCompile("[`(]((?:bus|protocol|activitylog|peers|cmd|scripts|deploy)/[A-Za-z0-9_./-]+|[A-Z]+\\.md|docs/[a-z/0-9-]+\\.md)(?::([A-Za-z0-9_.()*]+))?[`)#]")

// nameInFile is the second way in which a document names a declaration: `targets` in
// `bus/publish.go`.
var nameInFile = regexp.MustCompile("`([A-Za-z0-9_.()*]+)`\\s+in\\s+`([a-z0-9_/]+\\.go)`")

// TestDocuments_NameExistingFiles fails when a document names a file that does
// not exist, or a declaration that is not in its file.
func TestDocuments_NameExistingFiles(t *testing.T) {
	declared := declarations(t)
	for _, doc := range documents(t) {
		raw, err := os.ReadFile(doc)
		if err != nil {
			t.Error(err)
			continue
		}
		text := string(raw)
		found := namedPath.FindAllStringSubmatch(text, -1)
		for _, m := range nameInFile.FindAllStringSubmatch(text, -1) {
			found = append(found, []string{m[0], m[2], m[1]})
		}
		for _, m := range found {
			if _, err := os.Stat(m[1]); err != nil {
				t.Errorf("%s names %s, which does not exist", doc, m[1])
			} else if m[2] != "" && !declared[m[1]+":"+plainName(m[2])] {
				t.Errorf("%s names %s in %s, which declares no such thing", doc, m[2], m[1])
			}
		}
		if doc == "docs/architecture.md" && len(found) < 40 {
			t.Errorf("only %d files found in %s", len(found), doc)
		}
	}
}

// TestScripts_EndWhenInterrupted fails when a script cleans up on a signal and continues, or
// leaves its files behind.
func TestScripts_EndWhenInterrupted(t *testing.T) {
	exits := regexp.MustCompile(`(?m)^\t*trap 'exit [1-9]\d*' INT TERM$`)
	cleans := regexp.MustCompile(`(?m)^[^#\n]*\btrap .*\bEXIT\b.*$`)
	found := 0
	for _, pattern := range []string{"scripts/*", ".ci/*"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, _ := os.ReadFile(name) //nolint:errcheck // folders have none
			for _, line := range cleans.FindAllString(string(text), -1) {
				found++
				if !strings.HasSuffix(line, " EXIT") && !strings.Contains(line, " EXIT #") || !exits.Match(text) {
					t.Errorf("%s does not end when it is interrupted: %s; trap EXIT alone, and add trap 'exit 130' INT TERM", name, strings.TrimSpace(line))
				}
			}
		}
	}
	if found < 15 {
		t.Errorf("only %d scripts clean up", found)
	}
}

// TestTables_HaveTheirColumns fails when a row of a table in a document has more or fewer columns than
// its head, as after a replacement that hit the wrong table.
func TestTables_HaveTheirColumns(t *testing.T) {
	tables := 0
	for _, doc := range documents(t) {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		columns := 0 // of the table that the line belongs to
		for i, line := range strings.Split(string(text), "\n") {
			if !strings.HasPrefix(line, "|") {
				columns = 0
				continue
			}
			n := strings.Count(line, "|") - strings.Count(line, `\|`)
			if columns == 0 {
				columns, tables = n, tables+1
			}
			if n != columns {
				t.Errorf("%s:%d has %d columns and its table %d", doc, i+1, n-1, columns-1)
			}
		}
	}
	if tables < 10 {
		t.Errorf("only %d tables were found", tables)
	}
}

// documents returns the paths of all documents that name files.
func documents(t *testing.T) []string {
	t.Helper()
	list := []string{"README.md", "CHANGELOG.md"}
	for _, pattern := range []string{"docs/*.md", "docs/decisions/*.md"} {
		pages, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, pages...)
	}
	return list
}

// TestDocuments_AreShort limits the documents that everybody reads.
func TestDocuments_AreShort(t *testing.T) {
	for doc, most := range map[string]int{"README.md": 150, "docs/architecture.md": 250, "CHANGELOG.md": 30} {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(string(text), "\n"); lines > most {
			t.Errorf("%s has %d lines; at most %d", doc, lines, most)
		}
	}
}

// plainName writes a method as Type.Method, without the star of its receiver.
func plainName(name string) string {
	return strings.NewReplacer("(", "", ")", "", "*", "").Replace(name)
}

// declarations returns what every file declares at its top level, as FILE:NAME, a
// method as FILE:TYPE.METHOD.
func declarations(t *testing.T) map[string]bool {
	all := map[string]bool{}
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				all[s.path+":"+receiver(d)+d.Name.Name] = true
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch spec := spec.(type) {
					case *ast.TypeSpec:
						all[s.path+":"+spec.Name.Name] = true
					case *ast.ValueSpec:
						for _, n := range spec.Names {
							all[s.path+":"+n.Name] = true
						}
					}
				}
			}
		}
	}
	return all
}

// receiver returns the type of a method and a dot, and nothing for a function.
func receiver(f *ast.FuncDecl) string {
	if name := receiverType(f); name != nil {
		return name.Name + "."
	}
	return ""
}

// TestDeclarations_AreFound checks that the test above finds each kind.
func TestDeclarations_AreFound(t *testing.T) {
	declared := declarations(t)
	for _, name := range []string{
		"protocol/pattern.go:Pattern", "protocol/pattern.go:(Pattern).Shape", "protocol/matcher.go:(*Matcher).Match",
		"protocol/pattern.go:ParsePattern", "protocol/pattern.go:ShapeExact", "scripts/laws/laws_test.go:mayImport",
		"protocol/jsonrpc/calls.go:(*Calls).Add",
	} {
		if !declared[plainName(name)] {
			t.Errorf("%s is not found", name)
		}
	}
	if declared["protocol/pattern.go:NoSuchName"] || declared["protocol/pattern.go:Pattern.Match"] {
		t.Error("a name is found that is not there")
	}
	for text, want := range map[string][2]string{
		"`bus/publish.go:(*message).finish`": {"bus/publish.go", "(*message).finish"}, "`bus/doc.go`": {"bus/doc.go", ""},
		"(peers/peer)": {"peers/peer", ""}, "`bus/index.go:index.find`": {"bus/index.go", "index.find"},
	} {
		if m := namedPath.FindStringSubmatch(text); m == nil || m[1] != want[0] || m[2] != want[1] {
			t.Errorf("%s is read as %q", text, m)
		}
	}
}

// namedTest is a test as a document names it.
var namedTest = regexp.MustCompile("`(Test\\w+)`")

// TestPromises_HaveTheirTests fails when the guarantees or the table of the drafts' sentences names a
// test that is gone.
func TestPromises_HaveTheirTests(t *testing.T) {
	tests := map[string]bool{}
	for _, s := range sources(t) {
		if !s.test() {
			continue
		}
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(s.text, -1) {
			tests[m[1]] = true
		}
	}
	for doc, from := range map[string]string{
		"docs/guarantees.md": "# Guarantees", "docs/compatibility.md": "# ", "peers/attention/testdata/sentences.md": "# ",
	} {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		_, promises, _ := strings.Cut(string(text), from)
		named := namedTest.FindAllStringSubmatch(promises, -1)
		for _, m := range named {
			if !tests[m[1]] {
				t.Errorf("%s names %s, which does not exist", doc, m[1])
			}
		}
		if len(named) < 15 {
			t.Errorf("only %d tests are named in %s", len(named), doc)
		}
	}
}
