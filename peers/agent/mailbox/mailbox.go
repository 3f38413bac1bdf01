package mailbox

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"hubbub/peers/attention"
	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/protocol"

	"github.com/oklog/ulid/v2"
	"github.com/rs/zerolog"
)

//go:embed schema.sql
var schema string

// Open opens an agent's database, creating it if it is missing.
func Open(path string) (*store.DB, error) { return store.Open(path, schema+outbox.Schema) }

// Settings are shared by all parts of an agent.
type Settings struct {
	Self       attention.Self
	Attention  attention.Config           // without the injection modes, which depend on the harness
	Escalation attention.EscalationPolicy // who is asked about events that the agent cannot answer
	Returns    attention.ReturnIntervals  // how often an open obligation returns
	Async      bool                       // see harness.Capabilities
	Zone       *time.Location             // of chats that do not say theirs; nil is UTC
	Log        *zerolog.Logger
	Failpoint  func(step string) // called at each step at which a crash must neither lose nor repeat anything
}

// Options are the settings of a Mailbox.
type Options struct {
	Settings
	MaxOpen   int           // open events of one chat
	DeferFor  time.Duration // before a deferred event is redelivered, doubling
	Retention time.Duration // of closed events

	Broker Broker
	Hooks  Hooks // all must be set
	// StopTurn is called after the commit of a transaction that cancelled a turn which the
	// harness has.
	StopTurn func(turnID, reason string)
	// OnChange is called after the commit of a transaction that added work for the agent's turns.
	OnChange func()
}

// A Broker is the collaboration broker, whose records follow the states of events.
type Broker interface {
	// Known reports whether there is a broker, or was one recently: events for a role then need
	// its claims.
	Known() bool
	// Answer queues a message in response to a wake.
	Answer(tx *Tx, e *Entry, kind SentKind, id protocol.MessageID, reply *protocol.ChatReply)
	// Disposed handles a new disposition of an event.
	Disposed(tx *Tx, e *Entry, d attention.Disposition, reason string)
}

// Hooks are called in the transactions of the changes that they are about.
type Hooks struct {
	Settled     func(tx *Tx, e *Entry)                               // an event was answered or closed
	Delivered   func(tx *Tx, id protocol.MessageID, sourceID string) // a chat assigned an id to a message
	Undelivered func(tx *Tx, id protocol.MessageID)                  // a message will never be delivered
	Unconfirmed func(tx *Tx, id protocol.MessageID)                  // it is unknown whether a message was delivered
}

// A Mailbox holds the stored events of one agent, its turns, and the messages it sends.
type Mailbox struct {
	id        protocol.PeerID
	db        *store.DB
	opts      Options
	startedAt time.Time      // returns that were due earlier count as missed
	Outbox    *outbox.Outbox // has the state of every message
}

// New returns the mailbox of an identity on a database from Open. send makes one attempt to send
// a queued message. New does no I/O.
func New(db *store.DB, send outbox.SendFunc, opts Options) *Mailbox {
	m := &Mailbox{id: protocol.PeerID(opts.Self.ID), db: db, opts: opts, startedAt: time.Now()}
	m.Outbox = outbox.New(db, send, &outbox.Options{
		MaxPending: 100_000, MaxPerDestination: 90_000, StopTimeout: 2 * time.Second, AttemptTimeout: 40 * time.Second,
		Poll:      15 * time.Second,
		OnSettled: m.onSettled, Log: opts.Log,
	})
	return m
}

// StartedAt returns when the mailbox was created. Returns that were due before were missed.
func (m *Mailbox) StartedAt() time.Time { return m.startedAt }

// ID returns the identity of the agent.
func (m *Mailbox) ID() protocol.PeerID { return m.id }

// A View reads the mailbox, inside or outside of a transaction. After its first error it returns
// zero values.
type View struct {
	*store.Tx
	m *Mailbox
}

// View returns a view of the committed state. Each of its reads is independent.
func (m *Mailbox) View(ctx context.Context) *View { return &View{store.On(ctx, m.db), m} }

// Mailbox returns the mailbox of the view.
func (v *View) Mailbox() *Mailbox { return v.m }

// ZoneOf returns the time zone of a chat: its own if it says a valid one, else that of the settings.
func (s *Settings) ZoneOf(chat *protocol.Chat) *time.Location {
	if chat != nil && chat.TimeZone != "" && chat.TimeZone != "Local" {
		if zone, err := time.LoadLocation(chat.TimeZone); err == nil {
			return zone
		}
	}
	return cmp.Or(s.Zone, time.UTC)
}

// Self returns the identity of the agent.
func (v *View) Self() protocol.PeerID { return v.m.id }

// Options returns the settings of the mailbox.
func (v *View) Options() *Options { return &v.m.opts }

// A Tx is a transaction of the mailbox. After its first error it reads and writes nothing.
// Messages are sent and turns stopped only after the commit.
type Tx struct{ View }

// InTx runs do in a transaction, which commits unless tx has an error; see store.InTx.
func (m *Mailbox) InTx(ctx context.Context, do func(tx *Tx)) error {
	return store.InTx(ctx, m.db, func(tx *store.Tx) { do(&Tx{View{tx, m}}) })
}

// InTxAhead is InTx for what its sender repeats until InTxAhead has returned; see store.InTxAhead.
func (m *Mailbox) InTxAhead(ctx context.Context, do func(tx *Tx)) error {
	return store.InTxAhead(ctx, m.db, func(tx *store.Tx) { do(&Tx{View{tx, m}}) })
}

// HasAnswered reports whether a turn has sent a message and answered its event. It reports false
// after an error.
func (m *Mailbox) HasAnswered(ctx context.Context, turnID string) bool {
	return store.Value[bool](store.On(ctx, m.db), `SELECT outbound AND EXISTS (SELECT 1 FROM events
		WHERE events.event_id = turns.event_id AND (events.state = 'answered' OR NOT events.`+OpenCondition+`))
		FROM turns WHERE turn_id = ?`, turnID)
}

// InTxUnsynced is InTx for what can be done again after a power cut; see store.InTxUnsynced.
func (m *Mailbox) InTxUnsynced(ctx context.Context, do func(tx *Tx)) error {
	return store.InTxUnsynced(ctx, m.db, func(tx *store.Tx) { do(&Tx{View{tx, m}}) })
}

// First returns the first row of a query, or the zero value if there is none.
func First[T any](tx *store.Tx, columns func(*T) []any, query string, args ...any) T {
	value, _ := store.One(tx, columns, query, args...)
	return value
}

// Record queues an agent_event to system:attention in the same transaction. The event carries the
// message id and trace of e, which may be nil.
func (tx *Tx) Record(key string, e *Entry, content any) {
	tx.Enqueue(protocol.TopicAttention, key, tx.m.MessageFor(e, protocol.TypeAgentEvent, content))
}

// RecordRefusal records an action that the policy forbids. e may be nil.
func (tx *Tx) RecordRefusal(e *Entry, eventID, tool, reason string) {
	tx.Record(UniqueKey("refusal", time.Now().UnixMicro()), e, protocol.Refusal{
		Event: protocol.RecordRefusal, EventID: eventID, Agent: tx.m.id, Tool: tool, Reason: reason,
	})
}

// MessageFor returns a message from this agent in response to an event. e may be nil.
func (m *Mailbox) MessageFor(e *Entry, t protocol.MessageType, content any) protocol.Message {
	msg := protocol.NewMessage(t, m.id, content)
	if e != nil {
		msg.InReplyTo, msg.TraceParent = e.Source.MessageID, e.Source.TraceParent
	}
	return msg
}

// Enqueue queues a message for a topic. A record that does not fit into the outbox is dropped and
// logged.
func (tx *Tx) Enqueue(topic protocol.Topic, key string, m protocol.Message) {
	body, err := json.Marshal(m)
	if tx.Fail(err); tx.Err() != nil {
		return
	}
	_, err = tx.m.Outbox.EnqueueTx(tx.Tx, string(topic), key, body)
	if errors.Is(err, outbox.ErrFull) && topic == protocol.TopicAttention {
		tx.m.opts.Log.Error().Err(err).Msg("record for system:attention dropped")
		return
	}
	tx.Fail(err)
}

// UniqueKey returns a unique outbox key for an item that is queued in the transaction of its
// cause, and therefore only once.
func UniqueKey(kind string, n int64) string { return fmt.Sprintf("%s:%d:%s", kind, n, ulid.Make()) }

// Counter returns a named number, or 0 if it was never set.
func (v *View) Counter(name string) int64 {
	return store.Value[int64](v.Tx, `SELECT value FROM counters WHERE name = ?`, name)
}

// SetCounter sets a named number.
func (tx *Tx) SetCounter(name string, n int64) {
	tx.Exec(`INSERT INTO counters (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = ?2`, name, n)
}

// Prune deletes closed events, ended turns and sent messages older than Options.Retention.
func (m *Mailbox) Prune(ctx context.Context) error {
	tx, before := m.View(ctx), time.Now().Add(-m.opts.Retention).UnixMicro()
	for _, statement := range []string{
		`DELETE FROM events WHERE received_at < ? AND NOT ` + OpenCondition + `
			AND NOT EXISTS (SELECT 1 FROM turns WHERE turns.turn_id = events.turn_id AND turns.` + LiveCondition + `)
			AND NOT EXISTS (SELECT 1 FROM obligations o WHERE o.event_id = events.event_id AND o.open = 1)`,
		`DELETE FROM turns WHERE ended_at > 0 AND ended_at < ?`,
		`DELETE FROM sent WHERE sent_at < ? AND NOT EXISTS (SELECT 1 FROM obligations o WHERE o.open = 1
			AND (o.event_id = sent.event_id OR sent.key = '` + ObligationPrefix + `' || o.id))`,
		`DELETE FROM receipts WHERE received_at < ?`,
		`DELETE FROM claims WHERE expires_at < ?`,
		`DELETE FROM questions WHERE asked_at < ?`,
		`DELETE FROM escalations WHERE asked_at < ? AND open = 0`,
		`DELETE FROM acts WHERE at < ? AND NOT EXISTS (SELECT 1 FROM obligations o WHERE o.id = acts.target AND o.open = 1)`,
		`DELETE FROM obligations WHERE created_at < ? AND open = 0`,
		`DELETE FROM files WHERE fetched_at < ?`,
		`DELETE FROM decisions WHERE at < ? AND state NOT IN ('pending', 'allowed')`,
	} {
		tx.Exec(statement, before)
	}
	return tx.Err()
}

// Undecided reads from the database of an agent, which may be running, how many events wait for a
// decision, and since when. Events wait while the harness is not ready, for example because its
// program exits at once.
func Undecided(ctx context.Context, path string) (count int, since time.Time, err error) {
	db, err := store.OpenExisting(path)
	if err != nil {
		return 0, since, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = store.Autocommit(ctx, db, func(tx *store.Tx) {
		const from = ` FROM events WHERE state = ?`
		count = store.Value[int](tx, `SELECT count(*)`+from, Stored)
		since = First(tx, scanTime, `SELECT coalesce(min(received_at), 0)`+from, Stored)
	})
	return count, since, err
}

// Failing reads from the database of an agent how many turns have failed since the last success,
// the reason of the last failure, and when the first of them failed. count is 0 if the last turn
// succeeded. It does not change the database.
func Failing(ctx context.Context, path string) (reason string, count int, since time.Time, err error) {
	db, err := store.OpenExisting(path)
	if err != nil {
		return "", 0, since, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = store.Autocommit(ctx, db, func(tx *store.Tx) {
		const failed = ` FROM turns WHERE state = 'failed' AND ended_at > (SELECT coalesce(max(ended_at), 0) FROM turns WHERE state = 'finished')`
		count = store.Value[int](tx, `SELECT count(*)`+failed)
		reason = store.Value[string](tx, `SELECT coalesce((SELECT body`+failed+` ORDER BY ended_at DESC LIMIT 1), '')`)
		since = First(tx, scanTime, `SELECT coalesce(min(ended_at), 0)`+failed)
	})
	return reason, count, since, err
}

// scanTime returns the column of a query for a single time.
func scanTime(t *time.Time) []any { return []any{store.Micros{Time: t}} }
