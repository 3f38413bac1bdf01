package bridge

import (
	"cmp"
	"context"
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
	noticeAfter    = 5  // failed attempts at an agent before its chat is notified
	fullQueuePause = time.Second
)

// An agentItem is the body of an item for an agent. Without an event or a halt, it only
// configures the agent.
type agentItem struct {
	Event int64  `json:"event,omitempty"`
	Halt  string `json:"halt,omitempty"` // "on" or "off": see Router.Halt
	By    string `json:"by,omitempty"`
}

// agentDestination is the destination of events for one agent of a chat.
func agentDestination(id protocol.PeerID, agent protocol.PeerID) string {
	return string(id) + " > " + string(agent)
}

// haltDestination is the destination of halts for one agent of a chat. A halt must not
// wait behind messages, since an agent with a full mailbox is the one to be halted.
func haltDestination(id protocol.PeerID, agent protocol.PeerID) string {
	return agentDestination(id, agent) + " > halt"
}

// parseDestination returns the chat and the agent of a destination in the queue of
// agents.
func parseDestination(destination string) (id, agent protocol.PeerID) {
	left, right, _ := strings.Cut(destination, " > ")
	right, _, _ = strings.Cut(right, " > ")
	return protocol.PeerID(left), protocol.PeerID(right)
}

// parseEventID returns the event in the body of an item for an agent, 0 if it has none.
func parseEventID(body []byte) int64 {
	var item agentItem
	if json.Unmarshal(body, &item) != nil {
		return 0
	}
	return item.Event
}

// eventOfItem returns what an item for an agent says about its event.
func eventOfItem(item *outbox.Item) (e Event) {
	e.ID = parseEventID(item.Body)
	e.Chat, e.Agent = parseDestination(item.Destination)
	return e
}

// eventColumns scans event, chat, source and agents. The agents are "" while the event waits.
func eventColumns(e *Event) []any { return []any{&e.ID, &e.Chat, &e.Source, store.JSON{V: &e.Agents}} }

// Deliver accepts an event, in the transaction that stores it, and delivers it to the
// chat's agents once it is ready. A chat without an agent requests one.
func (r *Router) Deliver(tx *store.Tx, e *Event, ready time.Time) {
	tx.Exec(`INSERT INTO bridge_events (bridge, event, chat, source, ready_at, at) VALUES (?, ?, ?, ?, ?, ?)`,
		r.opts.Name, e.ID, e.Chat, e.Source, store.Micros{Time: &ready}, r.now())
	r.resume(tx, r.table.load(tx, e.Chat))
}

// deliverTo delivers what an agent said in a chat to other agents of the chat, in the
// transaction that stores it. An agent with a full queue does not get it.
func (r *Router) deliverTo(tx *store.Tx, e *Event, agents []protocol.PeerID) {
	tx.Exec(`INSERT INTO bridge_events (bridge, event, chat, source, agents, at) VALUES (?, ?, ?, ?, ?, ?)`,
		r.opts.Name, e.ID, e.Chat, e.Source, store.JSON{V: agents}, r.now())
	for _, agent := range agents {
		err := r.enqueue(tx, e.Chat, agent, fmt.Sprintf("event:%d", e.ID), agentItem{Event: e.ID})
		if errors.Is(err, outbox.ErrFull) {
			r.log.Warn().Str("topic", string(e.Chat)).Str("peer", string(agent)).
				Msg("queue of an agent full; another agent's message is not delivered to it")
			continue
		}
		tx.Fail(err)
	}
}

// resume dispatches the waiting events of a chat, or makes the chat request an agent.
func (r *Router) resume(tx *store.Tx, c *chatState) {
	event := r.table.oldestWaiting(tx, c.id)
	if event == 0 {
		return
	}
	r.transition(tx, c, triggerMessage)
	if r.dispatch(tx, c.id) > 0 {
		r.enqueueStep(tx, c.id, fmt.Sprintf("event:%d", event))
	}
}

// Postpone moves the time at which an event is ready, and reports whether the event was
// still waiting for that.
func (r *Router) Postpone(tx *store.Tx, event int64, ready time.Time) bool {
	return tx.ExecCount(`UPDATE bridge_events SET ready_at = ?
		WHERE bridge = ? AND event = ? AND agents = '' AND ready_at > 0`, ready.UnixMicro(), r.opts.Name, event) > 0
}

// MoveChat moves the waiting events of a chat to another identity of the same chat.
func (r *Router) MoveChat(tx *store.Tx, from, to protocol.PeerID) {
	if from == to {
		return
	}
	tx.Exec(`UPDATE bridge_events SET chat = ? WHERE bridge = ? AND chat = ? AND agents = ''`, to, r.opts.Name, from)
	r.cancelRequest(tx, from)
	r.resume(tx, r.table.load(tx, to))
}

// dispatch queues the waiting events of a chat for its agents, in order. It returns how
// long to wait before it must be called again: an event may not be ready, or a queue may
// be full. Without an agent every event waits.
func (r *Router) dispatch(tx *store.Tx, id protocol.PeerID) time.Duration {
	var agents []protocol.PeerID
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
	const maxEvents = 1000
	events := store.All(tx, func(w *waiting) []any { return []any{&w.event, store.Micros{Time: &w.ready}} },
		`SELECT event, ready_at FROM bridge_events WHERE bridge = ? AND chat = ? AND agents = '' ORDER BY event LIMIT ?`,
		r.opts.Name, id, maxEvents)
	for _, w := range events {
		// A longer wait dates from before the clock was set back.
		if wait := w.ready.Sub(r.opts.Now()); wait > 0 && wait <= maxBackoff {
			return wait
		}
		for _, agent := range agents {
			err := r.enqueue(tx, id, agent, fmt.Sprintf("event:%d", w.event), agentItem{Event: w.event})
			if errors.Is(err, outbox.ErrFull) {
				r.log.Error().Str("topic", string(id)).Str("peer", string(agent)).
					Msg("queue of an agent full; the chat's messages wait on disk")
				return fullQueuePause
			}
			tx.Fail(err)
		}
		tx.Exec(`UPDATE bridge_events SET agents = ? WHERE bridge = ? AND event = ?`,
			store.JSON{V: agents}, r.opts.Name, w.event)
	}
	if len(events) == maxEvents {
		return fullQueuePause
	}
	return 0
}

var errNotReady = errors.New("a message of the chat may still change, or a queue is full")

// dispatchLater is dispatch as a step of a chat.
func (r *Router) dispatchLater(ctx context.Context, id protocol.PeerID) error {
	var wait time.Duration
	err := store.InTx(ctx, r.db, func(tx *store.Tx) { wait = r.dispatch(tx, id) })
	if err == nil && wait > 0 {
		return outbox.Later(wait, errNotReady)
	}
	return err
}

// enqueue queues an item for an agent.
func (r *Router) enqueue(tx *store.Tx, id, agent protocol.PeerID, key string, item agentItem) error {
	body, err := json.Marshal(item)
	if err != nil {
		return err
	}
	destination := agentDestination(id, agent)
	if item.Halt == "on" {
		destination = haltDestination(id, agent)
	}
	_, err = r.deliveries.EnqueueTx(tx, destination, key, body)
	return err
}

// deliverItem makes one attempt to deliver an item to an agent. It first configures an
// agent that is not configured.
func (r *Router) deliverItem(ctx context.Context, item outbox.Item) error {
	var err error
	failed := store.Autocommit(ctx, r.db, func(tx *store.Tx) { err = r.attemptDelivery(tx, item) })
	return cmp.Or(failed, err)
}

// attemptDelivery is deliverItem with a Tx outside any transaction. An error of tx takes
// precedence over the error that it returns.
func (r *Router) attemptDelivery(tx *store.Tx, item outbox.Item) error {
	ctx, e := tx.Context(), eventOfItem(&item)
	agents := r.Agents(tx, e.Chat)
	i := slices.IndexFunc(agents, func(a Assignment) bool { return a.Agent == e.Agent })
	if i < 0 {
		return r.handOver(ctx, &item, &e, agents)
	}
	a := agents[i]
	if !a.Configured {
		if err := r.configure(tx, &e); err != nil {
			return r.handleFailure(tx, &e, a.Spawned, item.Attempt, err)
		}
	}
	if e.ID == 0 {
		return r.deliverHalt(ctx, &item, &e)
	}
	stored, found := store.One(tx, eventColumns, `SELECT event, chat, source, agents FROM bridge_events
		WHERE bridge = ? AND event = ?`, r.opts.Name, e.ID)
	if !found {
		return cmp.Or(tx.Err(), outbox.Permanent(fmt.Errorf("event %d is no longer stored", e.ID)))
	}
	e.Source = stored.Source
	e.Agents = stored.Agents
	m, err := r.adapter.Message(tx, &e)
	if err != nil {
		return err
	}
	if item.Attempt <= reportPauses && isAboutMessageOf(&m, e.Agent) && r.reports.HasOpen(tx, string(e.Agent)) {
		return outbox.Later(reportPause, errUnreported)
	}
	// The agent may answer before the bus has confirmed the delivery.
	r.inFlight.Store(e.Chat, e.ID)
	r.opts.Crash("forwarding")
	if err := r.peer.Deliver(ctx, e.Agent.Topic(), item.Attempt, m); err != nil {
		r.inFlight.Delete(e.Chat)
		return r.handleFailure(tx, &e, a.Spawned, item.Attempt, err)
	}
	r.opts.Crash("forwarded")
	return r.markAgentBack(tx, e.Chat)
}

// An event about an agent's own message waits up to reportPauses times for the report of
// that message. The report tells the agent which message is meant, such as the question
// that a thumbs-up answers.
const (
	reportPause  = 500 * time.Millisecond
	reportPauses = 4
)

var errUnreported = errors.New("the delivery report of the message that this is about goes first")

// isAboutMessageOf reports whether a message from a chat is about a message from an agent.
func isAboutMessageOf(m *protocol.Message, agent protocol.PeerID) bool {
	var content protocol.ChatMessage
	return json.Unmarshal(m.Content, &content) == nil && content.ReplyTo != nil &&
		content.ReplyTo.Author == string(agent)
}

// InFlight returns the event of a chat that is being delivered to an agent, or 0. An event
// is in flight until Options.OnSettled has returned.
func (r *Router) InFlight(id protocol.PeerID) int64 {
	event, _ := r.inFlight.Load(id)
	n, _ := event.(int64)
	return n
}

// configure sends an agent the configure message, which names its chat.
func (r *Router) configure(tx *store.Tx, e *Event) error {
	m := protocol.NewMessage(protocol.TypeConfigure, e.Chat,
		protocol.Configure{TalkTo: e.Chat.Topic(), People: r.opts.People})
	if err := r.peer.Deliver(tx.Context(), e.Agent.Topic(), 1, m); err != nil {
		return err
	}
	r.opts.Crash("configured")
	r.table.setConfigured(tx, e, true)
	return tx.Err()
}

// Halt makes every agent of a chat halt its turns there ("on") or resume them ("off"), as
// soon as it can be reached, in the name of by. It returns the number of agents.
func (r *Router) Halt(tx *store.Tx, id protocol.PeerID, halt, by, key string) int {
	agents := r.Agents(tx, id)
	for _, a := range agents {
		tx.Fail(r.enqueue(tx, id, a.Agent, "halt:"+key, agentItem{Halt: halt, By: by}))
	}
	return len(agents)
}

// haltPause is how long the end of a halt waits for the delivery of the halt.
const haltPause = 200 * time.Millisecond

var errHalting = errors.New("the halt that this ends goes first")

// deliverHalt makes one attempt to deliver a halt or its end. It does nothing for an item
// that only configures the agent.
func (r *Router) deliverHalt(ctx context.Context, item *outbox.Item, e *Event) error {
	var body agentItem
	if err := json.Unmarshal(item.Body, &body); err != nil || body.Halt == "" {
		return err
	}
	if body.Halt == "off" {
		waits, err := store.Read(ctx, r.db, func(tx *store.Tx) bool {
			return r.deliveries.HasOpen(tx, haltDestination(e.Chat, e.Agent))
		})
		if err != nil {
			return err
		}
		if waits {
			return outbox.Later(haltPause, errHalting)
		}
	}
	m := protocol.NewMessage(protocol.TypeConfigure, e.Chat,
		protocol.Configure{TalkTo: e.Chat.Topic(), Halt: body.Halt, By: body.By})
	return r.peer.Deliver(ctx, e.Agent.Topic(), item.Attempt, m)
}

// markAgentBack ends a chat's request for an agent: its agent has accepted a message, so it has
// returned without the spawner.
func (r *Router) markAgentBack(tx *store.Tx, id protocol.PeerID) error {
	if r.table.load(tx, id).state != Asking {
		return tx.Err()
	}
	return store.InTx(tx.Context(), r.db, func(tx *store.Tx) {
		r.transition(tx, r.table.load(tx, id), triggerAgentBack)
	})
}

// handleFailure decides what follows from a failed attempt. An absent agent is configured
// again before it gets anything else, since the next agent with its name may be a new
// one. A spawned agent is requested again: its spawner may have stopped it.
func (r *Router) handleFailure(tx *store.Tx, e *Event, spawned bool, attempt int, err error) error {
	switch outcome := peer.OutcomeOf(err); {
	case (outcome == peer.Rejected || outcome == peer.Refused) && attempt >= maxRejections:
		return outbox.Permanent(err)
	case outcome == peer.Declined && attempt >= noticeAfter:
		notice := Notice{Kind: NoticeDeclined, Chat: e.Chat, Agent: e.Agent, Reason: err.Error()}
		return errors.Join(err, r.notifyNow(tx.Context(), &notice))
	case outcome != peer.Absent:
		return outbox.Retry(0, err)
	}
	if r.table.setConfigured(tx, e, false); tx.Err() != nil {
		return tx.Err()
	}
	if !spawned && attempt >= noticeAfter {
		notice := Notice{Kind: NoticeAbsent, Chat: e.Chat, Agent: e.Agent, Reason: err.Error()}
		err = errors.Join(err, r.notifyNow(tx.Context(), &notice))
	}
	if !spawned || attempt < 2 {
		return err
	}
	return errors.Join(err, r.requestAgain(tx.Context(), e))
}

func (r *Router) notifyNow(ctx context.Context, n *Notice) error {
	return store.InTx(ctx, r.db, func(tx *store.Tx) { r.notify(tx, n) })
}

// maxRequestsPerMinute bounds how often a chat requests an absent agent. A spawner that
// believes the agent to be running answers at once, again and again.
const maxRequestsPerMinute = 3

// requestAgain requests an agent that is absent.
func (r *Router) requestAgain(ctx context.Context, e *Event) error {
	return store.InTx(ctx, r.db, func(tx *store.Tx) {
		requests := store.Value[int](tx, `SELECT count(*) FROM bridge_requests
			WHERE bridge = ? AND chat = ? AND at > ? AND at <= ?`,
			r.opts.Name, e.Chat, r.opts.Now().Add(-time.Minute).UnixMicro(), r.now())
		_, refusal := r.adapter.FindChat(tx, e.Chat.Topic())
		if requests < maxRequestsPerMinute && refusal == "" &&
			r.transition(tx, r.table.load(tx, e.Chat), triggerAgentLost) {
			tx.OnCommit(func() {
				r.log.Warn().Str("topic", string(e.Chat)).Str("peer", string(e.Agent)).
					Msg("agent of chat absent; requesting it again")
			})
		}
	})
}

// onDeliverySettled passes the outcome of an event to Options.OnSettled.
func (r *Router) onDeliverySettled(tx *store.Tx, item outbox.Item, outcome outbox.State, cause error) {
	e := eventOfItem(&item)
	if e.ID == 0 || outcome == outbox.StateDropped && errors.Is(cause, errReplaced) {
		return
	}
	if outcome == outbox.StateDead {
		r.log.Error().Err(cause).Str("topic", string(e.Chat)).Str("peer", string(e.Agent)).
			Msg("message not delivered to agent")
	}
	r.opts.OnSettled(tx, &e, outcome, cause)
}

// Expire abandons the events that have waited for an agent since before a time.
func (r *Router) Expire(ctx context.Context, before time.Time) error {
	return store.InTx(ctx, r.db, func(tx *store.Tx) {
		for _, e := range store.All(tx, eventColumns,
			`DELETE FROM bridge_events WHERE bridge = ? AND agents = '' AND at < ?
			RETURNING event, chat, source, agents`, r.opts.Name, before.UnixMicro()) {
			r.opts.OnSettled(tx, &e, outbox.StateDead, errExpired)
		}
	})
}

// errExpired is the cause of events that Expire abandons.
var errExpired = errors.New("no agent was available for too long")

// onStepSettled cancels the request of a chat whose step an operator gave up.
func (r *Router) onStepSettled(tx *store.Tx, item outbox.Item, outcome outbox.State, _ error) {
	if outcome != outbox.StateSent {
		r.cancelRequest(tx, protocol.PeerID(item.Destination))
	}
}
