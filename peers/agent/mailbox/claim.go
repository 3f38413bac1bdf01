package mailbox

import (
	"time"

	"hubbub/peers/attention"
	"hubbub/peers/store"
	"hubbub/protocol"
)

// A Claim is a claim on an event as far as this agent knows. The zero value means no claim.
type Claim struct {
	Owner      string // identity
	Token      int64
	ExpiresAt  time.Time
	FromBroker bool // otherwise the agent took it without a broker
}

// CurrentClaim returns the claim on an event that has not expired.
func (v *View) CurrentClaim(eventID string) Claim {
	return First(v.Tx, func(c *Claim) []any {
		return []any{&c.Owner, &c.Token, store.Micros{Time: &c.ExpiresAt},
			&c.FromBroker}
	},
		`SELECT owner, token, expires_at, via = 'broker' FROM claims WHERE event_id = ? AND expires_at > ?`, eventID,
		time.Now().UnixMicro())
}

// fillClaim fills in the state of the claim on an event.
func (v *View) fillClaim(e *Entry, s *attention.ReplyContext) {
	c, known := v.CurrentClaim(e.EventID), v.m.opts.Broker.Known()
	s.ClaimNeeded = e.Decision.NeedsClaim() && known
	switch c.Owner {
	case "":
	case string(v.m.id):
		s.ClaimHeld = c.FromBroker || !known
	default:
		s.ClaimNeeded, s.ClaimOwner = true, c.Owner
	}
}

// OwnClaim returns a claim that the agent takes without a broker.
func (tx *Tx) OwnClaim(eventID string, ttl time.Duration) Claim {
	c := tx.CurrentClaim(eventID)
	if c.Owner != string(tx.m.id) {
		c.Token = tx.Counter("claim") + 1
		tx.SetCounter("claim", c.Token)
	}
	return Claim{Owner: string(tx.m.id), Token: c.Token, ExpiresAt: time.Now().Add(ttl)}
}

// StoreClaim stores whether a claim was granted, and who owns it. It returns the event, or nil if
// the event is settled.
func (tx *Tx) StoreClaim(id string, granted bool, c Claim) *Entry {
	via := "local"
	if c.FromBroker {
		via = "broker"
	}
	tx.Exec(`INSERT INTO claims (event_id, owner, token, expires_at, via) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (event_id) DO UPDATE SET owner = excluded.owner, token = excluded.token, expires_at = excluded.expires_at, via = excluded.via`,
		id, c.Owner, c.Token, store.Micros{Time: &c.ExpiresAt}, via)
	e := tx.Entry(id)
	if e == nil {
		return nil
	}
	tx.Record(UniqueKey("claim", e.Seq), e, protocol.ClaimRecord{
		Event:   protocol.RecordClaim,
		EventID: id,
		Agent:   tx.m.id,
		Granted: granted,
		Owner:   c.Owner,
		Token:   c.Token,
		Via:     via,
	})
	switch {
	case !e.Open() || e.State == Answered:
		return nil
	case granted:
		tx.Move(e, ClaimEvent, "claim granted")
	default: // HandleOffer may reopen it
		tx.Move(e, Ignore, "claimed by another agent")
		finishKnock(tx, e, "claimed by another agent")
	}
	return e
}

// finishKnock ends the turn in which a program holds an event as a knock, once the claim on it
// was granted or lost.
func finishKnock(tx *Tx, e *Entry, reason string) {
	if t := tx.Turn(e.TurnID); t != nil && t.State == TurnAccepted {
		tx.MoveTurn(t, TurnFinished, reason, protocol.TurnCost{})
	}
}

// Grant delivers a claimed event again, now with its content, if only a knock was shown before. It does
// so once: a harness that cannot be given the content reads it with its tools.
func (tx *Tx) Grant(e *Entry) {
	if !e.Decision.Injection.Injects() && !e.ClaimGranted() {
		finishKnock(tx, e, "claimed")
		e.Decision = attention.AfterClaim(e.Decision, nil)
		tx.Requeue(e)
		tx.Decide(e)
	}
}

// HandleOffer redelivers an event whose claim another agent released. If this agent lost the
// claim before, the event is open again.
func (tx *Tx) HandleOffer(eventID string) {
	e := tx.Entry(eventID)
	if e == nil || !e.Decision.NeedsClaim() || e.Decision.Injection != attention.ModeNotify {
		return
	}
	if tx.claimedByOther(e) && !tx.participation(e).hasLeft() {
		tx.Move(e, Regain, "")
	}
	if !e.Open() || e.State == Answered {
		return
	}
	tx.Exec(`DELETE FROM claims WHERE event_id = ? AND owner <> ?`, eventID, tx.m.id)
	if before := tx.Turn(e.TurnID); before == nil || before.Ended() { // otherwise it still has the knock
		tx.Requeue(e)
	}
}

// claimedByOther reports whether an event was closed because another agent had claimed it.
func (v *View) claimedByOther(e *Entry) bool {
	return e.State == Ignored && store.Value[bool](v.Tx,
		`SELECT count(*) FROM claims WHERE event_id = ? AND owner <> ?`, e.EventID, v.m.id)
}
