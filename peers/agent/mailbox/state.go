package mailbox

import (
	"strings"

	"hubbub/peers/attention"
)

// A State says where an event stands. It is the only record of that: what a
// disposition, a tool or a query wants to know follows from it.
type State string

// The states of an event. The last five are final; their names are those of the
// dispositions.
const (
	Stored   State = "stored"   // nothing was decided yet
	Held     State = "held"     // in the compose window
	Turned   State = "turned"   // part of a turn, which waits, runs or was accepted
	Kept     State = "kept"     // no turn shows it; tools can read and settle it until its deadline
	Deferred State = "deferred" // put off; it comes back at its deadline
	Answered State = "answered" // a message in response is in the outbox

	Responded    State = "responded"
	Acknowledged State = "acknowledged"
	Ignored      State = "ignored"
	Superseded   State = "superseded"
	Failed       State = "failed"
)

// A Cause is why an event changes its state. A disposition is the cause of itself.
type Cause string

// The causes.
const (
	Hold   Cause = "hold"   // decided: it is shown once its author has stopped writing
	Keep   Cause = "keep"   // decided: no turn shows it
	Join   Cause = "join"   // a turn shows it, for the first time or again
	Reopen Cause = "reopen" // its text or the harness changed: it is decided anew
	Regain Cause = "regain" // another agent had claimed it, and gave it back
	Answer Cause = "answer" // a message in response was queued

	ClaimEvent  = Cause(attention.DispositionClaimed) // the agent promises to see to it
	Defer       = Cause(attention.DispositionDeferred)
	Respond     = Cause(attention.DispositionResponded)
	Acknowledge = Cause(attention.DispositionAcknowledged)
	Ignore      = Cause(attention.DispositionIgnored)
	Supersede   = Cause(attention.DispositionSuperseded) // deleted, replaced, merged or stopped
	Fail        = Cause(attention.DispositionFailed)
)

// openStates are the states that are not final.
var openStates = []State{Stored, Held, Turned, Kept, Deferred, Answered}

// transitions is the table of what may follow what. Only an offer follows an end. A cause that has no entry for
// a state changes nothing there.
var transitions = map[Cause]map[State]State{
	Hold:       {Stored: Held},
	Keep:       {Stored: Kept},
	Join:       {Held: Turned, Turned: Turned, Kept: Turned, Deferred: Turned},
	Reopen:     {Held: Stored, Turned: Stored, Kept: Stored},
	Regain:     {Ignored: Kept},
	ClaimEvent: {Held: Held, Turned: Turned, Kept: Kept, Deferred: Kept},
	Defer:      {Held: Deferred, Turned: Deferred, Kept: Deferred},
	Answer:     {Held: Answered, Turned: Answered, Kept: Answered, Deferred: Answered},

	Respond:     {Stored: Responded, Held: Responded, Turned: Responded, Kept: Responded, Deferred: Responded, Answered: Responded},
	Acknowledge: {Stored: Acknowledged, Held: Acknowledged, Turned: Acknowledged, Kept: Acknowledged, Deferred: Acknowledged},
	Ignore:      {Stored: Ignored, Held: Ignored, Turned: Ignored, Kept: Ignored, Deferred: Ignored},
	Supersede:   {Stored: Superseded, Held: Superseded, Turned: Superseded, Kept: Superseded, Deferred: Superseded, Answered: Superseded},
	Fail:        {Stored: Failed, Held: Failed, Turned: Failed, Kept: Failed, Deferred: Failed, Answered: Failed},
}

// Next returns the state that follows a cause, or false if nothing changes.
func Next(s State, c Cause) (State, bool) {
	to, ok := transitions[c][s]
	return to, ok
}

// Open reports whether no final disposition was written.
func (s *Status) Open() bool { return !attention.Disposition(s.State).Final() }

// Disposition returns what the state means to others; it is empty for an event to
// which nothing has happened yet.
func (s *Status) Disposition() attention.Disposition {
	switch {
	case !s.Open(), s.State == Deferred:
		return attention.Disposition(s.State)
	case s.Claimed:
		return attention.DispositionClaimed
	}
	return ""
}

// Settled reports whether a turn has nothing more to do about an event: it was
// answered, put off or closed.
func (s *Status) Settled() bool { return s.State == Answered || s.State == Deferred || !s.Open() }

// isOpen is Open as a condition of SQL.
var isOpen = in("state", openStates)

// A TurnState says how far a turn has come.
type TurnState string

// The states of a turn.
const (
	TurnQueued    TurnState = "queued"    // waits for its place, or for NotBefore
	TurnRunning   TurnState = "running"   // a harness works on it
	TurnAccepted  TurnState = "accepted"  // a program has stored it and works in its own time
	TurnWithdrawn TurnState = "withdrawn" // to be stopped, then queued again
	TurnFinished  TurnState = "finished"
	TurnFailed    TurnState = "failed"
	TurnCancelled TurnState = "cancelled"
)

// liveTurns are the states of turns from which something may still come.
var liveTurns = []TurnState{TurnQueued, TurnRunning, TurnAccepted, TurnWithdrawn}

// turnTransitions says which states may follow which, and the word with which the
// agent_event tells of it; an empty word tells nothing.
var turnTransitions = map[TurnState]map[TurnState]string{
	TurnQueued: {TurnRunning: "started", TurnCancelled: "cancelled", TurnFailed: "failed"},
	TurnRunning: {
		TurnQueued: "interrupted", TurnWithdrawn: "interrupted", TurnAccepted: "accepted",
		TurnFinished: "finished", TurnFailed: "failed", TurnCancelled: "cancelled",
	},
	TurnAccepted:  {TurnWithdrawn: "interrupted", TurnFinished: "finished", TurnFailed: "failed", TurnCancelled: "cancelled"},
	TurnWithdrawn: {TurnQueued: "", TurnCancelled: "cancelled", TurnFailed: "failed"},
}

// Ended reports whether nothing more comes of a turn.
func (t *Turn) Ended() bool { return len(turnTransitions[t.State]) == 0 }

// isLive is the condition of SQL that a turn has not ended.
var isLive = in("state", liveTurns)

// in is the condition of SQL that a column has one of these values.
func in[T ~string](column string, values []T) string {
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = "'" + string(v) + "'"
	}
	return column + " IN (" + strings.Join(quoted, ", ") + ")"
}
