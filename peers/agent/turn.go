package agent

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"hubbub/peers/attention"
	"hubbub/protocol"
)

// A turnState says how far a turn has come.
type turnState string

const (
	turnQueued    turnState = "queued"    // waits for its place, or for not_before
	turnRunning   turnState = "running"   // a harness works on it
	turnAccepted  turnState = "accepted"  // a program has stored it and works in its own time
	turnWithdrawn turnState = "withdrawn" // to be stopped, then queued again
	turnFinished  turnState = "finished"
	turnFailed    turnState = "failed"
	turnCancelled turnState = "cancelled"
)

// A turn is one run of the harness over one event or several merged ones.
type turn struct {
	ID         string
	EventID    string   // of the last fragment
	Merged     []string // all fragments, in order
	Chat       protocol.Topic
	Place      string
	Author     string
	Mode       attention.Mode
	State      turnState
	Seq        int64
	Rank       int
	Attempt    int
	Failures   int
	Outbound   bool
	NotBefore  time.Time
	FirstAt    time.Time
	StartedAt  time.Time
	DeadlineAt time.Time
	Body       string
}

// Ranks: what goes first within a place.
const (
	rankUrgent = iota
	rankImmediate
	rankNormal
	rankDigest
)

const turnColumns = `turn_id, event_id, merged, chat, place, author, mode, state, seq, rank, attempt, failures, outbound,
	not_before, first_at, started_at, deadline_at, body`

func scanTurn(row scanner) (*turn, error) {
	var t turn
	var merged []byte
	var notBefore, first, started, deadline int64
	err := row.Scan(&t.ID, &t.EventID, &merged, &t.Chat, &t.Place, &t.Author, &t.Mode, &t.State, &t.Seq, &t.Rank, &t.Attempt, &t.Failures,
		&t.Outbound, &notBefore, &first, &started, &deadline, &t.Body)
	if err != nil {
		return nil, err
	}
	t.NotBefore, t.FirstAt, t.StartedAt, t.DeadlineAt = fromMicros(notBefore), fromMicros(first), fromMicros(started), fromMicros(deadline)
	return &t, json.Unmarshal(merged, &t.Merged)
}

func turns(ctx context.Context, q querier, where string, args ...any) ([]*turn, error) {
	rows, err := q.QueryContext(ctx, `SELECT `+turnColumns+` FROM turns `+where, args...)
	if err != nil {
		return nil, fmt.Errorf("reading the turns: %w", err)
	}
	defer rows.Close()
	var list []*turn
	for rows.Next() {
		t, err := scanTurn(rows)
		if err != nil {
			return nil, fmt.Errorf("reading a turn: %w", err)
		}
		list = append(list, t)
	}
	return list, rows.Err()
}

// turnByID returns a turn, or nil where there is none.
func turnByID(ctx context.Context, q querier, id string) (*turn, error) {
	t, err := scanTurn(q.QueryRowContext(ctx, `SELECT `+turnColumns+` FROM turns WHERE turn_id = ?`, id))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading turn %s: %w", id, err)
	}
	return t, nil
}

// saveTurn inserts or replaces a turn.
func saveTurn(ctx context.Context, tx *sql.Tx, t *turn) error {
	merged, err := json.Marshal(t.Merged)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO turns (`+turnColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (turn_id) DO UPDATE SET event_id = excluded.event_id, merged = excluded.merged, mode = excluded.mode, state = excluded.state,
			seq = excluded.seq, rank = excluded.rank, attempt = excluded.attempt, failures = excluded.failures, outbound = excluded.outbound,
			not_before = excluded.not_before, first_at = excluded.first_at, started_at = excluded.started_at, deadline_at = excluded.deadline_at,
			body = excluded.body`,
		t.ID, t.EventID, string(merged), t.Chat, t.Place, t.Author, string(t.Mode), string(t.State), t.Seq, t.Rank, t.Attempt, t.Failures, t.Outbound,
		micros(t.NotBefore), micros(t.FirstAt), micros(t.StartedAt), micros(t.DeadlineAt), t.Body)
	if err != nil {
		return fmt.Errorf("storing turn %s: %w", t.ID, err)
	}
	return nil
}

// ended reports whether nothing more comes of a turn.
func (t *turn) ended() bool {
	return t.State == turnFinished || t.State == turnFailed || t.State == turnCancelled
}

// fragments returns the events of a turn, in order.
func (a *Agent) fragments(ctx context.Context, q querier, t *turn) ([]*entry, error) {
	var list []*entry
	for _, id := range t.Merged {
		e, err := entryByID(ctx, q, id)
		if err != nil {
			return nil, err
		}
		if e != nil {
			list = append(list, e)
		}
	}
	return list, nil
}

// endTurn writes a turn's last state and its record.
func (a *Agent) endTurn(ctx context.Context, tx *sql.Tx, t *turn, state turnState, reason string, more func(*turnRecord)) error {
	ran := t.State != turnQueued || t.Attempt > 0
	t.State = state
	if err := saveTurn(ctx, tx, t); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `UPDATE turns SET ended_at = ? WHERE turn_id = ?`, time.Now().UnixMicro(), t.ID); err != nil {
		return fmt.Errorf("storing the end of turn %s: %w", t.ID, err)
	}
	if !ran {
		return nil // it never started: nothing to tell
	}
	return a.recordTurn(ctx, tx, t, string(state), reason, more)
}
