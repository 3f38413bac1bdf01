package agent

import (
	"context"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/mailbox"
	"hubbub/protocol"
	"hubbub/protocol/text"
)

// maxError bounds what is kept of a program's error, in bytes.
const maxError = 500

// output stores what a program says or reports of a turn that it has accepted. See
// harness.Host.
func (a *Agent) output(ctx context.Context, o harness.Output) error {
	v := a.box.View(ctx)
	t := v.Turn(o.TurnID)
	switch {
	case v.Err() != nil:
		return v.Err()
	case t == nil:
		return &harness.RefusedError{Reason: "unknown_turn", Advice: "There is no such turn any more. Send nothing for it."}
	case o.Report == nil:
		return a.kit.Say(ctx, t, o)
	}
	return a.box.InTx(ctx, func(tx *mailbox.Tx) { a.storeReport(tx, o) })
}

// storeReport queues what a program does for the chat of its turn, behind what it said
// before. What nobody reads there is told as progress. An error is the reason if nothing
// more comes of the turn.
func (a *Agent) storeReport(tx *mailbox.Tx, o harness.Output) {
	t := tx.Turn(o.TurnID)
	if t == nil {
		return
	}
	if o.Report.Kind == harness.ProgressError && !t.Ended() {
		t.Body = text.Prefix(o.Report.Message, maxError)
		tx.SaveTurn(t)
	}
	e := tx.Entry(t.EventID)
	if e == nil || e.FromBroker() {
		report := *o.Report
		report.TurnID = t.ID
		a.progress(report)
		return
	}
	activity := activityOf(e, *o.Report)
	activity.Agent = a.id
	tx.Enqueue(e.Chat, o.Key, a.box.Caused(e, protocol.TypeAgentEvent, activity))
}
