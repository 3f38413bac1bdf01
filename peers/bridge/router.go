package bridge

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"sync"
	"time"

	"hubbub/peers/collab"
	"hubbub/peers/outbox"
	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/defaults"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
)

// Schema is the SQL of a surface's tables. The owner of the database makes it a
// migration step, or a part of one, beside outbox.Schema.
//
//go:embed schema.sql
var Schema string

// A Adapter is the bridge whose chats a surface serves. What it is asked within a
// transaction it answers with that transaction alone.
type Adapter interface {
	// FindChat returns the chat that a topic names. A refusal says why it may have no
	// agent: there is no such chat, or it is not admitted.
	FindChat(tx *store.Tx, topic protocol.Topic) (chat protocol.PeerID, refusal string)
	// Message returns the message by which one agent hears of an event, the same at
	// each call. An error of outbox.Permanent gives the event up for this agent.
	Message(ctx context.Context, e *Event) (protocol.Message, error)
	// Notify tells the people in a chat of trouble, if they can be told.
	Notify(tx *store.Tx, n *Notice)
	// OnSettled says what became of an event: an agent has it (sent), or will not get
	// it (dead, with the cause, or dropped).
	OnSettled(tx *store.Tx, e *Event, outcome outbox.State, cause error)
}

// An Event is something said in a chat, on its way to one of its agents.
type Event struct {
	ID     int64 // the host's number; grows in the order of the chat
	Chat   protocol.PeerID
	Source string            // sourceId
	Agents []protocol.PeerID // to whom it was handed on, in the order of their assignment
	Agent  protocol.PeerID   // who gets it now
}

// A Notice is trouble that a chat is told of.
type Notice struct {
	Kind   NoticeKind
	Chat   protocol.PeerID
	Agent  protocol.PeerID // whom it is about; empty where there is none
	Reason string
	Key    string // differs between troubles of one kind; empty where they need not be told apart
	Event  int64  // the oldest that waits for an agent, 0 where none does
}

// A NoticeKind says what is the matter.
type NoticeKind string

// The kinds of notices.
const (
	NoticeSlow        NoticeKind = "slow"    // no agent was assigned within Options.Patience; told once
	NoticeStartFailed NoticeKind = "failed"  // no agent could be started; told once, instead of slow
	NoticeAgentFailed NoticeKind = "givenUp" // the chat's own agent ended for good
	NoticeDeclined    NoticeKind = "untaken" // an agent is there and takes nothing
	NoticeAbsent      NoticeKind = "away"    // an agent is not there
)

// Options are the optional settings of a Surface. Nil is valid.
type Options struct {
	Name       string            // tells surfaces in one database apart; "" for the only one
	OneAgent   bool              // an agent takes the place of the one before, whoever assigned it
	People     []protocol.PeerID // who is admitted, as configured: whom agents may turn to
	Commands   CommandAdapter    // where people give out work in chats; nil: nowhere
	SlowAfter  time.Duration     // until a chat is told that no agent came; default 30s
	MinBackoff time.Duration     // between attempts; default 1s
	Crash      func(at string)   // set by tests of crashes
	Now        func() time.Time
	Log        *zerolog.Logger // default: no log
}

const (
	maxBackoff = 15 * time.Second // between attempts: an agent is to be found within 30 s
	forever    = 100 * 365 * 24 * time.Hour
	askTimeout = 40 * time.Second // longer than the bus waits for a peer
)

// A Router serves the chats of one bridge.
type Router struct {
	db         *sql.DB
	adapter    Adapter
	opts       Options
	log        *zerolog.Logger
	peer       *peer.Peer
	broker     *collab.Client
	steps      *outbox.Outbox // steps of chats on their way to an agent; destination: the chat
	deliveries *outbox.Outbox // what agents are to get; destination: the chat and the agent
	reports    *outbox.Outbox // what became of their replies; destination: the agent
	commands   *outbox.Outbox // what people want of the broker; destination: the chat

	inFlight sync.Map // the event that is being handed to an agent, by chat
}

// New makes a surface on a database with its tables and the outbox's. It does no
// I/O.
func New(db *sql.DB, host Adapter, opts *Options) *Router {
	s := &Router{db: db, adapter: host, opts: defaults.Of(opts)}
	defaults.Positive(&s.opts.SlowAfter, 30*time.Second)
	defaults.Set(&s.opts.Crash, func(string) {})
	defaults.Set(&s.opts.Now, time.Now)
	defaults.Log(&s.opts.Log)
	s.log = s.opts.Log
	s.steps = outbox.New(db, s.runStep, &outbox.Options{
		Name: s.queue(QueueChats), MinBackoff: s.opts.MinBackoff, MaxBackoff: maxBackoff, MaxAge: forever, MaxPending: 1_000_000,
		Parallel: 16, AttemptTimeout: time.Minute, Retention: time.Hour, OnSettled: s.onStepSettled, Now: s.opts.Now, Log: s.log,
	})
	s.deliveries = outbox.New(db, s.deliverItem, &outbox.Options{
		Name: s.queue(QueueAgents), MinBackoff: s.opts.MinBackoff, MaxBackoff: maxBackoff, MaxPending: 1_000_000, MaxPerDestination: 100_000,
		Parallel: 64, AttemptTimeout: time.Minute, OnSettled: s.onDeliverySettled, Now: s.opts.Now, Log: s.log,
		AfterSettled: func(it outbox.Item, _ outbox.State, _ error) {
			e := eventOfItem(&it)
			s.inFlight.CompareAndDelete(e.Chat, e.ID)
		},
	})
	s.reports = outbox.New(db, s.deliverReport, &outbox.Options{
		Name: s.queue(QueueReports), MaxBackoff: 2 * maxBackoff, MaxPending: 1_000_000, MaxPerDestination: 100_000,
		Parallel: 8, AttemptTimeout: time.Minute, Now: s.opts.Now, Log: s.log,
	})
	s.commands = outbox.New(db, commandRunner{s}.run, &outbox.Options{
		Name: s.queue(QueueCommands), MinBackoff: s.opts.MinBackoff, MaxBackoff: maxBackoff, MaxAge: maxCommandAge, MaxPending: 10_000,
		Parallel: 8, AttemptTimeout: time.Minute, OnSettled: commandRunner{s}.onSettled, Now: s.opts.Now, Log: s.log,
	})
	return s
}

// The names of a surface's queues.
const (
	QueueChats    = "chats"
	QueueAgents   = "agents"
	QueueReports  = "status"
	QueueCommands = "commands"
)

// queue returns the name of a queue in the database.
func (r *Router) queue(name string) string {
	if r.opts.Name == "" {
		return name
	}
	return name + ":" + r.opts.Name
}

// Queue returns one of the surface's queues, for operators.
func (r *Router) Queue(name string) *outbox.Outbox {
	return map[string]*outbox.Outbox{QueueChats: r.steps, QueueAgents: r.deliveries, QueueReports: r.reports, QueueCommands: r.commands}[name]
}

// Attach makes a peer the one that speaks and hears for the chats.
func (r *Router) Attach(p *peer.Peer) {
	r.peer = p
	p.Handle(protocol.TypeRouteAssigned, r.onRouteAssigned)
	p.Handle(protocol.TypeSpawnResult, r.onSpawnResult)
	r.broker = collab.New(p.ID(), p.Send, &collab.Options{Remember: r.saveBrokerSeen, Log: r.log})
	p.Handle(protocol.TypeCollabResult, r.broker.Take)
	if r.opts.Commands != nil {
		p.Handle(protocol.TypeCollabEvent, commandRunner{r}.takeEvent)
	}
}

// Run serves the chats until ctx ends; then it returns nil.
func (r *Router) Run(ctx context.Context) error {
	err := store.InTx(ctx, r.db, func(tx *store.Tx) {
		r.restoreBrokerSeen(tx)
		r.restoreSteps(tx)
	})
	if err != nil && ctx.Err() == nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.steps.Run(ctx) })
	group.Go(func() error { return r.deliveries.Run(ctx) })
	group.Go(func() error { return r.reports.Run(ctx) })
	group.Go(func() error { return r.commands.Run(ctx) })
	return group.Wait()
}

// OnConnected ends every wait that was for the bus.
func (r *Router) OnConnected(ctx context.Context) {
	if err := errors.Join(r.steps.RetryNow(ctx, ""), r.deliveries.RetryNow(ctx, ""), r.reports.RetryNow(ctx, ""), r.commands.RetryNow(ctx, "")); err != nil && ctx.Err() == nil {
		r.log.Warn().Err(err).Msg("waiting messages not hurried after a reconnect; they wait for their backoff")
	}
}

// Prune forgets what was settled before a time.
func (r *Router) Prune(ctx context.Context, before time.Time) error {
	tx := store.On(ctx, r.db)
	tx.Exec(`DELETE FROM bridge_events WHERE bridge = ? AND at < ? AND agents <> ''`, r.opts.Name, before.UnixMicro())
	tx.Exec(`DELETE FROM bridge_requests WHERE bridge = ?1 AND at < ?2
		AND request NOT IN (SELECT request FROM bridge_chats WHERE bridge = ?1)
		AND chat NOT IN (SELECT chat FROM bridge_agents WHERE bridge = ?1)`, r.opts.Name, before.UnixMicro())
	tx.Exec(`DELETE FROM bridge_claims WHERE at < ?`, before.UnixMicro())
	return tx.Err()
}

func (r *Router) now() int64 { return r.opts.Now().UnixMicro() }
