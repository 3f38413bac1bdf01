package broker

import "fmt"

// A Rule names why somebody is woken. The order of the constants is the order in
// which the rules are tried.
type Rule string

// The wake rules.
const (
	RuleExplicit   Rule = "explicit_mention"
	RuleDependency Rule = "dependency_owner" // only for work that waits: the one it waits for
	RuleNextMove   Rule = "next_move_owner"
	RuleOwner      Rule = "owner"
	RuleMaster     Rule = "conversation_master"
	RuleNone       Rule = "none"
)

// An Outcome says what became of a wake decision.
type Outcome string

// The outcomes of a wake decision.
const (
	OutcomeWoken       Outcome = "woken"
	OutcomeUnavailable Outcome = "unavailable" // the delivery is stored, and woken when its agent announces itself
	OutcomeUnknown     Outcome = "unknown_target"
	OutcomeAmbiguous   Outcome = "ambiguous"
	OutcomeNobody      Outcome = "nobody" // nobody, or a person, is responsible
)

// A Decision is one wake decision with everything it was made from. It is
// stored with the event that it was made for.
type Decision struct {
	TargetAgentID string      `json:"targetAgentId,omitempty"`
	EndpointID    string      `json:"endpointId,omitempty"`
	Rule          Rule        `json:"rule"`
	Candidates    []Candidate `json:"candidates"`
	Reason        string      `json:"reason"`
	Outcome       Outcome     `json:"outcome"`
	Options       []Option    `json:"endpoints,omitempty"` // the endpoints looked at for the target
}

// A Candidate is one name that a rule brought up, and why it was taken or not.
type Candidate struct {
	AgentID string `json:"agentId"`
	Rule    Rule   `json:"rule"`
	Chosen  bool   `json:"chosen"`
	Reason  string `json:"reason"`
}

// A Situation is all that a wake decision depends on.
type Situation struct {
	Sender     string    // never woken
	Explicit   []string  // agents that were named, in order
	Work       *WorkItem // that the message or the wake is about
	Dependency string    // who holds what Work waits for, if it waits
	Question   *Question // that the wake is about
	Master     string    // of the conversation
	Final      bool      // the message says that nothing is expected
}

// ChooseWake picks the one who is responsible now. It looks at names only:
// whether the chosen one can be woken is found out afterwards and changes nothing
// about who is responsible.
func ChooseWake(s Situation) Decision {
	d := Decision{Rule: RuleNone, Outcome: OutcomeNobody, Candidates: []Candidate{}}
	consider := func(name string, rule Rule, why string) {
		c := Candidate{AgentID: name, Rule: rule, Reason: why}
		switch {
		case d.TargetAgentID != "":
			c.Reason = "not needed: " + d.TargetAgentID + " is woken, and only one is"
		case name == s.Sender:
			c.Reason = "passed over: the sender is never woken by its own message"
		default:
			c.Chosen = true
			d.TargetAgentID, d.Rule, d.Reason = name, rule, fmt.Sprintf("%s: %s", name, why)
		}
		d.Candidates = append(d.Candidates, c)
	}
	for _, name := range s.Explicit {
		consider(name, RuleExplicit, "was named explicitly")
	}
	if quiet := s.quiet(); quiet != "" {
		if d.TargetAgentID == "" {
			d.Reason = quiet
		}
		return d
	}
	if s.Work != nil {
		if s.Work.State == WorkWaiting && s.Dependency != "" {
			consider(s.Dependency, RuleDependency, "holds what the work waits for")
		}
		if s.Work.NextMoveOwnerID != "" {
			consider(s.Work.NextMoveOwnerID, RuleNextMove, "has the next move on "+s.Work.ID)
		}
		if s.Work.OwnerID != "" {
			consider(s.Work.OwnerID, RuleOwner, "owns "+s.Work.ID)
		}
	}
	if s.Question != nil && s.Question.NextMoveOwnerID != "" {
		consider(s.Question.NextMoveOwnerID, RuleNextMove, "has the next move on "+s.Question.ID)
	}
	if s.Master != "" {
		consider(s.Master, RuleMaster, "answers for the conversation")
	}
	if d.TargetAgentID == "" {
		d.Reason = "nobody else is responsible"
		if len(d.Candidates) == 0 {
			d.Reason = "nobody was named, and nobody is responsible"
		}
	}
	return d
}

// quiet says why nobody but those named is woken, or nothing.
func (s Situation) quiet() string {
	switch {
	case s.Final:
		return "the message is informational: it expects nothing"
	case s.Work != nil && s.Work.Terminal():
		return fmt.Sprintf("work item %s is %s", s.Work.ID, s.Work.State)
	case s.Question != nil && s.Question.Terminal():
		return fmt.Sprintf("question %s is %s", s.Question.ID, s.Question.State)
	}
	return ""
}

// settle completes a decision with what is known of its target.
func (d *Decision) settle(st Standing) {
	d.Options = st.Candidates
	switch {
	case st.Failure == CodeAmbiguous:
		d.Outcome, d.Reason = OutcomeAmbiguous, d.Reason+"; "+st.Reason
	case st.Failure != "":
		d.Outcome, d.Reason = OutcomeUnknown, d.Reason+"; "+st.Reason
	case st.Person:
		d.Outcome, d.Reason = OutcomeNobody, d.Reason+"; "+st.Reason+", and people are not woken"
	case st.Endpoint == nil:
		d.Outcome, d.Reason = OutcomeUnavailable, d.Reason+"; "+st.Reason
	case st.Endpoint.Status != StatusOnline:
		d.Outcome, d.Reason = OutcomeUnavailable, d.Reason+"; no endpoint is online"
	case st.Endpoint.WakePolicy != WakeAuto:
		d.Outcome, d.Reason = OutcomeUnavailable, d.Reason+"; endpoint "+st.Endpoint.EndpointID+" has the wake policy manual"
	default:
		d.Outcome, d.EndpointID, d.Reason = OutcomeWoken, st.Endpoint.EndpointID, d.Reason+"; "+st.Reason
	}
}
