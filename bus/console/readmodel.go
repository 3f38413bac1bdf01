package console

import (
	"encoding/json"
	"iter"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/view"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/text"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Bounds of the model. It forgets the least recently used entries.
const (
	maxEdges  = 10_000
	maxPeers  = 10_000
	maxChats  = 5_000
	maxAgents = 5_000
	maxWork   = 10_000
	maxEvents = 400 // of one chat, of one agent
	maxRecent = 300 // failures, gaps
	maxNames  = 100 // agents of one chat, chats of one agent
	maxText   = 300 // characters of a text
)

// A readModel is the state that pages show, derived from the rows of the log. Only the follower
// changes it.
type readModel struct {
	readError atomic.Pointer[string] // why the log cannot be read, or nil
	titles    view.Titles

	mu       sync.RWMutex // guards the fields below
	broker   brokerProjection
	Since    time.Time // of the first row
	rows     int64
	Skipped  int64 // number of rows that were skipped, because the bus writes faster
	edges    lruMap[pairKey, edge]
	peers    lruMap[string, peerStats]
	chats    lruMap[string, chat]
	agents   lruMap[string, agent]
	statuses lruMap[string, deliveryStatus] // by messageId of the reply
	failures []StateFailure                 // the newest last
	gaps     []gap
}

// A brokerProjection is the state that results from the broker's events.
type brokerProjection struct {
	work        lruMap[string, workItem]
	questions   lruMap[string, question]
	flights     lruMap[string, flight]
	claims      lruMap[string, claim]
	endpoints   lruMap[string, endpoint]
	decisions   lruMap[string, decision]
	obligations lruMap[string, collab.EventObligation]
}

func newReadModel() *readModel {
	return &readModel{
		edges:    newLRUMap[pairKey, edge](maxEdges),
		peers:    newLRUMap[string, peerStats](maxPeers),
		chats:    newLRUMap[string, chat](maxChats),
		agents:   newLRUMap[string, agent](maxAgents),
		statuses: newLRUMap[string, deliveryStatus](maxWork),
		broker: brokerProjection{
			work:        newLRUMap[string, workItem](maxWork),
			questions:   newLRUMap[string, question](maxWork),
			flights:     newLRUMap[string, flight](maxWork),
			claims:      newLRUMap[string, claim](maxWork),
			endpoints:   newLRUMap[string, endpoint](maxAgents),
			decisions:   newLRUMap[string, decision](maxWork),
			obligations: newLRUMap[string, collab.EventObligation](maxWork),
		},
	}
}

// An lruMap is a map that forgets the least recently touched entry when it is full.
type lruMap[K comparable, V any] struct{ *simplelru.LRU[K, *V] }

func newLRUMap[K comparable, V any](limit int) lruMap[K, V] {
	lru, err := simplelru.NewLRU[K, *V](limit, nil)
	if err != nil {
		panic(err) // the limit is not positive
	}
	return lruMap[K, V]{lru}
}

// get returns an entry without touching it, or nil.
func (m lruMap[K, V]) get(k K) *V {
	v, _ := m.Peek(k)
	return v
}

// touch returns an entry. It adds a zero entry if there is none.
func (m lruMap[K, V]) touch(k K) *V {
	v, ok := m.LRU.Get(k)
	if !ok {
		v = new(V)
		m.Add(k, v)
	}
	return v
}

// all yields the entries, the least recently touched first.
func (m lruMap[K, V]) all() iter.Seq2[K, *V] {
	return func(yield func(K, *V) bool) {
		for _, k := range m.Keys() {
			if !yield(k, m.get(k)) {
				return
			}
		}
	}
}

// A gap is a log_gap row.
type gap struct {
	At     time.Time
	Lost   int64
	Reason string
}

func (f *readModel) setReadError(err error) {
	text := err.Error()
	f.readError.Store(&text)
}

func (f *readModel) addSkipped(n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Skipped += n
	f.readError.Store(nil)
}

// apply applies rows in the order of the log.
func (f *readModel) apply(rows []activitylog.Entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range rows {
		f.applyRow(&rows[i])
	}
}

func (f *readModel) applyRow(e *activitylog.Entry) {
	at := e.Time()
	f.rows++
	if f.Since.IsZero() {
		f.Since = at
	}
	switch {
	case e.Is(activitylog.SendStart):
		f.applySend(e, at)
	case e.Is(activitylog.ProcessFinish):
		f.applyDelivery(e, at)
	case e.Is(activitylog.Rejected):
		f.addFailure(StateFailure{
			At:        at,
			MessageID: e.MessageID,
			Type:      e.Type,
			From:      e.Actor,
			Topic:     e.Topic,
			Status:    "rejected",
			Error:     e.Error,
		})
		f.peers.touch(e.Actor).fails(at, "rejected", e.Error)
	case e.Is(activitylog.LogGap):
		g := gap{At: at}
		_ = json.Unmarshal(e.Payload, &g) // missing members stay zero
		f.gaps = appendBounded(maxRecent, f.gaps, g)
	}
}

// applySend applies the send_start row of a message.
func (f *readModel) applySend(e *activitylog.Entry, at time.Time) {
	m, ok := e.Decode(nil)
	if !ok {
		return
	}
	f.peers.touch(string(m.From)).sent.add(at)
	switch m.Type {
	case protocol.TypeSpawnRequest, protocol.TypeSpawnResult, protocol.TypeRouteAssigned, protocol.TypeConfigure:
		f.applyRoute(e, &m, at)
	case protocol.TypeTGMessage, protocol.TypeChatMessage:
		f.applyChatMessage(e, &m, at)
	case protocol.TypeTGReply, protocol.TypeChatReply:
		f.applyReply(e, &m, at)
	case protocol.TypeDeliveryStatus:
		f.applyDeliveryStatus(e, &m, at)
	case protocol.TypeAgentEvent:
		f.applyAgentRecord(e, &m, at)
	case protocol.TypeCollabEvent:
		f.applyBrokerEvent(e, &m, at)
	}
}

// applyDelivery applies the outcome of one delivery.
func (f *readModel) applyDelivery(e *activitylog.Entry, at time.Time) {
	p := f.peers.touch(e.Actor)
	p.received.add(at)
	if e.Status != activitylog.StatusOK {
		p.fails(at, e.Status, e.Error)
		f.addFailure(StateFailure{
			At:        at,
			MessageID: e.MessageID,
			Type:      e.Type,
			From:      e.From,
			Topic:     e.Topic,
			Peer:      e.Actor,
			Status:    e.Status,
			Error:     e.Error,
		})
	}
	if e.From == "" {
		return // the log has no send_start row of the message
	}
	to := recipient(e.Actor, e.Topic)
	if to != e.Actor {
		f.peers.touch(to).received.add(at)
	}
	f.edges.touch(pairKey{e.From, to}).add(at, e.Type, e.Status)
}

func (f *readModel) addFailure(x StateFailure) {
	x.Error = text.Clip(x.Error, maxText)
	f.failures = appendBounded(maxRecent, f.failures, x)
}

// appendBounded appends to a list, which keeps at least the last keep items, and at most twice as
// many.
func appendBounded[T any](keep int, list []T, v T) []T {
	if len(list) >= 2*keep {
		list = append(list[:0], list[len(list)-keep:]...)
	}
	return append(list, v)
}

// A rate counts events with exponential decay. Its value is about the number of events in the
// last minute.
type rate struct {
	total int64
	value float64
	last  time.Time
}

const rateWindow = time.Minute

func (r *rate) add(at time.Time) {
	r.value = r.at(at) + 1
	r.total++
	if at.After(r.last) {
		r.last = at
	}
}

// at returns the value at a time.
func (r *rate) at(t time.Time) float64 {
	if r.last.IsZero() {
		return 0
	}
	return r.value * math.Exp(-max(t.Sub(r.last), 0).Seconds()/rateWindow.Seconds())
}

// peerStats count what one identity has sent and received.
type peerStats struct {
	StateFailureStats
	sent     rate
	received rate
}

func (p *peerStats) fails(at time.Time, status, reason string) {
	p.StateFailureStats = StateFailureStats{p.Failures + 1, at, status, text.Clip(reason, maxText)}
}

// A pairKey is a sender and a recipient.
type pairKey struct{ from, to string }

// An edge counts the messages from one identity to another.
type edge struct {
	rate
	types      map[string]int64
	failed     int64
	lastFailed time.Time
}

const maxEdgeTypes = 32

func (e *edge) add(at time.Time, typ, status string) {
	e.rate.add(at)
	if e.types == nil {
		e.types = map[string]int64{}
	}
	if _, ok := e.types[typ]; ok || len(e.types) < maxEdgeTypes {
		e.types[typ]++
	}
	if status != "ok" {
		e.failed++
		e.lastFailed = at
	}
}

// recipient returns the recipient of a delivery. If a bridge received it for a chat, the
// recipient is the chat.
func recipient(peer, topic string) string {
	p, t := protocol.PeerID(peer), protocol.PeerID(topic)
	if protocol.MaySendForFamily(p) && protocol.IsIdentity(protocol.Topic(topic)) && p.Family() == t.Family() {
		return topic
	}
	return peer
}
