package tools

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/mailbox"
	"hubbub/peers/agent/mailbox/obligations"
	"hubbub/peers/attention"
	"hubbub/protocol"
	"hubbub/protocol/collab"
)

var claimTool = harness.Tool{
	Name:  "chat.claim",
	Title: "Claim an event",
	Description: "Claim responsibility for a channel event before you answer it, so that two agents do not both " +
		"answer. " +
		"If it is granted, the event is delivered again with its content; if not, stay out.",
	OutputSchema: json.RawMessage(`{"type":"object","properties":{"granted":{"type":"boolean"},"owner":{"type":"string"},
		"token":{"type":"integer"},"expiresAt":{"type":"string"}},"required":["granted"]}`),
	Idempotent: true,
}

type claimArguments struct {
	eventRef
	TTLMS milliseconds `json:"ttlMs,omitempty" jsonschema:"how long the claim holds"`
}

func (b *Toolset) claim(ctx context.Context, args *claimArguments) harness.Result {
	ttl := time.Duration(args.TTLMS) * time.Millisecond
	if ttl <= 0 || ttl > 24*time.Hour {
		ttl = b.provider.ClaimTTL
	}
	var id string
	looked := b.act(ctx, claimTool, args.id(), result{Granted: new(false)}, func(t *attempt) result {
		if !permitClaim(t) {
			id = t.event.EventID
		}
		return result{}
	})
	if looked.IsError {
		return looked
	}
	grant, err := b.acquire(ctx, id, ttl, (*mailbox.Tx).Grant)
	if err != nil {
		return claimError(err, result{Granted: new(false)})
	}
	b.provider.Failpoint("acted")
	return harness.StructuredResult(result{Granted: &grant.Granted, Owner: grant.Owner, Token: grant.Token,
		ExpiresAt: grant.ExpiresAt})
}

// claimError returns the result of a tool that could not claim an event.
func claimError(err error, r result) harness.Result {
	r.Reason = "unavailable"
	return harness.ErrorResult("The claim failed: "+err.Error()+". Try again in a moment, or stay out.", r)
}

// permitClaim checks that the event can be claimed, and reports whether it is refused.
func permitClaim(t *attempt) (refused bool) {
	standing := obligations.ReplyContext(&t.View, t.event, "")
	standing.ClaimNeeded, standing.Exchange = false, ""
	if standing.Known && !standing.Replied && standing.Policy == attention.PolicyAckOnly {
		return t.refuse(attention.Refusal{})
	}
	return t.refuse(attention.PermitMessage(standing))
}

// acquire requests a claim from the broker, or takes it if there is no broker, and stores the
// outcome. If the claim is granted and the event is not settled, it calls granted.
func (b *Toolset) acquire(
	ctx context.Context, id string, ttl time.Duration, granted func(*mailbox.Tx, *mailbox.Entry),
) (collab.Grant, error) {
	grant, err := b.provider.Broker.Claim(ctx, id, ttl)
	local := errors.Is(err, collab.ErrNoBroker)
	if err != nil && !local {
		return grant, err
	}
	err = b.provider.Mailbox.InTx(ctx, func(tx *mailbox.Tx) {
		c := mailbox.Claim{Owner: grant.Owner, Token: grant.Token, FromBroker: true}
		if local {
			c = tx.OwnClaim(id, ttl)
			grant = collab.Grant{Granted: true, Owner: c.Owner, Token: c.Token,
				ExpiresAt: protocol.FormatTime(c.ExpiresAt)}
		} else if c.ExpiresAt, err = protocol.ParseTime(grant.ExpiresAt); err != nil {
			c.ExpiresAt = time.Now().Add(ttl)
		}
		if grant.Granted {
			c.Owner = b.provider.Self.ID // the broker knows agents by bare names
		}
		if e := tx.StoreClaim(id, grant.Granted, c); e != nil && grant.Granted {
			granted(tx, e)
		}
	})
	return grant, err
}

// ensureClaim claims an event before an answer, or before a signal that claims it, if the event
// needs a claim. If another agent has the claim, the answer will be refused.
func (b *Toolset) ensureClaim(ctx context.Context, id string) error {
	v := b.provider.Mailbox.View(ctx)
	e := v.Current(id)
	if e == nil || !e.Decision.NeedsClaim() || e.State == mailbox.Answered ||
		v.CurrentClaim(e.EventID).Owner == b.provider.Self.ID || v.Err() != nil ||
		!b.provider.Broker.Present(ctx) && !b.provider.Broker.Known() {
		return v.Err()
	}
	var refused bool
	err := b.provider.Mailbox.InTx(ctx, func(tx *mailbox.Tx) { refused = permitClaim(b.findEvent(tx, e.EventID)) })
	if err == nil && !refused {
		_, err = b.acquire(ctx, e.EventID, b.provider.ClaimTTL, func(*mailbox.Tx, *mailbox.Entry) {})
	}
	return err
}
