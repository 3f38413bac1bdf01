package broker

import (
	"maps"
	"testing"

	"hubbub/protocol/collab"

	"github.com/google/go-cmp/cmp"
)

// TestManual_DescribesEveryMethod checks that exactly the existing methods are described, that
// each is repeatable as described, and that it refuses a request without a required parameter.
func TestManual_DescribesEveryMethod(t *testing.T) {
	described := map[string]bool{}
	for _, e := range collab.Entries {
		described[e.Name] = e.Repeat
		r := newFixture(t).ask("cli:will", e.Name, m{})
		switch refused := !r.OK && r.Error.Code == string(collab.CodeInvalid); {
		case len(e.Needs) > 0 && r.OK:
			t.Errorf("%s needs %q, and does without", e.Name, e.Needs)
		case len(e.Needs) == 0 && refused && e.Name != collab.WakeExplain.Name:
			t.Errorf("%s needs nothing, and is refused: %s", e.Name, r.Error.Message)
		}
	}
	fresh := map[string]bool{}
	for name := range maps.Keys(methods) {
		fresh[name] = methods[name].fresh
	}
	if diff := cmp.Diff(fresh, described); diff != "" {
		t.Errorf("methods (-are +are described): %s", diff)
	}
}
