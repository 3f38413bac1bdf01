package attention

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// An Obligation is the object in an event by which its author declares that it waits for
// the recipient (draft 2026-08-11). The object obliges; the policy does not.
type Obligation struct {
	Blocks            Blocks `json:"blocks"`
	DefaultAction     string `json:"defaultAction,omitempty"`     // what the author does without an answer; untrusted
	DischargeDelegate string `json:"dischargeDelegate,omitempty"` // who may discharge in the author's place
}

// Blocks is how the author of an obligation fares meanwhile.
type Blocks string

// The values of Blocks, the most pressing first.
const (
	BlocksHalted   Blocks = "halted"
	BlocksDegraded Blocks = "degraded"
	BlocksNone     Blocks = "none"
)

// AllBlocks lists them in the order in which obligations are seen to.
var AllBlocks = []Blocks{BlocksHalted, BlocksDegraded, BlocksNone}

// An ObligationRecord is one obligation: what the author of an event waits for from one recipient. How
// it stands is no field of it: that follows from the acts in the log.
type ObligationRecord struct {
	Author    string `json:"author"` // identities
	Recipient string `json:"recipient"`
	Delegate  string `json:"delegate,omitempty"`
	Mode      Mode   `json:"mode,omitempty"` // in which its event reached the recipient
	// Escalation is set of an event that a ladder made. A person who has it stands on the last
	// rung, and may close it.
	Escalation bool      `json:"escalation,omitempty"`
	CreatedAt  time.Time `json:"createdAt,omitzero"`
}

// Person reports whether a person has the obligation: no return reaches anybody, and it stays
// in sight.
func (o *ObligationRecord) Person() bool { return !strings.HasPrefix(o.Recipient, "agent:") }

// An Act is what somebody did about an obligating event, as the log has it.
type Act struct {
	Kind      ActKind   `json:"kind,omitempty"` // default ActSignal
	Actor     string    `json:"actor"`
	Signal    Signal    `json:"signal,omitempty"`    // of ActSignal and ActRemoved
	Recipient string    `json:"recipient,omitempty"` // whom the signal is about
	At        time.Time `json:"at,omitzero"`
}

// An ActKind is what an act is.
type ActKind string

// The kinds of acts.
const (
	ActSignal  ActKind = "signal"
	ActRemoved ActKind = "removed" // a signal was taken away: nothing comes of that
	ActEdited  ActKind = "edited"  // the event has another text
	ActRenewed ActKind = "renewed" // its author sent another obligating event to the same recipient there
	ActDeleted ActKind = "deleted"
	ActRead    ActKind = "read" // or unread: the log may have it, and nothing ever comes of it
	ActReplied ActKind = "replied"
)

// An ObligationState is how an obligation stands.
type ObligationState string

// The states of an obligation. Only ObligationDischarged is final.
const (
	ObligationOpen       ObligationState = "open"
	ObligationPaused     ObligationState = "paused"    // the recipient does not understand it
	ObligationEscalated  ObligationState = "escalated" // somebody else has to see to it: it does not return
	ObligationDischarged ObligationState = "discharged"
)

// An Effect is what an act comes to.
type Effect string

// The effects.
const (
	EffectNone      Effect = "none"
	EffectExtend    Effect = "extend"    // the next return is one interval later
	EffectEscalate  Effect = "escalate"  // at once
	EffectPause     Effect = "pause"     // and the author owes an explanation
	EffectResume    Effect = "resume"    // at the next interval
	EffectDischarge Effect = "discharge" // for good
)

// obligationMoves is the table of states: what an effect makes of each. An effect that has no
// entry changes nothing.
var obligationMoves = map[Effect]map[ObligationState]ObligationState{
	EffectPause:  {ObligationOpen: ObligationPaused},
	EffectResume: {ObligationPaused: ObligationOpen},
	EffectEscalate: {
		ObligationOpen: ObligationEscalated, ObligationPaused: ObligationEscalated,
	},
	EffectDischarge: {
		ObligationOpen: ObligationDischarged, ObligationPaused: ObligationDischarged, ObligationEscalated: ObligationDischarged,
	},
}

// A actorRole is on which side of an obligation somebody stands.
type actorRole int

const (
	anybody actorRole = iota
	authorSide
	delegateSide
	recipientSide
	lastRung // the recipient, where that is a person to whom it was escalated
)

// actRules says what an act comes to: the first row that fits decides.
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

// Effect returns what an act comes to, and why.
func (o *ObligationRecord) Effect(a Act) (Effect, string) {
	kind := a.Kind
	if kind == "" {
		kind = ActSignal
	}
	for _, r := range actRules {
		if o.hasRole(r.by, a.Actor) && (r.kind == "" || r.kind == kind) && (r.signals == nil || slices.Contains(r.signals, a.Signal)) &&
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

// An ObligationStatus is how an obligation stands by the log.
type ObligationStatus struct {
	State    ObligationState
	Reason   string        // of the act that brought it there
	By       string        // who did that
	Extended bool          // the one longer interval is used
	rested   time.Duration // paused in all
	paused   time.Time     // since when
}

// Status works out from the acts, in the order of the log, how an obligation stands.
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

// ReturnIntervals says how often an obligation comes back, by the mode of its event. With 0 none does.
type ReturnIntervals struct {
	Immediate time.Duration `json:"immediateNs"`
	Buffered  time.Duration `json:"bufferedNs"`
	Notify    time.Duration `json:"notifyNs"` // and of what only tools show
}

// DefaultReturnIntervals are the intervals unless something else is asked for.
var DefaultReturnIntervals = ReturnIntervals{Immediate: 2 * time.Minute, Buffered: 10 * time.Minute, Notify: time.Hour}

// MaxReturns is how often an obligation comes back before somebody else is asked.
const MaxReturns = 3

// Of returns the interval of a mode.
func (r ReturnIntervals) Of(m Mode) time.Duration {
	switch m {
	case ModeImmediate:
		return r.Immediate
	case ModeBuffered:
		return r.Buffered
	}
	return r.Notify
}

// A ReturnState is what the host of a recipient remembers of the returns of an obligation.
type ReturnState struct {
	Slot      int64     `json:"slot,omitempty"`      // the last interval that was seen to
	Missed    bool      `json:"missed,omitempty"`    // returns were missed since the last one
	Escalated bool      `json:"escalated,omitempty"` // the ladder was told
	Since     time.Time `json:"since,omitzero"`      // since when the host is there without a gap
}

// A Due is what is due about an obligation.
type Due struct {
	Return   bool      // it comes back to its recipient
	Escalate bool      // the next rung of the ladder is asked
	Slot     int64     // the interval that is seen to now
	Missed   bool      // as Watch has it from now on
	At       time.Time // when to look again; zero: when something happens
	Reason   string
}

// Next says what is due about an obligation at a moment. It is pure: age and tier come from
// when the event was created, whatever the host did since, and what a gap made it miss is not
// made up for.
func (o *ObligationRecord) Next(acts []Act, w ReturnState, r ReturnIntervals, now time.Time) Due {
	s := o.Status(acts)
	interval := r.Of(o.Mode)
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

// Age is for how long somebody has waited, in words that a knock has.
func (o *ObligationRecord) Age(now time.Time) string {
	return now.Sub(o.CreatedAt).Truncate(time.Second).String()
}

// obliges reports whether an event obliges this agent: its author waits for it by name, or,
// where none is named, it is aimed at it.
func (v *situation) obliges() bool {
	if v.event.Obligation == nil || v.cfg.Version != Version0811 || v.isOwn() ||
		!slices.Contains([]EventKind{KindMessage, KindEdit, KindAssignment, KindApproval, KindBlocker, KindAnswer}, v.event.kind()) {
		return false
	}
	if len(v.event.Recipients) == 0 {
		return v.isDirected() || v.isWork() && v.isWorkForSelf()
	}
	return slices.ContainsFunc(v.event.Recipients, v.self.is)
}

// applyObligation makes of a decision that of an event whose author waits for this agent: it is
// answered, and never where the model may not see it.
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
