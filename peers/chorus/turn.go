package chorus

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"hubbub/peers/attention"
)

// The states of a turn: one delivery to an external agent.
const (
	turnComposing = "composing" // waits for more of the same author
	turnPosting   = "posting"   // on its way
	turnOpen      = "open"      // the agent has it; its callback lives
	turnClosed    = "closed"    // its callback is dead
)

// act does what follows from a decision.
func (g *Gateway) act(ctx context.Context, tx *sql.Tx, h *heard, seq int64, d attention.Decision) error {
	if err := g.followAction(ctx, tx, h, d.Action); err != nil {
		return err
	}
	if done, err := g.followChange(ctx, tx, h, seq); done || err != nil {
		return err
	}
	now := g.store.now()
	switch {
	case d.Injection == attention.ModeImmediate:
		return g.compose(ctx, tx, h, seq, now, 0)
	case d.Injection == attention.ModeBuffered:
		return g.compose(ctx, tx, h, seq, now, g.opts.ComposeWindow)
	case d.Injection == attention.ModeNotify:
		return g.knock(ctx, tx, h, seq, now, d.Knock)
	case d.Policy == attention.PolicyMustNotRespond || d.Policy == attention.PolicyAckOnly:
		return g.dispose(ctx, tx, h.agent, seq, attention.DispositionIgnored, d.Reason)
	default:
		return nil // its tools may still read, claim and answer it
	}
}

// followAction does what the host does beside.
func (g *Gateway) followAction(ctx context.Context, tx *sql.Tx, h *heard, a attention.Action) error {
	switch a {
	case attention.ActionLeave:
		return setPlace(ctx, tx, h.agent, h.channel, placeLeaving)
	case attention.ActionReturn:
		return setPlace(ctx, tx, h.agent, h.channel, "")
	case attention.ActionCancel:
		// What is still being composed is not posted; what was posted cannot be taken back.
		return g.supersede(ctx, tx, h.agent, `turn IN (SELECT id FROM turn WHERE agent = ?1 AND channel = ?2 AND author = ?3 AND state = 'composing')`,
			"cancelled", h.agent, h.channel, h.author())
	}
	return nil
}

// followChange applies an edit or a delete to what is still being composed. It
// reports true when nothing else is to be done about the event.
func (g *Gateway) followChange(ctx context.Context, tx *sql.Tx, h *heard, seq int64) (done bool, err error) {
	if h.event.Kind != attention.KindEdit && h.event.Kind != attention.KindDelete {
		return false, nil
	}
	var turn int64
	err = tx.QueryRowContext(ctx, `SELECT turn.id FROM event JOIN turn ON turn.id = event.turn WHERE event.agent = ? AND event.event_id = ?
		AND event.chat = ? AND event.seq != ? AND turn.state = 'composing' LIMIT 1`, h.agent, h.event.EventID, h.chat, seq).Scan(&turn)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return false, fmt.Errorf("looking for an edited message: %w", err)
	}
	composing := err == nil
	why := "deleted"
	if h.event.Kind == attention.KindEdit {
		why = "edited"
	}
	// What was posted and not answered is superseded too: an answer to it is refused.
	err = g.supersede(ctx, tx, h.agent, `agent = ?1 AND event_id = ?2 AND seq != ?3 AND chat = ?4`, why, h.agent, h.event.EventID, seq, h.chat)
	if err == nil && h.event.Kind == attention.KindDelete {
		err = eraseText(ctx, tx, h)
	}
	if err != nil || !composing || h.event.Kind == attention.KindDelete {
		return false, err
	}
	// The edited text takes the place of the first, in the same turn.
	_, err = tx.ExecContext(ctx, `UPDATE turn SET state = 'composing' WHERE id = ?`, turn)
	if err == nil {
		_, err = tx.ExecContext(ctx, `UPDATE event SET turn = ? WHERE seq = ?`, turn, seq)
	}
	return true, err
}

// eraseText takes what a deleted message said out of the mailbox, its edits
// included: the tools show that there was something, and no more.
func eraseText(ctx context.Context, tx *sql.Tx, h *heard) error {
	_, err := tx.ExecContext(ctx, `UPDATE event SET content = CAST(json_remove(json_set(CAST(content AS TEXT), '$.text', ''), '$.attachments', '$.mentions') AS BLOB)
		WHERE agent = ? AND event_id = ? AND chat = ?`, h.agent, h.event.EventID, h.chat)
	if err != nil {
		return fmt.Errorf("erasing a deleted message: %w", err)
	}
	return nil
}

// compose puts an event into the turn that is being composed of its author's
// words in its channel, or begins one. A window of zero posts it at once.
func (g *Gateway) compose(ctx context.Context, tx *sql.Tx, h *heard, seq int64, now time.Time, window time.Duration) error {
	due := micros(now.Add(window))
	var turn, first int64
	err := tx.QueryRowContext(ctx, `SELECT id, first_at FROM turn WHERE agent = ? AND channel = ? AND author = ? AND state = 'composing' AND knock IS NULL`,
		h.agent, h.channel, h.author()).Scan(&turn, &first)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		turn, err = newTurn(ctx, tx, h, now, due, nil)
	case err == nil:
		due = min(due, first+g.opts.ComposeCap.Microseconds())
		_, err = tx.ExecContext(ctx, `UPDATE turn SET due_at = ? WHERE id = ?`, due, turn)
	}
	if err == nil {
		_, err = tx.ExecContext(ctx, `UPDATE event SET turn = ? WHERE seq = ?`, turn, seq)
	}
	if err != nil {
		return fmt.Errorf("composing a turn: %w", err)
	}
	return nil
}

// knock posts that an event exists, without what it says.
func (g *Gateway) knock(ctx context.Context, tx *sql.Tx, h *heard, seq int64, now time.Time, k *attention.Knock) error {
	raw, err := json.Marshal(k)
	if err != nil {
		return fmt.Errorf("writing a knock: %w", err)
	}
	turn, err := newTurn(ctx, tx, h, now, micros(now), raw)
	if err == nil {
		_, err = tx.ExecContext(ctx, `UPDATE event SET turn = ? WHERE seq = ?`, turn, seq)
	}
	if err != nil {
		return fmt.Errorf("storing a knock: %w", err)
	}
	return nil
}

func newTurn(ctx context.Context, tx *sql.Tx, h *heard, now time.Time, due int64, knock []byte) (id int64, err error) {
	res, err := tx.ExecContext(ctx, `INSERT INTO turn (agent, channel, author, state, first_at, due_at, knock) VALUES (?, ?, ?, 'composing', ?, ?, ?)`,
		h.agent, h.channel, h.author(), micros(now), due, knock)
	if err != nil {
		return 0, err
	}
	return res.LastInsertId()
}

// dispose ends an event, once: a final disposition is never replaced. Claimed
// and deferred are open; a later one follows.
func (g *Gateway) dispose(ctx context.Context, tx *sql.Tx, agent AgentName, seq int64, d attention.Disposition, reason string) error {
	var id string
	var c origin
	var token int64
	err := tx.QueryRowContext(ctx, `UPDATE event SET disposition = ?1 WHERE seq = ?2 AND disposition != ?1
		AND disposition IN ('', 'claimed', 'deferred') RETURNING event_id, message_id, traceparent, claim_token`, d, seq).Scan(&id, &c.id, &c.trace, &token)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("storing a disposition: %w", err)
	}
	if d.Final() && token != 0 {
		if err := g.settleClaim(ctx, tx, agent, id, token, d); err != nil {
			return err
		}
	}
	return g.report(ctx, tx, agent, c, fmt.Sprintf("disposition %d %s", seq, d), protocolDisposition(agent, id, d, reason))
}

// supersede ends the open events that a condition chooses, and takes them out
// of the turns that are being composed.
func (g *Gateway) supersede(ctx context.Context, tx *sql.Tx, agent AgentName, where, reason string, args ...any) error {
	seqs, err := integers(ctx, tx, `SELECT seq FROM event WHERE disposition IN ('', 'claimed', 'deferred') AND `+where, args...)
	if err != nil {
		return fmt.Errorf("reading superseded events: %w", err)
	}
	for _, seq := range seqs {
		if err := g.dispose(ctx, tx, agent, seq, attention.DispositionSuperseded, reason); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `UPDATE event SET turn = 0 WHERE seq = ? AND turn IN (SELECT id FROM turn WHERE state = 'composing')`, seq); err != nil {
			return err
		}
	}
	_, err = tx.ExecContext(ctx, `UPDATE turn SET state = 'closed' WHERE agent = ? AND state = 'composing'
		AND NOT EXISTS (SELECT 1 FROM event WHERE event.turn = turn.id)`, agent)
	return err
}

// integers reads a column of integers.
func integers(ctx context.Context, q querier, query string, args ...any) ([]int64, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []int64
	for rows.Next() {
		var n int64
		if err := rows.Scan(&n); err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, rows.Err()
}
