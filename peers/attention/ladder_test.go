package attention_test

import (
	"testing"

	"hubbub/activitylog"
	"hubbub/peers/attention"
)

// TestLadder: lead, owner, person, author, each once and nobody twice, with a reason that says
// of each rung why it was passed over.
func TestLadder(t *testing.T) {
	type rungs = map[attention.Rung]string
	type holds = map[attention.Rung]bool
	full := attention.Ladder{Lead: "boss", Owner: "@ann", Person: "tg:88"}
	for name, c := range map[string]struct {
		ladder attention.Ladder
		climb  attention.Climb
		want   attention.Step
	}{
		"the lead first":              {full, attention.Climb{}, attention.Step{Rung: "lead", To: "agent:boss", Reason: "unanswered"}},
		"then the owner":              {full, attention.Climb{Asked: rungs{"lead": "agent:boss"}}, attention.Step{Rung: "owner", To: "agent:ann", Reason: "unanswered+lead_asked"}},
		"a lead named anew is no one": {full, attention.Climb{Asked: rungs{"lead": "agent:old"}}, attention.Step{Rung: "owner", To: "agent:ann", Reason: "unanswered+lead_asked"}},
		"then the person": {full, attention.Climb{Asked: rungs{"lead": "agent:boss", "owner": "agent:ann"}},
			attention.Step{Rung: "person", To: "tg:88", Reason: "unanswered+lead_asked+owner_asked"}},
		"then the author": {full, attention.Climb{Author: "tg:77", Asked: rungs{"lead": "agent:boss", "owner": "agent:ann", "person": "tg:88"}},
			attention.Step{Rung: "author", To: "tg:77", Reason: "unanswered+lead_asked+owner_asked+person_asked"}},
		"nobody is named":    {attention.Ladder{}, attention.Climb{Author: "tg:77"}, attention.Step{Rung: "author", To: "tg:77", Reason: "unanswered"}},
		"one on two rungs":   {attention.Ladder{Lead: "ann", Owner: "agent:ann"}, attention.Climb{Asked: rungs{"lead": "agent:ann"}}, attention.Step{Rung: "author", Reason: "unanswered+lead_asked+owner_asked"}},
		"the lead itself":    {full, attention.Climb{Self: "agent:boss"}, attention.Step{Rung: "owner", To: "agent:ann", Reason: "unanswered+lead_itself"}},
		"the lead waits":     {full, attention.Climb{Author: "boss"}, attention.Step{Rung: "owner", To: "agent:ann", Reason: "unanswered+lead_waits"}},
		"without a broker":   {full, attention.Climb{Unreached: holds{"lead": true, "owner": true}}, attention.Step{Rung: "person", To: "tg:88", Reason: "unanswered+lead_unreached+owner_unreached"}},
		"all are busy":       {full, attention.Climb{Author: "tg:77", Busy: holds{"lead": true, "owner": true, "person": true}}, attention.Step{Rung: "author", To: "tg:77", Reason: "unanswered+lead_busy+owner_busy+person_busy"}},
		"the author's own":   {full, attention.Climb{Author: "tg:88", Unreached: holds{"lead": true}, Busy: holds{"owner": true}}, attention.Step{Rung: "author", To: "tg:88", Reason: "unanswered+lead_unreached+owner_busy+person_waits"}},
		"work names its own": {full.On("chief", ""), attention.Climb{}, attention.Step{Rung: "lead", To: "agent:chief", Reason: "unanswered"}},
		"work has an owner":  {full.On("", "cli:ann"), attention.Climb{Unreached: holds{"lead": true}}, attention.Step{Rung: "owner", To: "cli:ann", Reason: "unanswered+lead_unreached"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.ladder.Next(c.climb)
			if got != c.want {
				t.Errorf("the next step is %+v, want %+v", got, c.want)
			}
			if activitylog.ReasonInWords(got.Reason) == "" {
				t.Errorf("%q has no words in reasons.go", got.Reason)
			}
		})
	}
}
