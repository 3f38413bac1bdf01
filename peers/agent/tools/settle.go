package tools

import (
	"context"
	"encoding/json"
	"fmt"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/mailbox"
	"hubbub/peers/attention"
	"hubbub/protocol"
	"hubbub/protocol/text"
)

var reactTool = harness.Tool{
	Name:  "chat.react",
	Title: "React with a signal",
	Description: "Put a signal on a chat event instead of writing a message: seen, agree, working, queued, claimed, done, declined, blocked, unclear. " +
		"It settles the event where that is enough.",
	InputSchema: json.RawMessage(`{"type":"object","properties":{
		"inReplyTo":{"type":"string","description":"eventId of the event"},
		"signal":{"type":"string","enum":["seen","agree","working","queued","claimed","done","declined","blocked","unclear"]},
		"eta":{"type":"string","description":"when it will be done, in words"}},
		"required":["signal"]}`),
	OutputSchema: json.RawMessage(`{"type":"object","properties":{"signal":{"type":"string"},"disposition":{"type":["string","null"]}},"required":["signal"]}`),
	Idempotent:   true,
}

var deferTool = harness.Tool{
	Name:        "chat.defer",
	Title:       "Defer an event",
	Description: "Record that you will see to an event later, and why. It stays open. A model gets it again; a program that stored it (c2a) settles it itself within a day, or by eta.",
	InputSchema: json.RawMessage(`{"type":"object","properties":{
		"eventId":{"type":"string"},"reason":{"type":"string"},"eta":{"type":"string","description":"until when: a time (RFC 3339), a duration (45m), or in words"}},
		"required":["reason"]}`),
	OutputSchema: json.RawMessage(`{"type":"object","properties":{"disposition":{"type":"string"}},"required":["disposition"]}`),
	Idempotent:   true,
}

var resolveTool = harness.Tool{
	Name:         "chat.resolve",
	Title:        "Resolve an event",
	Description:  "Mark an event, thread or assignment as resolved without a message.",
	InputSchema:  json.RawMessage(`{"type":"object","properties":{"eventId":{"type":"string"}}}`),
	OutputSchema: json.RawMessage(`{"type":"object","properties":{"disposition":{"type":"string"}},"required":["disposition"]}`),
	Idempotent:   true,
}

type reactArguments struct {
	eventName
	Signal string `json:"signal"`
	ETA    string `json:"eta"`
}

type reactResult struct {
	Signal      attention.Signal      `json:"signal"`
	Disposition attention.Disposition `json:"disposition,omitempty"`
	Reason      string                `json:"reason,omitempty"`
}

func (b *Toolbox) react(ctx context.Context, args *reactArguments) harness.Result {
	row, err := attention.ParseSignal(args.Signal)
	if err != nil {
		return harness.Refused("Invalid params: "+err.Error()+".", nil)
	}
	refused := func(reason string) any { return reactResult{Signal: row.Signal, Reason: reason} }
	return b.act(ctx, reactTool.Name, args.id(), refused, func(t *try) (any, attention.Refusal, error) {
		result := reactResult{Signal: row.Signal, Disposition: row.Disposition}
		refusal, err := b.signal(t, row, text.Prefix(args.ETA, maxETA))
		return result, refusal, err
	})
}

// signal queues a signal and gives the event its disposition, or says why not.
func (b *Toolbox) signal(t *try, row attention.SignalRow, eta string) (attention.Refusal, error) {
	none := attention.Refusal{}
	if t.refusal.Refused() {
		return t.refusal, nil
	}
	e := t.event
	standing, err := t.Standing(e, "")
	if err != nil {
		return none, err
	}
	if refusal := attention.PermitReaction(standing); refusal.Refused() {
		return refusal, nil
	}
	if row.Disposition == attention.DispositionDeferred {
		if refusal := permitDeferral(e); refusal.Refused() {
			return refusal, nil
		}
	}
	key := mailbox.SignalKey(e, row.Signal)
	if before, err := t.SentAs(key); err != nil || before != nil { // the same signal twice is one
		return none, err
	}
	if _, err := t.Reply(e, mailbox.SentSignal, key, protocol.ChatReply{Signal: string(row.Signal)}); err != nil {
		return none, err
	}
	if err := b.settleSignal(t, row, eta); err != nil {
		return none, err
	}
	return none, t.FinishAccepted(t.turn, e)
}

// settleSignal gives the event the disposition of a signal. In a turn whose model is
// still at work, a receipt for an event that is owed an answer waits for the end of
// the turn: a message may follow.
func (b *Toolbox) settleSignal(t *try, row attention.SignalRow, eta string) error {
	e := t.event
	if row.Disposition == "" || e.State == mailbox.Answered {
		return nil
	}
	if b.turnID != "" && row.Disposition == attention.DispositionAcknowledged && e.Decision.Policy == attention.PolicyMustRespond {
		b.setPending(row.Signal)
		return nil
	}
	d := row.Disposition
	if !e.Decision.Policy.May(d) {
		d = attention.DispositionAcknowledged
		if !e.Decision.Policy.May(d) {
			d = attention.DispositionIgnored
		}
	}
	reason := "signal " + string(row.Signal)
	if eta != "" {
		reason += ", " + eta
	}
	if d == attention.DispositionDeferred {
		return t.PutOff(e, eta, reason)
	}
	return t.Move(e, mailbox.CauseOf(d), reason)
}

type settleArguments struct {
	eventName
	Reason string `json:"reason"`
	ETA    string `json:"eta"`
}

type dispositionResult struct {
	Disposition attention.Disposition `json:"disposition,omitempty"`
	Reason      string                `json:"reason,omitempty"`
}

func (b *Toolbox) deferEvent(ctx context.Context, args *settleArguments) harness.Result {
	return b.settle(ctx, deferTool.Name, args, func(t *try) (attention.Refusal, error) {
		if refusal := permitDeferral(t.event); refusal.Refused() {
			return refusal, nil
		}
		reason := text.Prefix(args.Reason, maxReason)
		if args.ETA != "" {
			reason += fmt.Sprintf(" (%s)", text.Prefix(args.ETA, maxETA))
		}
		return attention.Refusal{}, t.PutOff(t.event, args.ETA, reason)
	})
}

func (b *Toolbox) resolve(ctx context.Context, args *settleArguments) harness.Result {
	return b.settle(ctx, resolveTool.Name, args, func(t *try) (attention.Refusal, error) {
		cause := mailbox.Ignore
		for _, d := range []attention.Disposition{attention.DispositionAcknowledged, attention.DispositionResponded} {
			if t.event.Decision.Policy.May(d) {
				cause = mailbox.CauseOf(d)
			}
		}
		return attention.Refusal{}, t.Move(t.event, cause, "resolved")
	})
}

// settle gives an event a disposition by do. One that has its final disposition keeps
// it, and the call gets the same answer again.
func (b *Toolbox) settle(ctx context.Context, tool string, args *settleArguments, do func(t *try) (attention.Refusal, error)) harness.Result {
	refused := func(reason string) any { return dispositionResult{Reason: reason} }
	return b.act(ctx, tool, args.id(), refused, func(t *try) (any, attention.Refusal, error) {
		if refusal := permitSettle(t); refusal.Refused() {
			return nil, refusal, nil
		}
		if t.event.Open() {
			if refusal, err := do(t); err != nil || refusal.Refused() {
				return nil, refusal, err
			}
		}
		return dispositionResult{Disposition: t.event.Disposition()}, attention.Refusal{}, t.FinishAccepted(t.turn, t.event)
	})
}

func permitSettle(t *try) attention.Refusal {
	switch {
	case t.refusal.Refused():
		return t.refusal
	case t.event == nil || t.event.State == mailbox.Stored:
		return attention.Refusal{Reason: "unknown_event", Advice: "There is no such event. Use chat.list_events to see the events and their ids."}
	case t.event.State == mailbox.Superseded:
		return attention.Refusal{Reason: "superseded", Advice: "The message was edited, deleted or merged into a newer one. Act on the newer event."}
	}
	return attention.Refusal{}
}

// permitDeferral refuses to put off what was answered, or was put off too often.
func permitDeferral(e *mailbox.Entry) attention.Refusal {
	switch {
	case e.State == mailbox.Answered:
		return attention.Refusal{Reason: "already_answered", Advice: "You have answered this event. There is nothing to put off."}
	case e.Deferrals < mailbox.MaxDeferrals || e.State == mailbox.Deferred:
		return attention.Refusal{}
	}
	return attention.Refusal{
		Reason: "deferred_too_often",
		Advice: fmt.Sprintf("This event was put off %d times. Answer it now, or say plainly that you cannot and why.", e.Deferrals),
	}
}
