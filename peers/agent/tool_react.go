package agent

import (
	"context"
	"database/sql"
	"encoding/json"

	"hubbub/peers/agent/harness"
	"hubbub/peers/attention"
	"hubbub/protocol"
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

type reactResult struct {
	Signal      attention.Signal      `json:"signal"`
	Disposition attention.Disposition `json:"disposition,omitempty"`
	Reason      string                `json:"reason,omitempty"`
}

func (b *toolbox) react(ctx context.Context, arguments json.RawMessage) harness.Result {
	var args struct {
		InReplyTo string `json:"inReplyTo"`
		EventID   string `json:"eventId"`
		Signal    string `json:"signal"`
		ETA       string `json:"eta"`
	}
	if problem := decode(arguments, &args); problem != "" {
		return harness.Refused(problem, nil)
	}
	if args.InReplyTo == "" {
		args.InReplyTo = args.EventID
	}
	row, err := attention.ParseSignal(args.Signal)
	if err != nil {
		return harness.Refused("Invalid params: "+err.Error()+".", nil)
	}
	var refusal attention.Refusal
	result := reactResult{Signal: row.Signal, Disposition: row.Disposition}
	err = b.a.inTx(ctx, func(tx *sql.Tx) (err error) {
		refusal, err = b.reactTx(ctx, tx, args.InReplyTo, row, cut(args.ETA, 200))
		return err
	})
	if err != nil {
		return broken(err)
	}
	b.a.opts.crash("acted")
	if refusal.Refused() {
		if err := b.a.refuse(ctx, args.InReplyTo, "chat.react", refusal.Reason); err != nil {
			return broken(err)
		}
		return harness.Refused(refusal.Advice, reactResult{Signal: row.Signal, Reason: refusal.Reason})
	}
	return harness.Structured(result)
}

func (b *toolbox) reactTx(ctx context.Context, tx *sql.Tx, id string, row attention.SignalRow, eta string) (attention.Refusal, error) {
	at, err := b.look(ctx, tx, id)
	if err != nil || at.refusal.Refused() {
		return at.refusal, err
	}
	e := at.entry
	standing, err := b.a.standing(ctx, tx, e, "")
	if err != nil {
		return attention.Refusal{}, err
	}
	if refusal := attention.PermitReaction(standing); refusal.Refused() {
		return refusal, nil
	}
	if row.Disposition == attention.DispositionDeferred {
		if refusal := permitDeferral(e); refusal.Refused() {
			return refusal, nil
		}
	}
	key := signalKey(e, string(row.Signal))
	before, err := sentByKey(ctx, tx, key)
	if err != nil || before != nil { // the same signal twice is one
		return attention.Refusal{}, err
	}
	_, err = b.a.queueReply(ctx, tx, e, "signal", key, protocol.ChatReply{Signal: string(row.Signal)})
	if err != nil {
		return attention.Refusal{}, err
	}
	if err := b.settleSignal(ctx, tx, e, row, eta); err != nil {
		return attention.Refusal{}, err
	}
	return attention.Refusal{}, b.a.endAccepted(ctx, tx, at)
}

// settleSignal gives the event the disposition of a signal. In a turn whose
// model is still at work, a receipt for an event that is owed an answer waits
// for the end of the turn: a message may follow.
func (b *toolbox) settleSignal(ctx context.Context, tx *sql.Tx, e *entry, row attention.SignalRow, eta string) error {
	if row.Disposition == "" || e.Replied {
		return nil
	}
	if b.turnID != "" && row.Disposition == attention.DispositionAcknowledged && e.Decision.Policy == attention.PolicyMustRespond {
		b.setPending(string(row.Signal))
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
		return b.a.putOff(ctx, tx, e, eta, reason)
	}
	return b.a.dispose(ctx, tx, e, d, reason)
}
