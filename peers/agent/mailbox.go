package agent

import (
	"context"
	"database/sql"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"hubbub/peers/agent/mailbox"
	"hubbub/peers/attention"
	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/protocol"
)

// The schema, and what later versions changed in it.
var (
	//go:embed schema.sql
	schema string
	//go:embed schema_2.sql
	schema2 string
	//go:embed schema_3.sql
	schema3 string
	//go:embed schema_4.sql
	schema4 string
)

// Open opens the agent's database, creating it where it is missing.
func Open(path string) (*sql.DB, error) {
	return store.Open(path, []string{schema + outbox.Schema, schema2, schema3, schema4})
}

// A stage is where an event stands on its way to a model.
type stage string

const (
	stageStored stage = "stored" // no decision yet
	stageHeld   stage = "held"   // in the compose window
	stageTurned stage = "turned" // part of a turn
	stageKept   stage = "kept"   // tools can read it; no turn is due
	stageDigest stage = "digest" // waits for the next digest
)

// An entry is one event of the mailbox.
type entry struct {
	Seq         int64
	EventID     string
	SourceID    string
	Chat        protocol.Topic
	MessageID   protocol.MessageID
	TraceParent string
	Received    time.Time
	Content     protocol.ChatMessage
	Origin      origin
	Stage       stage
	Decision    attention.Decision
	DeadlineAt  time.Time
	TurnID      string
	MergedInto  string
	Replied     bool
	Acted       bool
	Deferrals   int
	Disposition attention.Disposition
	Deleted     bool
}

const entryColumns = `seq, event_id, source_id, chat, message_id, traceparent, received_at, content, origin, stage, decision,
	deadline_at, turn_id, merged_into, replied, acted, deferrals, disposition, deleted`

// A scanner is a *sql.Row or *sql.Rows.
type scanner interface{ Scan(...any) error }

// A querier is a *sql.DB or *sql.Tx.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func scanEntry(row scanner) (*entry, error) {
	var e entry
	var received, deadline int64
	var content, from, decision []byte
	err := row.Scan(&e.Seq, &e.EventID, &e.SourceID, &e.Chat, &e.MessageID, &e.TraceParent, &received, &content, &from, &e.Stage, &decision,
		&deadline, &e.TurnID, &e.MergedInto, &e.Replied, &e.Acted, &e.Deferrals, &e.Disposition, &e.Deleted)
	if err != nil {
		return nil, err
	}
	e.Received, e.DeadlineAt = fromMicros(received), fromMicros(deadline)
	return &e, errors.Join(json.Unmarshal(content, &e.Content), json.Unmarshal(from, &e.Origin), json.Unmarshal(decision, &e.Decision))
}

// entries runs a query for entries; where follows SELECT ... FROM events.
func entries(ctx context.Context, q querier, where string, args ...any) ([]*entry, error) {
	rows, err := q.QueryContext(ctx, `SELECT `+entryColumns+` FROM events `+where, args...)
	if err != nil {
		return nil, fmt.Errorf("reading the mailbox: %w", err)
	}
	defer rows.Close()
	var list []*entry
	for rows.Next() {
		e, err := scanEntry(rows)
		if err != nil {
			return nil, fmt.Errorf("reading an event of the mailbox: %w", err)
		}
		list = append(list, e)
	}
	return list, rows.Err()
}

// entryByID returns an event, or nil where there is none.
func entryByID(ctx context.Context, q querier, id string) (*entry, error) {
	e, err := scanEntry(q.QueryRowContext(ctx, `SELECT `+entryColumns+` FROM events WHERE event_id = ?`, id))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading event %s: %w", id, err)
	}
	return e, nil
}

// currentEntry is entryByID, following fragments to the event that carries them.
func currentEntry(ctx context.Context, q querier, id string) (*entry, error) {
	e, err := entryByID(ctx, q, id)
	for range 100 {
		if err != nil || e == nil || e.MergedInto == "" {
			break
		}
		e, err = entryByID(ctx, q, e.MergedInto)
	}
	return e, err
}

// open reports whether no final disposition has been written.
func (e *entry) open() bool { return !e.Disposition.Final() }

// event is the entry as the attention layer sees it.
func (e *entry) event() attention.Event {
	event := mailbox.EventOf(&e.Content)
	event.EventID = e.EventID
	return event
}

// place names where an event was said: one turn at a time runs there.
func (e *entry) place() string { return placeOf(e.Content.Chat.ID, e.Content.Chat.ThreadID) }

func placeOf(conversation, thread string) string { return conversation + "\x00" + thread }

// insertEntry adds an event and returns its sequence.
func insertEntry(ctx context.Context, tx *sql.Tx, e *entry) error {
	content, err := json.Marshal(&e.Content)
	if err != nil {
		return fmt.Errorf("storing event %s: %w", e.EventID, err)
	}
	from, err := json.Marshal(&e.Origin)
	if err != nil {
		return fmt.Errorf("storing event %s: %w", e.EventID, err)
	}
	c := &e.Content
	res, err := tx.ExecContext(ctx, `INSERT INTO events
		(event_id, source_id, chat, message_id, traceparent, received_at, content, origin, kind, conversation, thread, stream, author, author_kind, stage)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		e.EventID, e.SourceID, e.Chat, e.MessageID, e.TraceParent, e.Received.UnixMicro(), string(content), string(from), c.Event, c.Chat.ID, c.Chat.ThreadID,
		c.Chat.StreamID, c.Author.ID, c.Author.Kind, e.Stage)
	if err != nil {
		return fmt.Errorf("storing event %s: %w", e.EventID, err)
	}
	e.Seq, err = res.LastInsertId()
	return err
}

// updateContent replaces what an event says.
func updateContent(ctx context.Context, tx *sql.Tx, e *entry) error {
	content, err := json.Marshal(&e.Content)
	if err != nil {
		return fmt.Errorf("storing the edit of %s: %w", e.EventID, err)
	}
	_, err = tx.ExecContext(ctx, `UPDATE events SET content = ?, deleted = ? WHERE seq = ?`, string(content), e.Deleted, e.Seq)
	if err != nil {
		return fmt.Errorf("storing the edit of %s: %w", e.EventID, err)
	}
	return nil
}

// updateDecision stores what was decided about an event and where it goes.
func updateDecision(ctx context.Context, tx *sql.Tx, e *entry) error {
	decision, err := json.Marshal(&e.Decision)
	if err != nil {
		return fmt.Errorf("storing the decision on %s: %w", e.EventID, err)
	}
	_, err = tx.ExecContext(ctx, `UPDATE events SET decision = ?, policy = ?, mode = ?, directedness = ?, stage = ?, deadline_at = ? WHERE seq = ?`,
		string(decision), string(e.Decision.Policy), string(e.Decision.Injection), string(e.Decision.Directedness), string(e.Stage), micros(e.DeadlineAt), e.Seq)
	if err != nil {
		return fmt.Errorf("storing the decision on %s: %w", e.EventID, err)
	}
	return nil
}

// inTx runs do in one transaction.
func (a *Agent) inTx(ctx context.Context, do func(tx *sql.Tx) error) error {
	tx, err := a.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("opening a transaction of the mailbox: %w", err)
	}
	defer a.queued.Delete(tx)
	defer tx.Rollback() //nolint:errcheck // a no-op once committed
	if err := do(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("committing to the mailbox: %w", err)
	}
	if _, sends := a.queued.Load(tx); sends {
		a.box.Wake()
	}
	return nil
}

func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func fromMicros(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}
