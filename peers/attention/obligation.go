package attention

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// An Obligation is the object in an event by which its author declares that it waits for the
// recipient (draft 2026-08-11). The object creates the obligation; the policy does not.
type Obligation struct {
	Blocks            Blocks `json:"blocks"`
	DefaultAction     string `json:"defaultAction,omitempty"`     // what the author does without an answer; untrusted
	DischargeDelegate string `json:"dischargeDelegate,omitempty"` // who may discharge in the author's place
}

// Blocks says how the missing answer affects the author of an obligation.
type Blocks string

// The values of Blocks, the most urgent first.
const (
	BlocksHalted   Blocks = "halted"
	BlocksDegraded Blocks = "degraded"
	BlocksNone     Blocks = "none"
)

// AllBlocks lists the values in the order in which obligations are handled.
var AllBlocks = []Blocks{BlocksHalted, BlocksDegraded, BlocksNone}

// An ObligationRecord is one obligation: one recipient owes the author of an event an answer. Its
// status is not stored; it follows from the acts in the log.
type ObligationRecord struct {
	Author    string `json:"author"` // identities
	Recipient string `json:"recipient"`
	Delegate  string `json:"delegate,omitempty"`
	Mode      Mode   `json:"mode,omitempty"` // mode in which its event reached the recipient
	// Escalation is set if an escalation created the event. A person at the last level may close
	// it.
	Escalation bool      `json:"escalation,omitempty"`
	CreatedAt  time.Time `json:"createdAt,omitzero"`
}

// Person reports whether the recipient is a person. People get no returns; the obligation stays
// visible.
func (o *ObligationRecord) Person() bool { return !strings.HasPrefix(o.Recipient, "agent:") }

// An Act is an action on an obligating event, as recorded in the log.
type Act struct {
	Kind      ActKind   `json:"kind,omitempty"` // default ActSignal
	Actor     string    `json:"actor"`
	Signal    Signal    `json:"signal,omitempty"`    // of ActSignal and ActRemoved
	Recipient string    `json:"recipient,omitempty"` // the recipient that the signal refers to
	At        time.Time `json:"at,omitzero"`
}

// An ActKind is the kind of an act.
type ActKind string

// The kinds of acts.
const (
	ActSignal  ActKind = "signal"
	ActRemoved ActKind = "removed" // a signal was removed; it has no effect
	ActEdited  ActKind = "edited"  // the text of the event was edited
	ActRenewed ActKind = "renewed" // the author sent another obligating event to the same recipient there
	ActDeleted ActKind = "deleted"
	ActRead    ActKind = "read" // or unread; it has no effect
	ActReplied ActKind = "replied"
)

// An ObligationState is the state of an obligation.
type ObligationState string

// The states of an obligation. Only ObligationDischarged is final.
const (
	ObligationOpen       ObligationState = "open"
	ObligationPaused     ObligationState = "paused"    // the recipient does not understand it
	ObligationEscalated  ObligationState = "escalated" // somebody else must handle it; it does not return
	ObligationDischarged ObligationState = "discharged"
)

// An Effect is the effect of an act.
type Effect string

// The effects.
const (
	EffectNone      Effect = "none"
	EffectExtend    Effect = "extend"    // the next return is one interval later
	EffectEscalate  Effect = "escalate"  // at once
	EffectPause     Effect = "pause"     // and the author must explain
	EffectResume    Effect = "resume"    // at the next interval
	EffectDischarge Effect = "discharge" // permanently
)

// obligationMoves is the state table: the new state for each effect. A missing entry changes
// nothing.
var obligationMoves = map[Effect]map[ObligationState]ObligationState{
	EffectPause:  {ObligationOpen: ObligationPaused},
	EffectResume: {ObligationPaused: ObligationOpen},
	EffectEscalate: {
		ObligationOpen: ObligationEscalated, ObligationPaused: ObligationEscalated,
	},
	EffectDischarge: {
		ObligationOpen: ObligationDischarged, ObligationPaused: ObligationDischarged,
		ObligationEscalated: ObligationDischarged,
	},
}

// An actorRole is an actor's side of an obligation.
type actorRole int

const (
	anybody actorRole = iota
	authorSide
	delegateSide
	recipientSide
	lastRung // the recipient, if it is a person at the last level
)

// actRules determines the effect of an act. The first row that fits decides.
var actRules = []struct {
	reason  string
	by      actorRole
	kind    ActKind
	signals []Signal
	names   bool // it must name the recipient
	effect  Effect
}{
	{"removed", anybody, ActRemoved, nil, false, EffectNone},
	{"read", anybody, ActRead, nil, false, EffectNone},
	{"replied", anybody, ActReplied, nil, false, EffectNone},

	{"author_discharged", authorSide, ActSignal, []Signal{SignalDone, SignalAgree}, true, EffectDischarge},
	{"delegate_discharged", delegateSide, ActSignal, []Signal{SignalDone, SignalAgree}, true, EffectDischarge},
	{"person_discharged", lastRung, ActSignal, []Signal{SignalDone, SignalAgree}, true, EffectDischarge},
	{"author_deleted", authorSide, ActDeleted, nil, false, EffectDischarge},
	{"author_clarified", authorSide, ActEdited, nil, false, EffectResume},
	{"author_renewed", authorSide, ActRenewed, nil, false, EffectResume},

	{"recipient_works", recipientSide, ActSignal, []Signal{SignalWorking, SignalQueued}, false, EffectExtend},
	{"recipient_refuses", recipientSide, ActSignal, []Signal{SignalDeclined, SignalBlocked}, false, EffectEscalate},
	{"recipient_asks", recipientSide, ActSignal, []Signal{SignalUnclear}, false, EffectPause},
	{"evidence", recipientSide, ActSignal, []Signal{SignalDone}, false, EffectNone},

	{"no_matter", anybody, "", nil, false, EffectNone},
}

// Effect returns the effect of an act, and the reason.
func (o *ObligationRecord) Effect(a Act) (Effect, string) {
	kind := a.Kind
	if kind == "" {
		kind = ActSignal
	}
	for _, r := range actRules {
		if o.hasRole(r.by, a.Actor) && (r.kind == "" || r.kind == kind) &&
			(r.signals == nil || slices.Contains(r.signals, a.Signal)) &&
			(!r.names || a.Recipient == o.Recipient) {
			return r.effect, r.reason
		}
	}
	return EffectNone, ""
}

func (o *ObligationRecord) hasRole(by actorRole, who string) bool {
	switch by {
	case authorSide:
		return who != "" && who == o.Author
	case delegateSide:
		return who != "" && who == o.Delegate && who != o.Recipient
	case recipientSide:
		return who == o.Recipient
	case lastRung:
		return who == o.Recipient && o.Escalation && o.Person()
	}
	return true
}

// An ObligationStatus is the status of an obligation according to the log.
type ObligationStatus struct {
	State    ObligationState
	Reason   string        // of the act that led to the state
	By       string        // the actor
	Extended bool          // the single longer interval has been used
	rested   time.Duration // total time in a pause
	paused   time.Time     // start of the current pause
}

// Status computes the status of an obligation from its acts, in the order of the log.
func (o *ObligationRecord) Status(acts []Act) ObligationStatus {
	s := ObligationStatus{State: ObligationOpen}
	for _, a := range acts {
		effect, reason := o.Effect(a)
		if effect == EffectExtend {
			s.Extended = true
		}
		to, ok := obligationMoves[effect][s.State]
		if !ok {
			continue
		}
		switch {
		case to == ObligationPaused:
			s.paused = a.At
		case s.State == ObligationPaused:
			s.rested += max(0, a.At.Sub(s.paused))
		}
		s.State, s.Reason, s.By = to, reason, a.Actor
	}
	return s
}

// ReturnIntervals says how often an obligation returns, by the mode of its event. 0 means never.
type ReturnIntervals struct {
	Immediate time.Duration `flag:"obligation-immediate" json:"immediateNs" usage:"time after which an obligation of an urgent message comes back, with --policy-version 2026-08-11; 0 for never"`
	Buffered  time.Duration `flag:"obligation-buffered" json:"bufferedNs" usage:"time after which an obligation of any other message comes back; 0 for never"`
	Notify    time.Duration `flag:"obligation-notify" json:"notifyNs" usage:"time after which an obligation of a message that was only announced by a knock, or left to tools, comes back; 0 for never"`
}

// DefaultReturnIntervals are the default intervals.
var DefaultReturnIntervals = ReturnIntervals{Immediate: 2 * time.Minute, Buffered: 10 * time.Minute, Notify: time.Hour}

// MaxReturns is the number of returns before the obligation escalates.
const MaxReturns = 3

// of returns the interval of a mode.
func (r ReturnIntervals) of(m Mode) time.Duration {
	switch m {
	case ModeImmediate:
		return r.Immediate
	case ModeBuffered:
		return r.Buffered
	}
	return r.Notify
}

// A ReturnState is what the recipient's host stores about the returns of an obligation.
type ReturnState struct {
	Slot      int64     `json:"slot,omitempty"`      // the last interval that was handled
	Missed    bool      `json:"missed,omitempty"`    // returns were missed since the last return
	Escalated bool      `json:"escalated,omitempty"` // the escalation was started
	Since     time.Time `json:"since,omitzero"`      // since when the host runs without interruption
}

// Due is the next action for an obligation.
type Due struct {
	Return   bool      // present it to its recipient again
	Escalate bool      // ask the next level
	Slot     int64     // the interval that this action handles
	Missed   bool      // new value of ReturnState.Missed
	At       time.Time // when to check again; zero: at the next act
	Reason   string
}

// Next returns what is due for an obligation at a time. It is pure: age and tier depend on the
// creation time of the event, whatever the host has done since. Returns that were missed while
// the host was down are not made up for.
func (o *ObligationRecord) Next(acts []Act, w ReturnState, r ReturnIntervals, now time.Time) Due {
	s := o.Status(acts)
	interval := r.of(o.Mode)
	due := Due{Slot: w.Slot, Missed: w.Missed}
	rest := func(reason string) Due { due.Reason = reason; return due }
	switch {
	case s.State == ObligationDischarged:
		return rest(s.Reason)
	case o.Person():
		return rest("with_a_person")
	case w.Escalated:
		return rest("escalated")
	case s.State == ObligationEscalated:
		due.Escalate = true
		return rest(s.Reason)
	case s.State == ObligationPaused:
		return rest("paused")
	case interval <= 0:
		return rest("returns_off")
	}
	base := o.CreatedAt.Add(s.rested)
	if s.Extended {
		base = base.Add(interval)
	}
	slot := max(0, int64(now.Sub(base)/interval))
	at := func(slot int64) time.Time { return base.Add(time.Duration(slot) * interval) }
	due.At = at(max(slot, w.Slot) + 1)
	if slot <= w.Slot {
		return rest("waiting")
	}
	due.Slot = slot
	switch {
	case slot > w.Slot+1, at(slot).Before(w.Since):
		due.Missed = true
		return rest("missed")
	case slot <= MaxReturns:
		due.Return, due.Missed = true, false
		return rest(fmt.Sprintf("return_%d_of_%d", slot, MaxReturns))
	}
	due.Escalate, due.Return, due.At, due.Missed = true, w.Missed, time.Time{}, false
	return rest("unanswered")
}

// Age returns how long the author has waited, as a knock shows it.
func (o *ObligationRecord) Age(now time.Time) string {
	return now.Sub(o.CreatedAt).Truncate(time.Second).String()
}

// obliges reports whether an event obliges this agent: it names the agent as recipient, or names
// none and is directed at the agent.
func (v *situation) obliges() bool {
	if v.event.Obligation == nil || v.cfg.Version != Version0811 || v.isOwn() ||
		!slices.Contains([]EventKind{KindMessage, KindEdit, KindAssignment, KindApproval, KindBlocker, KindAnswer},
			v.event.kind()) {
		return false
	}
	if len(v.event.Recipients) == 0 {
		return v.isDirected() || v.isWork() && v.isWorkForSelf()
	}
	return slices.ContainsFunc(v.event.Recipients, v.self.is)
}

// applyObligation adjusts the decision on an event whose author waits for this agent. The event
// is answered, and never hidden from the model.
func applyObligation(d *Decision, v *situation) {
	if !v.obliges() {
		return
	}
	d.Directedness, d.Policy, d.Obliges = DirectedToMe, PolicyMustRespond, true
	d.Reason += "+obligation"
	if !d.Injection.Injects() {
		d.Injection = ModeBuffered
	}
	if d.Priority == PriorityUrgent {
		d.Injection = ModeImmediate
	}
}
