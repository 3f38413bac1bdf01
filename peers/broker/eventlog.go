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
func load(ctx context.Context, db store.Querier) (*state, error) {
	s := newState()
	if err := foldOthers(ctx, db, s); err != nil {
		return nil, err
	}
	for _, id := range sortedKeys(s.endpoints) {
		e, found, err := store.One(ctx, db, scanEvent, `SELECT `+eventColumns+` FROM events
			WHERE type = 'collab.agent.heartbeat' AND json_extract(payload, '$.endpointId') = ? ORDER BY seq DESC LIMIT 1`, id)
		if err == nil && found {
			err = s.lastHeartbeat(e)
		}
		if err != nil {
			return nil, fmt.Errorf("rebuilding the state: %w", err)
		}
	}
	// Two counts, not one: each is answered from its own partial index, where a count
	// of everything would read the whole table.
	var count int64
	err := db.QueryRowContext(ctx, `SELECT coalesce((SELECT max(seq) FROM events), 0),
		(SELECT count(*) FROM events WHERE type <> 'collab.agent.heartbeat') + (SELECT count(*) FROM events WHERE type = 'collab.agent.heartbeat')`).
		Scan(&s.seq, &count)
	if err == nil && count != s.seq {
		err = fmt.Errorf("the event log has a gap: %d events up to number %d", count, s.seq)
	}
	return s, err
}

// foldOthers folds everything but heartbeats, one event after the other.
func foldOthers(ctx context.Context, db store.Querier, s *state) error {
	rows, err := db.QueryContext(ctx, `SELECT `+eventColumns+` FROM events WHERE type <> 'collab.agent.heartbeat' ORDER BY seq`)
	if err != nil {
		return fmt.Errorf("reading the event log: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		e, err := scanEvent(rows)
		if err == nil {
			err = s.fold(e)
		}
		if err != nil {
			return fmt.Errorf("rebuilding the state: %w", err)
		}
	}
	return rows.Err()
}

func scanEvent(row store.Row) (e collab.Event, err error) {
	err = row.Scan(&e.Seq, &e.ID, &e.Type, &e.Source, &e.Target, (*[]byte)(&e.Payload), (*[]byte)(&e.Metadata), &e.At)
	return e, err
}

func readEvent(ctx context.Context, db store.Querier, seq int64) (collab.Event, error) {
	e, found, err := store.One(ctx, db, scanEvent, `SELECT `+eventColumns+` FROM events WHERE seq = ?`, seq)
	if err == nil && !found {
		err = fmt.Errorf("event %d is missing from the log", seq)
	}
	return e, err
}

// appendEvents writes events at the end of the log.
func appendEvents(ctx context.Context, db *sql.Tx, events []collab.Event) error {
	for _, e := range events {
		metadata := sql.NullString{String: string(e.Metadata), Valid: e.Metadata != nil}
		err := store.Exec(ctx, db, insertEvent, e.Seq, e.ID, e.Type, e.Source, e.Target, string(e.Payload), metadata, e.At)
		if err != nil {
			return err
		}
	}
	return nil
}
