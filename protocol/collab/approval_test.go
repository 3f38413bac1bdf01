package collab

import "testing"

// TestApproval_CoversOnlyItsDeciders checks that, in a group, what one person allowed for
// longer does not run for another, and that what was allowed at the command line runs for
// all.
func TestApproval_CoversOnlyItsDeciders(t *testing.T) {
	call := func(person string) *Approval {
		return &Approval{AskedByIdentity: "agent:lead", ApprovalParams: ApprovalParams{Tool: "shell", Chat: "tg:chat:-1", MayDecide: []string{person}}}
	}
	for _, c := range []struct {
		by, person string
		want       bool
	}{{"tg:77", "tg:77", true}, {"tg:77", "tg:78", false}, {"cli:will", "tg:78", true}} {
		given := call(c.by)
		given.ApprovalOutcome = ApprovalOutcome{State: ApprovalAllowed, Scope: ScopeAlways, By: c.by}
		if got := given.Covers(call(c.person)); got != c.want {
			t.Errorf("given by %s, for %s: %v", c.by, c.person, got)
		}
	}
}
