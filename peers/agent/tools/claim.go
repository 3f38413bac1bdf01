package tools

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/mailbox"
	"hubbub/peers/attention"
	"hubbub/protocol"
	"hubbub/protocol/collab"
)

var claimTool = harness.Tool{
	Name:  "chat.claim",
	Title: "Claim an event",
	Description: "Claim responsibility for a channel event before you answer it, so that two agents do not both answer. " +
		"If it is granted, the event comes again with its content; if not, stay out.",
	InputSchema: json.RawMessage(`{"type":"object","properties":{
		"eventId":{"type":"string"},"ttlMs":{"type":"integer","minimum":1000,"description":"how long the claim holds"}}}`),
	OutputSchema: json.RawMessage(`{"type":"object","properties":{"granted":{"type":"boolean"},"owner":{"type":"string"},
		"token":{"type":"integer"},"expiresAt":{"type":"string"}},"required":["granted"]}`),
	Idempotent: true,
}

type claimArguments struct {
	eventName
	TTLMS int64 `json:"ttlMs"`
}

// A claimResult is what a claim gives, from the broker and from here.
type claimResult struct {
	Granted   bool   `json:"granted"`
	Owner     string `json:"owner,omitempty"`
	Token     int64  `json:"token,omitempty"`
	ExpiresAt string `json:"expiresAt,omitempty"`
	Reason    string `json:"reason,omitempty"`
}

func notGranted(reason string) any { return claimResult{Reason: reason} }

func (b *Toolbox) claim(ctx context.Context, args *claimArguments) harness.Result {
	ttl := time.Duration(args.TTLMS) * time.Millisecond
	if ttl <= 0 || ttl > 24*time.Hour {
		ttl = b.kit.ClaimTTL
	}
	var id string
	result := b.act(ctx, claimTool.Name, args.id(), notGranted, func(t *try) (any, attention.Refusal, error) {
		refusal, err := permitClaim(t)
		if err == nil && !refusal.Refused() {
			id = t.event.EventID
		}
		return nil, refusal, err
	})
	if result.IsError {
		return result
	}
	grant, err := b.acquire(ctx, id, ttl)
	if err != nil {
		return harness.Refused("The claim could not be made: "+err.Error()+". Try again in a moment, or stay out.", claimResult{Reason: "unavailable"})
	}
	err = b.kit.Mailbox.InTx(ctx, func(tx *mailbox.Tx) error {
		e, err := b.noteClaim(tx, id, ttl, &grant)
		if err != nil || e == nil || !grant.Granted {
			return err
		}
		return tx.Grant(e)
	})
	if err != nil {
		return broken(err)
	}
	b.kit.Crash("acted")
	return harness.Structured(claimResult{Granted: grant.Granted, Owner: grant.Owner, Token: grant.Token, ExpiresAt: grant.ExpiresAt})
}

// permitClaim checks that there is something to claim.
func permitClaim(t *try) (attention.Refusal, error) {
	if t.refusal.Refused() {
		return t.refusal, nil
	}
	standing, err := t.Standing(t.event, "")
	standing.ClaimNeeded, standing.Exchange = false, ""
	if standing.Known && !standing.Replied && standing.Policy == attention.PolicyAckOnly {
		return attention.Refusal{}, err
	}
	return attention.PermitMessage(standing), err
}

// acquire asks the broker for a claim. If there is none, the token of the grant is 0.
func (b *Toolbox) acquire(ctx context.Context, id string, ttl time.Duration) (collab.Grant, error) {
	grant, err := b.kit.Broker.Claim(ctx, id, ttl)
	if errors.Is(err, collab.ErrNoBroker) {
		return collab.Grant{Granted: true}, nil
	}
	return grant, err
}

// noteClaim stores the outcome of acquire, and completes a grant without a broker. It
// returns the event, or nil if that is settled.
func (b *Toolbox) noteClaim(tx *mailbox.Tx, id string, ttl time.Duration, grant *collab.Grant) (*mailbox.Entry, error) {
	if grant.Granted && grant.Token == 0 {
		c, err := tx.OwnClaim(id, ttl)
		if err != nil {
			return nil, err
		}
		grant.Owner, grant.Token, grant.ExpiresAt = c.Owner, c.Token, protocol.FormatTime(c.ExpiresAt)
		return tx.Claimed(id, true, c)
	}
	c := mailbox.ClaimRow{Owner: grant.Owner, Token: grant.Token, FromBroker: true}
	if grant.Granted {
		c.Owner = string(b.kit.ID) // the broker knows agents by their bare names
	}
	var err error
	if c.ExpiresAt, err = time.Parse(time.RFC3339, grant.ExpiresAt); err != nil {
		c.ExpiresAt = time.Now().Add(ttl)
	}
	return tx.Claimed(id, grant.Granted, c)
}

// holdClaim claims an event that needs it before it is answered. If another agent has
// it, what follows is refused.
func (b *Toolbox) holdClaim(ctx context.Context, id string) error {
	v := b.kit.Mailbox.View(ctx)
	e, err := v.Current(id)
	if err != nil || e == nil || !e.Decision.NeedsClaim() || e.State == mailbox.Answered {
		return err
	}
	held, err := v.Claim(e.EventID)
	if err != nil || held.Owner == string(b.kit.ID) || !b.kit.Broker.Present(ctx) && !b.kit.Broker.Known() {
		return err
	}
	var refusal attention.Refusal
	err = b.kit.Mailbox.InTx(ctx, func(tx *mailbox.Tx) error {
		t, err := b.look(tx, e.EventID)
		if err == nil {
			refusal, err = permitClaim(t)
		}
		return err
	})
	if err != nil || refusal.Refused() {
		return err
	}
	grant, err := b.acquire(ctx, e.EventID, b.kit.ClaimTTL)
	if err != nil {
		return err
	}
	return b.kit.Mailbox.InTx(ctx, func(tx *mailbox.Tx) error {
		_, err := b.noteClaim(tx, e.EventID, b.kit.ClaimTTL, &grant)
		return err
	})
}
