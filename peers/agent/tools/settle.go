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
	return b.act(ctx, reactTool.Name, args.id(), refused, func(t *try) (any, attention.Refusal) {
		return reactResult{Signal: row.Signal, Disposition: row.Disposition}, b.signal(t, row, text.Prefix(args.ETA, maxETA))
	})
}

// signal queues a signal and gives the event its disposition, or says why not.
func (b *Toolbox) signal(t *try, row attention.SignalRow, eta string) attention.Refusal {
	if t.refusal.Refused() {
		return t.refusal
	}
	e := t.event
	if refusal := attention.PermitReaction(t.Standing(e, "")); refusal.Refused() {
		return refusal
	}
	if row.Disposition == attention.DispositionDeferred {
		if refusal := permitDeferral(e); refusal.Refused() {
			return refusal
		}
	}
	if key := mailbox.SignalKey(e, row.Signal); t.SentAs(key) == nil { // the same signal twice is one
		t.Reply(e, mailbox.SentSignal, key, protocol.ChatReply{Signal: string(row.Signal)})
		b.settleSignal(t, row, eta)
		t.FinishAccepted(t.turn, e)
	}
	return attention.Refusal{}
}

// settleSignal gives the event the disposition of a signal. In a turn whose model is
// still at work, a receipt for an event that is owed an answer waits for the end of
// the turn: a message may follow.
func (b *Toolbox) settleSignal(t *try, row attention.SignalRow, eta string) {
	e := t.event
	if row.Disposition == "" || e.State == mailbox.Answered {
		return
	}
	if b.turnID != "" && row.Disposition == attention.DispositionAcknowledged && e.Decision.Policy == attention.PolicyMustRespond {
		b.pending.Store(row.Signal)
		return
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
		t.PutOff(e, eta, reason)
	} else {
		t.Move(e, mailbox.Cause(d), reason)
	}
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
	return b.settle(ctx, deferTool.Name, args, func(t *try) attention.Refusal {
		if refusal := permitDeferral(t.event); refusal.Refused() {
			return refusal
		}
		reason := text.Prefix(args.Reason, maxReason)
		if args.ETA != "" {
			reason += fmt.Sprintf(" (%s)", text.Prefix(args.ETA, maxETA))
		}
		t.PutOff(t.event, args.ETA, reason)
		return attention.Refusal{}
	})
}

func (b *Toolbox) resolve(ctx context.Context, args *settleArguments) harness.Result {
	return b.settle(ctx, resolveTool.Name, args, func(t *try) attention.Refusal {
		end := attention.DispositionIgnored
		for _, d := range []attention.Disposition{attention.DispositionAcknowledged, attention.DispositionResponded} {
			if t.event.Decision.Policy.May(d) {
				end = d
			}
		}
		t.Move(t.event, mailbox.Cause(end), "resolved")
		return attention.Refusal{}
	})
}

// settle gives an event a disposition by do. One that has its final disposition keeps
// it, and the call gets the same answer again.
func (b *Toolbox) settle(ctx context.Context, tool string, args *settleArguments, do func(t *try) attention.Refusal) harness.Result {
	refused := func(reason string) any { return dispositionResult{Reason: reason} }
	return b.act(ctx, tool, args.id(), refused, func(t *try) (any, attention.Refusal) {
		refusal := permitSettle(t)
		if !refusal.Refused() && t.event.Open() {
			refusal = do(t)
		}
		if refusal.Refused() {
			return nil, refusal
		}
		t.FinishAccepted(t.turn, t.event)
		return dispositionResult{Disposition: t.event.Disposition()}, refusal
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
