package agent

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"hubbub/peers/agent/harness"
	"hubbub/peers/attention"
)

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

type settleArguments struct {
	EventID   string `json:"eventId"`
	InReplyTo string `json:"inReplyTo"`
	Reason    string `json:"reason"`
	ETA       string `json:"eta"`
}

type dispositionResult struct {
	Disposition attention.Disposition `json:"disposition,omitempty"`
	Reason      string                `json:"reason,omitempty"`
}

func (b *toolbox) deferEvent(ctx context.Context, arguments json.RawMessage) harness.Result {
	return b.settleWith(ctx, "chat.defer", arguments, func(e *entry, args *settleArguments) (attention.Disposition, string) {
		reason := cut(args.Reason, 500)
		if args.ETA != "" {
			reason += fmt.Sprintf(" (%s)", cut(args.ETA, 200))
		}
		return attention.DispositionDeferred, reason
	})
}

func (b *toolbox) resolve(ctx context.Context, arguments json.RawMessage) harness.Result {
	return b.settleWith(ctx, "chat.resolve", arguments, func(e *entry, args *settleArguments) (attention.Disposition, string) {
		for _, d := range []attention.Disposition{attention.DispositionResponded, attention.DispositionAcknowledged} {
			if e.Decision.Policy.May(d) {
				return d, "resolved"
			}
		}
		return attention.DispositionIgnored, "resolved"
	})
}

// settleWith gives an event the disposition that choose names.
func (b *toolbox) settleWith(ctx context.Context, tool string, arguments json.RawMessage, choose func(*entry, *settleArguments) (attention.Disposition, string)) harness.Result {
	var args settleArguments
	if problem := decode(arguments, &args); problem != "" {
		return harness.Refused(problem, nil)
	}
	if args.EventID == "" {
		args.EventID = args.InReplyTo
	}
	var refusal attention.Refusal
	var result dispositionResult
	err := b.a.inTx(ctx, func(tx *sql.Tx) error {
		at, err := b.look(ctx, tx, args.EventID)
		if err != nil {
			return err
		}
		if refusal = permitSettle(at); refusal.Refused() {
			return nil
		}
		d, reason := choose(at.entry, &args)
		if !at.entry.open() { // said before: the same answer again
			d = at.entry.Disposition
		}
		result.Disposition = d
		if d == attention.DispositionDeferred {
			if refusal = permitDeferral(at.entry); refusal.Refused() {
				return nil
			}
			err = b.a.putOff(ctx, tx, at.entry, args.ETA, reason)
		} else {
			err = b.a.dispose(ctx, tx, at.entry, d, reason)
		}
		if err != nil {
			return err
		}
		return b.a.endAccepted(ctx, tx, at)
	})
	if err != nil {
		return broken(err)
	}
	b.a.opts.crash("acted")
	if refusal.Refused() {
		if err := b.a.refuse(ctx, args.EventID, tool, refusal.Reason); err != nil {
			return broken(err)
		}
		return harness.Refused(refusal.Advice, dispositionResult{Reason: refusal.Reason})
	}
	return harness.Structured(result)
}

func permitSettle(at attempt) attention.Refusal {
	switch {
	case at.refusal.Refused():
		return at.refusal
	case at.entry == nil:
		return attention.Refusal{Reason: "unknown_event", Advice: "There is no such event. Use chat.list_events to see the events and their ids."}
	case at.entry.Disposition == attention.DispositionSuperseded:
		return attention.Refusal{Reason: "superseded", Advice: "The message was edited, deleted or merged into a newer one. Act on the newer event."}
	}
	return attention.Refusal{}
}
