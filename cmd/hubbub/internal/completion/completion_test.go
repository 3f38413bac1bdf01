package completion

import (
	"slices"
	"testing"
)

// TestAppend_SkipsShellSyntax checks that no candidate can run a command: bash inserts
// the common prefix of candidates unquoted.
func TestAppend_SkipsShellSyntax(t *testing.T) {
	for _, id := range []string{
		"$(touch x)", "`touch x`", "w;touch", "w&", "w|x", "w>x", "w<x", "a b", "a\tb", "a'b", `a"b`, `a\b`, "a*", "a?", "[a]", "{a,b}", "~root", "a!b", "#a",
		"--force", "-f", "\u3164", "a\u200bb", "a\u202eb", "$IFS", "(a)", "^a",
	} {
		if list := Append(nil, id, "work"); list != nil {
			t.Errorf("%q is offered as %q", id, list)
		}
	}
	plain := []string{"work_01J9Z3X5Q2W8", "agent:boss", "tg:-1001", "tg:123456:-1001:2", "agent:нина", "agent:नीना", "日本", "a@b", "12.5%", "a/b+c,d=e"}
	var list, want []string
	for _, id := range plain {
		list, want = Append(list, id, "work\x1b[2J"), append(want, id+"\twork\ufffd[2J")
	}
	if !slices.Equal(list, want) {
		t.Errorf("offered %q, want %q", list, want)
	}
}
