package surface

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"hubbub/peers/store"
	"hubbub/protocol"

	"github.com/oklog/ulid/v2"
)

// A State is how far a chat is on its way to an agent.
type State string

// The states of a chat.
const (
	Idle     State = "idle"     // it needs no agent yet, or may have none
	Asking   State = "asking"   // the spawn_request is repeated until its route is assigned
	Assigned State = "assigned" // it has an agent
)

// A news is what may happen to a chat on its way.
type news string

const (
	said   news = "said"   // something waits for an agent
	gone   news = "gone"   // the agent that was spawned for it is absent
	failed news = "failed" // the spawner could not start an agent
	routed news = "routed" // an agent was assigned
	heard  news = "heard"  // its agent took a message, without a route
	ended  news = "ended"  // it may have no agent any more
)

// ways says what follows from what, and is the only place that does. What is not
// in it changes nothing.
var ways = map[State]map[news]State{
	Idle:     {said: Asking, routed: Assigned},
	Asking:   {failed: Asking, routed: Assigned, heard: Assigned, ended: Idle},
	Assigned: {gone: Asking, routed: Assigned},
}

// A chat is what is known of one.
type chat struct {
	id      protocol.PeerID
	state   State
	closed  bool   // it asks for no agent
	request string // of the open spawn_request
	askedAt time.Time
	told    bool
	trouble string
}

// load reads a chat; one that is not stored is idle.
func (s *Surface) load(ctx context.Context, q store.Querier, id protocol.PeerID) (*chat, error) {
	c, found, err := store.One(ctx, q, func(row store.Row) (*chat, error) {
		c := &chat{id: id}
		var asked int64
		err := row.Scan(&c.state, &c.closed, &c.request, &asked, &c.told, &c.trouble)
		c.askedAt = time.UnixMicro(asked)
		return c, err
	}, `SELECT state, closed, request, asked_at, told, trouble FROM surface_chats WHERE surface = ? AND chat = ?`, s.opts.Name, id)
	if err == nil && !found {
		c = &chat{id: id, state: Idle}
	}
	return c, err
}

// move takes a chat on by what happened to it, and reports whether that changed
// anything. It stores the chat.
func (s *Surface) move(ctx context.Context, tx *sql.Tx, c *chat, n news) (bool, error) {
	to, ok := ways[c.state][n]
	if !ok || c.closed && to == Asking {
		return false, nil
	}
	from := c.state
	c.state = to
	var asks error
	switch {
	case to != Asking:
		*c = chat{id: c.id, state: to, closed: c.closed}
	case from == Asking: // under a new request: the spawner is done with the old one
		c.request = newRequest()
		asks = s.noteRequest(ctx, tx, c)
	default:
		*c = chat{id: c.id, state: to, request: newRequest(), askedAt: s.opts.Now()}
		_, enqueued := s.chats.EnqueueTx(ctx, tx, string(c.id), c.request, nil)
		asks = errors.Join(s.noteRequest(ctx, tx, c), enqueued)
	}
	return true, errors.Join(asks, s.save(ctx, tx, c))
}

func newRequest() string { return "req_" + ulid.Make().String() }

func (s *Surface) noteRequest(ctx context.Context, tx *sql.Tx, c *chat) error {
	return store.Exec(ctx, tx, `INSERT INTO surface_requests (request, surface, chat, at) VALUES (?, ?, ?, ?)`,
		c.request, s.opts.Name, c.id, s.now())
}

func (s *Surface) save(ctx context.Context, q store.Querier, c *chat) error {
	asked := int64(0)
	if !c.askedAt.IsZero() {
		asked = c.askedAt.UnixMicro()
	}
	return store.Exec(ctx, q, `INSERT OR REPLACE INTO surface_chats (surface, chat, state, closed, request, asked_at, told, trouble)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, s.opts.Name, c.id, c.state, c.closed, c.request, asked, c.told, c.trouble)
}

// An Assignment is an agent of a chat.
type Assignment struct {
	Agent      protocol.PeerID
	Spawned    bool // as the answer to a spawn_request
	Configured bool // it knows that it talks to the chat
}

// Agents returns the agents of a chat in the order of their assignment.
func (s *Surface) Agents(ctx context.Context, q store.Querier, id protocol.PeerID) ([]Assignment, error) {
	return store.All(ctx, q, func(row store.Row) (a Assignment, err error) {
		err = row.Scan(&a.Agent, &a.Spawned, &a.Configured)
		return a, err
	}, `SELECT agent, spawned, configured FROM surface_agents WHERE surface = ? AND chat = ? ORDER BY id`, s.opts.Name, id)
}

// A Standing is where a chat is, as people may be told.
type Standing struct {
	State   State
	Trouble string // why there is no agent yet
	Agents  []Assignment
	Waiting int // events that no agent has yet
}

// Standing returns where a chat is.
func (s *Surface) Standing(ctx context.Context, q store.Querier, id protocol.PeerID) (Standing, error) {
	c, err := s.load(ctx, q, id)
	if err != nil {
		return Standing{}, err
	}
	st := Standing{State: c.state, Trouble: c.trouble}
	if st.Agents, err = s.Agents(ctx, q, id); err != nil {
		return st, err
	}
	st.Waiting, _, err = store.One(ctx, q, store.Column[int], `SELECT count(*) FROM surface_events WHERE surface = ? AND chat = ? AND agents = ''`,
		s.opts.Name, id)
	if err != nil {
		return st, err
	}
	queued, err := s.agents.Count(ctx, q, agentDestination(id, "*"), openStates...)
	st.Waiting += queued
	return st, err
}

// Close ends a chat's way to an agent: it asks for none until it is opened. One that
// it has it keeps.
func (s *Surface) Close(ctx context.Context, tx *sql.Tx, id protocol.PeerID) error {
	c, err := s.load(ctx, tx, id)
	if err != nil {
		return err
	}
	c.closed = true
	if moved, err := s.move(ctx, tx, c, ended); moved || err != nil {
		return err
	}
	return s.save(ctx, tx, c)
}

// end ends a chat's way to an agent until something more is said.
func (s *Surface) end(ctx context.Context, tx *sql.Tx, id protocol.PeerID) error {
	c, err := s.load(ctx, tx, id)
	if err == nil {
		_, err = s.move(ctx, tx, c, ended)
	}
	return err
}

// Open lets a chat ask for agents again, and has it ask where something waits.
func (s *Surface) Open(ctx context.Context, tx *sql.Tx, id protocol.PeerID) error {
	c, err := s.load(ctx, tx, id)
	if err != nil {
		return err
	}
	c.closed = false
	return errors.Join(s.save(ctx, tx, c), s.takeUp(ctx, tx, c))
}
