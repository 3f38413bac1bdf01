package bridge

import (
	"cmp"
	"context"
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

// Schema is the SQL of the bridge's tables. The owner of the database adds it to its own
// schema, together with outbox.Schema.
//
//go:embed schema.sql
var Schema string

// An Adapter connects a Router with one chat system. A method that receives a
// transaction uses nothing but that transaction.
type Adapter interface {
	// FindChat returns the chat that a topic names. A refusal says why the chat may
	// have no agent: it does not exist, or it is not admitted.
	FindChat(tx *store.Tx, topic protocol.Topic) (chat protocol.PeerID, refusal string)
	// Message returns the message that brings an event to one agent. It is the same at
	// each call. After an error of outbox.Permanent this agent never gets the event.
	Message(tx *store.Tx, e *Event) (protocol.Message, error)
}

// An Event is something that happened in a chat and is delivered to its agents.
type Event struct {
	ID     int64 // the adapter's number; it increases within a chat
	Chat   protocol.PeerID
	Source string            // sourceId
	Agents []protocol.PeerID // the agents it is delivered to, in the order of their assignment
	Agent  protocol.PeerID   // the agent of the current delivery
}

// A Notice is a problem that the people in a chat should know about.
type Notice struct {
	Kind   NoticeKind
	Chat   protocol.PeerID
	Agent  protocol.PeerID // the agent with the problem, if any
	Reason string
	Key    string // identifies the problem among others of its kind; may be empty
}

// A NoticeKind is the kind of a problem.
type NoticeKind string

// The kinds of notices.
const (
	NoticeSlow        NoticeKind = "slow"        // no agent was assigned within Options.SlowAfter; sent once
	NoticeStartFailed NoticeKind = "startFailed" // no agent could be started; sent once, instead of slow
	NoticeAgentFailed NoticeKind = "agentFailed" // the chat's own agent ended and is not restarted
	NoticeDeclined    NoticeKind = "declined"    // an agent is online and accepts nothing
	NoticeAbsent      NoticeKind = "absent"      // an agent is not online
	NoticeUndelivered NoticeKind = "undelivered" // an event will never reach an agent
)

// Options are the optional settings of a Router. Nil is valid.
type Options struct {
	Name       string            // distinguishes the routers of one database; "" for a single one
	OneAgent   bool              // every new agent replaces the previous one, whoever assigned it
	People     []protocol.PeerID // the configured users, whom agents may address
	Commands   CommandAdapter    // enables chat commands; nil disables them
	Prefix     string            `default:"/"`    // of chat commands
	SlowAfter  time.Duration     `positive:"30s"` // how long a chat waits for an agent before NoticeSlow
	MinBackoff time.Duration     // between attempts; default 1s
	Crash      func(at string)   // set by crash tests
	Now        func() time.Time
	Log        *zerolog.Logger // default: no log

	// OnNotice is called when the people in a chat should know about a problem. By default, they read
	// its text.
	OnNotice func(tx *store.Tx, n *Notice)
	// OnSettled is called when an agent has received an event (sent) or never will (dead, with the
	// cause, or dropped). By default, people read a notice about a dead one.
	OnSettled func(tx *store.Tx, e *Event, outcome outbox.State, cause error)
}

const (
	maxBackoff     = 15 * time.Second // between attempts, so that an agent is found within 30s
	forever        = 100 * 365 * 24 * time.Hour
	requestTimeout = 40 * time.Second // longer than the bus waits for a peer
)

// A Router connects the chats of one bridge with their agents.
type Router struct {
	db      *store.DB
	adapter Adapter
	opts    Options
	log     *zerolog.Logger
	peer    *peer.Peer
	broker  *collab.Client
	table   chatTable

	steps      *outbox.Outbox // what chats do to get an agent; destination: the chat
	deliveries *outbox.Outbox // events for agents; destination: the chat and the agent
	reports    *outbox.Outbox // what happened to the agents' replies; destination: the agent
	commands   *outbox.Outbox // commands of people; destination: the chat

	inFlight sync.Map // the event that is being delivered, by chat
}

// New returns a Router on a database that has Schema and outbox.Schema. It does no I/O.
func New(db *store.DB, adapter Adapter, opts *Options) *Router {
	r := &Router{db: db, adapter: adapter, opts: defaults.Of(opts)}
	defaults.Set(&r.opts.Crash, func(string) {})
	defaults.Set(&r.opts.Now, time.Now)
	defaults.Log(&r.opts.Log)
	defaults.Set(&r.opts.OnNotice, r.postNotice)
	if r.opts.OnSettled == nil {
		r.opts.OnSettled = func(tx *store.Tx, e *Event, outcome outbox.State, cause error) {
			if outcome == outbox.StateDead {
				r.notify(tx, &Notice{Kind: NoticeUndelivered, Chat: e.Chat, Agent: e.Agent, Reason: cause.Error()})
			}
		}
	}
	r.log = r.opts.Log
	r.table = chatTable{bridge: r.opts.Name}
	runner := commandRunner{r}
	r.steps = outbox.New(db, r.runStep, r.queueOptions(&outbox.Options{
		Name:       QueueChats,
		MinBackoff: r.opts.MinBackoff,
		MaxAge:     forever,
		MaxPending: 1_000_000,
		Parallel:   16,
		Retention:  time.Hour,
		OnSettled:  r.onStepSettled,
	}))
	r.deliveries = outbox.New(db, r.deliverItem, r.queueOptions(&outbox.Options{
		Name:              QueueAgents,
		MinBackoff:        r.opts.MinBackoff,
		MaxPending:        1_000_000,
		MaxPerDestination: 100_000,
		Parallel:          64,
		OnSettled:         r.onDeliverySettled,
		AfterSettled: func(item outbox.Item, _ outbox.State, _ error) {
			e := eventOfItem(&item)
			r.inFlight.CompareAndDelete(e.Chat, e.ID)
		},
	}))
	r.reports = outbox.New(db, r.deliverReport, r.queueOptions(&outbox.Options{
		Name:              QueueReports,
		MaxBackoff:        2 * maxBackoff,
		MaxPending:        1_000_000,
		MaxPerDestination: 100_000,
		Parallel:          8,
	}))
	r.commands = outbox.New(db, runner.run, r.queueOptions(&outbox.Options{
		Name:       QueueCommands,
		MinBackoff: r.opts.MinBackoff,
		MaxAge:     maxCommandAge,
		MaxPending: 10_000,
		Parallel:   8,
		OnSettled:  runner.onSettled,
	}))
	return r
}

// queueOptions completes the options of a queue with what all queues share.
func (r *Router) queueOptions(o *outbox.Options) *outbox.Options {
	if r.opts.Name != "" {
		o.Name += ":" + r.opts.Name
	}
	o.MaxBackoff = cmp.Or(o.MaxBackoff, maxBackoff)
	o.AttemptTimeout = time.Minute
	o.Now = r.opts.Now
	o.Log = r.log
	return o
}

// The names of a router's queues.
const (
	QueueChats    = "chats"
	QueueAgents   = "agents"
	QueueReports  = "status"
	QueueCommands = "commands"
)

// Queue returns the queue with one of these names, for operators.
func (r *Router) Queue(name string) *outbox.Outbox {
	return map[string]*outbox.Outbox{
		QueueChats:    r.steps,
		QueueAgents:   r.deliveries,
		QueueReports:  r.reports,
		QueueCommands: r.commands,
	}[name]
}

// Attach makes the router send and receive through a peer. Call it once, before Run.
func (r *Router) Attach(p *peer.Peer) {
	r.peer = p
	p.Handle(protocol.TypeRouteAssigned, r.onRouteAssigned)
	p.Handle(protocol.TypeSpawnResult, r.onSpawnResult)
	r.broker = collab.New(p.ID(), p.Send, &collab.Options{Remember: r.saveBrokerSeen, Log: r.log})
	p.Handle(protocol.TypeCollabResult, r.broker.Take)
	if r.opts.Commands != nil {
		p.Handle(protocol.TypeCollabEvent, commandRunner{r}.onEvent)
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

// OnConnected retries everything that waited for the bus.
func (r *Router) OnConnected(ctx context.Context) {
	err := errors.Join(r.steps.RetryNow(ctx, ""), r.deliveries.RetryNow(ctx, ""), r.reports.RetryNow(ctx, ""),
		r.commands.RetryNow(ctx, ""))
	if err != nil && ctx.Err() == nil {
		r.log.Warn().Err(err).Msg("queues not retried after a reconnect; they wait for their backoff")
	}
}

// Prune deletes what was settled before a time.
func (r *Router) Prune(ctx context.Context, before time.Time) error {
	return store.Autocommit(ctx, r.db, func(tx *store.Tx) {
		tx.Exec(`DELETE FROM bridge_events WHERE bridge = ? AND at < ? AND agents <> ''`, r.opts.Name,
			before.UnixMicro())
		tx.Exec(`DELETE FROM bridge_requests WHERE bridge = ?1 AND at < ?2
			AND request NOT IN (SELECT request FROM bridge_chats WHERE bridge = ?1)
			AND chat NOT IN (SELECT chat FROM bridge_agents WHERE bridge = ?1)`, r.opts.Name, before.UnixMicro())
		tx.Exec(`DELETE FROM bridge_claims WHERE at < ?`, before.UnixMicro())
		(&Pairing{Name: r.opts.Name}).prune(tx)
	})
}

func (r *Router) now() int64 { return r.opts.Now().UnixMicro() }
