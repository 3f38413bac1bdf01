package mailbox

import (
	"strings"
	"time"

	"hubbub/protocol"

	"hubbub/peers/attention"
)

// A State is the state of an event. Dispositions and all other views of its progress are derived
// from it.
type State string

// The states of an event. The last five are final and have the names of their dispositions.
const (
	Stored   State = "stored"   // not decided yet
	Held     State = "held"     // in the compose window
	Turned   State = "turned"   // in a turn that waits, runs or was accepted
	Kept     State = "kept"     // in no turn; tools can read and settle it until its deadline
	Deferred State = "deferred" // redelivered at its deadline
	Answered State = "answered" // an answer is in the outbox, and is sent even if the event is deleted or stopped

	Responded    State = "responded"
	Acknowledged State = "acknowledged"
	Ignored      State = "ignored"
	Superseded   State = "superseded"
	Failed       State = "failed"
)

// A Cause is the cause of a state change. Each disposition is its own cause.
type Cause string

// The causes.
const (
	Hold   Cause = "hold"   // decided: shown once its author has stopped writing
	Keep   Cause = "keep"   // decided: shown in no turn
	Join   Cause = "join"   // shown in a turn, for the first time or again
	Reopen Cause = "reopen" // its text or the harness changed; it needs a new decision
	Regain Cause = "regain" // another agent released its claim
	// it turned out to be part of a later message
	Include Cause = "include"
	Answer  Cause = "answer" // an answer was queued

	ClaimEvent  = Cause(attention.DispositionClaimed) // the agent commits to handling it
	Defer       = Cause(attention.DispositionDeferred)
	Respond     = Cause(attention.DispositionResponded)
	Acknowledge = Cause(attention.DispositionAcknowledged)
	Ignore      = Cause(attention.DispositionIgnored)
	Supersede   = Cause(attention.DispositionSuperseded) // deleted, replaced, merged or stopped
	Fail        = Cause(attention.DispositionFailed)
)

// openStates are the states that are not final.
var openStates = []State{Stored, Held, Turned, Kept, Deferred, Answered}

// transitions is the table of state changes. Only Regain and Include leave a final state. A cause without an
// entry for a state changes nothing.
var transitions = map[Cause]map[State]State{
	Hold:       {Stored: Held},
	Keep:       {Stored: Kept},
	Join:       {Held: Turned, Turned: Turned, Kept: Turned, Deferred: Turned},
	Reopen:     {Held: Stored, Turned: Stored, Kept: Stored},
	Regain:     {Ignored: Kept},
	Include:    {Ignored: Held, Held: Held},
	ClaimEvent: {Held: Held, Turned: Turned, Kept: Kept, Deferred: Kept},
	Defer:      {Held: Deferred, Turned: Deferred, Kept: Deferred},
	Answer:     {Held: Answered, Turned: Answered, Kept: Answered, Deferred: Answered},

	Respond: {Stored: Responded, Held: Responded, Turned: Responded, Kept: Responded, Deferred: Responded,
		Answered: Responded},
	Acknowledge: {Stored: Acknowledged, Held: Acknowledged, Turned: Acknowledged, Kept: Acknowledged,
		Deferred: Acknowledged},
	Ignore:    {Stored: Ignored, Held: Ignored, Turned: Ignored, Kept: Ignored, Deferred: Ignored},
	Supersede: {Stored: Superseded, Held: Superseded, Turned: Superseded, Kept: Superseded, Deferred: Superseded},
	Fail:      {Stored: Failed, Held: Failed, Turned: Failed, Kept: Failed, Deferred: Failed, Answered: Failed},
}

// Next returns the state after a cause, or false if nothing changes.
func Next(s State, c Cause) (State, bool) {
	to, ok := transitions[c][s]
	return to, ok
}

// Open reports whether the event has no final disposition.
func (s *Status) Open() bool { return !attention.Disposition(s.State).Final() }

// Disposition returns the disposition that others see, or "" if there is none yet.
func (s *Status) Disposition() attention.Disposition {
	switch {
	case !s.Open(), s.State == Deferred:
		return attention.Disposition(s.State)
	case s.Claimed:
		return attention.DispositionClaimed
	}
	return ""
}

// Settled reports whether a turn has nothing left to do about the event: it was answered,
// deferred or closed.
func (s *Status) Settled() bool { return s.State == Answered || s.State == Deferred || !s.Open() }

// OpenCondition is Status.Open as an SQL condition.
var OpenCondition = in("state", openStates)

// A TurnState is the state of a turn.
type TurnState string

// The states of a turn.
const (
	TurnQueued    TurnState = "queued"    // waits for its thread or for NotBefore
	TurnRunning   TurnState = "running"   // the harness works on it
	TurnAccepted  TurnState = "accepted"  // an asynchronous program has stored it
	TurnWithdrawn TurnState = "withdrawn" // is being stopped, then queued again
	TurnFinished  TurnState = "finished"
	TurnFailed    TurnState = "failed"
	TurnCancelled TurnState = "cancelled"
)

// liveTurns are the states of turns that have not ended.
var liveTurns = []TurnState{TurnQueued, TurnRunning, TurnAccepted, TurnWithdrawn}

// turnTransitions is the table of state changes of turns. Each has the state in the turn's
// agent_event; an empty one is not recorded.
var turnTransitions = map[TurnState]map[TurnState]string{
	TurnQueued: {TurnRunning: "started", TurnCancelled: "cancelled", TurnFailed: "failed"},
	TurnRunning: {
		TurnQueued: "interrupted", TurnWithdrawn: "interrupted", TurnAccepted: "accepted",
		TurnFinished: "finished", TurnFailed: "failed", TurnCancelled: "cancelled",
	},
	TurnAccepted: {TurnWithdrawn: "interrupted", TurnFinished: "finished", TurnFailed: "failed",
		TurnCancelled: "cancelled"},
	TurnWithdrawn: {TurnQueued: "", TurnCancelled: "cancelled", TurnFailed: "failed"},
}

// Ended reports whether the turn has ended.
func (t *Turn) Ended() bool { return len(turnTransitions[t.State]) == 0 }

// LiveCondition is the SQL condition that a turn has not ended.
var LiveCondition = in("state", liveTurns)

// in returns the SQL condition that a column has one of the values.
func in[T ~string](column string, values []T) string {
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = "'" + string(v) + "'"
	}
	return column + " IN (" + strings.Join(quoted, ", ") + ")"
}

// Move changes the state of an event according to the table of transitions, stores its status,
// and records the disposition if it changed. If the table has no entry, Move does nothing.
func (tx *Tx) Move(e *Entry, c Cause, reason string) {
	to, ok := Next(e.State, c)
	if !ok {
		return
	}
	before := e.Disposition()
	if e.State == Deferred && (c == Supersede || c == Fail) && tx.m.opts.Async { // the program still has it
		turn := e.TurnID
		tx.OnCommit(func() { tx.m.opts.StopTurn(turn, reason) })
	}
	if c == ClaimEvent {
		e.Claimed = true
	} else if to == Deferred || e.State == Deferred {
		e.Claimed = false
	}
	if e.State = to; to == Answered || !e.Open() {
		e.DeadlineAt = time.Time{}
		tx.m.opts.Hooks.Settled(tx, e)
	}
	tx.Save(e)
	d := e.Disposition()
	if d == before || d == "" {
		return
	}
	tx.m.opts.Broker.Disposed(tx, e, d, reason)
	tx.Record(UniqueKey("disposition", e.Seq), e, protocol.Disposition{
		Event: protocol.RecordDisposition, EventID: e.EventID, Agent: tx.m.id, Disposition: string(d), Reason: reason,
	})
	if d != attention.DispositionFailed { // the notice about a failure goes first
		tx.ReportEnd(e)
	}
}
