package broker

import (
	"cmp"
	"fmt"
	"strings"

	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/text"
)

// A situation is everything on which a wake decision depends.
type situation struct {
	sender     caller // never woken, except by a follow-up
	followUp   bool
	explicit   []party     // named agents, in order
	record     *record     // subject of the message or the wake
	dependency party       // holds what the record waits for
	master     party       // of the conversation
	asked      party       // requester of the subject of a sweep
	final      bool        // the message expects nothing
	thanks     bool        // the message only says thanks
	excluded   []exclusion // parties that a sweep passes over
}

// An exclusion is the reason for passing over a party in a sweep.
type exclusion struct {
	id  protocol.PeerID
	why string
}

func (s *situation) exclude(id protocol.PeerID, why string) {
	s.excluded = append(s.excluded, exclusion{id, why})
}

// excludedBecause returns why a sweep passes over an identity, or "".
func (s *situation) excludedBecause(id protocol.PeerID) string {
	for _, p := range s.excluded {
		if p.id == id {
			return p.why
		}
	}
	return ""
}

// chooseWake chooses the responsible party. It looks at identities only: whether the party can be
// woken is determined later and does not change the choice.
func chooseWake(s situation) collab.Decision {
	d := collab.Decision{Rule: collab.RuleNone, Outcome: collab.OutcomeNobody, Candidates: []collab.Candidate{}}
	others := "" // the parties that a sweep has passed over
	consider := func(p party, rule collab.Rule, why string) {
		c := collab.Candidate{AgentID: p.name, Identity: p.id, Rule: rule, Reason: why}
		switch {
		case p.name == "":
			return
		case d.TargetAgentID != "":
			c.Reason = "not needed: " + d.TargetAgentID + " is woken, and only one is"
		case s.excludedBecause(p.id) != "":
			c.Reason = "passed over: " + s.excludedBecause(p.id)
			if as := ", and " + p.name + " " + s.excludedBecause(p.id); !strings.Contains(others, as) {
				others += as
			}
		case s.sender.is(p.id) && !s.followUp:
			c.Reason = "passed over: the sender is never woken by its own message"
		default:
			why += others
			c.Chosen, c.Reason = true, why
			d.TargetAgentID, d.TargetIdentity, d.Rule, d.Reason = p.name, p.id, rule, fmt.Sprintf("%s: %s", p.name, why)
		}
		d.Candidates = append(d.Candidates, c)
	}
	if s.thanks {
		d.Reason = "the message only says thanks, which needs no answer"
		return d
	}
	for _, p := range s.explicit {
		consider(p, collab.RuleExplicit, "was named explicitly")
	}
	if quiet := s.quiet(); quiet != "" {
		if d.TargetAgentID == "" {
			d.Reason = quiet
		}
		return d
	}
	if r := s.record; r != nil {
		what := r.ID
		if on := r.WaitingOn; on != nil && r.State == collab.WorkWaiting && s.dependency.name == "" {
			what += ", which waits for " + text.Clip(cmp.Or(on.Label, on.TargetID), 80)
		}
		consider(s.dependency, collab.RuleDependency, "holds what the work waits for")
		consider(r.next(), collab.RuleNextMove, "has the next move on "+what)
		consider(r.owner(), collab.RuleOwner, "owns "+what)
	}
	consider(s.master, collab.RuleMaster, "answers for the conversation")
	consider(s.asked, collab.RuleRequester, "asked for it")
	if d.TargetAgentID == "" {
		d.Reason = "nobody else is responsible"
		if len(d.Candidates) == 0 {
			d.Reason = "nobody was named, and nobody is responsible"
		}
	}
	return d
}

// quiet returns why only named parties are woken, or "".
func (s situation) quiet() string {
	switch {
	case s.final:
		return "the message is informational: it expects nothing"
	case s.record != nil && s.record.Terminal():
		return s.record.name() + " is " + string(s.record.State)
	}
	return ""
}

// applyResolution completes a decision with the resolution of its target.
func applyResolution(d *collab.Decision, st resolution) {
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
