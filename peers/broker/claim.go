package broker

import (
	"fmt"
	"slices"
	"time"

	"hubbub/peers/broker/rules"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/text"
)

const (
	defaultTTL    = time.Minute
	maxTTL        = 24 * time.Hour
	maxContenders = 100
)

// acquire grants a free event with a token greater than all earlier ones. The holder prolongs its
// claim and keeps its token.
func (t claimHandler) acquire(p collab.ClaimParams) collab.Grant {
	ttl := rules.MustBeDuration(p.TTLMs, "ttlMs", defaultTTL, maxTTL)
	rules.MustBeEventID(p.EventID)
	c := collab.Claim{EventID: p.EventID}
	if old := t.claims.get(p.EventID); old != nil {
		c = *old
	}
	switch {
	case c.State == collab.ClaimAnswered:
		return collab.Grant{Owner: c.Owner, ExpiresAt: c.ExpiresAt, Answered: true}
	case rules.IsHeldAt(&c, t.now) && c.Identity != t.caller.Identity:
		t.contend(c)
		return collab.Grant{Owner: c.Owner, ExpiresAt: c.ExpiresAt}
	case !rules.IsHeldAt(&c, t.now):
		c.Token, c.GrantedAt = t.counters.get(claimToken)+1, formatTime(t.now)
	}
	c.Owner, c.Identity, c.State = t.caller.Name, t.caller.Identity, collab.ClaimHeld
	c.ExpiresAt = formatTime(t.now.Add(ttl))
	c.Contenders = rules.Without(c.Contenders, c.Identity)
	c.Declined = rules.Without(c.Declined, c.Identity)
	emit(t.tx, collab.EventClaimGranted, "event:"+c.EventID, c, nil)
	return collab.Grant{Granted: true, Token: c.Token, Owner: c.Owner, ExpiresAt: c.ExpiresAt}
}

// contend adds the caller to the agents that wait for a held claim.
func (t claimHandler) contend(c collab.Claim) {
	if slices.Contains(c.Contenders, t.caller.Identity) || len(c.Contenders) >= maxContenders {
		return
	}
	c.Contenders = append(slices.Clone(c.Contenders), t.caller.Identity)
	c.Declined = rules.Without(c.Declined, t.caller.Identity)
	emit(t.tx, collab.EventClaimContended, "event:"+c.EventID, c, nil)
}

// release gives up a claim, so that it is offered again. With answered, it closes the event
// permanently.
func (t claimHandler) release(p collab.ClaimParams) collab.ClaimResult {
	c := t.mustFind(p.EventID)
	switch {
	case c.Token != p.Token:
		rules.Fail(collab.CodeConflict, "token %d is not the newest for this event; %s was granted it last", p.Token, c.Owner)
	case c.Identity != t.caller.Identity && !t.caller.Person:
		rules.Fail(collab.CodeForbidden, "the claim is held by %s", c.Owner)
	case p.Answered && c.State != collab.ClaimAnswered:
		c.State, c.Contenders = collab.ClaimAnswered, nil
		emit(t.tx, collab.EventClaimAnswered, "event:"+c.EventID, c, nil)
	case !p.Answered && c.State == collab.ClaimHeld:
		t.offer(c, "released")
	}
	return collab.ClaimResult{Claim: *t.claims.get(p.EventID)}
}

// decline records that the caller will not answer. If it holds the claim, the claim is offered
// again. Otherwise it is no longer notified when the claim is free.
func (t claimHandler) decline(p collab.ClaimParams) collab.ClaimResult {
	c := t.mustFind(p.EventID)
	switch {
	case c.State == collab.ClaimAnswered:
	case c.Identity == t.caller.Identity && c.State == collab.ClaimHeld:
		c.Declined = append(rules.Without(c.Declined, c.Identity), c.Identity)
		t.offer(c, "declined")
	case slices.Contains(c.Contenders, t.caller.Identity):
		c.Contenders = rules.Without(c.Contenders, t.caller.Identity)
		c.Declined = append(rules.Without(c.Declined, t.caller.Identity), t.caller.Identity)
		emit(t.tx, collab.EventClaimContended, "event:"+c.EventID, c, nil)
	}
	return collab.ClaimResult{Claim: *t.claims.get(p.EventID)}
}

// get returns the current claim. An expired claim is offered.
func (t claimHandler) get(p collab.ClaimParams) collab.ClaimResult {
	c := t.mustFind(p.EventID)
	if c.State == collab.ClaimHeld && !rules.IsHeldAt(&c, t.now) {
		c.State = collab.ClaimOffered
	}
	return collab.ClaimResult{Claim: c}
}

func (t claimHandler) mustFind(eventID string) collab.Claim {
	rules.MustBeEventID(eventID)
	c := t.claims.get(eventID)
	if c == nil {
		rules.Fail(collab.CodeNotFound, "nobody has claimed %q", text.Clip(eventID, 80))
	}
	return *c
}

// offer frees a claim and notifies the agents that were refused it.
func (t claimHandler) offer(c collab.Claim, why string) {
	told := rules.Filter(rules.Without(c.Contenders, c.Identity), func(id protocol.PeerID) bool {
		return !slices.Contains(c.Declined, id)
	})
	c.State, c.Contenders = collab.ClaimOffered, nil
	e := emit(t.tx, collab.EventClaimOffered, "event:"+c.EventID, c, map[string]any{"reason": why, "offeredTo": told})
	for _, id := range told {
		t.sends = append(t.sends, sending{to: id, event: e})
	}
}

// expireAll offers the expired claims.
func (t claimHandler) expireAll() {
	for _, id := range t.claims.openIDs() {
		c := t.claims.get(id)
		if !rules.IsHeldAt(c, t.now) {
			t.offer(*c, fmt.Sprintf("expired; %s did not answer in time", c.Owner))
		}
	}
}
