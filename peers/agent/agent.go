package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"hubbub/peers/agent/files"
	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/mailbox"
	"hubbub/peers/agent/mailbox/decisions"
	"hubbub/peers/agent/mailbox/lifecycle"
	"hubbub/peers/agent/mailbox/obligations"
	"hubbub/peers/agent/tools"
	"hubbub/peers/agent/turns"
	"hubbub/peers/attention"
	"hubbub/peers/outbox"
	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/notify"
	"hubbub/protocol/retry"

	"golang.org/x/sync/errgroup"
)

// An Agent is one agent of the bus.
type Agent struct {
	id        protocol.PeerID
	opts      Options
	harness   harness.Harness
	peer      *peer.Peer
	mailbox   *mailbox.Mailbox
	turns     *turns.Runner
	tools     *tools.Provider
	broker    *broker
	approvals *approvals
	drafts    *drafts

	ready             sync.Once
	reports           chan report
	turnStarted       notify.Signal // somebody may be waiting for an answer
	connected         notify.Signal
	announceRequested notify.Signal // by the spawner
}

// Open opens the agent's database, creating it if it is missing.
func Open(path string) (*store.DB, error) { return mailbox.Open(path) }

// New returns the agent of an identity such as "agent:lead" on a database from Open. h runs its
// turns. New does no I/O and starts nothing. A program may run several agents.
func New(id protocol.PeerID, db *store.DB, h harness.Harness, opts *Options) *Agent {
	a := &Agent{id: id, harness: h, opts: opts.withDefaults(), reports: make(chan report, 256),
		turnStarted: notify.New(), connected: notify.New(), announceRequested: notify.New(), drafts: newDrafts()}
	a.peer = a.newPeer()
	a.broker = newBroker(a)
	a.approvals = newApprovals(a)
	o := &a.opts
	nature := staticCapabilities(h)
	settings := mailbox.Settings{
		Self: attention.Self{ID: string(id), Aliases: o.Aliases, Roles: o.Roles, Streams: o.Streams},
		Attention: attention.Config{Version: o.Version, Deadline: o.Deadline, Digests: o.DigestEvery > 0,
			Words: o.Words},
		Escalation: o.Escalation, Returns: *o.Returns, Async: nature.Asynchronous, Zone: o.Zone, Log: o.Log,
		Failpoint: o.failpoint,
	}
	a.mailbox = mailbox.New(db, a.send, mailbox.Options{
		Settings: settings, MaxOpen: o.MaxOpen, DeferFor: o.DeferFor, Retention: o.Retention,
		Broker: a.broker, Hooks: mailbox.Hooks{
			Settled: lifecycle.CloseEscalation, Delivered: obligations.SetID, Undelivered: obligations.CloseUndelivered,
			Unconfirmed: obligations.SyncWithoutID,
		}, StopTurn: func(turnID, reason string) { a.turns.Stop(turnID, reason) },
		OnChange: func() { a.turns.Notify() },
	})
	kept := &files.Cache{Mailbox: a.mailbox, Client: o.Fetch, Transcribe: o.Transcribe, ReadPDF: o.ReadPDF, Log: o.Log}
	a.tools = &tools.Provider{Settings: settings, Mailbox: a.mailbox, Broker: a.broker.Client, ClaimTTL: o.ClaimTTL,
		OnChange: func() { a.turns.Notify() }, Redact: o.Redact, Files: kept, Workspace: o.Workspace,
		MaxPosts: o.Budget.ChatPosts}
	a.turns = turns.New(a.mailbox, h, a.tools, a.broker, turns.Options{
		Settings: settings, ComposeWindow: o.ComposeWindow, ComposeCap: o.ComposeCap, DigestEvery: o.DigestEvery,
		Budget:      *o.Budget,
		ReadsSystem: nature.UsesSystemPrompt, OnlyEvent: nature.OnlyEvent,
		Parallel: o.Parallel, MaxAttempts: o.MaxAttempts,
		FirstRetry:   o.FirstRetry,
		SystemPrompt: o.SystemPrompt, Workspace: o.Workspace, ChatServer: o.ChatServer, Servers: a.servers,
		Fence: o.Fence, OnTurnStart: a.turnStarted.Notify, OnIdle: o.OnIdle, Approver: a.approvals.forTurn, Files: kept,
	})
	a.registerHandlers()
	return a
}

// staticCapabilities returns the capabilities of a harness that never change. The ended context
// keeps Capabilities from waiting.
func staticCapabilities(h harness.Harness) harness.Capabilities {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	caps, _ := h.Capabilities(ctx) //nolint:errcheck // they are set in any case
	return caps
}

func (a *Agent) newPeer() *peer.Peer {
	opts := *cmp.Or(a.opts.Peer, &peer.Options{})
	theirs := opts.OnConnect
	opts.OnConnect = func(ctx context.Context) {
		if theirs != nil {
			theirs(ctx)
		}
		a.connected.Notify()
		a.announce(ctx) // until the connection ends
	}
	opts.StopTimeout = cmp.Or(opts.StopTimeout, time.Second) // turns, harness and outbox have stopped before
	return peer.New(a.id, &opts)
}

// Tools returns the agent's tools for callers outside of a turn, such as an MCP server. They may
// be used while Run is running. They reach all chats; ToolsFor is restricted to one.
func (a *Agent) Tools() harness.Tools { return a.ToolsFor("") }

// ToolsFor returns the tools with the reach of one chat, for a server that offers them to a
// program. ToolsFor("") is Tools.
func (a *Agent) ToolsFor(chat string) harness.Tools { return a.tools.ForChat(protocol.Topic(chat)) }

// Run connects, serves and runs turns. It returns nil when ctx ends, or an error when the bus
// refuses the agent or its harness fails permanently. It may be called once.
func (a *Agent) Run(ctx context.Context) error {
	if err := errors.Join(a.turns.Recover(ctx), a.broker.recall(ctx),
		a.mailbox.InTx(ctx, decisions.RevokeSession)); err != nil {
		return fmt.Errorf("recovering the last run: %w", err)
	}
	if err := a.peer.Subscribe(ctx, protocol.Pattern(a.id)); err != nil {
		return fmt.Errorf("subscribing to %s: %w", a.id, err)
	}
	// First the turns end, then the harness; then queued messages are sent, and the connection
	// ends.
	link, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	defer hangUp()
	g, ctx := errgroup.WithContext(ctx)
	for what, run := range map[string]func(context.Context) error{
		"the connection to the bus": a.peer.Run, "the outbox": a.mailbox.Outbox.Run, "progress": a.reportLoop,
		"the typing indicator": a.typingLoop,
	} {
		g.Go(func() error { return wrap(what, run(link)) })
	}
	g.Go(func() error {
		defer hangUp()
		err := a.work(ctx)
		a.flush(link)
		a.broker.Leave(link)
		return err
	})
	return g.Wait()
}

// work runs turns until ctx ends, and then grants running turns Options.StopGrace.
func (a *Agent) work(ctx context.Context) error {
	work, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		return wrap("the harness", a.harness.Run(work,
			harness.Host{Tools: a.Tools(), Progress: a.progress, Output: a.output}))
	})
	g.Go(func() error { return wrap("the mailbox", a.turns.Run(ctx, work)) })
	g.Go(func() error {
		<-ctx.Done()
		waitWhile(work, a.opts.StopGrace, func(context.Context) bool { return a.turns.Busy() })
		stop(turns.ErrStopping)
		return nil
	})
	return g.Wait()
}

// wrap prefixes an error with a description of what failed. It returns nil for nil.
func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// waitWhile waits while a condition holds, for at most limit.
func waitWhile(ctx context.Context, limit time.Duration, holds func(ctx context.Context) bool) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for holds(ctx) && retry.Sleep(ctx, 20*time.Millisecond) {
	}
}

// flush gives the outbox a moment to send what is due while there is a connection.
func (a *Agent) flush(ctx context.Context) {
	connected, stop := context.WithTimeout(ctx, 50*time.Millisecond)
	defer stop()
	if a.peer.Ready(connected) == nil {
		waitWhile(ctx, 2*time.Second, a.somethingDue)
	}
}

// somethingDue reports whether the outbox is sending or could send something.
func (a *Agent) somethingDue(ctx context.Context) bool {
	items, err := a.mailbox.Outbox.List(ctx, &outbox.Filter{States: []outbox.State{outbox.StatePending,
		outbox.StateSending}, Limit: 100})
	return err == nil && slices.ContainsFunc(items, func(i outbox.Item) bool {
		return i.State == outbox.StateSending || !i.NotBefore.After(time.Now())
	})
}

// maxAnnounceDelay is the longest delay between announcements while nobody receives them.
const maxAnnounceDelay = 5 * time.Minute

// announce announces the agent on each connection until somebody has received it. A spawner that
// starts later requests a further announcement. Meanwhile the agent stays announced at the
// collaboration broker.
func (a *Agent) announce(ctx context.Context) {
	if err := a.peer.Ready(ctx); err != nil {
		return
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { a.broker.attend(ctx) })
	if err := a.mailbox.Outbox.RetryNow(ctx, ""); err != nil && ctx.Err() == nil {
		a.opts.Log.Warn().Err(err).Msg("outbox not retried; its backoff continues")
	}
	m := a.peer.NewMessage(protocol.TypeAgentEvent, protocol.AgentOnline{Event: "online", Agent: a.id})
	for wait := time.Second; ; wait = min(2*wait, maxAnnounceDelay) {
		result, err := a.peer.Send(ctx, protocol.TopicAgents, m)
		if err == nil {
			a.ready.Do(a.opts.OnReady)
		} else if ctx.Err() == nil {
			a.opts.Log.Warn().Err(err).Msg("announcement on the bus failed; trying again")
		}
		if err == nil && result.DeliveredTo > 0 {
			return
		}
		select {
		case <-a.announceRequested.C():
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}
