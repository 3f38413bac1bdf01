package tools

import (
	"context"
	"fmt"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/mailbox"
	"hubbub/peers/attention"
	"hubbub/protocol"
)

// outputTool names in records what a program says of a turn without a tool call.
const outputTool = "callback"

// Say queues a part of the answer of a turn that a program has accepted. All parts are
// judged as one answer; a repeated key changes nothing. It fails with a
// *harness.RefusedError if policy forbids it. See harness.Host.
func (k *Kit) Say(ctx context.Context, t *mailbox.Turn, o harness.Output) error {
	b := k.OfChat("")
	if !o.Stale {
		if err := b.holdClaim(ctx, t.EventID); err != nil {
			return fmt.Errorf("claiming %s: %w", t.EventID, err)
		}
	}
	refusal, err := b.try(ctx, outputTool, t.EventID, func(t *try) { say(t, o) })
	if err != nil {
		return err
	}
	k.Changed()
	if refusal.Refused() {
		return &harness.RefusedError{Reason: refusal.Reason, Advice: refusal.Advice}
	}
	return nil
}

func say(t *try, o harness.Output) {
	e := t.event
	standing := t.Standing(e, o.Text)
	if e != nil && t.Spoken(e) {
		continueAnswer(&standing)
	}
	switch {
	case o.Stale:
		t.refusal = cancelled
	case t.SentAs(o.Key) != nil: // whatever happened since
		t.refusal = attention.Refusal{}
	case !t.permit(standing, o.Text):
		t.Reply(e, mailbox.SentText, o.Key, protocol.ChatReply{Text: o.Text})
		t.FinishAccepted(t.turn, e)
	}
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
