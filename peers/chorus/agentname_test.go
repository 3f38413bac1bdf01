package chorus_test

import (
	"strings"
	"testing"

	"hubbub/peers/chorus"
)

// TestCheckAgentName_TakesNoTwoNamesOfOneFile refuses names that a file system which ignores case
// could take for another agent's. Folders are named after agents.
func TestCheckAgentName_TakesNoTwoNamesOfOneFile(t *testing.T) {
	for _, name := range []string{"Lead", "LEAD", "leaD", "a-B", "Ä", "ﬁ", "lead.", "a/b", "..", "", "system"} {
		if chorus.CheckAgentName(name) == nil {
			t.Errorf("%q is taken", name)
		}
	}
	for _, name := range []string{"lead", "a-b", "a_b", "0", strings.Repeat("a", 48)} {
		if err := chorus.CheckAgentName(name); err != nil {
			t.Error(err)
		}
	}
}
