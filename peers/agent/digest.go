package agent

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/attention"

	"github.com/oklog/ulid/v2"
)

// digestPlace is the place in which digests run: apart from every chat.
const digestPlace = "\x00digest"

// digestDue queues the turn of a digest when one is due and there is something
// to tell, and returns when the next one is.
func (a *Agent) digestDue(ctx context.Context, caps harness.Capabilities) (next time.Time, err error) {
	if a.opts.DigestEvery <= 0 {
		return next, nil
	}
	err = a.inTx(ctx, func(tx *sql.Tx) error {
		var last sql.NullInt64
		if err := tx.QueryRowContext(ctx, `SELECT value FROM counters WHERE name = 'digest_at'`).Scan(&last); err != nil && err != sql.ErrNoRows {
			return fmt.Errorf("looking for the last digest: %w", err)
		}
		now := time.Now()
		due := fromMicros(last.Int64).Add(a.opts.DigestEvery)
		if last.Valid && due.After(now) {
			next = due
			return nil
		}
		next = now.Add(a.opts.DigestEvery)
		if _, err := tx.ExecContext(ctx, `INSERT INTO counters (name, value) VALUES ('digest_at', ?1)
			ON CONFLICT (name) DO UPDATE SET value = ?1`, now.UnixMicro()); err != nil {
			return fmt.Errorf("storing the time of the digest: %w", err)
		}
		if !last.Valid {
			return nil // the first period begins now
		}
		return a.makeDigest(ctx, tx, a.opts.attentionConfig(caps).Version)
	})
	return next, err
}

// makeDigest queues a turn over everything that waits for a digest.
func (a *Agent) makeDigest(ctx context.Context, tx *sql.Tx, v attention.Version) error {
	list, err := entries(ctx, tx, `WHERE stage = ? ORDER BY seq LIMIT 1000`, stageDigest)
	if err != nil || len(list) == 0 {
		return err
	}
	var items []attention.DigestItem
	for _, e := range list {
		items = append(items, attention.DigestItem{Event: e.event(), Decision: e.Decision})
		if _, err := tx.ExecContext(ctx, `UPDATE events SET stage = ? WHERE seq = ?`, stageKept, e.Seq); err != nil {
			return fmt.Errorf("storing the digest: %w", err)
		}
	}
	d := attention.MakeDigest(items, v)
	body, err := json.Marshal(d)
	if err != nil {
		return err
	}
	last := list[len(list)-1]
	id := ulid.Make().String()
	return saveTurn(ctx, tx, &turn{
		ID: "turn_" + id, EventID: "digest_" + id, Merged: d.EventIDs, Chat: last.Chat, Place: digestPlace, Mode: attention.ModeDigest,
		State: turnQueued, Seq: last.Seq, Rank: rankDigest, FirstAt: list[0].Received, Body: string(body),
	})
}

// digestTurn is what the harness gets of a digest.
func (a *Agent) digestTurn(t *turn, ht *harness.Turn) (*harness.Turn, error) {
	var d attention.Digest
	if err := json.Unmarshal([]byte(t.Body), &d); err != nil {
		return nil, fmt.Errorf("reading the digest %s: %w", t.EventID, err)
	}
	ht.Prompt = d.Block(a.opts.Fence())
	ht.Event = harness.Event{
		EventID: t.EventID, MergedEventIDs: d.EventIDs, Sequence: t.Seq, CreatedAt: t.FirstAt.Format(time.RFC3339),
		Source: harness.Source{Platform: "hubbub"}, Conversation: harness.Conversation{ID: "digest", Kind: "system"},
		Author: harness.Author{ID: "hubbub", Kind: "system"}, Recipient: string(a.id), Directedness: string(attention.DirectedAmbient),
		Policy: string(d.Policy), Reason: d.Reason, Priority: string(attention.PriorityLow), Mode: string(attention.ModeDigest), Role: "user",
		IdempotencyKey: t.EventID + ":" + string(a.id), Digest: true, Content: []harness.Part{{Type: "text", Text: d.Summary}},
	}
	for _, line := range d.Excerpts {
		author := attention.FromLabel(line.Author)
		ht.Event.Content = append(ht.Event.Content, harness.Part{Type: "text", Text: author + ": " + line.Text})
	}
	return ht, nil
}

// prune forgets closed events, ended turns and sent messages older than
// Options.Retention.
func (a *Agent) prune(ctx context.Context) error {
	before := time.Now().Add(-a.opts.Retention).UnixMicro()
	for _, statement := range []string{
		`DELETE FROM events WHERE received_at < ? AND disposition IN ('responded','acknowledged','ignored','superseded','failed') AND stage = 'kept'`,
		`DELETE FROM events WHERE received_at < ? AND disposition IN ('responded','acknowledged','ignored','superseded','failed') AND stage = 'turned'
			AND NOT EXISTS (SELECT 1 FROM turns t WHERE t.turn_id = events.turn_id AND t.state IN ('queued','running','accepted','withdrawn'))`,
		`DELETE FROM turns WHERE ended_at > 0 AND ended_at < ?`,
		`DELETE FROM sent WHERE sent_at < ? AND status <> 'queued'`,
		`DELETE FROM receipts WHERE received_at < ?`,
		`DELETE FROM claims WHERE expires_at < ?`,
		`DELETE FROM questions WHERE asked_at < ?`,
	} {
		if _, err := a.db.ExecContext(ctx, statement, before); err != nil {
			return fmt.Errorf("forgetting old events: %w", err)
		}
	}
	return nil
}
