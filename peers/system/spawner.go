package system

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"hubbub/peers/outbox"
	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/notify"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
)

//go:embed schema.sql
var schema string

// Open opens the spawner's database.
func Open(path string) (*store.DB, error) {
	return store.Open(path, schema+outbox.Schema)
}

// A Spawner is agent:system.
type Spawner struct {
	db          *store.DB
	launcher    Launcher
	command     string
	folder      string // for token files
	opts        Options
	peer        *peer.Peer
	outbox      *outbox.Outbox
	rate        *rate.Limiter
	revocations notify.Signal        // there are credentials to revoke
	running     sync.WaitGroup       // the supervisors
	connected   atomic.Int64         // start of the connection in microseconds since 1970; 0 without a connection
	people      atomic.Pointer[bool] // agents may answer people at the command line; nil before the bus was asked

	mu          sync.Mutex      // guards the fields below
	ctx         context.Context // of Run; nil before Run
	supervisors map[AgentName]*supervisor
}

// New returns a spawner on a database from [Open]. command is the path of the agents' program.
// The spawner writes files for agents to folder. New does no I/O.
func New(db *store.DB, launcher Launcher, command, folder string, opts *Options) *Spawner {
	o := opts.withDefaults()
	s := &Spawner{
		db: db, launcher: launcher, command: command, folder: filepath.Clean(folder), opts: o,
		revocations: notify.New(),
		rate:        rate.NewLimiter(rate.Limit(float64(o.SpawnRate)/60), o.SpawnRate),
		supervisors: map[AgentName]*supervisor{},
	}
	s.outbox = outbox.New(db, s.sendAnnouncement, &outbox.Options{
		MaxBackoff: announceBackoff, AttemptTimeout: announceTimeout, StopTimeout: stopTimeout,
		MaxBody:   maxAnnouncement,
		OnSettled: s.onSettled, Log: o.Log,
	})
	s.peer = peer.New(protocol.PeerSystem, s.peerOptions())
	s.peer.Handle(protocol.TypeSpawnRequest, s.handleSpawnRequest)
	s.peer.Handle(protocol.TypeAgentEvent, s.handleAgentEvent)
	return s
}

func (s *Spawner) peerOptions() *peer.Options {
	var o peer.Options
	if s.opts.Peer != nil {
		o = *s.opts.Peer
	}
	if o.Log == nil {
		o.Log = s.opts.Log
	}
	theirs := o.OnConnect
	var ready sync.Once
	o.OnConnect = func(ctx context.Context) {
		s.connected.Store(time.Now().UnixMicro())
		defer s.connected.Store(0)
		if err := s.outbox.RetryNow(ctx, ""); err != nil && ctx.Err() == nil {
			s.opts.Log.Warn().Err(err).Msg("announcements not sent at once; their backoff continues")
		}
		ready.Do(func() {
			if s.opts.OnReady != nil {
				s.opts.OnReady()
			}
		})
		if theirs != nil {
			theirs(ctx)
		}
		s.probeAll(ctx)
		<-ctx.Done()
	}
	return &o
}

// Run serves until ctx ends, or until the bus refuses the spawner permanently. It then ends the
// agents, unless they outlive the spawner.
func (s *Spawner) Run(ctx context.Context) error {
	if err := s.peer.Subscribe(ctx, "system:*"); err != nil {
		return fmt.Errorf("subscribing to system:*: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	launching, stopLauncher := context.WithCancel(context.WithoutCancel(ctx))
	launched := make(chan error, 1)
	go func() { launched <- s.launcher.Run(launching) }()
	if err := s.resume(ctx); err != nil {
		stopLauncher()
		return errors.Join(err, <-launched)
	}
	err := s.peer.RunWith(ctx, func(ctx context.Context) error {
		g, ctx := errgroup.WithContext(ctx)
		g.Go(func() error { return s.outbox.Run(ctx) })
		g.Go(func() error { return s.revokeLoop(ctx) })
		g.Go(func() error { return s.idleLoop(ctx) })
		return g.Wait()
	})
	stop()
	s.running.Wait()
	stopLauncher()
	return errors.Join(err, <-launched)
}

// resume starts a supervisor for every agent that is wanted or may still be running.
func (s *Spawner) resume(ctx context.Context) error {
	names, err := store.ReadAll(ctx, s.db, store.Scalar[AgentName],
		`SELECT name FROM agents WHERE state = 'wanted' OR handle <> '' ORDER BY created_at, name`)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.ctx = ctx
	s.mu.Unlock()
	for _, name := range names {
		s.supervise(name, false)
	}
	return nil
}

// supervise makes sure that an agent has a supervisor. asked reports that a request wants a new
// agent, so that its start counts against the spawn rate.
func (s *Spawner) supervise(name AgentName, asked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx == nil || s.ctx.Err() != nil {
		return // the next run finds the agent in the table
	}
	if k := s.supervisors[name]; k != nil {
		k.wantedAgain = true
		return
	}
	k := newSupervisor(s, name, asked)
	s.supervisors[name] = k
	s.running.Go(func() { k.run(s.ctx) })
}

// release removes a supervisor, unless its agent was wanted again in the meantime; then it returns
// true.
func (s *Spawner) release(k *supervisor) (again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k.wantedAgain {
		k.wantedAgain = false
		return true
	}
	delete(s.supervisors, k.name)
	return false
}

func (s *Spawner) supervisor(name AgentName) *supervisor {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.supervisors[name]
}
