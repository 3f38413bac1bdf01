package broker

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/protocol/collab"
)

//go:embed schema.sql
var schema string

// Schema is the schema of the broker's database, for store.Open.
var Schema = schema + outbox.Schema

const (
	eventColumns = `seq, id, type, source, target, payload, metadata, at`
	insertEvent  = `INSERT INTO events (` + eventColumns + `) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
)

// load reads the open entities of the stored state.
func load(ctx context.Context, db *store.DB, now time.Time) (s *state, err error) {
	s = newState(&tables{})
	err = store.InTx(ctx, db, func(tx *store.Tx) {
		s.tables.tx = tx
		type progress struct{ seq, first int64 }
		stored, _ := store.One(tx, func(p *progress) []any {
			return []any{
				&p.seq,
				&p.first,
			}
		}, `SELECT seq, first FROM applied`)
		s.seq, s.first = stored.seq, stored.first
		s.loadOpen(now)
		for _, id := range sortedKeys(s.Endpoints) {
			if e := s.Endpoints[id]; e.Status == collab.StatusOnline {
				e.LastHeartbeatAt = formatTime(now)
			}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("loading the state: %w", err)
	}
	return s, nil
}

// maxPruned bounds how many events are deleted at once.
const maxPruned = 10_000

// prune deletes published events older than opts.Keep, and closed entities that have not changed
// since.
func (t *tx) prune() {
	if t.db == nil || t.opts.Keep <= 0 {
		return
	}
	limit := min(t.first+maxPruned, store.Value[int64](t.db, `SELECT seq FROM published`)+1, t.seq)
	next := store.Value[int64](t.db,
		`SELECT coalesce((SELECT seq FROM events WHERE seq >= ?1 AND seq < ?2 AND at >= ?3 ORDER BY seq LIMIT 1), ?2)`,
		t.first, limit, formatTime(t.now.Add(-t.opts.Keep)))
	if next <= t.first || t.db.Err() != nil {
		return
	}
	t.first = next
	t.db.Exec(`UPDATE applied SET first = ?`, next)
	t.db.Exec(`DELETE FROM events WHERE seq < ?`, next)
	t.db.Exec(`DELETE FROM entities WHERE open = 0 AND seq < ?`, next)
}

// eventRow returns the destinations of the eventColumns.
func eventRow(e *collab.Event) []any {
	return []any{&e.Seq, &e.ID, &e.Type, &e.Source, &e.Target, (*[]byte)(&e.Payload), (*[]byte)(&e.Metadata), &e.At}
}

func readEvent(tx *store.Tx, seq int64) (collab.Event, error) {
	e, found := store.One(tx, eventRow, `SELECT `+eventColumns+` FROM events WHERE seq = ?`, seq)
	if !found && tx.Err() == nil {
		return e, fmt.Errorf("event %d is missing from the log", seq)
	}
	return e, tx.Err()
}

// appendEvent writes an event at the end of the log.
func appendEvent(tx *store.Tx, e collab.Event) {
	var metadata any // NULL if there is none
	if e.Metadata != nil {
		metadata = string(e.Metadata)
	}
	tx.Exec(insertEvent, e.Seq, e.ID, e.Type, e.Source, e.Target, string(e.Payload), metadata, e.At)
}
