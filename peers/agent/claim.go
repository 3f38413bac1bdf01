package agent

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/attention"
	"hubbub/protocol"
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

// claimResult is what a claim gives, from the broker and from here.
type claimResult struct {
	Granted   bool   `json:"granted"`
	Owner     string `json:"owner,omitempty"`
	Token     int64  `json:"token,omitempty"`
	ExpiresAt string `json:"expiresAt,omitempty"`
	Reason    string `json:"reason,omitempty"`
}

// A claimRecord is the agent_event that tells of a claim.
type claimRecord struct {
	Event   string `json:"event"` // "claim"
	EventID string `json:"eventId"`
	Agent   string `json:"agent"`
	Granted bool   `json:"granted"`
	Owner   string `json:"owner"`
	Token   int64  `json:"token,omitempty"`
	Via     string `json:"via"` // broker or local
}

// A claimRow is a claim as this agent knows it.
type claimRow struct {
	owner   string
	token   int64
	expires time.Time
	via     string
}

// claimOf returns the claim on an event that holds now, or nil.
func (a *Agent) claimOf(ctx context.Context, q querier, eventID string) (*claimRow, error) {
	var c claimRow
	var expires int64
	err := q.QueryRowContext(ctx, `SELECT owner, token, expires_at, via FROM claims WHERE event_id = ? AND expires_at > ?`,
		eventID, time.Now().UnixMicro()).Scan(&c.owner, &c.token, &expires, &c.via)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the claim on %s: %w", eventID, err)
	}
	c.expires = fromMicros(expires)
	return &c, nil
}

// standingClaim fills in what is known about the claim on an event.
func (a *Agent) standingClaim(ctx context.Context, tx *sql.Tx, e *entry, s *attention.Standing) error {
	c, err := a.claimOf(ctx, tx, e.EventID)
	if err != nil {
		return err
	}
	s.ClaimNeeded = e.Decision.NeedsClaim() && a.brokerKnown()
	if c == nil {
		return nil
	}
	s.ClaimHeld = c.owner == string(a.id) && (c.via == "broker" || !a.brokerKnown())
	if c.owner != string(a.id) {
		s.ClaimNeeded, s.ClaimOwner = true, c.owner
	}
	return nil
}

func (b *toolbox) claim(ctx context.Context, arguments json.RawMessage) harness.Result {
	var args struct {
		EventID   string `json:"eventId"`
		InReplyTo string `json:"inReplyTo"`
		TTLMS     int64  `json:"ttlMs"`
	}
	if problem := decode(arguments, &args); problem != "" {
		return harness.Refused(problem, nil)
	}
	if args.EventID == "" {
		args.EventID = args.InReplyTo
	}
	ttl := time.Duration(args.TTLMS) * time.Millisecond
	if ttl <= 0 || ttl > 24*time.Hour {
		ttl = b.a.opts.ClaimTTL
	}
	id, refusal, err := b.mayClaim(ctx, args.EventID)
	if err != nil {
		return broken(err)
	}
	if refusal.Refused() {
		if err := b.a.refuse(ctx, args.EventID, "chat.claim", refusal.Reason); err != nil {
			return broken(err)
		}
		return harness.Refused(refusal.Advice, claimResult{Reason: refusal.Reason})
	}
	result, via, err := b.a.acquire(ctx, id, ttl)
	if err != nil {
		return harness.Refused("The claim could not be made: "+err.Error()+". Try again in a moment, or stay out.", claimResult{Reason: "unavailable"})
	}
	if err := b.a.inTx(ctx, func(tx *sql.Tx) error { return b.claimTx(ctx, tx, id, via, result) }); err != nil {
		return broken(err)
	}
	b.a.opts.crash("acted")
	return harness.Structured(result)
}

// mayClaim checks that there is something to claim, and returns the event's id.
func (b *toolbox) mayClaim(ctx context.Context, id string) (event string, refusal attention.Refusal, err error) {
	err = b.a.inTx(ctx, func(tx *sql.Tx) error {
		at, err := b.look(ctx, tx, id)
		if err != nil {
			return err
		}
		if refusal = at.refusal; refusal.Refused() {
			return nil
		}
		if at.entry != nil {
			event = at.entry.EventID
		}
		standing, err := b.a.standing(ctx, tx, at.entry, "")
		if err != nil {
			return err
		}
		standing.ClaimNeeded, standing.Exchange = false, ""
		if standing.Replied || standing.Policy != attention.PolicyAckOnly {
			refusal = attention.PermitMessage(standing)
		}
		return nil
	})
	return event, refusal, err
}

// acquire asks the broker for a claim, or takes it where there is none. One that
// went away just now is waited for.
func (a *Agent) acquire(ctx context.Context, eventID string, ttl time.Duration) (claimResult, string, error) {
	for {
		if a.brokerPresent(ctx) {
			var result claimResult
			err := a.askBroker(ctx, "claim.acquire", map[string]any{"eventId": eventID, "ttlMs": ttl.Milliseconds()}, &result)
			if !errors.Is(err, errNoBroker) {
				return result, "broker", err
			}
		}
		if !a.brokerKnown() {
			break
		}
		if !sleep(ctx, time.Second) {
			return claimResult{}, "", context.Cause(ctx)
		}
	}
	var result claimResult
	err := a.inTx(ctx, func(tx *sql.Tx) error {
		c, err := a.claimOf(ctx, tx, eventID)
		if err != nil {
			return err
		}
		token, err := nextCounter(ctx, tx, "claim")
		if err != nil {
			return err
		}
		if c != nil && c.owner == string(a.id) {
			token = c.token
		}
		result = claimResult{Granted: true, Owner: string(a.id), Token: token, ExpiresAt: protocol.FormatTime(time.Now().Add(ttl))}
		return nil
	})
	return result, "local", err
}

func nextCounter(ctx context.Context, tx *sql.Tx, name string) (value int64, err error) {
	err = tx.QueryRowContext(ctx, `INSERT INTO counters (name, value) VALUES (?, 1) ON CONFLICT (name) DO UPDATE SET value = value + 1 RETURNING value`, name).
		Scan(&value)
	if err != nil {
		return 0, fmt.Errorf("counting %s: %w", name, err)
	}
	return value, nil
}

// claimTx stores the outcome of a claim. A grant gives an event again that was not
// shown, with its content.
func (b *toolbox) claimTx(ctx context.Context, tx *sql.Tx, id, via string, r claimResult) error {
	e, err := b.noteClaim(ctx, tx, id, via, r)
	if err != nil || e == nil || !r.Granted || e.Decision.Injection.Injects() {
		return err
	}
	return b.a.grant(ctx, tx, e)
}

// noteClaim stores the outcome of a claim. It returns the event, nil where that is
// settled.
func (b *toolbox) noteClaim(ctx context.Context, tx *sql.Tx, id, via string, r claimResult) (*entry, error) {
	if r.Granted {
		r.Owner = string(b.a.id) // the broker knows agents by their bare names
	}
	expires, err := time.Parse(time.RFC3339, r.ExpiresAt)
	if err != nil {
		expires = time.Now().Add(b.a.opts.ClaimTTL)
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO claims (event_id, owner, token, expires_at, via) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (event_id) DO UPDATE SET owner = excluded.owner, token = excluded.token, expires_at = excluded.expires_at, via = excluded.via`,
		id, r.Owner, r.Token, expires.UnixMicro(), via)
	if err != nil {
		return nil, fmt.Errorf("storing the claim on %s: %w", id, err)
	}
	e, err := entryByID(ctx, tx, id)
	if err != nil || e == nil {
		return nil, err
	}
	if err := b.a.recordAbout(ctx, tx, uniqueKey("claim", e.Seq), e, claimRecord{
		Event: "claim", EventID: id, Agent: string(b.a.id), Granted: r.Granted, Owner: r.Owner, Token: r.Token, Via: via,
	}); err != nil || !e.open() || e.Replied {
		return nil, err
	}
	if !r.Granted {
		return e, b.waitForOffer(ctx, tx, e)
	}
	return e, b.a.dispose(ctx, tx, e, attention.DispositionClaimed, "claim granted")
}

// waitForOffer leaves an event open that another agent has claimed: it may be
// offered again. At the deadline it ends ignored.
func (b *toolbox) waitForOffer(ctx context.Context, tx *sql.Tx, e *entry) error {
	e.DeadlineAt = time.Now().Add(b.a.opts.Deadline)
	if _, err := tx.ExecContext(ctx, `UPDATE events SET deadline_at = ? WHERE seq = ?`, micros(e.DeadlineAt), e.Seq); err != nil {
		return fmt.Errorf("storing the deadline of %s: %w", e.EventID, err)
	}
	t, err := turnByID(ctx, tx, e.TurnID)
	if err != nil || t == nil || t.State != turnAccepted || e.Decision.Injection != attention.ModeNotify {
		return err
	}
	return b.a.endTurn(ctx, tx, t, turnFinished, "claimed by another agent", nil)
}

// offered gives an event once more that another agent had claimed and gave
// back, if it is still open here.
func (a *Agent) offered(ctx context.Context, tx *sql.Tx, eventID string) error {
	e, err := entryByID(ctx, tx, eventID)
	if err != nil || e == nil || !e.open() || e.Replied || !e.Decision.NeedsClaim() || e.Decision.Injection != attention.ModeNotify {
		return err
	}
	if _, err := tx.ExecContext(ctx, `DELETE FROM claims WHERE event_id = ? AND owner <> ?`, eventID, string(a.id)); err != nil {
		return fmt.Errorf("forgetting the claim on %s: %w", eventID, err)
	}
	before, err := turnByID(ctx, tx, e.TurnID)
	if err != nil || before != nil && !before.ended() {
		return err // it has the knock already
	}
	t, err := a.turnAgain(ctx, tx, e)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `UPDATE events SET turn_id = ?, deadline_at = 0 WHERE seq = ?`, t.ID, e.Seq)
	return err
}

// settleClaim tells the broker how a claimed event ended: answered, so that it
// is closed for all, or not, so that it is offered to others.
func (a *Agent) settleClaim(ctx context.Context, tx *sql.Tx, e *entry, d attention.Disposition) error {
	c, err := a.claimOf(ctx, tx, e.EventID)
	if err != nil || c == nil || c.owner != string(a.id) || c.via != "broker" {
		return err
	}
	switch d {
	case attention.DispositionResponded, attention.DispositionAcknowledged:
		return a.requestLater(ctx, tx, "claim.release", "answered:"+e.EventID, map[string]any{"eventId": e.EventID, "token": c.token, "answered": true})
	}
	return a.requestLater(ctx, tx, "claim.decline", "declined:"+e.EventID, map[string]any{"eventId": e.EventID})
}

// grant queues the turn in which a claimed event comes with its content: the
// same event, the next attempt.
func (a *Agent) grant(ctx context.Context, tx *sql.Tx, e *entry) error {
	knock, err := turnByID(ctx, tx, e.TurnID)
	if err != nil {
		return err
	}
	if knock != nil && knock.State == turnAccepted {
		if err := a.endTurn(ctx, tx, knock, turnFinished, "claimed", nil); err != nil {
			return err
		}
	}
	e.Decision = attention.Granted(e.Decision, nil)
	t, err := a.turnAgain(ctx, tx, e)
	if err != nil {
		return err
	}
	e.Stage, e.TurnID, e.DeadlineAt = stageTurned, t.ID, time.Time{}
	if _, err := tx.ExecContext(ctx, `UPDATE events SET turn_id = ? WHERE seq = ?`, t.ID, e.Seq); err != nil {
		return fmt.Errorf("storing the turn of %s: %w", e.EventID, err)
	}
	if err := updateDecision(ctx, tx, e); err != nil {
		return err
	}
	return a.recordDecision(ctx, tx, e)
}
