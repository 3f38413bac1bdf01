package turns

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"hubbub/peers/agent/mailbox"
	"hubbub/peers/agent/mailbox/lifecycle"
	"hubbub/peers/agent/mailbox/obligations"
	"hubbub/peers/attention"
	"hubbub/protocol"
)

// decideStored decides on up to a hundred undecided events, in the order of their receipt. more
// reports whether there may be more.
func (r *iteration) decideStored() (more bool) {
	const batch = 100
	list := r.InState(mailbox.Stored, batch)
	for _, e := range list {
		r.inTxUnsynced("deciding on "+e.EventID, func(tx *mailbox.Tx) {
			if fresh := tx.Entry(e.EventID); fresh != nil && fresh.State == e.State {
				r.decide(tx, fresh)
			}
		})
	}
	return len(list) == batch && r.Err() == nil
}

// decide decides on an event, records the decision, and assigns the event accordingly.
func (r *iteration) decide(tx *mailbox.Tx, e *mailbox.Entry) {
	facts := obligations.Facts(&tx.View, e)
	facts.Continues = facts.Continues || r.continues(&tx.View, e)
	r.inheritQuestion(&tx.View, e, &facts)
	e.Decision = attention.Decide(e.Event(), r.opts.Self, facts, r.config())
	r.limitExchange(tx, e)
	applyAction(tx, e)
	tx.Decide(e)
	obligations.Open(tx, e)
	lifecycle.HandleExplanation(tx, e)
	r.assign(tx, e)
	r.includeEarlier(tx, e)
}

// applyAction performs the action that a decision requires from the agent's program.
func applyAction(tx *mailbox.Tx, e *mailbox.Entry) {
	switch e.Decision.Action {
	case attention.ActionLeave:
		tx.SetParticipation(e, mailbox.Left)
		return
	case attention.ActionReturn:
		tx.SetParticipation(e, mailbox.Returned)
		return
	case attention.ActionCancel:
		if e.Content.Signal == protocol.SignalStop {
			lifecycle.StopChat(tx, e)
		} else {
			lifecycle.StopThread(tx, e)
		}
	case attention.ActionSettle:
		lifecycle.SettleDone(tx, e)
	}
	if e.Decision.Directedness == attention.DirectedToMe && e.Decision.Policy == attention.PolicyMustRespond {
		tx.SetParticipation(e, mailbox.Joined)
	}
}

// assign moves a decided event to its next state.
func (r *Runner) assign(tx *mailbox.Tx, e *mailbox.Entry) {
	d := &e.Decision
	silent := d.Policy == attention.PolicyMustNotRespond
	switch {
	case d.Injection == attention.ModeNotify && silent && !r.opts.Async:
		tx.Move(e, mailbox.Ignore, "shown with the next turn")
	case d.Injection.Injects(), d.Injection == attention.ModeNotify:
		tx.Move(e, mailbox.Hold, "")
	case d.Injection == attention.ModeDigest || silent:
		tx.Move(e, mailbox.Ignore, d.Reason)
	case d.Policy == attention.PolicyAckOnly:
		tx.Move(e, mailbox.Acknowledge, "seen")
	default: // the harness does not support the mode; tools can still find the event
		e.DeadlineAt = time.Now().Add(r.opts.Attention.Deadline)
		tx.Move(e, mailbox.Keep, "")
	}
}

// escalationMark begins the message that calls a person in. Other agents recognize it and do not
// call a person in again.
const escalationMark = "Two agents have been talking here without a person"

// limitExchange waives the answer to another agent if the two have exchanged too many messages
// without a person, and calls a person in, once.
func (r *Runner) limitExchange(tx *mailbox.Tx, e *mailbox.Entry) {
	d := &e.Decision
	if !e.FromAgent() || d.Obliges || e.Content.Event == string(attention.KindReturn) ||
		d.Policy == attention.PolicyMustNotRespond || d.Policy == attention.PolicyAckOnly {
		return
	}
	verdict := tx.Exchange(e).Next(time.Now())
	if strings.Contains(e.Content.Text, escalationMark) { // a service may add a prefix
		if tx.RelatedChatEvent(e) == nil {
			tx.SetParticipation(e, mailbox.Escalated)
			verdict = attention.ExchangeHold
		} else if verdict != attention.ExchangeHold { // only there do people read it
			verdict = attention.ExchangeEscalate
		}
	}
	if verdict == attention.ExchangeAllow {
		return
	}
	d.Policy, d.Injection, d.Context = attention.PolicyMustNotRespond, attention.ModeToolMailbox, ""
	d.Knock, d.DeadlineMS, d.Reason = nil, 0, mailbox.ReasonExchangeHeld
	if verdict == attention.ExchangeEscalate {
		r.escalate(tx, e)
	}
}

// escalate notifies people, once, that an exchange of two agents was stopped.
func (r *Runner) escalate(tx *mailbox.Tx, e *mailbox.Entry) {
	tx.SetParticipation(e, mailbox.Escalated)
	other, people := e.Content.Author.ID, tx.RelatedChatEvent(e)
	said := r.escalationText(tx, e, cmp.Or(people, e))
	tx.SendNotice(e, mailbox.NoticeEscalation, said)
	if people != nil {
		tx.SendNotice(people, mailbox.NoticeEscalation, said)
	}
	tx.Record(mailbox.UniqueKey("escalation", e.Seq), e, protocol.EscalationRecord{
		Agent:   tx.Self(),
		Event:   protocol.RecordEscalation,
		EventID: e.EventID,
		Reason:  "exchange_limit",
		With:    other,
	})
}

// escalationText returns the text that calls a person in, with the last messages of the exchange.
// people is the event where people read it. Only the person is mentioned.
func (r *Runner) escalationText(tx *mailbox.Tx, e, people *mailbox.Entry) string {
	const lines, lineBytes = 4, 160
	name := func(id string) string { return attention.HeaderValue(strings.TrimPrefix(id, "agent:")) }
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s and %s, %d messages. The last of them:\n", escalationMark, name(r.opts.Self.ID),
		name(e.Content.Author.ID), len(tx.Exchange(e).Sent))
	for _, said := range tx.LastTexts(e, lines) {
		text := strings.ReplaceAll(attention.HeaderValue(strings.Join(strings.Fields(said[1]), " ")), "@", "")
		if len(text) > lineBytes {
			text = strings.ToValidUTF8(text[:lineBytes], "") + "…"
		}
		fmt.Fprintf(&b, "> %s: %s\n", name(cmp.Or(said[0], r.opts.Self.ID)), text)
	}
	b.WriteString("I will write nothing more until a person does. ")
	if person := tx.LastPerson(people.Content.Chat.ID); person != "" {
		fmt.Fprintf(&b, "@%s: ", attention.HeaderValue(person))
	}
	b.WriteString("Should we go on?")
	return b.String()
}

// A fragmentGroup is a group of held events for one turn: fragments of one author in one thread,
// or a single knock.
type fragmentGroup struct {
	events []*mailbox.Entry
	due    time.Time
}

// groupHeld groups held events, which are in order. A fragment joins the previous one if it came
// within the window, or while its author was typing, and within limit after the first. An
// immediate event makes its group due at once.
func groupHeld(held []*mailbox.Entry, window, limit time.Duration,
	typing func(*mailbox.Entry) typingSpan) []*fragmentGroup {
	var groups []*fragmentGroup
	last := map[string]*fragmentGroup{}
	for _, e := range held {
		key, typed := fragmentKey(e), typing(e)
		mode := e.Decision.Injection
		g := last[key]
		if g == nil || mode == attention.ModeNotify || !g.accepts(e, typed, window, limit) {
			g = &fragmentGroup{}
			groups = append(groups, g)
			last[key] = g
		}
		g.events = append(g.events, e)
		g.due = e.ReceivedAt.Add(windowAfter(e, window))
		if waitsForName(e) && isItem(e) {
			g.due = e.ReceivedAt.Add(itemFactor * window)
		}
		if typed.last.After(e.ReceivedAt) && typed.since(g.due) {
			g.due = typed.until()
		}
		if latest := g.events[0].ReceivedAt.Add(limit); latest.Before(g.due) {
			g.due = latest
		}
		if mode == attention.ModeImmediate || mode == attention.ModeNotify && !waitsForName(e) {
			g.due = e.ReceivedAt
		}
	}
	return groups
}

func (g *fragmentGroup) accepts(e *mailbox.Entry, typed typingSpan, window, limit time.Duration) bool {
	first, last := g.events[0], g.events[len(g.events)-1]
	near := e.ReceivedAt.Sub(last.ReceivedAt) <= windowAfter(last, window) ||
		e.IsFragment() || last.IsFragment() || typed.since(last.ReceivedAt.Add(window)) &&
		!e.ReceivedAt.After(typed.until())
	return last.Mergeable() && e.Mergeable() && near && e.ReceivedAt.Sub(first.ReceivedAt) <= limit
}

// compose makes turns of the held events whose window has passed. Fragments join the turn over
// the previous ones as long as that turn has sent nothing.
func (r *iteration) compose() {
	now := time.Now()
	for _, g := range groupHeld(r.InState(mailbox.Held, 2000), r.opts.ComposeWindow, r.opts.ComposeCap, r.typing) {
		first, last := g.events[0], g.events[len(g.events)-1]
		joins := first.Mergeable() && r.caps.Injection.Interrupt && !r.opts.Async
		waits := g.due.After(now)
		if waits {
			r.schedule(g.due)
		}
		if waits && !joins {
			continue
		}
		r.inTxUnsynced("composing a turn over "+last.EventID, func(tx *mailbox.Tx) {
			joined := joins && tx.Extend(g.events, last.ReceivedAt.Add(-r.opts.ComposeCap), g.due)
			if !joined && !waits {
				tx.Compose(g.events)
			}
		})
	}
}
