package collab

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write asyncapi.json anew")

// TestDescribe_MatchesAsyncAPI holds the description for tools against the types that are used.
func TestDescribe_MatchesAsyncAPI(t *testing.T) {
	path := filepath.Join("..", "asyncapi.json")
	stored, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const key = ",\n  \"x-broker\": "
	head, _, _ := strings.Cut(strings.TrimSuffix(string(stored), "\n}\n"), key)
	made, err := json.MarshalIndent(Describe(), "  ", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want := []byte(head + key + string(made) + "\n}\n")
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(stored, want) {
		t.Error("asyncapi.json does not say what the types say; go test -update writes it anew")
	}
}

// TestEntries_NameTheirParams checks that each required field of a method is a param of it, and
// that each method is listed once.
func TestEntries_NameTheirParams(t *testing.T) {
	known := map[string]bool{}
	for _, e := range Entries {
		if known[e.Name] || e.Does == "" {
			t.Errorf("%s is described twice, or not", e.Name)
		}
		known[e.Name] = true
		members := membersOf(e.params)
		for _, need := range e.Needs {
			if !slices.ContainsFunc(members, func(m member) bool { return m.name == need }) {
				t.Errorf("%s has no param %s", e.Name, need)
			}
		}
	}
}
