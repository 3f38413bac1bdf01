package broker

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"hubbub/protocol"
)

// A ClaimState is how a claim stands.
type ClaimState string

// The states of a claim.
const (
	ClaimHeld     ClaimState = "held"
	ClaimOffered  ClaimState = "offered"  // released, declined or expired: anybody may take it
	ClaimAnswered ClaimState = "answered" // the event was answered: nobody gets it any more
)

// A Claim says who alone may answer an event. Token is a fencing token: of all
// tokens ever granted, only the newest of an event is valid.
type Claim struct {
	EventID    string            `json:"eventId"`
	Owner      string            `json:"owner"`         // the name of the holder, or of the last one
	Identity   protocol.PeerID   `json:"ownerIdentity"` // whose replies may carry the token
	Token      int64             `json:"token"`
	State      ClaimState        `json:"state"`
	GrantedAt  string            `json:"grantedAt"`
	ExpiresAt  string            `json:"expiresAt"`
	Contenders []protocol.PeerID `json:"contenders,omitempty"` // were refused, and are told when it is free
	Declined   []protocol.PeerID `json:"declined,omitempty"`   // said no, and are not told again
}

const (
	defaultTTL    = time.Minute
	maxTTL        = 24 * time.Hour
	maxContenders = 100
)

func (c *Claim) heldAt(now time.Time) bool {
	return c.State == ClaimHeld && now.Before(parseTime(c.ExpiresAt))
}

// at returns the claim as it is at a time.
func (c Claim) at(now time.Time) Claim {
	if c.State == ClaimHeld && !c.heldAt(now) {
		c.State = ClaimOffered
	}
	return c
}

type claimParams struct {
	EventID  string `json:"eventId"`
	TTLMs    int64  `json:"ttlMs"`
	Token    int64  `json:"token"`
	Answered bool   `json:"answered"`
}

type claimResult struct {
	Granted   bool   `json:"granted"`
	Token     int64  `json:"token,omitempty"`
	Owner     string `json:"owner"`
	ExpiresAt string `json:"expiresAt"`
	Answered  bool   `json:"answered,omitempty"`
}

// acquireClaim grants a free event with a token greater than all before it. Its
// holder prolongs its claim and keeps its token.
func (t *turn) acquireClaim(p claimParams) (any, error) {
	ttl, err := duration(p.TTLMs, "ttlMs", defaultTTL, maxTTL)
	if err != nil {
		return nil, err
	}
	if err := checkEventID(p.EventID); err != nil {
		return nil, err
	}
	c := Claim{EventID: p.EventID}
	if old := t.claims[p.EventID]; old != nil {
		c = *old
	}
	switch {
	case c.State == ClaimAnswered:
		return claimResult{Owner: c.Owner, ExpiresAt: c.ExpiresAt, Answered: true}, nil
	case c.heldAt(t.now) && c.Identity != t.caller.Identity:
		t.contend(c)
		return claimResult{Owner: c.Owner, ExpiresAt: c.ExpiresAt}, nil
	case !c.heldAt(t.now):
		c.Token, c.GrantedAt = t.token+1, stamp(t.now)
	}
	c.Owner, c.Identity, c.State = t.caller.Name, t.caller.Identity, ClaimHeld
	c.ExpiresAt = stamp(t.now.Add(ttl))
	c.Contenders = without(c.Contenders, c.Identity)
	c.Declined = without(c.Declined, c.Identity)
	t.emit(EventClaimGranted, "event:"+c.EventID, c, nil)
	return claimResult{Granted: true, Token: c.Token, Owner: c.Owner, ExpiresAt: c.ExpiresAt}, nil
}

func checkEventID(id string) error {
	if strings.TrimSpace(id) == "" {
		return invalid("eventId is required")
	}
	if len(id) > 2*maxName {
		return invalid("eventId may have %d bytes", 2*maxName)
	}
	return nil
}

// contend notes that the caller wanted a claim that another holds.
func (t *turn) contend(c Claim) {
	if slices.Contains(c.Contenders, t.caller.Identity) || len(c.Contenders) >= maxContenders {
		return
	}
	c.Contenders = append(slices.Clone(c.Contenders), t.caller.Identity)
	c.Declined = without(c.Declined, t.caller.Identity)
	t.emit(EventClaimContended, "event:"+c.EventID, c, nil)
}

func without(list []protocol.PeerID, id protocol.PeerID) []protocol.PeerID {
	kept := slices.DeleteFunc(slices.Clone(list), func(x protocol.PeerID) bool { return x == id })
	if len(kept) == 0 {
		return nil
	}
	return kept
}

// releaseClaim gives a claim up, so that it is offered again, or, with answered,
// closes the event for good.
func (t *turn) releaseClaim(p claimParams) (any, error) {
	c, err := t.claim(p.EventID)
	if err != nil {
		return nil, err
	}
	switch {
	case c.Token != p.Token:
		return nil, refuse(CodeConflict, "token %d is not the newest for this event; %s was granted it last", p.Token, c.Owner)
	case c.Identity != t.caller.Identity && !t.caller.Person:
		return nil, refuse(CodeForbidden, "the claim is held by %s", c.Owner)
	case p.Answered && c.State != ClaimAnswered:
		c.State, c.Contenders = ClaimAnswered, nil
		t.emit(EventClaimAnswered, "event:"+c.EventID, c, nil)
	case !p.Answered && c.State == ClaimHeld:
		t.offer(c, "released")
	}
	return map[string]any{"claim": t.claims[p.EventID]}, nil
}

// declineClaim says that the caller will not answer. The holder's claim is
// offered again; anybody else is only not asked any more.
func (t *turn) declineClaim(p claimParams) (any, error) {
	c, err := t.claim(p.EventID)
	if err != nil {
		return nil, err
	}
	switch {
	case c.State == ClaimAnswered:
	case c.Identity == t.caller.Identity && c.State == ClaimHeld:
		c.Declined = append(without(c.Declined, c.Identity), c.Identity)
		t.offer(c, "declined")
	case slices.Contains(c.Contenders, t.caller.Identity):
		c.Contenders = without(c.Contenders, t.caller.Identity)
		c.Declined = append(without(c.Declined, t.caller.Identity), t.caller.Identity)
		t.emit(EventClaimContended, "event:"+c.EventID, c, nil)
	}
	return map[string]any{"claim": t.claims[p.EventID]}, nil
}

func (t *turn) getClaim(p claimParams) (any, error) {
	c, err := t.claim(p.EventID)
	if err != nil {
		return nil, err
	}
	return map[string]any{"claim": c.at(t.now)}, nil
}

func (t *turn) claim(eventID string) (Claim, error) {
	if err := checkEventID(eventID); err != nil {
		return Claim{}, err
	}
	c := t.claims[eventID]
	if c == nil {
		return Claim{}, refuse(CodeNotFound, "nobody has claimed %q", clip(eventID, 80))
	}
	return *c, nil
}

// offer makes a claim free and tells those who were refused it.
func (t *turn) offer(c Claim, why string) {
	told := slices.DeleteFunc(slices.Clone(c.Contenders), func(id protocol.PeerID) bool {
		return id == c.Identity || slices.Contains(c.Declined, id)
	})
	c.State, c.Contenders = ClaimOffered, nil
	e := t.emit(EventClaimOffered, "event:"+c.EventID, c, map[string]any{"reason": why, "offeredTo": told})
	for _, id := range told {
		t.sends = append(t.sends, sending{to: id, event: e})
	}
}

// expireClaims offers claims again whose time is over.
func (t *turn) expireClaims() {
	for _, id := range sortedKeys(t.held) {
		c := t.claims[id]
		if !c.heldAt(t.now) {
			t.offer(*c, fmt.Sprintf("expired; %s did not answer in time", c.Owner))
		}
	}
}
