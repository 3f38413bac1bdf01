package broker

import (
	"fmt"

	"hubbub/protocol/collab"
)

// A situation is all that a wake decision depends on.
type situation struct {
	sender     string   // never woken
	explicit   []string // agents that were named, in order
	record     *record  // that the message or the wake is about
	dependency string   // who holds what the record waits for, if it waits
	master     string   // of the conversation
	final      bool     // the message says that nothing is expected
}

// chooseWake picks whoever is responsible now. It looks at names only: whether the
// chosen one can be woken is found out later and does not change who is responsible.
func chooseWake(s situation) collab.Decision {
	d := collab.Decision{Rule: collab.RuleNone, Outcome: collab.OutcomeNobody, Candidates: []collab.Candidate{}}
	consider := func(name string, rule collab.Rule, why string) {
		c := collab.Candidate{AgentID: name, Rule: rule, Reason: why}
		switch {
		case name == "":
			return
		case d.TargetAgentID != "":
			c.Reason = "not needed: " + d.TargetAgentID + " is woken, and only one is"
		case name == s.sender:
			c.Reason = "passed over: the sender is never woken by its own message"
		default:
			c.Chosen = true
			d.TargetAgentID, d.Rule, d.Reason = name, rule, fmt.Sprintf("%s: %s", name, why)
		}
		d.Candidates = append(d.Candidates, c)
	}
	for _, name := range s.explicit {
		consider(name, collab.RuleExplicit, "was named explicitly")
	}
	if quiet := s.quiet(); quiet != "" {
		if d.TargetAgentID == "" {
			d.Reason = quiet
		}
		return d
	}
	if r := s.record; r != nil {
		consider(s.dependency, collab.RuleDependency, "holds what the work waits for")
		consider(r.NextMoveOwnerID, collab.RuleNextMove, "has the next move on "+r.ID)
		consider(r.OwnerID, collab.RuleOwner, "owns "+r.ID)
	}
	consider(s.master, collab.RuleMaster, "answers for the conversation")
	if d.TargetAgentID == "" {
		d.Reason = "nobody else is responsible"
		if len(d.Candidates) == 0 {
			d.Reason = "nobody was named, and nobody is responsible"
		}
	}
	return d
}

// quiet returns why only those named are woken, or "".
func (s situation) quiet() string {
	switch {
	case s.final:
		return "the message is informational: it expects nothing"
	case s.record != nil && s.record.Terminal():
		return s.record.name() + " is " + string(s.record.State)
	}
	return ""
}

// settle completes a decision with what its target was found to mean.
func settle(d *collab.Decision, st Standing) {
	d.Options, d.Outcome = st.Candidates, collab.OutcomeUnavailable
	why := st.Reason
	switch e := st.Endpoint; {
	case st.Failure != "":
		d.Outcome = collab.Outcome(st.Failure)
	case st.Person:
		d.Outcome, why = collab.OutcomeNobody, why+", and people are not woken"
	case e == nil:
	case e.Status != collab.StatusOnline:
		why = "no endpoint is online"
	case e.WakePolicy != collab.WakeAuto:
		why = "endpoint " + e.EndpointID + " has the wake policy manual"
	default:
		d.Outcome, d.EndpointID = collab.OutcomeWoken, e.EndpointID
	}
	d.Reason += "; " + why
}
