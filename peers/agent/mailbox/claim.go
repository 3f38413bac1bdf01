package mailbox

import (
	"time"

	"hubbub/peers/attention"
	"hubbub/peers/store"
	"hubbub/protocol"
)

// A ClaimRow is a claim on an event as this agent knows it. The zero value is none.
type ClaimRow struct {
	Owner      string // identity
	Token      int64
	ExpiresAt  time.Time
	FromBroker bool // else the agent took it where there is no broker
}

// A claimRecord is the agent_event that tells of a claim.
type claimRecord struct {
	Event   string          `json:"event"` // "claim"
	EventID string          `json:"eventId"`
	Agent   protocol.PeerID `json:"agent"`
	Granted bool            `json:"granted"`
	Owner   string          `json:"owner"`
	Token   int64           `json:"token,omitempty"`
	Via     string          `json:"via"` // broker or local
}

func (c *ClaimRow) via() string {
	if c.FromBroker {
		return "broker"
	}
	return "local"
}

// Claim returns the claim on an event that holds now.
func (v View) Claim(eventID string) (ClaimRow, error) {
	c, _, err := store.One(v.ctx, v.q, func(row store.Row) (c ClaimRow, err error) {
		return c, row.Scan(&c.Owner, &c.Token, timeColumn{&c.ExpiresAt}, &c.FromBroker)
	}, `SELECT owner, token, expires_at, via = 'broker' FROM claims WHERE event_id = ? AND expires_at > ?`, eventID, time.Now().UnixMicro())
	return c, err
}

// standingClaim fills in what is known about the claim on an event.
func (v View) standingClaim(e *Entry, s *attention.Standing) error {
	c, err := v.Claim(e.EventID)
	known := v.m.opts.Broker.Known()
	s.ClaimNeeded = e.Decision.NeedsClaim() && known
	switch c.Owner {
	case "":
	case string(v.m.id):
		s.ClaimHeld = c.FromBroker || !known
	default:
		s.ClaimNeeded, s.ClaimOwner = true, c.Owner
	}
	return err
}

// OwnClaim returns a claim that the agent takes for itself, where there is no broker.
func (tx *Tx) OwnClaim(eventID string, ttl time.Duration) (ClaimRow, error) {
	c, err := tx.Claim(eventID)
	if err != nil {
		return c, err
	}
	if c.Owner != string(tx.m.id) {
		token, err := tx.Counter("claim")
		if err != nil {
			return c, err
		}
		c.Token = token + 1
		if err := tx.SetCounter("claim", c.Token); err != nil {
			return c, err
		}
	}
	return ClaimRow{Owner: string(tx.m.id), Token: c.Token, ExpiresAt: time.Now().Add(ttl)}, nil
}

// Claimed stores the outcome of a claim: granted, or to whom it belongs. It returns
// the event, or nil if that is settled.
func (tx *Tx) Claimed(id string, granted bool, c ClaimRow) (*Entry, error) {
	err := tx.exec(`INSERT INTO claims (event_id, owner, token, expires_at, via) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (event_id) DO UPDATE SET owner = excluded.owner, token = excluded.token, expires_at = excluded.expires_at, via = excluded.via`,
		id, c.Owner, c.Token, timeColumn{&c.ExpiresAt}, c.via())
	if err != nil {
		return nil, err
	}
	e, err := tx.Entry(id)
	if err != nil || e == nil {
		return nil, err
	}
	err = tx.Record(uniqueKey("claim", e.Seq), e, claimRecord{
		Event: "claim", EventID: id, Agent: tx.m.id, Granted: granted, Owner: c.Owner, Token: c.Token, Via: c.via(),
	})
	if err != nil || !e.Open() || e.State == Answered {
		return nil, err
	}
	if granted {
		return e, tx.Move(e, Claim, "claim granted")
	}
	if err := tx.WaitFor(e); err != nil || e.Decision.Injection != attention.ModeNotify { // it may be offered again
		return e, err
	}
	return e, tx.endKnock(e, "claimed by another agent")
}

// endKnock ends the turn in which a program has the knock of an event.
func (tx *Tx) endKnock(e *Entry, reason string) error {
	t, err := tx.Turn(e.TurnID)
	if err != nil || t == nil || t.State != TurnAccepted {
		return err
	}
	return tx.MoveTurn(t, TurnFinished, reason, Cost{})
}

// Grant gives a claimed event again that was not shown, now with its content.
func (tx *Tx) Grant(e *Entry) error {
	if e.Decision.Injection.Injects() {
		return nil
	}
	if err := tx.endKnock(e, "claimed"); err != nil {
		return err
	}
	e.Decision = attention.Granted(e.Decision, nil)
	if err := tx.Again(e); err != nil {
		return err
	}
	return tx.Decide(e)
}

// Offered gives an event once more that another agent had claimed and gave back, if
// it is still open here.
func (tx *Tx) Offered(eventID string) error {
	e, err := tx.Entry(eventID)
	if err != nil || e == nil || !e.Open() || e.State == Answered || !e.Decision.NeedsClaim() || e.Decision.Injection != attention.ModeNotify {
		return err
	}
	if err := tx.exec(`DELETE FROM claims WHERE event_id = ? AND owner <> ?`, eventID, tx.m.id); err != nil {
		return err
	}
	before, err := tx.Turn(e.TurnID)
	if err != nil || before != nil && !before.Ended() {
		return err // it has the knock already
	}
	return tx.Again(e)
}
