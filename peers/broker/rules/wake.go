package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/text"
)

// A Situation is everything on which a wake decision depends.
type Situation struct {
	Sender     Caller // never woken, except by a follow-up
	FollowUp   bool
	Explicit   []Party     // named agents, in order
	Record     *Record     // subject of the message or the wake
	Dependency Party       // holds what the record waits for
	Master     Party       // of the conversation
	Asked      Party       // requester of the subject of a sweep
	Final      bool        // the message expects nothing
	Thanks     bool        // the message only says thanks
	excluded   []exclusion // parties that a sweep passes over
}

// An exclusion is the reason for passing over a party in a sweep.
type exclusion struct {
	id  protocol.PeerID
	why string
}

// Exclude makes a sweep pass over a party.
func (s *Situation) Exclude(id protocol.PeerID, why string) {
	s.excluded = append(s.excluded, exclusion{id, why})
}

// excludedBecause returns why a sweep passes over an identity, or "".
func (s *Situation) excludedBecause(id protocol.PeerID) string {
	for _, p := range s.excluded {
		if p.id == id {
			return p.why
		}
	}
	return ""
}

// ChooseWake chooses the responsible party. It looks at identities only: whether the party can be
// woken is determined later and does not change the choice.
func ChooseWake(s Situation) collab.Decision {
	d := collab.Decision{Rule: collab.RuleNone, Outcome: collab.OutcomeNobody, Candidates: []collab.Candidate{}}
	others := "" // the parties that a sweep has passed over
	consider := func(p Party, rule collab.Rule, why string) {
		c := collab.Candidate{AgentID: p.Name, Identity: p.ID, Rule: rule, Reason: why}
		switch {
		case p.Name == "":
			return
		case d.TargetAgentID != "":
			c.Reason = "not needed: " + d.TargetAgentID + " is woken, and only one is"
		case s.excludedBecause(p.ID) != "":
			c.Reason = "passed over: " + s.excludedBecause(p.ID)
			if as := ", and " + p.Name + " " + s.excludedBecause(p.ID); !strings.Contains(others, as) {
				others += as
			}
		case s.Sender.Is(p.ID) && !s.FollowUp:
			c.Reason = "passed over: the sender is never woken by its own message"
		default:
			why += others
			c.Chosen, c.Reason = true, why
			d.TargetAgentID, d.TargetIdentity, d.Rule, d.Reason = p.Name, p.ID, rule, fmt.Sprintf("%s: %s", p.Name, why)
		}
		d.Candidates = append(d.Candidates, c)
	}
	if s.Thanks {
		d.Reason = "the message only says thanks, which needs no answer"
		return d
	}
	for _, p := range s.Explicit {
		consider(p, collab.RuleExplicit, "was named explicitly")
	}
	if quiet := s.quiet(); quiet != "" {
		if d.TargetAgentID == "" {
			d.Reason = quiet
		}
		return d
	}
	if r := s.Record; r != nil {
		what := r.ID
		if on := r.WaitingOn; on != nil && r.State == collab.WorkWaiting && s.Dependency.Name == "" {
			what += ", which waits for " + text.Clip(cmp.Or(on.Label, on.TargetID), 80)
		}
		consider(s.Dependency, collab.RuleDependency, "holds what the work waits for")
		consider(r.Next(), collab.RuleNextMove, "has the next move on "+what)
		consider(r.Owner(), collab.RuleOwner, "owns "+what)
	}
	consider(s.Master, collab.RuleMaster, "answers for the conversation")
	consider(s.Asked, collab.RuleRequester, "asked for it")
	if d.TargetAgentID == "" {
		d.Reason = "nobody else is responsible"
		if len(d.Candidates) == 0 {
			d.Reason = "nobody was named, and nobody is responsible"
		}
	}
	return d
}

// quiet returns why only named parties are woken, or "".
func (s Situation) quiet() string {
	switch {
	case s.Final:
		return "the message is informational: it expects nothing"
	case s.Record != nil && s.Record.Terminal():
		return s.Record.Name() + " is " + string(s.Record.State)
	}
	return ""
}

// ApplyResolution completes a decision with the resolution of its target.
func ApplyResolution(d *collab.Decision, st Resolution) {
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

// Invoked returns the decision for the party of an invocation, without candidates.
func Invoked(p Party) collab.Decision {
	return collab.Decision{
		Rule:           collab.RuleExplicit,
		TargetAgentID:  p.Name,
		TargetIdentity: p.ID,
		Candidates:     []collab.Candidate{},
		Reason:         p.Name + ": was invoked",
	}
}

// DecisionFor derives the decision for a party that another decision passed over.
func DecisionFor(dec collab.Decision, p Party) collab.Decision {
	out := Invoked(p)
	out.Candidates, out.Reason = dec.Candidates, p.Name+": its wake waited"
	if i := slices.IndexFunc(dec.Candidates, func(c collab.Candidate) bool { return c.Identity == p.ID }); i >= 0 {
		out.Rule = dec.Candidates[i].Rule
	}
	return out
}
