package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/mailbox"
	"hubbub/peers/agent/mailbox/lifecycle"
	"hubbub/peers/agent/mailbox/obligations"
	"hubbub/peers/agent/mailbox/reminders"
	"hubbub/peers/attention"
	"hubbub/protocol"
	"hubbub/protocol/text"
)

var reactTool = harness.Tool{
	Name:  "chat.react",
	Title: "React with a signal",
	Description: "Put a signal on a chat event instead of writing a message: seen, agree, working, queued, claimed, " +
		"done, declined, blocked, unclear. " +
		"It settles the event where that is enough.",
	OutputSchema: json.RawMessage(`{"type":"object","properties":{"signal":{"type":"string"},"disposition":{"type":["string","null"]}},"required":["signal"]}`),
	Idempotent:   true,
}

var deferTool = harness.Tool{
	Name:  "chat.defer",
	Title: "Defer an event",
	Description: "Record that you will handle an event later, and why. It stays open. A model is shown it again; a " +
		"program that stored it (c2a) settles it within a day, or by eta. " +
		"A deferral ends after 7 days at the latest.",
	OutputSchema: json.RawMessage(`{"type":"object","properties":{"disposition":{"type":"string"}},"required":["disposition"]}`),
	Idempotent:   true,
}

var resolveTool = harness.Tool{
	Name:         "chat.resolve",
	Title:        "Resolve an event",
	Description:  "Mark an event, thread or assignment as resolved without a message.",
	OutputSchema: json.RawMessage(`{"type":"object","properties":{"disposition":{"type":"string"}},"required":["disposition"]}`),
	Idempotent:   true,
}

type reactArguments struct {
	replyRef
	Signal attention.Signal `json:"signal"`
	ETA    string           `json:"eta,omitempty" jsonschema:"when it will be done, in words"`
}

func (b *Toolset) react(ctx context.Context, args *reactArguments) harness.Result {
	row, err := attention.ParseSignal(string(args.Signal))
	if err != nil {
		return harness.ErrorResult("Invalid params: "+err.Error()+".", nil)
	}
	if row.Disposition == attention.DispositionClaimed { // others must stay out
		if err := b.ensureClaim(ctx, args.id()); err != nil {
			return claimError(err, result{Signal: row.Signal})
		}
	}
	return b.act(ctx, reactTool, args.id(), result{Signal: row.Signal}, func(t *attempt) result {
		b.signal(t, row, text.Prefix(args.ETA, maxETA))
		d, e := row.Disposition, t.event
		switch {
		case e == nil:
		case e.Disposition() != "": // its policy or an earlier end may have decided otherwise
			d = e.Disposition()
		case row.Signal == attention.SignalSeen && e.Decision.Policy == attention.PolicyMustRespond:
			d = ""
		}
		return result{Signal: row.Signal, Disposition: d}
	})
}

// signal queues a signal and settles the event accordingly, or refuses to.
func (b *Toolset) signal(t *attempt, row attention.SignalRow, eta string) {
	e := t.event
	standing, permit := obligations.ReplyContext(&t.View, e, ""), attention.PermitReaction
	claims := row.Disposition == attention.DispositionClaimed && standing.ClaimNeeded
	if claims && !standing.ClaimHeld && standing.ClaimOwner != "" {
		permit = attention.PermitMessage
	}
	if t.refuse(permit(standing)) ||
		row.Disposition == attention.DispositionDeferred && t.refuse(permitDeferral(e)) {
		return
	}
	obligations.RecordSignal(t.Tx, e, row.Signal)
	if key := mailbox.SignalKey(e, row.Signal); t.SentAs(key) == nil { // repeating a signal has no effect
		t.Reply(e, mailbox.SentSignal, key, protocol.ChatReply{Signal: string(row.Signal)})
		b.settleSignal(t, row, eta)
		if claims && e.Open() && e.State != mailbox.Answered {
			t.Grant(e)
		}
		lifecycle.FinishAccepted(t.Tx, t.turn, e)
	}
}

// settleSignal gives the event the disposition of a signal. While a turn is running, an
// acknowledgement of an event that needs an answer takes effect at the end of the turn, because a
// message may follow.
func (b *Toolset) settleSignal(t *attempt, row attention.SignalRow, eta string) {
	e := t.event
	mustRespond := e.Decision.Policy == attention.PolicyMustRespond
	switch {
	case e.State == mailbox.Answered, row.Signal == attention.SignalSeen && mustRespond: // only a receipt
		return
	case row.Signal == attention.SignalUnclear && mustRespond && !e.FromAgent():
		lifecycle.AskClarification(t.Tx, e)
		return
	case row.Disposition == "":
		return
	}
	if b.turnID != "" && row.Disposition == attention.DispositionAcknowledged && mustRespond {
		b.pending.Store(row.Signal)
		return
	}
	d := allowedDisposition(e, row.Disposition)
	reason := "signal " + string(row.Signal)
	if eta != "" {
		reason += ", " + eta
	}
	if d == attention.DispositionDeferred {
		until, _ := b.timeIn(e, eta) // words of a reaction may name no time
		lifecycle.Defer(t.Tx, e, until, reason)
	} else {
		t.Move(e, mailbox.Cause(d), reason)
	}
}

// allowedDisposition returns d, or the nearest disposition that the event's policy allows.
func allowedDisposition(e *mailbox.Entry, d attention.Disposition) attention.Disposition {
	ends := []attention.Disposition{d, attention.DispositionAcknowledged, attention.DispositionIgnored}
	return ends[slices.IndexFunc(ends, e.Decision.Policy.May)]
}

type deferArguments struct {
	eventRef
	Reason string `json:"reason"`
	ETA    string `json:"eta,omitempty" jsonschema:"until when, in any form of a time of chat.remind: tomorrow 9:00, Friday, in 45 minutes"`
}

// timeIn returns the time that a model wrote about an event. ok reports whether it is one.
func (b *Toolset) timeIn(e *mailbox.Entry, said string) (at time.Time, ok bool) {
	now := time.Now()
	if d, err := time.ParseDuration(said); err == nil { // also one of less than a second, or in the past
		return now.Add(d), true
	}
	at, err := reminders.ParseTime(said, b.provider.ZoneOf(e.Content.Chat), now)
	if err != nil {
		return time.Time{}, false
	}
	return at, true
}

// ReadTime returns the time that a person wrote in a chat, which may have passed.
func (p *Provider) ReadTime(said string, chat *protocol.Chat) (time.Time, error) {
	zone, now := p.ZoneOf(chat), time.Now()
	at, err := reminders.ParseTime(said, zone, now)
	if err != nil { // such as yesterday
		at, err = reminders.ParseSince(said, zone, now)
	}
	return at, err
}

// etaAdvice tells a model which times chat.defer understands.
const etaAdvice = "This eta is not a time. Write a local time (2027-01-31 17:00, tomorrow 9:00, Friday 17:30), a time " +
	"with its zone (2027-01-31T17:00:00+01:00) or a duration (45m, in 20 minutes). If you know no time, leave eta out " +
	"and give the reason only: the event then comes back after a while."

func (b *Toolset) deferEvent(ctx context.Context, args *deferArguments) harness.Result {
	return b.settle(ctx, deferTool, args.id(), func(t *attempt) {
		if t.refuse(permitDeferral(t.event)) {
			return
		}
		reason := text.Prefix(args.Reason, maxReason)
		until, ok := b.timeIn(t.event, args.ETA)
		if args.ETA != "" {
			if !ok {
				t.refuse(attention.Refusal{Reason: "invalid", Advice: etaAdvice})
				return
			}
			reason += fmt.Sprintf(" (%s)", text.Prefix(args.ETA, maxETA))
		}
		lifecycle.Defer(t.Tx, t.event, until, reason)
	})
}

func (b *Toolset) resolve(ctx context.Context, args *eventRef) harness.Result {
	return b.settle(ctx, resolveTool, args.id(), func(t *attempt) {
		t.Move(t.event, mailbox.Cause(allowedDisposition(t.event, attention.DispositionResponded)), "resolved")
	})
}

// settle settles an event with do. An event with a final disposition keeps it, and the call
// returns that.
func (b *Toolset) settle(ctx context.Context, tool harness.Tool, id string,
	do func(t *attempt)) harness.Result {
	return b.act(ctx, tool, id, result{}, func(t *attempt) result {
		if !t.refuse(permitSettle(t.event)) && t.event.Open() {
			do(t)
		}
		if t.refusal.Refused() {
			return result{}
		}
		lifecycle.FinishAccepted(t.Tx, t.turn, t.event)
		return result{Disposition: t.event.Disposition()}
	})
}

func permitSettle(e *mailbox.Entry) attention.Refusal {
	switch {
	case e == nil || e.State == mailbox.Stored:
		return attention.Refusal{Reason: "unknown_event",
			Advice: "There is no such event. Use chat.list_events to see the events and their ids."}
	case e.State == mailbox.Superseded:
		return attention.Refusal{Reason: "superseded",
			Advice: "The message was edited, deleted or merged into a newer one. Act on the newer event."}
	}
	return attention.Refusal{}
}

// permitDeferral checks that an event may be deferred: it was not answered, and not deferred too
// often.
func permitDeferral(e *mailbox.Entry) (refusal attention.Refusal) {
	switch {
	case e.State == mailbox.Answered:
		refusal = attention.Refusal{Reason: "already_answered",
			Advice: "You have answered this event. There is nothing to defer."}
	case e.Deferrals >= lifecycle.MaxDeferrals && e.State != mailbox.Deferred:
		advice := fmt.Sprintf("This event was deferred %d times. Answer it now, or say plainly that you cannot, and "+
			"why.", e.Deferrals)
		refusal = attention.Refusal{Reason: "deferred_too_often", Advice: advice}
	}
	return refusal
}
