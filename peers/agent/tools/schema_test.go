package tools

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/arguments.json")

// TestSchemas_ShowModelsWhatIsApproved compares the arguments that models see with a file, so that
// they change only on purpose.
func TestSchemas_ShowModelsWhatIsApproved(t *testing.T) {
	shown := map[string]any{}
	for draft, table := range map[string][]entry{"": slices.Concat(chatTools, workTools), "2026-08-11 ": obligationTools} {
		for _, r := range table {
			var schema any
			if err := json.Unmarshal(r.schema(), &schema); err != nil {
				t.Fatalf("%s: %v", r.tool.Name, err)
			}
			shown[draft+r.tool.Name] = schema
		}
	}
	got, err := json.MarshalIndent(shown, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	const file = "testdata/arguments.json"
	if *update {
		if err := os.WriteFile(file, append(got, '\n'), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(append(got, '\n'), want) {
		t.Errorf("the schemas are\n%s\nIf that is meant, run: go test ./peers/agent/tools -update", got)
	}
}
