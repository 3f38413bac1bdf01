package agent

import (
	"context"
	"database/sql"
	"fmt"

	"hubbub/peers/agent/harness"
	"hubbub/peers/attention"
	"hubbub/protocol"
)

// outputTool names in records what a program says of a turn without a tool call.
const outputTool = "callback"

// output stores what a program says or reports of a turn that it has accepted. The
// parts of an answer are judged as one answer. See harness.Host.
func (a *Agent) output(ctx context.Context, o harness.Output) error {
	t, err := turnByID(ctx, a.db, o.TurnID)
	if err != nil {
		return err
	}
	if t == nil {
		return &harness.RefusedError{Reason: "unknown_turn", Advice: "There is no such turn any more. Send nothing for it."}
	}
	if o.Report != nil {
		return a.inTx(ctx, func(tx *sql.Tx) error { return a.storeReport(ctx, tx, t, o) })
	}
	box := &toolbox{a: a}
	if !o.Stale {
		if err := box.holdClaim(ctx, t.EventID); err != nil {
			return fmt.Errorf("claiming %s: %w", t.EventID, err)
		}
	}
	var refusal attention.Refusal
	err = a.inTx(ctx, func(tx *sql.Tx) error {
		refusal, err = box.partTx(ctx, tx, t, o)
		return err
	})
	if err != nil {
		return err
	}
	a.poke()
	if !refusal.Refused() {
		return nil
	}
	if err := a.refuse(ctx, t.EventID, outputTool, refusal.Reason); err != nil {
		return err
	}
	return &harness.RefusedError{Reason: refusal.Reason, Advice: refusal.Advice}
}

// partTx queues a part of a turn's answer, or says why not.
func (b *toolbox) partTx(ctx context.Context, tx *sql.Tx, t *turn, o harness.Output) (attention.Refusal, error) {
	at, err := b.look(ctx, tx, t.EventID)
	if err != nil {
		return attention.Refusal{}, err
	}
	if o.Stale {
		return cancelledRefusal, nil
	}
	if before, err := sentByKey(ctx, tx, o.Key); before != nil || err != nil {
		return attention.Refusal{}, err
	}
	if at.refusal.Refused() {
		return at.refusal, nil
	}
	standing, err := b.a.standing(ctx, tx, at.entry, o.Text)
	if err != nil {
		return attention.Refusal{}, err
	}
	if at.entry != nil && at.entry.Replied {
		continueAnswer(&standing)
	}
	if refusal := attention.PermitMessage(standing); refusal.Refused() {
		return refusal, nil
	}
	if attention.MeansSilence(o.Text) {
		return attention.Refusal{Reason: "silence", Advice: "Silence is not a text: to stay silent, send nothing."}, nil
	}
	if at.entry.Chat == protocol.TopicBroker && !at.entry.Origin.takesWords() {
		return noConversation, nil
	}
	if _, err := b.a.queueReply(ctx, tx, at.entry, "text", o.Key, protocol.ChatReply{Text: o.Text}); err != nil {
		return attention.Refusal{}, err
	}
	return attention.Refusal{}, b.a.endAccepted(ctx, tx, at)
}

// continueAnswer makes the standing of an event that was answered that of one whose
// answer goes on, however its first part ended. One sentence is enough to leave.
func continueAnswer(s *attention.Standing) {
	s.Replied, s.LeaveEvent = false, false
	switch s.Disposition {
	case attention.DispositionResponded, attention.DispositionFailed:
		s.Disposition = ""
	}
}

// holdClaim claims an event that needs it before it is answered. Where another agent
// has it, what follows is refused.
func (b *toolbox) holdClaim(ctx context.Context, id string) error {
	e, err := currentEntry(ctx, b.a.db, id)
	if err != nil || e == nil || !e.Decision.NeedsClaim() || e.Replied {
		return err
	}
	held, err := b.a.claimOf(ctx, b.a.db, e.EventID)
	if err != nil || held != nil && held.owner == string(b.a.id) || !b.a.brokerPresent(ctx) && !b.a.brokerKnown() {
		return err
	}
	if _, refusal, err := b.mayClaim(ctx, e.EventID); refusal.Refused() || err != nil {
		return err
	}
	result, via, err := b.a.acquire(ctx, e.EventID, b.a.opts.ClaimTTL)
	if err != nil {
		return err
	}
	return b.a.inTx(ctx, func(tx *sql.Tx) error {
		_, err := b.noteClaim(ctx, tx, e.EventID, via, result)
		return err
	})
}

// storeReport queues what a program does for the chat of its turn, behind what it
// said before. What nobody reads there is told as progress. An error is the reason
// if nothing more comes of the turn.
func (a *Agent) storeReport(ctx context.Context, tx *sql.Tx, t *turn, o harness.Output) error {
	if o.Report.Kind == harness.ProgressError {
		_, err := tx.ExecContext(ctx, `UPDATE turns SET body = ? WHERE turn_id = ? AND state IN ('running','accepted')`, cut(o.Report.Message, 500), t.ID)
		if err != nil {
			return fmt.Errorf("storing the error of turn %s: %w", t.ID, err)
		}
	}
	e, err := entryByID(ctx, tx, t.EventID)
	if err != nil {
		return err
	}
	if e == nil || e.Chat == protocol.TopicBroker {
		report := *o.Report
		report.TurnID = t.ID
		a.progress(report)
		return nil
	}
	activity := activityOf(e, *o.Report)
	activity.Agent = a.id
	m := a.peer.NewMessage(protocol.TypeAgentEvent, activity)
	m.InReplyTo, m.TraceParent = e.MessageID, e.TraceParent
	return a.enqueue(ctx, tx, e.Chat, o.Key, m)
}
