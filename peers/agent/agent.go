package agent

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/outbox"
	"hubbub/peers/peer"
	"hubbub/protocol"
)

// An Agent is one agent of the bus.
type Agent struct {
	id      protocol.PeerID
	db      *sql.DB
	harness harness.Harness
	traits  harness.Capabilities // of the harness: those that never change
	opts    Options
	peer    *peer.Peer
	box     *outbox.Outbox
	wake    chan struct{}
	queued  sync.Map // transactions (*sql.Tx) that queue something in the outbox
	ready   sync.Once

	mu      sync.Mutex
	running map[string]*run // by turn id
	// entering are closed when the last turn of a place is with the harness, by place.
	entering map[string]chan struct{}

	broker  brokerState
	reports chan harness.Progress
	begun   chan struct{} // a turn has begun: somebody may wait for an answer

	downSince time.Time // the harness is not ready; zero: it is. Of the mailbox loop alone
}

// New makes the agent of an identity ("agent:lead") on a database of Open,
// whose turns h runs. It does no I/O and starts nothing.
func New(id protocol.PeerID, db *sql.DB, h harness.Harness, opts *Options) *Agent {
	a := &Agent{
		id: id, db: db, harness: h, opts: opts.withDefaults(), wake: make(chan struct{}, 1),
		running: map[string]*run{}, entering: map[string]chan struct{}{}, reports: make(chan harness.Progress, 256), begun: make(chan struct{}, 1),
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	a.traits, _ = h.Capabilities(gone) // what never changes is told also by a harness that does not run
	var po peer.Options
	if a.opts.Peer != nil {
		po = *a.opts.Peer
	}
	theirs := po.OnConnect
	po.OnConnect = func(ctx context.Context) {
		a.online(ctx)
		if theirs != nil {
			theirs(ctx)
		}
	}
	po.StopTimeout = cmp.Or(po.StopTimeout, time.Second) // turns, harness and outbox have had their time
	a.peer = peer.New(id, &po)
	a.box = outbox.New(db, a.sendItem, &outbox.Options{
		MaxPending: 100_000, MaxPerDestination: 90_000, StopTimeout: 2 * time.Second, AttemptTimeout: 40 * time.Second, Poll: 15 * time.Second,
		OnSettled: a.itemSettled, Log: a.opts.Log,
	})
	a.handle()
	return a
}

// Run connects, serves and runs turns until ctx ends (nil), or until the bus
// refuses the agent or its harness can never work. It may be called once.
func (a *Agent) Run(ctx context.Context) error {
	if err := errors.Join(a.recoverTurns(ctx), a.recallBroker(ctx)); err != nil {
		return fmt.Errorf("taking up what the last run left: %w", err)
	}
	if err := a.peer.Subscribe(ctx, protocol.Pattern(a.id)); err != nil {
		return fmt.Errorf("subscribing to %s: %w", a.id, err)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	// Turns end first, then the harness, then what they queued is sent, then the connection ends.
	work, stopWork := context.WithCancelCause(context.WithoutCancel(ctx))
	link, stopLink := context.WithCancel(context.WithoutCancel(ctx))
	defer stopLink()
	var turns, others sync.WaitGroup
	fail := make(chan error, 6)
	start := func(wg *sync.WaitGroup, ctx context.Context, what string, run func(context.Context) error) {
		wg.Go(func() {
			if err := run(ctx); err != nil {
				fail <- fmt.Errorf("%s: %w", what, err)
				stop(err)
			}
		})
	}
	start(&others, link, "the connection to the bus", a.peer.Run)
	start(&others, link, "the outbox", a.box.Run)
	start(&others, link, "progress", a.reportLoop)
	start(&others, link, "the typing sign", a.typingLoop)
	start(&turns, work, "the harness", func(ctx context.Context) error {
		return a.harness.Run(ctx, harness.Host{Tools: a.hostTools(), Progress: a.progress, Output: a.output})
	})
	start(&turns, ctx, "the mailbox", func(ctx context.Context) error { return a.mailboxLoop(ctx, work) })
	<-ctx.Done()
	a.stopTurns()
	stopWork(errStopping)
	turns.Wait()
	a.flush(link)
	stopLink()
	others.Wait()
	select {
	case err := <-fail:
		return err
	default:
		return nil
	}
}

// errStopping is the cause with which turns end when the agent stops.
var errStopping = errors.New("the agent is stopping")

// stopTurns gives running turns the grace of Options.StopGrace.
func (a *Agent) stopTurns() {
	deadline := time.NewTimer(a.opts.StopGrace)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for a.busyTurns() > 0 {
		select {
		case <-deadline.C:
			return
		case <-tick.C:
		}
	}
}

// flush gives the outbox a moment to send what is due, as long as there is a
// connection.
func (a *Agent) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	connected, stop := context.WithTimeout(ctx, 50*time.Millisecond)
	defer stop()
	if a.peer.Ready(connected) != nil {
		return
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for a.somethingDue(ctx) {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// somethingDue reports whether the outbox sends something now, or could.
func (a *Agent) somethingDue(ctx context.Context) bool {
	items, err := a.box.List(ctx, &outbox.Filter{States: []outbox.State{outbox.StatePending, outbox.StateSending}, Limit: 100})
	if err != nil {
		return false
	}
	for i := range items {
		if items[i].State == outbox.StateSending || !items[i].NotBefore.After(time.Now()) {
			return true
		}
	}
	return false
}

// poke makes the mailbox loop look again. It never blocks.
func (a *Agent) poke() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// online says on every connection that the agent is there, until somebody has
// heard it: the spawner may be starting anew at this moment. Then it attends to
// the collaboration broker as long as the connection lasts.
func (a *Agent) online(ctx context.Context) {
	if err := a.peer.Ready(ctx); err != nil {
		return
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { a.brokerLoop(ctx) })
	if err := a.box.Hurry(ctx, ""); err != nil && ctx.Err() == nil {
		a.opts.Log.Warn().Err(err).Msg("the outbox was not hurried")
	}
	m := a.peer.NewMessage(protocol.TypeAgentEvent, protocol.AgentOnline{Event: "online", Agent: a.id})
	for wait := time.Second; ; wait = min(2*wait, 20*time.Second) {
		result, err := a.peer.Send(ctx, protocol.TopicAgents, m)
		switch {
		case err == nil:
			a.ready.Do(func() {
				if a.opts.OnReady != nil {
					a.opts.OnReady()
				}
			})
			if result.DeliveredTo > 0 {
				return
			}
		case ctx.Err() == nil:
			a.opts.Log.Warn().Err(err).Msg("the bus did not take the news that this agent is online; trying again")
		}
		if !sleep(ctx, wait) {
			return
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func randomFence() string { return rand.Text()[:16] }
