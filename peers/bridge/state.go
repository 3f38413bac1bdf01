package bridge

import (
	"cmp"
	"time"

	"hubbub/peers/outbox"
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
func (s *Router) load(tx *store.Tx, id protocol.PeerID) *chat {
	c, _ := store.One(tx, func(c *chat) []any {
		return []any{&c.state, &c.closed, &c.request, store.Micros{Time: &c.askedAt}, &c.told, &c.trouble}
	}, `SELECT state, closed, request, asked_at, told, trouble FROM surface_chats WHERE surface = ? AND chat = ?`, s.opts.Name, id)
	c.id, c.state = id, cmp.Or(c.state, Idle)
	return &c
}

// move takes a chat on by what happened to it, and reports whether that changed
// anything. It stores the chat.
func (s *Router) move(tx *store.Tx, c *chat, n news) bool {
	to, ok := ways[c.state][n]
	if !ok || c.closed && to == Asking {
		return false
	}
	from := c.state
	if from != Asking || to != Asking {
		*c = chat{id: c.id, state: to, closed: c.closed}
	}
	if to == Asking { // from Asking under a new request: the spawner is done with the old one
		c.request = "req_" + ulid.Make().String()
		tx.Exec(`INSERT INTO surface_requests (request, surface, chat, at) VALUES (?, ?, ?, ?)`, c.request, s.opts.Name, c.id, s.now())
	}
	if to == Asking && from != Asking {
		c.askedAt = s.opts.Now()
		s.takeStep(tx, c.id, c.request)
	}
	s.save(tx, c)
	return true
}

// takeStep queues a step of a chat.
func (s *Router) takeStep(tx *store.Tx, id protocol.PeerID, key string) {
	_, err := s.chats.Put(tx, string(id), key, nil)
	tx.Fail(err)
}

func (s *Router) save(tx *store.Tx, c *chat) {
	asked := int64(0)
	if !c.askedAt.IsZero() {
		asked = c.askedAt.UnixMicro()
	}
	tx.Exec(`INSERT OR REPLACE INTO surface_chats (surface, chat, state, closed, request, asked_at, told, trouble)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, s.opts.Name, c.id, c.state, c.closed, c.request, asked, c.told, c.trouble)
}

// An Assignment is an agent of a chat.
type Assignment struct {
	Agent      protocol.PeerID
	Spawned    bool // as the answer to a spawn_request
	Configured bool // it knows that it talks to the chat
}

// Agents returns the agents of a chat in the order of their assignment.
func (s *Router) Agents(tx *store.Tx, id protocol.PeerID) []Assignment {
	return store.All(tx, func(a *Assignment) []any { return []any{&a.Agent, &a.Spawned, &a.Configured} }, `SELECT agent, spawned, configured FROM surface_agents WHERE surface = ? AND chat = ? ORDER BY id`, s.opts.Name, id)
}

// A ChatStatus is where a chat is, as people may be told.
type ChatStatus struct {
	State   State
	Problem string // why there is no agent yet
	Agents  []Assignment
	Waiting int // events that no agent has yet
}

// Status returns where a chat is.
func (s *Router) Status(tx *store.Tx, id protocol.PeerID) ChatStatus {
	c := s.load(tx, id)
	waiting := store.Value[int](tx, `SELECT count(*) FROM surface_events WHERE surface = ? AND chat = ? AND agents = ''`, s.opts.Name, id)
	queued := s.agents.Count(tx, agentDestination(id, "*"), outbox.StatePending, outbox.StateSending)
	return ChatStatus{State: c.state, Problem: c.trouble, Agents: s.Agents(tx, id), Waiting: waiting + queued}
}

// Close ends a chat's way to an agent: it asks for none until it is opened. One that
// it has it keeps.
func (s *Router) Close(tx *store.Tx, id protocol.PeerID) {
	c := s.load(tx, id)
	c.closed = true
	if !s.move(tx, c, ended) {
		s.save(tx, c)
	}
}

// end ends a chat's way to an agent until something more is said.
func (s *Router) end(tx *store.Tx, id protocol.PeerID) { s.move(tx, s.load(tx, id), ended) }

// Open lets a chat ask for agents again, and has it ask where something waits.
func (s *Router) Open(tx *store.Tx, id protocol.PeerID) {
	c := s.load(tx, id)
	c.closed = false
	s.save(tx, c)
	s.takeUp(tx, c)
}
