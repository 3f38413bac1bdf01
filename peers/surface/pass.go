package surface

import (
	"context"
	"database/sql"
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
	maxRejections   = 10 // of one event, by an agent or by the bus
	untakenAttempts = 5  // at an agent, until its chat is told
	roomPause       = time.Second
)

// An item is the body of an item towards an agent. Without an event it only
// configures the agent.
type item struct {
	Event int64 `json:"event,omitempty"`
}

// openStates are the states of what waits in a queue.
var openStates = []outbox.State{outbox.StatePending, outbox.StateSending}

// agentDestination names one agent of a chat in the queue towards the agents.
func agentDestination(id protocol.PeerID, agent protocol.PeerID) string {
	return string(id) + " > " + string(agent)
}

// ParseDestination is the inverse: the chat and the agent of an item towards an
// agent.
func ParseDestination(destination string) (id, agent protocol.PeerID) {
	left, right, _ := strings.Cut(destination, " > ")
	return protocol.PeerID(left), protocol.PeerID(right)
}

// EventOf returns the event of an item towards an agent, 0 where it only
// configures the agent.
func EventOf(body []byte) int64 {
	var it item
	if json.Unmarshal(body, &it) != nil {
		return 0
	}
	return it.Event
}

// Pass takes what was said in a chat, in the transaction that stores it, and hands
// it on to the chat's agents once it is ready. A chat without an agent asks for
// one. Call Wake after the commit.
func (s *Surface) Pass(ctx context.Context, tx *sql.Tx, e *Event, ready time.Time) error {
	readyAt := int64(0)
	if !ready.IsZero() {
		readyAt = ready.UnixMicro()
	}
	err := store.Exec(ctx, tx, `INSERT INTO surface_events (surface, event, chat, source, ready_at, at) VALUES (?, ?, ?, ?, ?, ?)`,
		s.opts.Name, e.ID, e.Chat, e.Source, readyAt, s.now())
	if err != nil {
		return err
	}
	c, err := s.load(ctx, tx, e.Chat)
	if err != nil {
		return err
	}
	return s.takeUp(ctx, tx, c)
}

// takeUp hands on what waits in a chat, or has the chat ask for an agent.
func (s *Surface) takeUp(ctx context.Context, tx *sql.Tx, c *chat) error {
	event, err := s.oldest(ctx, tx, c.id)
	if err != nil || event == 0 {
		return err
	}
	if _, err := s.move(ctx, tx, c, said); err != nil {
		return err
	}
	wait, err := s.handOn(ctx, tx, c.id)
	if err == nil && wait > 0 {
		_, err = s.chats.EnqueueTx(ctx, tx, string(c.id), fmt.Sprintf("event:%d", event), nil)
	}
	return err
}

// Postpone lets an event change for longer, and reports whether it still may: it
// is handed on no earlier than at the given time.
func (s *Surface) Postpone(ctx context.Context, tx *sql.Tx, event int64, ready time.Time) (bool, error) {
	n, err := store.Changed(ctx, tx, `UPDATE surface_events SET ready_at = ? WHERE surface = ? AND event = ? AND agents = '' AND ready_at > 0`,
		ready.UnixMicro(), s.opts.Name, event)
	return n > 0, err
}

// Rename gives a chat what waits under another identity, which was found to be the
// same chat's.
func (s *Surface) Rename(ctx context.Context, tx *sql.Tx, from, to protocol.PeerID) error {
	if from == to {
		return nil
	}
	c, err := s.load(ctx, tx, to)
	if err != nil {
		return err
	}
	return errors.Join(
		store.Exec(ctx, tx, `UPDATE surface_events SET chat = ? WHERE surface = ? AND chat = ? AND agents = ''`, to, s.opts.Name, from),
		s.end(ctx, tx, from), s.takeUp(ctx, tx, c))
}

// oldest returns the first event of a chat that waits for an agent, or 0.
func (s *Surface) oldest(ctx context.Context, q store.Querier, id protocol.PeerID) (int64, error) {
	event, _, err := store.One(ctx, q, store.Column[int64], `SELECT event FROM surface_events
		WHERE surface = ? AND chat = ? AND agents = '' ORDER BY event LIMIT 1`, s.opts.Name, id)
	return event, err
}

// handOn queues what waits in a chat towards its agents, in order. It returns when
// to look again where something must wait on: what may still change, and what finds
// a queue full. Without agents everything waits.
func (s *Surface) handOn(ctx context.Context, tx *sql.Tx, id protocol.PeerID) (time.Duration, error) {
	agents, err := s.Agents(ctx, tx, id)
	if err != nil || len(agents) == 0 {
		return 0, err
	}
	names := make([]protocol.PeerID, len(agents))
	for i, a := range agents {
		names[i] = a.Agent
	}
	type waiting struct{ event, ready int64 }
	events, err := store.All(ctx, tx, func(row store.Row) (w waiting, err error) {
		err = row.Scan(&w.event, &w.ready)
		return w, err
	}, `SELECT event, ready_at FROM surface_events WHERE surface = ? AND chat = ? AND agents = '' ORDER BY event LIMIT 1000`, s.opts.Name, id)
	if err != nil {
		return 0, err
	}
	for _, w := range events {
		// A longer wait was reckoned before the clock was set back.
		if wait := time.UnixMicro(w.ready).Sub(s.opts.Now()); wait > 0 && wait <= maxBackoff {
			return wait, nil
		}
		for _, agent := range names {
			err := s.enqueue(ctx, tx, id, agent, fmt.Sprintf("event:%d", w.event), item{w.event})
			if errors.Is(err, outbox.ErrFull) {
				s.log.Error().Str("topic", string(id)).Str("peer", string(agent)).Msg("agent queue full; the chat's messages wait on disk")
				return roomPause, nil
			}
			if err != nil {
				return 0, err
			}
		}
		err := store.Exec(ctx, tx, `UPDATE surface_events SET agents = ? WHERE surface = ? AND event = ?`, namesOf(names), s.opts.Name, w.event)
		if err != nil {
			return 0, err
		}
	}
	if len(events) == 1000 {
		return roomPause, nil
	}
	return 0, nil
}

var errNotReady = errors.New("something said in the chat may still change, or a queue is full")

// handOnLater hands on what was not ready, or found no room, before.
func (s *Surface) handOnLater(ctx context.Context, id protocol.PeerID) error {
	var wait time.Duration
	err := store.InTx(ctx, s.db, func(tx *sql.Tx) (err error) {
		wait, err = s.handOn(ctx, tx, id)
		return err
	})
	s.agents.Wake()
	if err == nil && wait > 0 {
		return outbox.Later(wait, errNotReady)
	}
	return err
}

func (s *Surface) enqueue(ctx context.Context, tx *sql.Tx, id, agent protocol.PeerID, key string, it item) error {
	body, err := json.Marshal(it)
	if err != nil {
		return err
	}
	_, err = s.agents.EnqueueTx(ctx, tx, agentDestination(id, agent), key, body)
	return err
}

// pass makes one attempt towards an agent: it configures it if it is not
// configured, and passes the event on.
func (s *Surface) pass(ctx context.Context, it outbox.Item) error {
	e := Event{ID: EventOf(it.Body)}
	e.Chat, e.Agent = ParseDestination(it.Destination)
	agents, err := s.Agents(ctx, s.db, e.Chat)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(agents, func(a Assignment) bool { return a.Agent == e.Agent })
	if i < 0 {
		return outbox.Permanent(errors.New("the agent is no longer assigned to this chat"))
	}
	a := agents[i]
	if !a.Configured {
		if err := s.configure(ctx, &e); err != nil {
			return s.trouble(ctx, &e, a.Spawned, it.Attempt, err)
		}
	}
	if e.ID == 0 {
		return nil
	}
	if err := s.complete(ctx, s.db, &e); err != nil {
		return err
	}
	m, err := s.host.Message(ctx, &e)
	if err != nil {
		return err
	}
	// The agent may answer before the bus has said that it took the message.
	s.passing.Store(e.Chat, e.ID)
	s.opts.Crash("forwarding")
	if err := s.peer.Tell(ctx, e.Agent.Topic(), it.Attempt, m); err != nil {
		s.passing.Delete(e.Chat)
		return s.trouble(ctx, &e, a.Spawned, it.Attempt, err)
	}
	s.opts.Crash("forwarded")
	return s.back(ctx, e.Chat)
}

// Passing returns the event of a chat that is being handed to an agent now, until
// the host was told that the agent has it; else 0.
func (s *Surface) Passing(id protocol.PeerID) int64 {
	event, _ := s.passing.Load(id)
	n, _ := event.(int64)
	return n
}

// complete reads to whom an event was handed on.
func (s *Surface) complete(ctx context.Context, q store.Querier, e *Event) error {
	found, ok, err := store.One(ctx, q, func(row store.Row) (f Event, err error) {
		var agents []byte
		if err = row.Scan(&f.Source, &agents); err == nil && len(agents) > 0 {
			err = json.Unmarshal(agents, &f.Agents)
		}
		return f, err
	}, `SELECT source, agents FROM surface_events WHERE surface = ? AND event = ?`, s.opts.Name, e.ID)
	if err == nil && !ok {
		return outbox.Permanent(fmt.Errorf("event %d is not kept any more", e.ID))
	}
	e.Source, e.Agents = found.Source, found.Agents
	return err
}

// configure tells an agent which chat it talks to.
func (s *Surface) configure(ctx context.Context, e *Event) error {
	m := protocol.NewMessage(protocol.TypeConfigure, e.Chat, protocol.Configure{TalkTo: e.Chat.Topic()})
	if err := s.peer.Tell(ctx, e.Agent.Topic(), 1, m); err != nil {
		return err
	}
	s.opts.Crash("configured")
	return s.setConfigured(ctx, e, true)
}

func (s *Surface) setConfigured(ctx context.Context, e *Event, configured bool) error {
	return store.Exec(ctx, s.db, `UPDATE surface_agents SET configured = ?4 WHERE surface = ?1 AND chat = ?2 AND agent = ?3 AND configured <> ?4`,
		s.opts.Name, e.Chat, e.Agent, configured)
}

// back notes that a chat that asks for its agent has it: it came back without its
// spawner.
func (s *Surface) back(ctx context.Context, id protocol.PeerID) error {
	c, err := s.load(ctx, s.db, id)
	if err != nil || c.state != Asking {
		return err
	}
	return store.InTx(ctx, s.db, func(tx *sql.Tx) error {
		c, err := s.load(ctx, tx, id)
		if err == nil {
			_, err = s.move(ctx, tx, c, heard)
		}
		return err
	})
}

// trouble says what follows from an attempt that failed. An agent that is not there
// is configured again before it gets anything: the next one of its name may be a
// new one. A spawned one is asked for again: its spawner may have stopped it.
func (s *Surface) trouble(ctx context.Context, e *Event, spawned bool, attempt int, err error) error {
	switch reception := peer.ReceptionOf(err); {
	case (reception == peer.Rejected || reception == peer.Refused) && attempt >= maxRejections:
		return outbox.Permanent(err)
	case reception == peer.Declined && attempt >= untakenAttempts:
		return errors.Join(err, s.tellNow(ctx, &Notice{Kind: NoticeUntaken, Chat: e.Chat, Agent: e.Agent, Why: err.Error()}))
	case reception != peer.Absent:
		return outbox.Retry(0, err)
	}
	if err := s.setConfigured(ctx, e, false); err != nil {
		return err
	}
	if !spawned && attempt >= untakenAttempts {
		err = errors.Join(err, s.tellNow(ctx, &Notice{Kind: NoticeAway, Chat: e.Chat, Agent: e.Agent, Why: err.Error()}))
	}
	if !spawned || attempt < 2 {
		return err
	}
	return errors.Join(err, s.askAgain(ctx, e))
}

func (s *Surface) tellNow(ctx context.Context, n *Notice) error {
	err := store.InTx(ctx, s.db, func(tx *sql.Tx) error { return s.tell(ctx, tx, n) })
	s.host.Wake()
	return err
}

// asksPerMinute bounds how often a chat asks for an agent that is gone: a spawner
// that believes the agent to be there answers at once, again and again.
const asksPerMinute = 3

// askAgain asks for an agent that is gone.
func (s *Surface) askAgain(ctx context.Context, e *Event) error {
	err := store.InTx(ctx, s.db, func(tx *sql.Tx) error {
		asks, _, err := store.One(ctx, tx, store.Column[int], `SELECT count(*) FROM surface_requests
			WHERE surface = ? AND chat = ? AND at > ? AND at <= ?`, s.opts.Name, e.Chat, s.opts.Now().Add(-time.Minute).UnixMicro(), s.now())
		if err != nil || asks >= asksPerMinute {
			return err
		}
		c, err := s.load(ctx, tx, e.Chat)
		if err != nil {
			return err
		}
		_, refusal, err := s.host.Find(ctx, tx, e.Chat.Topic())
		if err != nil || refusal != "" {
			return err
		}
		moved, err := s.move(ctx, tx, c, gone)
		if moved {
			s.log.Warn().Str("topic", string(e.Chat)).Str("peer", string(e.Agent)).Msg("chat's agent is gone; asking for it again")
		}
		return err
	})
	s.chats.Wake()
	return err
}

// settled tells the host what became of an event.
func (s *Surface) settled(ctx context.Context, tx *sql.Tx, it outbox.Item, outcome outbox.State, cause error) error {
	e := Event{ID: EventOf(it.Body)}
	if e.ID == 0 {
		return nil
	}
	e.Chat, e.Agent = ParseDestination(it.Destination)
	if outcome == outbox.StateDead {
		s.log.Error().Err(cause).Str("topic", string(e.Chat)).Str("peer", string(e.Agent)).Msg("message given up")
	}
	return s.host.Settled(ctx, tx, &e, outcome, cause)
}

// GiveUp gives up what has waited for an agent since before a time.
func (s *Surface) GiveUp(ctx context.Context, before time.Time) error {
	err := store.InTx(ctx, s.db, func(tx *sql.Tx) error {
		events, err := store.All(ctx, tx, func(row store.Row) (e Event, err error) {
			err = row.Scan(&e.ID, &e.Chat, &e.Source)
			return e, err
		}, `DELETE FROM surface_events WHERE surface = ? AND agents = '' AND at < ? RETURNING event, chat, source`, s.opts.Name, before.UnixMicro())
		for i := range events {
			err = errors.Join(err, s.host.Settled(ctx, tx, &events[i], outbox.StateDead, errTooLong))
		}
		return err
	})
	s.host.Wake()
	return err
}

// errTooLong is why GiveUp gives up.
var errTooLong = errors.New("there was none for too long")

// stepped ends the way of a chat whose step an operator gave up.
func (s *Surface) stepped(ctx context.Context, tx *sql.Tx, it outbox.Item, outcome outbox.State, _ error) error {
	if outcome == outbox.StateSent {
		return nil
	}
	return s.end(ctx, tx, protocol.PeerID(it.Destination))
}
