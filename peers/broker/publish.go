package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"hubbub/peers/broker/rules"
	"hubbub/peers/outbox"
	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/notify"
	"hubbub/protocol/retry"

	"github.com/rs/zerolog"
)

// Bounds of publishing.
const (
	publishWindow = 64                     // events in flight
	publishPace   = 100 * time.Millisecond // wait for the answer to the previous event
	publishBatch  = 256
)

// A publisher sends every event to collab:events, in order and at least once, with a messageId
// derived from the event. It starts where the last run stopped. A subscriber that does not answer
// slows it down but does not stop it. If the bus does not take an event, later events wait.
type publisher struct {
	db    *store.DB
	ready func(context.Context) error // waits for a connection to the bus
	send  sendFunc
	later func(func(*store.Tx)) // see writer.deferToCommit
	log   *zerolog.Logger
	wake  notify.Signal

	mu      sync.Mutex // guards the fields below
	done    map[int64]bool
	settled int64 // all events up to this one are published
}

func newPublisher(
	db *store.DB,
	ready func(context.Context) error,
	send sendFunc,
	later func(func(*store.Tx)),
	log *zerolog.Logger,
) *publisher {
	return &publisher{
		db: db, ready: ready, send: send, later: later, log: log, wake: notify.New(), done: map[int64]bool{},
	}
}

// run publishes until ctx ends.
func (p *publisher) run(ctx context.Context) error {
	for attempt := 1; ctx.Err() == nil; attempt++ {
		from := p.settled // no other goroutine is running
		p.publishAfter(ctx, from)
		if p.settled > from {
			attempt = 1
		}
		retry.Sleep(ctx, backoff.After(attempt))
	}
	return nil
}

// publishAfter publishes the events after the given one, until ctx ends or the bus does not take one.
func (p *publisher) publishAfter(ctx context.Context, last int64) {
	ctx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	clear(p.done)
	room := make(chan struct{}, publishWindow)
	for {
		events, err := store.ReadAll(ctx, p.db,
			eventRow, `SELECT `+eventColumns+` FROM events WHERE seq > ? ORDER BY seq LIMIT ?`,
			last, publishBatch)
		if err != nil && ctx.Err() == nil {
			p.log.Error().Err(err).Msg("reading events for publishing failed; trying again")
		}
		for _, e := range events {
			select {
			case room <- struct{}{}:
			case <-ctx.Done():
			}
			if p.ready(ctx) != nil || ctx.Err() != nil {
				return
			}
			p.start(ctx, stop, &wg, e, room)
			last = e.Seq
		}
		if len(events) > 0 {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-p.wake.C():
		case <-time.After(time.Minute):
		}
	}
}

// start sends one event and waits at most publishPace for its answer, which may arrive while later
// events are in flight. It calls stop if the bus does not take the event, and receives from room
// at the end.
func (p *publisher) start(ctx context.Context, stop func(), wg *sync.WaitGroup, e collab.Event, room <-chan struct{}) {
	answered := make(chan struct{})
	wg.Go(func() {
		defer func() { close(answered); <-room }()
		if p.publish(ctx, e) {
			p.settle(e.Seq)
		} else {
			stop()
		}
	})
	select {
	case <-answered:
	case <-time.After(publishPace):
	case <-ctx.Done():
	}
}

// publish sends one event, and reports whether the bus took or refused it.
func (p *publisher) publish(ctx context.Context, e collab.Event) bool {
	result, err := p.send(ctx, protocol.TopicCollabEvents, factMessage(e, ""))
	switch err := peer.Classify(protocol.TopicCollabEvents, 1, result, err); peer.OutcomeOf(err) {
	case peer.Received:
		return true
	case peer.Refused:
		p.log.Error().Err(err).Int64("seq",
			e.Seq).Msg("event refused by the bus; it stays in the log and is not published")
		return true
	}
	return false
}

// settle marks an event as published and stores the progress.
func (p *publisher) settle(seq int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done[seq] = true
	for p.done[p.settled+1] {
		p.settled++
		delete(p.done, p.settled)
	}
	settled := p.settled
	p.later(func(tx *store.Tx) { tx.Exec(`UPDATE published SET seq = ?`, settled) })
}

// factMessage makes the collab_event of an event. Its messageId is derived from the event and the
// destination, so that receivers recognize repetitions.
func factMessage(e collab.Event, where string) protocol.Message {
	fact := e.CollabEvent
	fact.Metadata = withSeq(e.Metadata, e.Seq)
	content, err := collab.Encode(fact)
	if err != nil {
		content = json.RawMessage("{}") // impossible: its parts come from JSON
	}
	return protocol.Message{
		MessageID: protocol.MessageID("msg_" + e.ID + where),
		Type:      protocol.TypeCollabEvent,
		From:      protocol.PeerBroker,
		Timestamp: e.At,
		Content:   content,
	}
}

// withSeq adds the event's seq to its metadata.
func withSeq(metadata json.RawMessage, seq int64) json.RawMessage {
	if len(metadata) <= len("{}") {
		return json.RawMessage(fmt.Sprintf(`{"seq":%d}`, seq))
	}
	return json.RawMessage(fmt.Sprintf(`{"seq":%d,%s`, seq, metadata[1:]))
}

// An outboxItem is a sending in the outbox.
type outboxItem struct {
	To         protocol.PeerID  `json:"to"` // empty: the spawner
	DeliveryID string           `json:"deliveryId,omitempty"`
	Message    protocol.Message `json:"message"`
}

// giveUpWakeAfter is how long a wake is tried on a connected agent that does not take it.
const giveUpWakeAfter = 10 * time.Minute

// bridgeAway is how long notifications wait for an absent bridge.
const bridgeAway = 24 * time.Hour

// maxRejections is how often a receiver may reject an item. Then it is given up, so that later
// items need not wait.
const maxRejections = 4

// enqueue puts a fact for one peer into the outbox. A wake that does not fit is parked until the
// next announcement.
func (b *Broker) enqueue(t *tx, s sending) {
	key := s.event.ID
	if s.again > 0 {
		key = fmt.Sprintf("%s/%d", key, s.again)
	}
	_, err := b.outbox.EnqueueTx(t.db, string(s.to), key, rules.MustEncode(outboxItem{
		s.to,
		s.deliveryID,
		factMessage(s.event, "_to"),
	}))
	if errors.Is(err, outbox.ErrFull) || errors.Is(err, outbox.ErrTooLarge) {
		b.opts.Log.Warn().Err(err).Str("peer", string(s.to)).Msg("event for a peer not sent; its queue is full")
		wakeHandler{t}.park(s.deliveryID)
	}
}

// enqueueSpawn puts a request for an agent into the outbox, for the spawner, which starts an
// agent that it had stopped when idle. A full queue loses nothing, because the delivery waits
// anyway.
func (b *Broker) enqueueSpawn(t *tx, a spawnRequest) {
	id := fmt.Sprintf("want_%s_%d", a.deliveryID, a.seq)
	m := protocol.Message{
		MessageID: protocol.MessageID("msg_" + id),
		Type:      protocol.TypeAgentEvent,
		From:      protocol.PeerBroker,
		Timestamp: formatTime(t.now),
		Content:   rules.MustEncode(protocol.AgentOnline{Event: "wanted", Agent: a.agent, DeliveryID: a.deliveryID}),
	}
	if _, err := b.outbox.EnqueueTx(t.db, string(protocol.TopicAgents), id,
		rules.MustEncode(outboxItem{Message: m})); err != nil {
		b.opts.Log.Warn().Err(err).Str("peer", string(a.agent)).Str("delivery",
			a.deliveryID).Msg("spawner not asked for the agent")
	}
}

// sendRequest makes one attempt to ask the spawner for an agent. An absent spawner is asked
// later, for a while.
func (b *Broker) sendRequest(ctx context.Context, item outbox.Item, m protocol.Message) error {
	result, err := b.peer.Send(ctx, protocol.TopicAgents, m)
	err = peer.ClassifyAny(protocol.TopicAgents, result, err)
	if roll := b.writer.presence; err == nil && roll.watching() && !roll.isOnline(protocol.PeerSystem) {
		err = errors.New("the spawner is not on the bus") // other peers listen
	}
	switch {
	case err == nil:
		return nil
	case b.opts.Now().Sub(item.EnqueuedAt) > giveUpWakeAfter:
		return outbox.Drop(err)
	}
	return outbox.Retry(0, err)
}

// sendItem makes one attempt to send an item. If the receiver is absent from the bus, it goes
// offline, and its wake is parked until it announces itself.
func (b *Broker) sendItem(ctx context.Context, item outbox.Item) error {
	var l outboxItem
	if err := json.Unmarshal(item.Body, &l); err != nil {
		return outbox.Permanent(fmt.Errorf("decoding a stored item: %w", err))
	}
	if l.To == "" {
		return b.sendRequest(ctx, item, l.Message)
	}
	sentAt := formatTime(b.opts.Now())
	result, err := b.peer.Send(ctx, l.To.Topic(), l.Message)
	err = peer.Classify(l.To.Topic(), item.Attempt, result, err)
	reception := peer.OutcomeOf(err)
	rejected := item.Attempt >= maxRejections && reception == peer.Rejected
	age := b.opts.Now().Sub(item.EnqueuedAt)
	old := rejected || age > giveUpWakeAfter
	switch {
	case reception == peer.Received, reception == peer.Absent && l.DeliveryID == "" &&
		(age > bridgeAway || !isBridge(l.To)):
		return nil
	case reception == peer.Absent && l.DeliveryID == "": // a bridge that is restarting
	case reception == peer.Absent:
		return b.writer.change(ctx, func(t *tx) { wakeHandler{t}.missed(l.DeliveryID, l.To, sentAt) })
	case reception == peer.Refused, reception != peer.Unsent && old && l.DeliveryID != "": // other items wait behind it
		b.opts.Log.Warn().Err(err).Str("peer", string(l.To)).Str("delivery", l.DeliveryID).
			Msg("event not taken by its peer; a wake waits for the next announcement")
		return b.writer.change(ctx, func(t *tx) { wakeHandler{t}.park(l.DeliveryID) })
	case rejected:
		return outbox.Drop(err)
	}
	return outbox.Retry(0, err)
}
