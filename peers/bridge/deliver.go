package bridge

import (
	"cmp"
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"hubbub/peers/outbox"
	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/protocol"
)

const (
	maxRejections  = 10 // of one event, by an agent or by the bus
	noticeAfter    = 5  // at an agent, until its chat is told
	fullQueuePause = time.Second
)

// An agentItem is the body of an item towards an agent. Without an event it only
// configures the agent.
type agentItem struct {
	Event int64  `json:"event,omitempty"`
	Halt  string `json:"halt,omitempty"` // on or off: see Surface.Halt
	By    string `json:"by,omitempty"`
}

// agentDestination names one agent of a chat in the queue towards the agents.
func agentDestination(id protocol.PeerID, agent protocol.PeerID) string {
	return string(id) + " > " + string(agent)
}

// haltDestination names it for a halt, which waits behind nothing else: an agent that has no room
// for a message is the one to be stopped.
func haltDestination(id protocol.PeerID, agent protocol.PeerID) string {
	return agentDestination(id, agent) + " > halt"
}

// ParseDestination is the inverse of both: the chat and the agent of an item towards an
// agent.
func ParseDestination(destination string) (id, agent protocol.PeerID) {
	left, right, _ := strings.Cut(destination, " > ")
	right, _, _ = strings.Cut(right, " > ")
	return protocol.PeerID(left), protocol.PeerID(right)
}

// ParseEventID returns the event of an item towards an agent, 0 where it only
// configures the agent.
func ParseEventID(body []byte) int64 {
	var it agentItem
	if json.Unmarshal(body, &it) != nil {
		return 0
	}
	return it.Event
}

// eventOfItem returns what an item towards an agent says of its event.
func eventOfItem(it *outbox.Item) (e Event) {
	e.ID = ParseEventID(it.Body)
	e.Chat, e.Agent = ParseDestination(it.Destination)
	return e
}

// eventColumns reads event, chat, source, agents.
func eventColumns(e *Event) []any { return []any{&e.ID, &e.Chat, &e.Source, (*agentList)(&e.Agents)} }

// agentList are agents as they are stored; none where the event waits for one.
type agentList []protocol.PeerID

// Scan implements sql.Scanner.
func (a *agentList) Scan(stored any) error {
	raw, _ := stored.(string)
	if raw == "" {
		return nil
	}
	return json.Unmarshal([]byte(raw), a)
}

// Value implements driver.Valuer.
func (a agentList) Value() (driver.Value, error) {
	raw, err := json.Marshal([]protocol.PeerID(a))
	return string(raw), err
}

// Deliver takes what was said in a chat, in the transaction that stores it, and hands
// it on to the chat's agents once it is ready. A chat without an agent asks for
// one.
func (r *Router) Deliver(tx *store.Tx, e *Event, ready time.Time) {
	readyAt := int64(0)
	if !ready.IsZero() {
		readyAt = ready.UnixMicro()
	}
	tx.Exec(`INSERT INTO bridge_events (bridge, event, chat, source, ready_at, at) VALUES (?, ?, ?, ?, ?, ?)`,
		r.opts.Name, e.ID, e.Chat, e.Source, readyAt, r.now())
	r.resume(tx, r.load(tx, e.Chat))
}

// DeliverTo hands what one of a chat's agents said there to others of them, in the transaction
// that stores it. An agent whose queue is full goes without: it is no answer to it.
func (r *Router) DeliverTo(tx *store.Tx, e *Event, agents []protocol.PeerID) {
	tx.Exec(`INSERT INTO bridge_events (bridge, event, chat, source, agents, at) VALUES (?, ?, ?, ?, ?, ?)`,
		r.opts.Name, e.ID, e.Chat, e.Source, agentList(agents), r.now())
	for _, agent := range agents {
		err := r.enqueue(tx, e.Chat, agent, fmt.Sprintf("event:%d", e.ID), agentItem{Event: e.ID})
		if errors.Is(err, outbox.ErrFull) {
			r.log.Warn().Str("topic", string(e.Chat)).Str("peer", string(agent)).Msg("agent queue full; what another agent said is not passed on")
			continue
		}
		tx.Fail(err)
	}
}

// resume hands on what waits in a chat, or has the chat ask for an agent.
func (r *Router) resume(tx *store.Tx, c *chatState) {
	event := r.oldestWaiting(tx, c.id)
	if event == 0 {
		return
	}
	r.transition(tx, c, triggerMessage)
	if r.dispatch(tx, c.id) > 0 {
		r.enqueueStep(tx, c.id, fmt.Sprintf("event:%d", event))
	}
}

// Postpone lets an event change for longer, and reports whether it still may: it
// is handed on no earlier than at the given time.
func (r *Router) Postpone(tx *store.Tx, event int64, ready time.Time) bool {
	return tx.ExecCount(`UPDATE bridge_events SET ready_at = ? WHERE bridge = ? AND event = ? AND agents = '' AND ready_at > 0`,
		ready.UnixMicro(), r.opts.Name, event) > 0
}

// MoveChat gives a chat what waits under another identity, which was found to be the
// same chat's.
func (r *Router) MoveChat(tx *store.Tx, from, to protocol.PeerID) {
	if from == to {
		return
	}
	tx.Exec(`UPDATE bridge_events SET chat = ? WHERE bridge = ? AND chat = ? AND agents = ''`, to, r.opts.Name, from)
	r.cancelRequest(tx, from)
	r.resume(tx, r.load(tx, to))
}

// oldestWaiting returns the first event of a chat that waits for an agent, or 0.
func (r *Router) oldestWaiting(tx *store.Tx, id protocol.PeerID) int64 {
	return store.Value[int64](tx, `SELECT event FROM bridge_events
		WHERE bridge = ? AND chat = ? AND agents = '' ORDER BY event LIMIT 1`, r.opts.Name, id)
}

// dispatch queues what waits in a chat towards its agents, in order. It returns when
// to look again where something must wait on: what may still change, and what finds
// a queue full. Without agents everything waits.
func (r *Router) dispatch(tx *store.Tx, id protocol.PeerID) time.Duration {
	var agents agentList
	for _, a := range r.Agents(tx, id) {
		agents = append(agents, a.Agent)
	}
	if len(agents) == 0 {
		return 0
	}
	type waiting struct {
		event int64
		ready time.Time
	}
	events := store.All(tx, func(w *waiting) []any { return []any{&w.event, store.Micros{Time: &w.ready}} },
		`SELECT event, ready_at FROM bridge_events WHERE bridge = ? AND chat = ? AND agents = '' ORDER BY event LIMIT 1000`, r.opts.Name, id)
	for _, w := range events {
		// A longer wait was reckoned before the clock was set back.
		if wait := w.ready.Sub(r.opts.Now()); wait > 0 && wait <= maxBackoff {
			return wait
		}
		for _, agent := range agents {
			err := r.enqueue(tx, id, agent, fmt.Sprintf("event:%d", w.event), agentItem{Event: w.event})
			if errors.Is(err, outbox.ErrFull) {
				r.log.Error().Str("topic", string(id)).Str("peer", string(agent)).Msg("agent queue full; the chat's messages wait on disk")
				return fullQueuePause
			}
			tx.Fail(err)
		}
		tx.Exec(`UPDATE bridge_events SET agents = ? WHERE bridge = ? AND event = ?`, agents, r.opts.Name, w.event)
	}
	if len(events) == 1000 {
		return fullQueuePause
	}
	return 0
}

var errNotReady = errors.New("something said in the chat may still change, or a queue is full")

// dispatchLater hands on what was not ready, or found no room, before.
func (r *Router) dispatchLater(ctx context.Context, id protocol.PeerID) error {
	var wait time.Duration
	err := store.InTx(ctx, r.db, func(tx *store.Tx) { wait = r.dispatch(tx, id) })
	if err == nil && wait > 0 {
		return outbox.Later(wait, errNotReady)
	}
	return err
}

func (r *Router) enqueue(tx *store.Tx, id, agent protocol.PeerID, key string, it agentItem) error {
	body, err := json.Marshal(it)
	if err != nil {
		return err
	}
	destination := agentDestination(id, agent)
	if it.Halt == "on" {
		destination = haltDestination(id, agent)
	}
	_, err = r.deliveries.EnqueueTx(tx, destination, key, body)
	return err
}

// deliverItem makes one attempt towards an agent: it configures it if it is not
// configured, and passes the event on.
func (r *Router) deliverItem(ctx context.Context, it outbox.Item) error {
	tx, e := store.On(ctx, r.db), eventOfItem(&it)
	agents := r.Agents(tx, e.Chat)
	i := slices.IndexFunc(agents, func(a Assignment) bool { return a.Agent == e.Agent })
	if i < 0 {
		return cmp.Or(tx.Err(), outbox.Permanent(errors.New("the agent is no longer assigned to this chat")))
	}
	a := agents[i]
	if !a.Configured {
		if err := r.configure(tx, &e); err != nil {
			return r.handleFailure(tx, &e, a.Spawned, it.Attempt, err)
		}
	}
	if e.ID == 0 {
		return r.deliverHalt(tx.Context(), &it, &e)
	}
	stored, found := store.One(tx, eventColumns, `SELECT event, chat, source, agents FROM bridge_events
		WHERE bridge = ? AND event = ?`, r.opts.Name, e.ID)
	if !found {
		return cmp.Or(tx.Err(), outbox.Permanent(fmt.Errorf("event %d is not kept any more", e.ID)))
	}
	e.Source, e.Agents = stored.Source, stored.Agents
	m, err := r.adapter.Message(ctx, &e)
	if err != nil {
		return err
	}
	if it.Attempt <= reportPauses && isAboutMessageOf(&m, e.Agent) && r.reports.HasOpen(tx, string(e.Agent)) {
		return outbox.Later(reportPause, errUnreported)
	}
	// The agent may answer before the bus has said that it took the message.
	r.inFlight.Store(e.Chat, e.ID)
	r.opts.Crash("forwarding")
	if err := r.peer.Deliver(ctx, e.Agent.Topic(), it.Attempt, m); err != nil {
		r.inFlight.Delete(e.Chat)
		return r.handleFailure(tx, &e, a.Spawned, it.Attempt, err)
	}
	r.opts.Crash("forwarded")
	return r.markAgentBack(tx, e.Chat)
}

// reportPause is how long an event about an agent's own message waits for the report of
// that message, at most reportPauses times: by it the agent knows which one is meant, such as the question that
// a thumb under it answers.
const (
	reportPause  = 500 * time.Millisecond
	reportPauses = 4
)

var errUnreported = errors.New("the agent is told first what became of the message that this is about")

// isAboutMessageOf reports whether what was said in a chat is about a message of an agent.
func isAboutMessageOf(m *protocol.Message, agent protocol.PeerID) bool {
	var content protocol.ChatMessage
	return json.Unmarshal(m.Content, &content) == nil && content.ReplyTo != nil && content.ReplyTo.Author == string(agent)
}

// InFlight returns the event of a chat that is being handed to an agent now, until
// the host was told that the agent has it; else 0.
func (r *Router) InFlight(id protocol.PeerID) int64 {
	event, _ := r.inFlight.Load(id)
	n, _ := event.(int64)
	return n
}

// configure tells an agent which chat it talks to.
func (r *Router) configure(tx *store.Tx, e *Event) error {
	m := protocol.NewMessage(protocol.TypeConfigure, e.Chat, protocol.Configure{TalkTo: e.Chat.Topic(), People: r.opts.People})
	if err := r.peer.Deliver(tx.Context(), e.Agent.Topic(), 1, m); err != nil {
		return err
	}
	r.opts.Crash("configured")
	r.setConfigured(tx, e, true)
	return tx.Err()
}

// Halt has every agent of a chat stop its turns there ("on"), or run them again
// ("off"), as soon as each can be reached. It returns how many agents that are. by
// says who asked for it.
func (r *Router) Halt(tx *store.Tx, id protocol.PeerID, halt, by, key string) int {
	agents := r.Agents(tx, id)
	for _, a := range agents {
		tx.Fail(r.enqueue(tx, id, a.Agent, "halt:"+key, agentItem{Halt: halt, By: by}))
	}
	return len(agents)
}

// haltPause is how long the end of a halt waits for the halt itself.
const haltPause = 200 * time.Millisecond

var errHalting = errors.New("the agent is told first of the halt that this ends")

// deliverHalt makes one attempt to tell an agent of a halt or of its end, if that is what an item is
// about.
func (r *Router) deliverHalt(ctx context.Context, it *outbox.Item, e *Event) error {
	var what agentItem
	if err := json.Unmarshal(it.Body, &what); err != nil || what.Halt == "" {
		return err
	}
	if what.Halt == "off" && r.deliveries.HasOpen(store.On(ctx, r.db), haltDestination(e.Chat, e.Agent)) {
		return outbox.Later(haltPause, errHalting)
	}
	m := protocol.NewMessage(protocol.TypeConfigure, e.Chat, protocol.Configure{TalkTo: e.Chat.Topic(), Halt: what.Halt, By: what.By})
	return r.peer.Deliver(ctx, e.Agent.Topic(), it.Attempt, m)
}

func (r *Router) setConfigured(tx *store.Tx, e *Event, configured bool) {
	tx.Exec(`UPDATE bridge_agents SET configured = ?4 WHERE bridge = ?1 AND chat = ?2 AND agent = ?3 AND configured <> ?4`,
		r.opts.Name, e.Chat, e.Agent, configured)
}

// markAgentBack notes that a chat that asks for its agent has it: it came back without its
// spawner.
func (r *Router) markAgentBack(tx *store.Tx, id protocol.PeerID) error {
	if r.load(tx, id).state != Asking {
		return tx.Err()
	}
	return store.InTx(tx.Context(), r.db, func(tx *store.Tx) { r.transition(tx, r.load(tx, id), triggerAgentBack) })
}

// handleFailure says what follows from an attempt that failed. An agent that is not there
// is configured again before it gets anything: the next one of its name may be a
// new one. A spawned one is asked for again: its spawner may have stopped it.
func (r *Router) handleFailure(tx *store.Tx, e *Event, spawned bool, attempt int, err error) error {
	switch reception := peer.OutcomeOf(err); {
	case (reception == peer.Rejected || reception == peer.Refused) && attempt >= maxRejections:
		return outbox.Permanent(err)
	case reception == peer.Declined && attempt >= noticeAfter:
		return errors.Join(err, r.notifyNow(tx.Context(), &Notice{Kind: NoticeDeclined, Chat: e.Chat, Agent: e.Agent, Reason: err.Error()}))
	case reception != peer.Absent:
		return outbox.Retry(0, err)
	}
	if r.setConfigured(tx, e, false); tx.Err() != nil {
		return tx.Err()
	}
	if !spawned && attempt >= noticeAfter {
		err = errors.Join(err, r.notifyNow(tx.Context(), &Notice{Kind: NoticeAbsent, Chat: e.Chat, Agent: e.Agent, Reason: err.Error()}))
	}
	if !spawned || attempt < 2 {
		return err
	}
	return errors.Join(err, r.requestAgain(tx.Context(), e))
}

func (r *Router) notifyNow(ctx context.Context, n *Notice) error {
	return store.InTx(ctx, r.db, func(tx *store.Tx) { r.notify(tx, n) })
}

// maxRequestsPerMinute bounds how often a chat asks for an agent that is gone: a spawner
// that believes the agent to be there answers at once, again and again.
const maxRequestsPerMinute = 3

// requestAgain asks for an agent that is gone.
func (r *Router) requestAgain(ctx context.Context, e *Event) error {
	return store.InTx(ctx, r.db, func(tx *store.Tx) {
		asks := store.Value[int](tx, `SELECT count(*) FROM bridge_requests WHERE bridge = ? AND chat = ? AND at > ? AND at <= ?`,
			r.opts.Name, e.Chat, r.opts.Now().Add(-time.Minute).UnixMicro(), r.now())
		_, refusal := r.adapter.FindChat(tx, e.Chat.Topic())
		if asks < maxRequestsPerMinute && refusal == "" && r.transition(tx, r.load(tx, e.Chat), triggerAgentLost) {
			tx.OnCommit(func() {
				r.log.Warn().Str("topic", string(e.Chat)).Str("peer", string(e.Agent)).Msg("chat's agent is gone; asking for it again")
			})
		}
	})
}

// onDeliverySettled tells the host what became of an event.
func (r *Router) onDeliverySettled(tx *store.Tx, it outbox.Item, outcome outbox.State, cause error) {
	e := eventOfItem(&it)
	if e.ID == 0 {
		return
	}
	if outcome == outbox.StateDead {
		r.log.Error().Err(cause).Str("topic", string(e.Chat)).Str("peer", string(e.Agent)).Msg("message given up")
	}
	r.adapter.OnSettled(tx, &e, outcome, cause)
}

// Expire gives up what has waited for an agent since before a time.
func (r *Router) Expire(ctx context.Context, before time.Time) error {
	return store.InTx(ctx, r.db, func(tx *store.Tx) {
		for _, e := range store.All(tx, eventColumns, `DELETE FROM bridge_events WHERE bridge = ? AND agents = '' AND at < ?
			RETURNING event, chat, source, agents`, r.opts.Name, before.UnixMicro()) {
			r.adapter.OnSettled(tx, &e, outbox.StateDead, errExpired)
		}
	})
}

// errExpired is why Expire gives up.
var errExpired = errors.New("there was none for too long")

// onStepSettled ends the way of a chat whose step an operator gave up.
func (r *Router) onStepSettled(tx *store.Tx, it outbox.Item, outcome outbox.State, _ error) {
	if outcome != outbox.StateSent {
		r.cancelRequest(tx, protocol.PeerID(it.Destination))
	}
}
