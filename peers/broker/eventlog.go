package broker

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"

	"hubbub/peers/outbox"
)

var (
	//go:embed schema.sql
	schema string
	//go:embed schema_heartbeats.sql
	schemaHeartbeats string
)

// Schema is the steps with which store.Open makes the broker's database.
var Schema = []string{schema, outbox.Schema, schemaHeartbeats}

const eventColumns = `seq, id, type, source, target, payload, metadata, at`

// A querier is a database or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// load folds the log into a state. Of the heartbeats of an endpoint only the
// last one counts, and only that one is read.
func load(ctx context.Context, db querier) (*state, error) {
	s := newState()
	if err := foldOthers(ctx, db, s); err != nil {
		return nil, err
	}
	for _, id := range sortedKeys(s.endpoints) {
		e, err := scanEvent(db.QueryRowContext(ctx, `SELECT `+eventColumns+` FROM events
			WHERE type = 'collab.agent.heartbeat' AND json_extract(payload, '$.endpointId') = ? ORDER BY seq DESC LIMIT 1`, id))
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := s.lastHeartbeat(e); err != nil {
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

// foldOthers folds everything but heartbeats.
func foldOthers(ctx context.Context, db querier, s *state) error {
	rows, err := db.QueryContext(ctx, `SELECT `+eventColumns+` FROM events WHERE type <> 'collab.agent.heartbeat' ORDER BY seq`)
	if err != nil {
		return fmt.Errorf("reading the event log: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		e, err := scanEvent(rows)
		if err != nil {
			return err
		}
		if err := s.fold(e); err != nil {
			return fmt.Errorf("rebuilding the state: %w", err)
		}
	}
	return rows.Err()
}

func scanEvent(row interface{ Scan(...any) error }) (Event, error) {
	var e Event
	var payload string
	var metadata sql.NullString
	if err := row.Scan(&e.Seq, &e.ID, &e.Type, &e.Source, &e.Target, &payload, &metadata, &e.At); err != nil {
		return e, fmt.Errorf("reading an event: %w", err)
	}
	e.Payload = []byte(payload)
	if metadata.Valid {
		e.Metadata = []byte(metadata.String)
	}
	return e, nil
}

func readEvent(ctx context.Context, db querier, seq int64) (Event, error) {
	e, err := scanEvent(db.QueryRowContext(ctx, `SELECT `+eventColumns+` FROM events WHERE seq = ?`, seq))
	if errors.Is(err, sql.ErrNoRows) {
		return e, fmt.Errorf("event %d is missing from the log", seq)
	}
	return e, err
}

// readEvents reads the events after seq, at most limit.
func readEvents(ctx context.Context, db querier, after int64, limit int) ([]Event, error) {
	rows, err := db.QueryContext(ctx, `SELECT `+eventColumns+` FROM events WHERE seq > ? ORDER BY seq LIMIT ?`, after, limit)
	if err != nil {
		return nil, fmt.Errorf("reading events: %w", err)
	}
	defer rows.Close()
	var list []Event
	for rows.Next() {
		e, err := scanEvent(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, rows.Err()
}

// appendEvents writes events at the end of the log.
func appendEvents(ctx context.Context, insert *sql.Stmt, events []Event) error {
	for _, e := range events {
		var metadata any
		if e.Metadata != nil {
			metadata = string(e.Metadata)
		}
		_, err := insert.ExecContext(ctx, e.Seq, e.ID, e.Type, e.Source, e.Target, string(e.Payload), metadata, e.At)
		if err != nil {
			return fmt.Errorf("storing event %d: %w", e.Seq, err)
		}
	}
	return nil
}

const insertEvent = `INSERT INTO events (` + eventColumns + `) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
