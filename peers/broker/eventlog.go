package broker

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"

	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/protocol/collab"
)

var (
	//go:embed schema.sql
	schema string
	//go:embed schema_heartbeats.sql
	schemaHeartbeats string
)

// Schema is the steps with which store.Open makes the broker's database.
var Schema = []string{schema, outbox.Schema, schemaHeartbeats}

const (
	eventColumns = `seq, id, type, source, target, payload, metadata, at`
	insertEvent  = `INSERT INTO events (` + eventColumns + `) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
)

// load folds the log into a state. Of the heartbeats of an endpoint only the
// last one counts, and only that one is read.
func load(ctx context.Context, db *sql.DB) (*state, error) {
	s, tx := newState(), store.On(ctx, db)
	for last := int64(-1); last != s.seq && tx.Err() == nil; {
		last = s.seq
		for _, e := range store.All(tx, eventRow, `SELECT `+eventColumns+` FROM events
			WHERE type <> 'collab.agent.heartbeat' AND seq > ? ORDER BY seq LIMIT 1000`, last) {
			if tx.Fail(s.fold(e)); tx.Err() != nil {
				break
			}
		}
	}
	for _, id := range sortedKeys(s.endpoints) {
		e, found := store.One(tx, eventRow, `SELECT `+eventColumns+` FROM events
			WHERE type = 'collab.agent.heartbeat' AND json_extract(payload, '$.endpointId') = ? ORDER BY seq DESC LIMIT 1`, id)
		if found {
			tx.Fail(s.lastHeartbeat(e))
		}
	}
	// Two counts, not one: each is answered from its own partial index, where a count
	// of everything would read the whole table.
	type counts struct{ last, all int64 }
	events, _ := store.One(tx, func(c *counts) []any { return []any{&c.last, &c.all} }, `SELECT coalesce((SELECT max(seq) FROM events), 0),
		(SELECT count(*) FROM events WHERE type <> 'collab.agent.heartbeat') + (SELECT count(*) FROM events WHERE type = 'collab.agent.heartbeat')`)
	switch {
	case tx.Err() != nil:
		return nil, fmt.Errorf("rebuilding the state: %w", tx.Err())
	case events.all != events.last:
		return nil, fmt.Errorf("the event log has a gap: %d events up to number %d", events.all, events.last)
	}
	s.seq = events.last
	return s, nil
}

// eventRow is where a row of eventColumns goes.
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
	metadata := sql.NullString{String: string(e.Metadata), Valid: e.Metadata != nil}
	tx.Exec(insertEvent, e.Seq, e.ID, e.Type, e.Source, e.Target, string(e.Payload), metadata, e.At)
}
