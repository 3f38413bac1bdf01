package chorus

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"hubbub/peers/attention"
	"hubbub/protocol"
)

// turns posts what is composed when its window ends, and closes what has
// expired. It sleeps until the nearest of these times.
type turns struct {
	g      *Gateway
	signal chan struct{}
}

// look makes the loop ask the database again now. It never blocks.
func (t *turns) look() {
	select {
	case t.signal <- struct{}{}:
	default:
	}
}

// maxSleep bounds how long the loop trusts what it read.
const maxSleep = 30 * time.Second

func (t *turns) run(ctx context.Context) error {
	for {
		wait, err := t.pass(ctx)
		if err != nil && ctx.Err() == nil {
			t.g.log.Error().Err(err).Msg("turns cannot be read or stored; trying again")
			wait = time.Second
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-t.signal:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// pass does what is due and returns how long nothing else will be.
func (t *turns) pass(ctx context.Context) (time.Duration, error) {
	now := micros(t.g.store.now())
	due, err := integers(ctx, t.g.store.db, `SELECT id FROM turn WHERE state = 'composing' AND due_at <= ? ORDER BY due_at, id LIMIT 500`, now)
	if err != nil {
		return 0, err
	}
	for _, id := range due {
		if err := t.g.postTurn(ctx, id); err != nil {
			return 0, err
		}
	}
	expired, err := integers(ctx, t.g.store.db, `SELECT id FROM turn WHERE state = 'open' AND due_at <= ? ORDER BY due_at, id LIMIT 500`, now)
	if err != nil {
		return 0, err
	}
	for _, id := range expired {
		if err := t.g.closeTurn(ctx, id, ""); err != nil {
			return 0, err
		}
	}
	if len(due)+len(expired) > 0 {
		t.g.toBus.Wake()
		t.g.posts.Wake()
	}
	var next sql.NullInt64
	err = t.g.store.db.QueryRowContext(ctx, `SELECT min(due_at) FROM turn WHERE state IN ('composing', 'open')`).Scan(&next)
	if err != nil || !next.Valid {
		return maxSleep, err
	}
	return min(maxSleep, max(time.Millisecond, time.Duration(next.Int64-now)*time.Microsecond)), nil
}

// postTurn gives a composed turn its callback and its token, and stores the
// POST. Fragments that a later one carries end superseded.
func (g *Gateway) postTurn(ctx context.Context, id int64) error {
	return g.store.inTx(ctx, func(tx *sql.Tx) error {
		callback, token := newSecret(callbackPrefix), newSecret(toolPrefix)
		var agent AgentName
		var channel string
		err := tx.QueryRowContext(ctx, `UPDATE turn SET state = 'posting', due_at = ?, callback_sha256 = ?, callback = ?, token_sha256 = ?, token = ?
			WHERE id = ? AND state = 'composing' RETURNING agent, channel`,
			micros(g.store.now().Add(g.opts.CallbackTTL)), hashSecret(callback), g.store.seal.seal(turnLabel(id), []byte(callback)),
			hashSecret(token), g.store.seal.seal(turnLabel(id), []byte(token)), id).Scan(&agent, &channel)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("posting a turn: %w", err)
		}
		fragments, err := integers(ctx, tx, `SELECT seq FROM event WHERE turn = ? ORDER BY seq`, id)
		if err != nil {
			return err
		}
		for _, seq := range fragments[:max(0, len(fragments)-1)] {
			if err := g.dispose(ctx, tx, agent, seq, attention.DispositionSuperseded, "merged"); err != nil {
				return err
			}
		}
		_, err = g.posts.EnqueueTx(ctx, tx, string(agent)+"/"+hashSecret(channel), "turn:"+strconv.FormatInt(id, 10), []byte(strconv.FormatInt(id, 10)))
		return err
	})
}

func turnLabel(id int64) string { return "turn:" + strconv.FormatInt(id, 10) }

// closeTurn ends a turn whose callback is dead. An event that had to be answered
// and was not has failed, and its author is told so once; why is empty when time
// was the reason.
func (g *Gateway) closeTurn(ctx context.Context, id int64, why string) error {
	return g.store.inTx(ctx, func(tx *sql.Tx) error { return g.closeTurnTx(ctx, tx, id, why) })
}

func (g *Gateway) closeTurnTx(ctx context.Context, tx *sql.Tx, id int64, why string) error {
	var agent AgentName
	var trouble string
	err := tx.QueryRowContext(ctx, `UPDATE turn SET state = 'closed', callback = NULL, token = NULL WHERE id = ? AND state != 'closed'
		RETURNING agent, trouble`, id).Scan(&agent, &trouble)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("closing a turn: %w", err)
	}
	reason := why
	switch {
	case why == "" && trouble != "":
		reason = "error: " + trouble
	case why == "":
		reason = "deadline"
	}
	return g.endOpenEvents(ctx, tx, agent, id, reason, why)
}

// endOpenEvents gives every event of a turn its last disposition.
func (g *Gateway) endOpenEvents(ctx context.Context, tx *sql.Tx, agent AgentName, turn int64, reason, why string) error {
	seqs, err := integers(ctx, tx, `SELECT seq FROM event WHERE turn = ? AND disposition IN ('', 'claimed', 'deferred') ORDER BY seq`, turn)
	if err != nil {
		return err
	}
	for _, seq := range seqs {
		e, err := eventBySeq(ctx, tx, seq)
		if err != nil {
			return err
		}
		if e.policy != attention.PolicyMustRespond {
			if err := g.dispose(ctx, tx, agent, seq, attention.DispositionIgnored, reason); err != nil {
				return err
			}
			continue
		}
		if err := g.dispose(ctx, tx, agent, seq, attention.DispositionFailed, reason); err != nil {
			return err
		}
		text := string(agent) + " did not answer in time."
		if why != "" {
			text = string(agent) + " could not be reached, so this message was not delivered to it."
		}
		err = g.tellChat(ctx, tx, e, protocol.ChatReply{
			Text: text, InReplyTo: e.id, IdempotencyKey: fmt.Sprintf("failed:%d", seq), ThreadID: e.thread,
		})
		if err != nil {
			return err
		}
	}
	return nil
}
