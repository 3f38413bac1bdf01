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

// A trigger is what may happen to a chat on its way.
type trigger string

const (
	triggerMessage     trigger = "said"   // something waits for an agent
	triggerAgentLost   trigger = "gone"   // the agent that was spawned for it is absent
	triggerSpawnFailed trigger = "failed" // the spawner could not start an agent
	triggerRoute       trigger = "routed" // an agent was assigned
	triggerAgentBack   trigger = "heard"  // its agent took a message, without a route
	triggerClosed      trigger = "ended"  // it may have no agent any more
)

// transitions says what follows from what, and is the only place that does. What is not
// in it changes nothing.
var transitions = map[State]map[trigger]State{
	Idle:     {triggerMessage: Asking, triggerRoute: Assigned},
	Asking:   {triggerSpawnFailed: Asking, triggerRoute: Assigned, triggerAgentBack: Assigned, triggerClosed: Idle},
	Assigned: {triggerAgentLost: Asking, triggerRoute: Assigned},
}

// A chatState is what is known of one.
type chatState struct {
	id       protocol.PeerID
	state    State
	closed   bool   // it asks for no agent
	request  string // of the open spawn_request
	askedAt  time.Time
	notified bool
	problem  string
}

// load reads a chat; one that is not stored is idle.
func (r *Router) load(tx *store.Tx, id protocol.PeerID) *chatState {
	c, _ := store.One(tx, func(c *chatState) []any {
		return []any{&c.state, &c.closed, &c.request, store.Micros{Time: &c.askedAt}, &c.notified, &c.problem}
	}, `SELECT state, closed, request, asked_at, notified, problem FROM bridge_chats WHERE bridge = ? AND chat = ?`, r.opts.Name, id)
	c.id, c.state = id, cmp.Or(c.state, Idle)
	return &c
}

// transition takes a chat on by what happened to it, and reports whether that changed
// anything. It stores the chat.
func (r *Router) transition(tx *store.Tx, c *chatState, n trigger) bool {
	to, ok := transitions[c.state][n]
	if !ok || c.closed && to == Asking {
		return false
	}
	from := c.state
	if from != Asking || to != Asking {
		*c = chatState{id: c.id, state: to, closed: c.closed}
	}
	if to == Asking { // from Asking under a new request: the spawner is done with the old one
		c.request = "req_" + ulid.Make().String()
		tx.Exec(`INSERT INTO bridge_requests (request, bridge, chat, at) VALUES (?, ?, ?, ?)`, c.request, r.opts.Name, c.id, r.now())
	}
	if to == Asking && from != Asking {
		c.askedAt = r.opts.Now()
		r.enqueueStep(tx, c.id, c.request)
	}
	r.save(tx, c)
	return true
}

// enqueueStep queues a step of a chat.
func (r *Router) enqueueStep(tx *store.Tx, id protocol.PeerID, key string) {
	_, err := r.steps.EnqueueTx(tx, string(id), key, nil)
	tx.Fail(err)
}

func (r *Router) save(tx *store.Tx, c *chatState) {
	asked := int64(0)
	if !c.askedAt.IsZero() {
		asked = c.askedAt.UnixMicro()
	}
	tx.Exec(`INSERT OR REPLACE INTO bridge_chats (bridge, chat, state, closed, request, asked_at, notified, problem)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, r.opts.Name, c.id, c.state, c.closed, c.request, asked, c.notified, c.problem)
}

// An Assignment is an agent of a chat.
type Assignment struct {
	Agent      protocol.PeerID
	Spawned    bool // as the answer to a spawn_request
	Configured bool // it knows that it talks to the chat
}

// Agents returns the agents of a chat in the order of their assignment.
func (r *Router) Agents(tx *store.Tx, id protocol.PeerID) []Assignment {
	return store.All(tx, func(a *Assignment) []any { return []any{&a.Agent, &a.Spawned, &a.Configured} }, `SELECT agent, spawned, configured FROM bridge_agents WHERE bridge = ? AND chat = ? ORDER BY id`, r.opts.Name, id)
}

// A ChatStatus is where a chat is, as people may be told.
type ChatStatus struct {
	State   State
	Problem string // why there is no agent yet
	Agents  []Assignment
	Waiting int // events that no agent has yet
}

// Status returns where a chat is.
func (r *Router) Status(tx *store.Tx, id protocol.PeerID) ChatStatus {
	c := r.load(tx, id)
	waiting := store.Value[int](tx, `SELECT count(*) FROM bridge_events WHERE bridge = ? AND chat = ? AND agents = ''`, r.opts.Name, id)
	queued := r.deliveries.Count(tx, agentDestination(id, "*"), outbox.StatePending, outbox.StateSending)
	return ChatStatus{State: c.state, Problem: c.problem, Agents: r.Agents(tx, id), Waiting: waiting + queued}
}

// Close ends a chat's way to an agent: it asks for none until it is opened. One that
// it has it keeps.
func (r *Router) Close(tx *store.Tx, id protocol.PeerID) {
	c := r.load(tx, id)
	c.closed = true
	if !r.transition(tx, c, triggerClosed) {
		r.save(tx, c)
	}
}

// cancelRequest ends a chat's way to an agent until something more is said.
func (r *Router) cancelRequest(tx *store.Tx, id protocol.PeerID) {
	r.transition(tx, r.load(tx, id), triggerClosed)
}

// Open lets a chat ask for agents again, and has it ask where something waits.
func (r *Router) Open(tx *store.Tx, id protocol.PeerID) {
	c := r.load(tx, id)
	c.closed = false
	r.save(tx, c)
	r.resume(tx, c)
}
