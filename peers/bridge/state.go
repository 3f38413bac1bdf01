package bridge

import (
	"cmp"
	"time"

	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/protocol"

	"github.com/oklog/ulid/v2"
)

// A State says whether a chat has an agent.
type State string

// The states of a chat.
const (
	Idle     State = "idle"     // it needs no agent yet, or may have none
	Asking   State = "asking"   // its spawn_request is repeated until an agent is assigned
	Assigned State = "assigned" // it has an agent
)

// A trigger is something that can change the state of a chat.
type trigger string

const (
	triggerMessage     trigger = "message"     // an event waits for an agent
	triggerAgentLost   trigger = "agentLost"   // the agent spawned for the chat is absent
	triggerSpawnFailed trigger = "spawnFailed" // the spawner could not start an agent
	triggerRoute       trigger = "route"       // an agent was assigned
	triggerAgentBack   trigger = "agentBack"   // the agent accepted a message without a new assignment
	triggerClosed      trigger = "closed"      // the chat may no longer have an agent
)

// transitions is the only place that defines how the state of a chat changes. A trigger
// without an entry changes nothing.
var transitions = map[State]map[trigger]State{
	Idle:     {triggerMessage: Asking, triggerRoute: Assigned},
	Asking:   {triggerSpawnFailed: Asking, triggerRoute: Assigned, triggerAgentBack: Assigned, triggerClosed: Idle},
	Assigned: {triggerAgentLost: Asking, triggerRoute: Assigned},
}

// A chatState is the stored state of a chat.
type chatState struct {
	id       protocol.PeerID
	state    State
	closed   bool   // it requests no agent
	request  string // requestId of the open spawn_request
	askedAt  time.Time
	notified bool
	problem  string
}

// A chatTable reads and writes the chats of one bridge and their agents.
type chatTable struct {
	bridge string
}

// load returns the state of a chat. A chat that is not stored is idle.
func (t chatTable) load(tx *store.Tx, id protocol.PeerID) *chatState {
	c, _ := store.One(tx, func(c *chatState) []any {
		return []any{&c.state, &c.closed, &c.request, store.Micros{Time: &c.askedAt}, &c.notified, &c.problem}
	}, `SELECT state, closed, request, asked_at, notified, problem FROM bridge_chats
		WHERE bridge = ? AND chat = ?`, t.bridge, id)
	c.id = id
	c.state = cmp.Or(c.state, Idle)
	return &c
}

// save stores the state of a chat.
func (t chatTable) save(tx *store.Tx, c *chatState) {
	tx.Exec(`INSERT OR REPLACE INTO bridge_chats (bridge, chat, state, closed, request, asked_at, notified, problem)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, t.bridge, c.id, c.state, c.closed, c.request, store.Micros{Time: &c.askedAt},
		c.notified, c.problem)
}

// agents returns the agents of a chat in the order of their assignment.
func (t chatTable) agents(tx *store.Tx, id protocol.PeerID) []Assignment {
	return store.All(tx, func(a *Assignment) []any {
		return []any{&a.Agent, &a.Spawned, &a.Configured}
	}, `SELECT agent, spawned, configured FROM bridge_agents WHERE bridge = ? AND chat = ? ORDER BY id`, t.bridge, id)
}

// setConfigured records whether an agent knows that it talks to a chat.
func (t chatTable) setConfigured(tx *store.Tx, e *Event, configured bool) {
	tx.Exec(`UPDATE bridge_agents SET configured = ?4
		WHERE bridge = ?1 AND chat = ?2 AND agent = ?3 AND configured <> ?4`, t.bridge, e.Chat, e.Agent, configured)
}

// oldestWaiting returns the first event of a chat that waits for an agent, or 0.
func (t chatTable) oldestWaiting(tx *store.Tx, id protocol.PeerID) int64 {
	return store.Value[int64](tx, `SELECT event FROM bridge_events
		WHERE bridge = ? AND chat = ? AND agents = '' ORDER BY event LIMIT 1`, t.bridge, id)
}

// readdress makes an event one for a new agent instead of an old one.
func (t chatTable) readdress(tx *store.Tx, event int64, old, agent protocol.PeerID) {
	tx.Exec(`UPDATE bridge_events SET agents = (SELECT json_group_array(DISTINCT iif(value = ?1, ?2, value))
		FROM json_each(agents)) WHERE bridge = ?3 AND event = ?4 AND agents <> ''`, old, agent, t.bridge, event)
}

// transition applies a trigger to a chat and stores the result. It reports whether
// anything changed.
func (r *Router) transition(tx *store.Tx, c *chatState, t trigger) bool {
	to, ok := transitions[c.state][t]
	if !ok || c.closed && to == Asking {
		return false
	}
	from := c.state
	if from != Asking || to != Asking {
		*c = chatState{id: c.id, state: to, closed: c.closed}
	}
	if to == Asking { // even from Asking: the spawner has answered the previous request
		c.request = "req_" + ulid.Make().String()
		tx.Exec(`INSERT INTO bridge_requests (request, bridge, chat, at) VALUES (?, ?, ?, ?)`,
			c.request, r.opts.Name, c.id, r.now())
	}
	if to == Asking && from != Asking {
		c.askedAt = r.opts.Now()
		r.enqueueStep(tx, c.id, c.request)
	}
	r.table.save(tx, c)
	return true
}

// enqueueStep queues a step of a chat.
func (r *Router) enqueueStep(tx *store.Tx, id protocol.PeerID, key string) {
	_, err := r.steps.EnqueueTx(tx, string(id), key, nil)
	tx.Fail(err)
}

// An Assignment is an agent of a chat.
type Assignment struct {
	Agent      protocol.PeerID
	Spawned    bool // it was assigned in answer to a spawn_request
	Configured bool // it has received the configure message for the chat
}

// Agents returns the agents of a chat in the order of their assignment.
func (r *Router) Agents(tx *store.Tx, id protocol.PeerID) []Assignment { return r.table.agents(tx, id) }

// A ChatStatus describes the state of a chat for people.
type ChatStatus struct {
	State   State
	Problem string // why it has no agent yet
	Agents  []Assignment
	Waiting int // events that no agent has received yet
}

// Status returns the status of a chat.
func (r *Router) Status(tx *store.Tx, id protocol.PeerID) ChatStatus {
	c := r.table.load(tx, id)
	waiting := store.Value[int](tx, `SELECT count(*) FROM bridge_events
		WHERE bridge = ? AND chat = ? AND agents = ''`, r.opts.Name, id)
	queued := r.deliveries.Count(tx, agentDestination(id, "*"), outbox.StatePending, outbox.StateSending)
	return ChatStatus{State: c.state, Problem: c.problem, Agents: r.Agents(tx, id), Waiting: waiting + queued}
}

// Close stops a chat from requesting agents until Open. An agent that the chat already has stays.
func (r *Router) Close(tx *store.Tx, id protocol.PeerID) {
	c := r.table.load(tx, id)
	c.closed = true
	if !r.transition(tx, c, triggerClosed) {
		r.table.save(tx, c)
	}
}

// Forget deletes what the router with a name has stored about a chat that no longer exists. The
// events are all those of the chat, and none of them waits.
func Forget(tx *store.Tx, name string, id protocol.PeerID, events []int64) {
	for _, event := range events {
		tx.Exec(`DELETE FROM bridge_events WHERE bridge = ? AND event = ?`, name, event)
	}
	for _, table := range []string{"bridge_chats", "bridge_agents", "bridge_requests"} {
		tx.Exec(`DELETE FROM `+table+` WHERE bridge = ? AND chat = ?`, name, id)
	}
}

// cancelRequest ends a chat's request for an agent until its next event.
func (r *Router) cancelRequest(tx *store.Tx, id protocol.PeerID) {
	r.transition(tx, r.table.load(tx, id), triggerClosed)
}

// Open lets a chat request agents again. If an event waits, the request begins at once.
func (r *Router) Open(tx *store.Tx, id protocol.PeerID) {
	c := r.table.load(tx, id)
	c.closed = false
	r.table.save(tx, c)
	r.resume(tx, c)
}
