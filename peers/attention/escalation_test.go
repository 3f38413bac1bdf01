package attention_test

import (
	"testing"

	"hubbub/activitylog/view"
	"hubbub/peers/attention"
)

// TestEscalation_AsksEachLevelOnce covers lead, owner, person and author. Nobody is asked twice,
// and the reason says why a level was skipped.
func TestEscalation_AsksEachLevelOnce(t *testing.T) {
	type rungs = map[attention.Level]string
	type holds = map[attention.Level]bool
	full := attention.EscalationPolicy{Lead: "boss", Owner: "@ann", Person: "tg:88"}
	for name, c := range map[string]struct {
		ladder attention.EscalationPolicy
		climb  attention.Escalation
		want   attention.EscalationStep
	}{
		"the lead first":              {full, attention.Escalation{}, attention.EscalationStep{Level: "lead", To: "agent:boss", Reason: "unanswered"}},
		"then the owner":              {full, attention.Escalation{Asked: rungs{"lead": "agent:boss"}}, attention.EscalationStep{Level: "owner", To: "agent:ann", Reason: "unanswered+lead_asked"}},
		"a lead named anew is no one": {full, attention.Escalation{Asked: rungs{"lead": "agent:old"}}, attention.EscalationStep{Level: "owner", To: "agent:ann", Reason: "unanswered+lead_asked"}},
		"then the person": {full, attention.Escalation{Asked: rungs{"lead": "agent:boss", "owner": "agent:ann"}},
			attention.EscalationStep{Level: "person", To: "tg:88", Reason: "unanswered+lead_asked+owner_asked"}},
		"then the author": {full, attention.Escalation{Author: "tg:77", Asked: rungs{"lead": "agent:boss", "owner": "agent:ann", "person": "tg:88"}},
			attention.EscalationStep{Level: "author", To: "tg:77", Reason: "unanswered+lead_asked+owner_asked+person_asked"}},
		"nobody is named":    {attention.EscalationPolicy{}, attention.Escalation{Author: "tg:77"}, attention.EscalationStep{Level: "author", To: "tg:77", Reason: "unanswered"}},
		"one on two rungs":   {attention.EscalationPolicy{Lead: "ann", Owner: "agent:ann"}, attention.Escalation{Asked: rungs{"lead": "agent:ann"}}, attention.EscalationStep{Level: "author", Reason: "unanswered+lead_asked+owner_asked"}},
		"the lead itself":    {full, attention.Escalation{Self: "agent:boss"}, attention.EscalationStep{Level: "owner", To: "agent:ann", Reason: "unanswered+lead_itself"}},
		"the lead waits":     {full, attention.Escalation{Author: "boss"}, attention.EscalationStep{Level: "owner", To: "agent:ann", Reason: "unanswered+lead_waits"}},
		"without a broker":   {full, attention.Escalation{Unreachable: holds{"lead": true, "owner": true}}, attention.EscalationStep{Level: "person", To: "tg:88", Reason: "unanswered+lead_unreached+owner_unreached"}},
		"all are busy":       {full, attention.Escalation{Author: "tg:77", Busy: holds{"lead": true, "owner": true, "person": true}}, attention.EscalationStep{Level: "author", To: "tg:77", Reason: "unanswered+lead_busy+owner_busy+person_busy"}},
		"the author's own":   {full, attention.Escalation{Author: "tg:88", Unreachable: holds{"lead": true}, Busy: holds{"owner": true}}, attention.EscalationStep{Level: "author", To: "tg:88", Reason: "unanswered+lead_unreached+owner_busy+person_waits"}},
		"work names its own": {full.WithOwners("chief", ""), attention.Escalation{}, attention.EscalationStep{Level: "lead", To: "agent:chief", Reason: "unanswered"}},
		"work has an owner":  {full.WithOwners("", "cli:ann"), attention.Escalation{Unreachable: holds{"lead": true}}, attention.EscalationStep{Level: "owner", To: "cli:ann", Reason: "unanswered+lead_unreached"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.ladder.Next(c.climb)
			if got != c.want {
				t.Errorf("the next step is %+v, want %+v", got, c.want)
			}
			if view.DescribeReason(got.Reason) == "" {
				t.Errorf("%q has no words in reasons.go", got.Reason)
			}
		})
	}
}
