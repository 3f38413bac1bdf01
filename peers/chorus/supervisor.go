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

// An Agent runs one external agent: its mailbox, attention and tools.
type Agent interface {
	// Run runs the agent. It returns nil when ctx ends, or an error when the bus refuses the
	// agent. It is called once; the other methods may be called before and while it runs.
	Run(ctx context.Context) error
	// Handle stores one event that came to the callback of a turn, delivered with the given
	// revision. The key is unique among the events from the agent. The error is a forbiddenError
	// if policy forbids the event.
	Handle(ctx context.Context, turn, revision, key string, e *chorus.Event) error
	// RefuseStale records an answer to an old text of a turn, and returns the forbiddenError for it.
	RefuseStale(ctx context.Context, turn string) error
	// Tools returns the MCP endpoint with the tools of one chat, for a caller that received this
	// revision of a turn.
	Tools(chat, turn, revision string) http.Handler
}

// A forbiddenError is an error for something that policy forbids. It says what to do instead.
type forbiddenError interface {
	error
	Forbidden() string
}

// An AgentSpec describes how to run an external agent.
type AgentSpec struct {
	Name           string
	Folder         string // for its database
	Roles, Streams []string
	Aliases        []string // other names in mentions
	Knocks         bool
	// Post POSTs a turn, with a callback and tools. It returns nil when the agent has the turn.
	Post          func(ctx context.Context, turn, revision, chat string, p *chorus.Post) error
	Peer          *peer.Options
	ComposeWindow time.Duration
	ComposeCap    time.Duration
	Deadline      time.Duration // for an answer
	Version       string
	Log           *zerolog.Logger
	Redact        *redact.Redactor // removes secrets from the results of tools; default none
}

// An agentSupervisor runs every external agent in the database, and follows changes of the
// database.
type agentSupervisor struct {
	g           *Gateway
	wg          sync.WaitGroup
	orphansOnce sync.Once

	mu      sync.Mutex
	running map[AgentName]*agentEntry
}

// An agentEntry is one external agent.
type agentEntry struct {
	name   AgentName
	added  int64 // distinguishes the agent from a removed one of the same name
	agent  Agent // nil if it cannot be opened; guarded by agentSupervisor.mu
	cancel context.CancelFunc
}

// folder returns the name of the agent's folder.
func (one *agentEntry) folder() string { return fmt.Sprintf("%s-%d", one.name, one.added) }

// Delays of the supervisor.
const (
	reconcileInterval = 500 * time.Millisecond
	agentRetryDelay   = 15 * time.Second // after the bus refused an agent
)

// lookup returns the running agent of a name, or nil.
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
	for retry.Sleep(ctx, reconcileInterval) {
		m.reconcile(ctx)
	}
	return nil
}

// reconcile stops removed agents and starts new ones.
func (m *agentSupervisor) reconcile(ctx context.Context) {
	if m.g.opts.OpenAgent == nil {
		return
	}
	wanted, err := store.ReadAll(ctx, m.g.store.db,
		func(one *agentEntry) []any { return []any{&one.name, &one.added} },
		`SELECT name, added_at FROM agent`)
	if err != nil {
		if ctx.Err() == nil {
			m.g.opts.Log.Error().Err(err).Msg("agents not read; trying again")
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
			m.g.opts.Log.Info().Str("agent", string(name)).Msg("agent removed")
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

// supervise runs one agent until it is removed. If the bus refuses the agent, supervise records
// that for `hubbub chorus list` and tries again. err is the error of opening the agent, or nil.
func (m *agentSupervisor) supervise(ctx context.Context, one *agentEntry, agent Agent, err error) {
	for {
		if err == nil {
			err = agent.Run(ctx)
		}
		if err == nil || ctx.Err() != nil {
			return
		}
		m.g.opts.Log.Error().Err(err).Str("agent", string(one.name)).Msg("agent not on the bus; trying again later")
		m.g.recordTrouble(ctx, one.name, err.Error())
		m.setAgent(one, nil)
		if errors.Is(err, peer.ErrReplaced) {
			<-ctx.Done() // another session is this agent now; do not fight over it
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

// removeData deletes the data of a removed agent, once it has ended.
func (m *agentSupervisor) removeData(one *agentEntry) {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	there, err := store.ReadValue[bool](ctx, m.g.store.db,
		`SELECT EXISTS (SELECT 1 FROM agent WHERE name = ? AND added_at = ?)`,
		one.name,
		one.added)
	if err == nil && !there {
		err = os.RemoveAll(m.g.store.agentFolder(one.folder()))
	}
	if err != nil {
		m.g.opts.Log.Error().Err(err).Str("agent", string(one.name)).Msg("data of a removed agent not removed")
	}
}

// removeOrphans deletes the data of agents that were removed while no gateway ran.
func (m *agentSupervisor) removeOrphans(wanted []agentEntry) {
	folders, err := os.ReadDir(m.g.store.agentFolder(""))
	for _, folder := range folders {
		if !slices.ContainsFunc(wanted, func(w agentEntry) bool { return w.folder() == folder.Name() }) {
			err = errors.Join(err, os.RemoveAll(m.g.store.agentFolder(folder.Name())))
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.g.opts.Log.Error().Err(err).Msg("data of removed agents not removed")
	}
}

// openAgent opens an external agent.
func (m *agentSupervisor) openAgent(ctx context.Context, one *agentEntry) (Agent, error) {
	g := m.g
	known, err := g.store.agent(ctx, one.name)
	if err != nil {
		return nil, err
	}
	link := g.peerOptions()
	link.Heartbeat = nil // only the gateway's own connection has one
	link.OnConnect = func(ctx context.Context) {
		g.recordTrouble(ctx, one.name, "")
		g.opts.Log.Info().Str("agent", string(one.name)).Msg("agent on the bus")
	}
	agent, err := g.opts.OpenAgent(&AgentSpec{
		Name: string(one.name), Folder: m.g.store.agentFolder(one.folder()),
		Roles: known.Settings.Roles, Streams: known.Settings.Streams, Aliases: known.Settings.Aliases,
		Knocks: known.Settings.Knocks,
		Post: func(ctx context.Context, turn, revision, chat string, p *chorus.Post) error {
			return g.deliveries.deliver(ctx,
				&delivery{agent: one.name, turn: turn, revision: revision, chat: chat, channel: p.Channel.ID}, p)
		},
		Peer: link, ComposeWindow: g.opts.ComposeWindow, ComposeCap: g.opts.ComposeCap, Deadline: g.opts.CallbackTTL,
		Version: g.opts.Version, Log: g.opts.Log,
	})
	if err != nil {
		return nil, err
	}
	return agent, nil
}
