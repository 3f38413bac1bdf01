package system_test

import (
	"context"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/peer"
	"hubbub/peers/store/storetest"
	"hubbub/peers/system"
	"hubbub/protocol"
)

// A fakeLauncher is a launcher whose agents are scripted peers of a bus in memory.
type fakeLauncher struct {
	t   *testing.T
	bus *bustest.Bus

	mu      sync.Mutex // guards the fields below
	play    func(s *fakeLauncher, spec system.Spec, a *fakeInstance)
	running map[system.AgentName]*fakeInstance
	starts  []system.Spec
	outlive bool
	broken  error // what Find answers

	mayEnd chan struct{} // if set, an instance ends when it is closed
}

// A fakeInstance is an agent that a fakeLauncher started.
type fakeInstance struct {
	launcher *fakeLauncher
	name     system.AgentName
	handle   string
	once     sync.Once
	ended    chan struct{}
	exit     error
	stops    int
}

func newFakeLauncher(t *testing.T, b *bustest.Bus) *fakeLauncher {
	return &fakeLauncher{t: t, bus: b, play: sayOnline, running: map[system.AgentName]*fakeInstance{}}
}

// sayOnline is what a healthy agent does.
func sayOnline(s *fakeLauncher, _ system.Spec, a *fakeInstance) {
	p := s.bus.Join(s.t, a.name.PeerID(), protocol.Pattern(a.name.PeerID()))
	defer p.Leave()
	online := p.NewMessage(protocol.TypeAgentEvent, protocol.AgentOnline{Event: "online", Agent: a.name.PeerID()})
	for { // until it is heard, as agents do
		got, err := p.Peer.Send(context.Background(), protocol.TopicAgents, online) // not t.Context: the test may end first
		if err == nil && got.DeliveredTo > 0 {
			<-a.ended
			return
		}
		select {
		case <-a.ended:
			return
		case <-time.After(time.Second):
		}
	}
}

func (s *fakeLauncher) Run(ctx context.Context) error { <-ctx.Done(); return nil }
func (s *fakeLauncher) Outlives() bool                { return s.outlive }
func (s *fakeLauncher) Paths(name system.AgentName) system.Paths {
	return system.Paths{Data: "/stage/" + string(name), TokenFile: "/stage/" + string(name) + ".token"}
}

func (s *fakeLauncher) Start(_ context.Context, spec system.Spec) (system.Instance, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.running[spec.Name]; old != nil {
		s.t.Errorf("%s is started twice", spec.Name)
	}
	s.starts = append(s.starts, spec)
	a := &fakeInstance{launcher: s, name: spec.Name, handle: strconv.Itoa(len(s.starts)), ended: make(chan struct{})}
	s.running[spec.Name] = a
	play := s.play
	go play(s, spec, a)
	return a, nil
}

func (s *fakeLauncher) Find(_ context.Context, spec system.Spec, _ string) (system.Instance, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return nil, s.broken
	}
	if a := s.running[spec.Name]; a != nil {
		return a, nil
	}
	return nil, system.ErrNotRunning
}

// end ends an instance as if it had exited.
func (a *fakeInstance) end(exit error) {
	a.once.Do(func() {
		a.launcher.mu.Lock()
		delete(a.launcher.running, a.name)
		a.launcher.mu.Unlock()
		a.exit = exit
		close(a.ended)
	})
}

func (a *fakeInstance) Handle() string { return a.handle }

func (a *fakeInstance) Wait(ctx context.Context) error {
	select {
	case <-a.ended:
		return a.exit
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (a *fakeInstance) Stop(context.Context) error {
	a.launcher.mu.Lock()
	a.stops++
	mayEnd := a.launcher.mayEnd
	a.launcher.mu.Unlock()
	if mayEnd != nil {
		<-mayEnd
	}
	a.end(&system.Exit{Reason: "stopped"})
	return nil
}

func (s *fakeLauncher) actor(name system.AgentName) *fakeInstance {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running[name]
}

func (s *fakeLauncher) startCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.starts)
}

func (s *fakeLauncher) playing(play func(*fakeLauncher, system.Spec, *fakeInstance)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.play = play
}

// A fixture is a bus, a spawner with its database, and a fake launcher.
type fixture struct {
	t        *testing.T
	bus      *bustest.Bus
	launcher *fakeLauncher
	path     string
	opts     system.Options
	stop     func()
}

// newFixture starts a spawner in a bubble.
func newFixture(t *testing.T, opts *system.Options) *fixture {
	t.Helper()
	b := bustest.StartInMemory(t, nil)
	h := &fixture{t: t, bus: b, launcher: newFakeLauncher(t, b), path: filepath.Join(t.TempDir(), "system.db")}
	if opts != nil {
		h.opts = *opts
	}
	h.opts.Peer = &peer.Options{Dial: b.Dial}
	h.start()
	t.Cleanup(func() {
		h.stop()
		h.launcher.mu.Lock()
		left := h.launcher.running
		h.launcher.running = map[system.AgentName]*fakeInstance{}
		h.launcher.mu.Unlock()
		for _, a := range left {
			close(a.ended)
		}
	})
	return h
}

func (h *fixture) start() {
	h.t.Helper()
	db, err := system.Open(h.path)
	if err != nil {
		h.t.Fatal(err)
	}
	ready := make(chan struct{})
	h.opts.OnReady = func() { close(ready) }
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	s := system.New(db, h.launcher, "/bin/agent", filepath.Join(filepath.Dir(h.path), "launch"), &h.opts)
	go func() {
		defer close(done)
		if err := s.Run(ctx); err != nil {
			h.t.Error("the spawner ended:", err)
		}
	}()
	<-ready
	var once sync.Once
	h.stop = func() {
		once.Do(func() {
			cancel()
			<-done
			if err := db.Close(); err != nil {
				h.t.Error(err)
			}
		})
	}
}

// write changes the database of a spawner that is stopped.
func (h *fixture) write(query string, args ...any) {
	h.t.Helper()
	db, err := system.Open(h.path)
	if err != nil {
		h.t.Fatal(err)
	}
	defer db.Close()
	if err := storetest.Exec(db, query, args...); err != nil {
		h.t.Fatal(err)
	}
}

// ask sends a spawn request.
func ask(t *testing.T, p *bustest.Scripted, from protocol.PeerID, r protocol.SpawnRequest) {
	t.Helper()
	if got := p.SendAs(t, from, protocol.TopicSpawn, protocol.TypeSpawnRequest, r); got.DeliveredTo != 1 {
		t.Fatalf("the request was not taken: %+v", got)
	}
}

// result and route wait for an answer.
func result(t *testing.T, p *bustest.Scripted) (protocol.SpawnResult, *bustest.Delivery) {
	t.Helper()
	var r protocol.SpawnResult
	d := p.NextOf(t, protocol.TypeSpawnResult)
	if err := d.Decode(&r); err != nil {
		t.Fatal(err)
	}
	return r, d
}

func route(t *testing.T, p *bustest.Scripted) protocol.RouteAssigned {
	t.Helper()
	var r protocol.RouteAssigned
	if err := p.NextOf(t, protocol.TypeRouteAssigned).Decode(&r); err != nil {
		t.Fatal(err)
	}
	return r
}
