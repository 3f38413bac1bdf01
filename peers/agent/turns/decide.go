package turns

import (
	"fmt"
	"strings"
	"time"

	"hubbub/peers/agent/mailbox"
	"hubbub/peers/attention"
)

// decideStored decides on the events that have no decision yet, in the order in
// which they came, at most a hundred at once; more reports whether others may wait.
func (r *round) decideStored() (more bool) {
	const batch = 100
	list := r.InState(mailbox.Stored, batch)
	for _, e := range list {
		r.inTx("deciding on "+e.EventID, func(tx *mailbox.Tx) {
			if fresh := tx.Entry(e.EventID); fresh != nil && fresh.State == mailbox.Stored {
				r.decide(tx, fresh)
			}
		})
	}
	return len(list) == batch && r.Err() == nil
}

// decide decides on one event, records why, and puts it where it belongs.
func (r *round) decide(tx *mailbox.Tx, e *mailbox.Entry) {
	e.Decision = attention.Decide(e.Event(), r.opts.Self, tx.Facts(e), r.config())
	r.weighExchange(tx, e)
	act(tx, e)
	tx.Decide(e)
	r.assign(tx, e)
}

// act carries out what a decision asks of the host itself.
func act(tx *mailbox.Tx, e *mailbox.Entry) {
	switch e.Decision.Action {
	case attention.ActionLeave:
		tx.SetPlace(e, mailbox.Left)
		return
	case attention.ActionReturn:
		tx.SetPlace(e, mailbox.Returned)
		return
	case attention.ActionCancel:
		tx.StopPlace(e)
	}
	if e.Decision.Directedness == attention.DirectedToMe && e.Decision.Policy == attention.PolicyMustRespond {
		tx.SetPlace(e, mailbox.Joined)
	}
}

// assign puts a decided event where it belongs.
func (r *Runner) assign(tx *mailbox.Tx, e *mailbox.Entry) {
	d := &e.Decision
	silent := d.Policy == attention.PolicyMustNotRespond
	switch {
	case d.Injection == attention.ModeNotify && silent && !r.opts.OwnTime:
		tx.Move(e, mailbox.Ignore, "told with the next turn")
	case d.Injection.Injects(), d.Injection == attention.ModeNotify:
		tx.Move(e, mailbox.Hold, "")
	case d.Injection == attention.ModeDigest || silent:
		tx.Move(e, mailbox.Ignore, d.Reason)
	case d.Policy == attention.PolicyAckOnly:
		tx.Move(e, mailbox.Acknowledge, "seen")
	default: // the harness lacks the mode: it may find the event through its tools
		e.DeadlineAt = time.Now().Add(r.opts.Attention.Deadline)
		tx.Move(e, mailbox.Keep, "")
	}
}

// escalationMark begins the message that calls a person in. Agents recognize it, so
// that the other one does not call a person in as well.
const escalationMark = "Two agents have been talking here without a person"

// weighExchange takes back the obligation towards another agent if the two have said
// too much without a person, and calls a person in, once.
func (r *Runner) weighExchange(tx *mailbox.Tx, e *mailbox.Entry) {
	d := &e.Decision
	if !e.FromAgent() || d.Policy == attention.PolicyMustNotRespond || d.Policy == attention.PolicyAckOnly {
		return
	}
	if strings.HasPrefix(e.Content.Text, escalationMark) {
		tx.SetPlace(e, mailbox.Escalated)
	}
	verdict := tx.Exchange(e).Weigh(time.Now())
	if verdict == attention.VerdictAllow {
		return
	}
	d.Policy, d.Injection, d.Context = attention.PolicyMustNotRespond, attention.ModeToolMailbox, ""
	d.Knock, d.DeadlineMS, d.Reason = nil, 0, "exchange_held"
	if verdict == attention.VerdictEscalate {
		r.escalate(tx, e)
	}
}

// escalate tells people, once, that two agents were stopped.
func (r *Runner) escalate(tx *mailbox.Tx, e *mailbox.Entry) {
	tx.SetPlace(e, mailbox.Escalated)
	other, name := e.Content.Author.ID, func(id string) string { return attention.HeaderValue(strings.TrimPrefix(id, "agent:")) }
	text := fmt.Sprintf("%s: %s and %s, %d messages within a minute. I say no more until a person does. Should we go on?",
		escalationMark, name(r.opts.Self.ID), name(other), attention.ExchangeLimit)
	tx.Notice(e, mailbox.NoticeEscalation, text)
	tx.Record(mailbox.UniqueKey("escalation", e.Seq), e, map[string]any{
		"event": "escalation", "eventId": e.EventID, "agent": r.opts.Self.ID, "with": other, "reason": "exchange_limit",
	})
}
