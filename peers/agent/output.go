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
	t, err := a.box.View(ctx).Turn(o.TurnID)
	switch {
	case err != nil:
		return err
	case t == nil:
		return &harness.RefusedError{Reason: "unknown_turn", Advice: "There is no such turn any more. Send nothing for it."}
	case o.Report == nil:
		return a.kit.Say(ctx, t, o)
	}
	return a.box.InTx(ctx, func(tx *mailbox.Tx) error { return a.storeReport(tx, o) })
}

// storeReport queues what a program does for the chat of its turn, behind what it said
// before. What nobody reads there is told as progress. An error is the reason if nothing
// more comes of the turn.
func (a *Agent) storeReport(tx *mailbox.Tx, o harness.Output) error {
	t, err := tx.Turn(o.TurnID)
	if err != nil || t == nil {
		return err
	}
	if o.Report.Kind == harness.ProgressError && !t.Ended() {
		t.Body = text.Prefix(o.Report.Message, maxError)
		if err := tx.SaveTurn(t); err != nil {
			return err
		}
	}
	e, err := tx.Entry(t.EventID)
	if err != nil {
		return err
	}
	if e == nil || e.FromBroker() {
		report := *o.Report
		report.TurnID = t.ID
		a.progress(report)
		return nil
	}
	activity := activityOf(e, *o.Report)
	activity.Agent = a.id
	return tx.Enqueue(e.Chat, o.Key, a.box.Caused(e, protocol.TypeAgentEvent, activity))
}
