package chorus

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/protocol/chorus"
	"hubbub/protocol/redact"
	"hubbub/protocol/retry"

	"github.com/rs/zerolog"
)

// An Agent runs one external agent: its mailbox, its attention, its tools.
type Agent interface {
	// Run runs the agent until ctx ends (nil) or the bus refuses it. It is called
	// once; the other methods may be called before and meanwhile.
	Run(ctx context.Context) error
	// Handle stores one event that came to the callback of a turn, delivered in that revision; key
	// names it among the events of the agent. The error is a forbidden if policy forbids it.
	Handle(ctx context.Context, turn, revision, key string, e *chorus.Event) error
	// RefuseStale records a message for words that the turn has no more, and returns the
	// forbidden for it.
	RefuseStale(ctx context.Context, turn string) error
	// Tools is the MCP endpoint of the tools of one chat, for whoever has a delivery of a turn.
	Tools(chat, turn, revision string) http.Handler
}

// A forbidden is an error that says what to do instead of what policy forbids.
type forbidden interface {
	error
	Forbidden() string
}

// An AgentSpec is what it takes to run an external agent.
type AgentSpec struct {
	Name           string
	Folder         string // of its own, for its database
	Roles, Streams []string
	Knocks         bool
	// Post has a turn POSTed, with a callback and tools; it returns nil when the agent
	// has it.
	Post          func(ctx context.Context, turn, revision, chat string, p *chorus.Post) error
	Peer          *peer.Options
	ComposeWindow time.Duration
	ComposeCap    time.Duration
	Deadline      time.Duration // of an answer
	Version       string
	Log           *zerolog.Logger
	Redact        *redact.Redactor // takes secrets out of what tools answer; none
}

// agentSupervisor keeps an agent running for every external agent in the database, as they
// come and go.
type agentSupervisor struct {
	g           *Gateway
	wg          sync.WaitGroup
	orphansOnce sync.Once

	mu      sync.Mutex
	running map[AgentName]*agentEntry
}

// A agentEntry is one external agent.
type agentEntry struct {
	name   AgentName
	added  int64 // tells an agent from one of the same name that was removed before
	agent  Agent // nil where it cannot be opened; guarded by members.mu
	cancel context.CancelFunc
}

// folder is the name of the agent's own folder.
func (one *agentEntry) folder() string { return fmt.Sprintf("%s-%d", one.name, one.added) }

// Delays of the loop over the agents.
const (
	reconcileInterval = 500 * time.Millisecond
	agentRetryDelay   = 15 * time.Second // after the bus refused an agent
)

// lookup returns what runs an agent, nil if nothing does.
func (m *agentSupervisor) lookup(name AgentName) Agent {
	m.mu.Lock()
	defer m.mu.Unlock()
	if one := m.running[name]; one != nil {
		return one.agent
	}
	return nil
}

// run follows the database until ctx ends, and returns when every agent has ended.
func (m *agentSupervisor) run(ctx context.Context) error {
	defer m.wg.Wait()
	ticker := time.NewTicker(reconcileInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			m.reconcile(ctx)
		}
	}
}

// reconcile ends the agents that are gone and begins those that are new.
func (m *agentSupervisor) reconcile(ctx context.Context) {
	if m.g.opts.OpenAgent == nil {
		return
	}
	wanted, err := store.Read(ctx, m.g.store.db, func(tx *store.Tx) []agentEntry {
		return store.All(tx, func(one *agentEntry) []any { return []any{&one.name, &one.added} }, `SELECT name, added_at FROM agent`)
	})
	if err != nil {
		if ctx.Err() == nil {
			m.g.log.Error().Err(err).Msg("agents not read; trying again")
		}
		return
	}
	m.orphansOnce.Do(func() { m.removeOrphans(wanted) })
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, one := range m.running {
		if !slices.ContainsFunc(wanted, func(w agentEntry) bool { return w.name == name && w.added == one.added }) {
			one.cancel()
			delete(m.running, name)
			m.g.log.Info().Str("agent", string(name)).Msg("agent removed")
		}
	}
	for _, w := range wanted {
		if m.running[w.name] == nil {
			m.start(ctx, &w)
		}
	}
}

// start opens an agent and runs it. The caller must hold mu.
func (m *agentSupervisor) start(ctx context.Context, one *agentEntry) {
	ctx, one.cancel = context.WithCancel(ctx)
	agent, err := m.openAgent(ctx, one)
	one.agent, m.running[one.name] = agent, one
	m.wg.Go(func() {
		m.supervise(ctx, one, agent, err)
		m.removeData(one)
	})
}

// supervise runs one agent until it is removed. What the bus refuses is recorded for
// `hubbub chorus list`, and tried again. Err is why it could not be opened, if so.
func (m *agentSupervisor) supervise(ctx context.Context, one *agentEntry, agent Agent, err error) {
	for {
		if err == nil {
			err = agent.Run(ctx)
		}
		if err == nil || ctx.Err() != nil {
			return
		}
		m.g.log.Error().Err(err).Str("agent", string(one.name)).Msg("agent not on the bus; trying again later")
		m.g.recordTrouble(ctx, one.name, err.Error())
		m.setAgent(one, nil)
		if errors.Is(err, peer.ErrReplaced) {
			<-ctx.Done() // somebody else is this agent now; to fight over it helps nobody
		}
		if !retry.Sleep(ctx, agentRetryDelay) {
			return
		}
		agent, err = m.openAgent(ctx, one)
		m.setAgent(one, agent)
	}
}

func (m *agentSupervisor) setAgent(one *agentEntry, agent Agent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	one.agent = agent
}

// removeData removes what was kept for an agent that was removed, once it has ended.
func (m *agentSupervisor) removeData(one *agentEntry) {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	there, err := store.Read(ctx, m.g.store.db, func(tx *store.Tx) bool {
		return store.Value[bool](tx, `SELECT EXISTS (SELECT 1 FROM agent WHERE name = ? AND added_at = ?)`, one.name, one.added)
	})
	if err == nil && !there {
		err = os.RemoveAll(m.g.store.agentFolder(one.folder()))
	}
	if err != nil {
		m.g.log.Error().Err(err).Str("agent", string(one.name)).Msg("data of a removed agent not removed")
	}
}

// removeOrphans removes what was kept for agents that were removed while no gateway ran.
func (m *agentSupervisor) removeOrphans(wanted []agentEntry) {
	folders, err := os.ReadDir(m.g.store.agentFolder(""))
	for _, folder := range folders {
		if !slices.ContainsFunc(wanted, func(w agentEntry) bool { return w.folder() == folder.Name() }) {
			err = errors.Join(err, os.RemoveAll(m.g.store.agentFolder(folder.Name())))
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.g.log.Error().Err(err).Msg("data of removed agents not removed")
	}
}

// openAgent opens what runs an external agent.
func (m *agentSupervisor) openAgent(ctx context.Context, one *agentEntry) (Agent, error) {
	g := m.g
	known, err := g.store.agent(ctx, one.name)
	if err != nil {
		return nil, err
	}
	link := g.peerOptions()
	link.Heartbeat = nil // it is the gateway's own connection's
	link.OnConnect = func(ctx context.Context) {
		g.recordTrouble(ctx, one.name, "")
		g.log.Info().Str("agent", string(one.name)).Msg("agent on the bus")
	}
	agent, err := g.opts.OpenAgent(&AgentSpec{
		Name: string(one.name), Folder: m.g.store.agentFolder(one.folder()),
		Roles: known.Settings.Roles, Streams: known.Settings.Streams, Knocks: known.Settings.Knocks,
		Post: func(ctx context.Context, turn, revision, chat string, p *chorus.Post) error {
			return g.deliver(ctx, &delivery{agent: one.name, turn: turn, revision: revision, chat: chat, channel: p.Channel.ID}, p)
		},
		Peer: link, ComposeWindow: g.opts.ComposeWindow, ComposeCap: g.opts.ComposeCap, Deadline: g.opts.CallbackTTL,
		Version: g.opts.Version, Log: g.log,
	})
	if err != nil {
		return nil, err
	}
	return agent, nil
}
