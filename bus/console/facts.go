package console

import (
	"encoding/json"
	"iter"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/view"
	"hubbub/protocol"
	"hubbub/protocol/text"
)

// The bounds of what is remembered. The entries touched least recently are forgotten.
const (
	maxEdges  = 10_000
	maxPeers  = 10_000
	maxChats  = 5_000
	maxAgents = 5_000
	maxWork   = 10_000
	maxEvents = 400 // of one chat, of one agent
	maxRecent = 300 // failures, gaps
	maxNames  = 100 // of the agents of one chat, of the chats of one agent
	maxText   = 300 // characters of a text
)

// facts are what the rows of the log add up to. Only the follower changes them.
type facts struct {
	trouble atomic.Pointer[string] // why the log cannot be read; nil while it can
	titles  view.Titles

	mu sync.RWMutex // guards everything below
	ledger
	Since    time.Time // of the first row
	rows     int64
	Skipped  int64 // rows that were not read, because the bus writes faster
	edges    bounded[edgeKey, edge]
	peers    bounded[string, peerTally]
	chats    bounded[string, chat]
	agents   bounded[string, agent]
	statuses bounded[string, deliveryStatus] // by messageId of the reply
	failures []StateFailure                  // the newest last
	gaps     []gap
}

// A ledger is what the broker published.
type ledger struct {
	work    bounded[string, workItem]
	asked   bounded[string, question]
	flights bounded[string, flight]
	claims  bounded[string, claim]
	places  bounded[string, endpoint]

	decisions bounded[string, decision]
	duties    bounded[string, duty]
}

func newFacts() *facts {
	return &facts{
		edges:  bounded[edgeKey, edge]{limit: maxEdges},
		peers:  bounded[string, peerTally]{limit: maxPeers},
		chats:  bounded[string, chat]{limit: maxChats},
		agents: bounded[string, agent]{limit: maxAgents},
		ledger: ledger{
			work:    bounded[string, workItem]{limit: maxWork},
			asked:   bounded[string, question]{limit: maxWork},
			flights: bounded[string, flight]{limit: maxWork},
			claims:  bounded[string, claim]{limit: maxWork},
			places:  bounded[string, endpoint]{limit: maxAgents},

			decisions: bounded[string, decision]{limit: maxWork},
			duties:    bounded[string, duty]{limit: maxWork},
		},
		statuses: bounded[string, deliveryStatus]{limit: maxWork},
	}
}

// bounded is a map that forgets a tenth of its entries when it is full: those touched
// least recently.
type bounded[K comparable, V any] struct {
	limit int
	clock int64
	m     map[K]*touched[V]
}

type touched[V any] struct {
	v  V
	at int64
}

// get returns an entry without touching it; nil if there is none.
func (b *bounded[K, V]) get(k K) *V {
	if t := b.m[k]; t != nil {
		return &t.v
	}
	return nil
}

// touch returns an entry, which it makes if there is none.
func (b *bounded[K, V]) touch(k K) *V {
	t := b.m[k]
	if t == nil {
		if len(b.m) >= b.limit {
			b.forget()
		}
		if b.m == nil {
			b.m = map[K]*touched[V]{}
		}
		t = &touched[V]{}
		b.m[k] = t
	}
	b.clock++
	t.at = b.clock
	return &t.v
}

func (b *bounded[K, V]) forget() {
	ages := make([]int64, 0, len(b.m))
	for _, t := range b.m {
		ages = append(ages, t.at)
	}
	slices.Sort(ages)
	before := ages[len(ages)/10]
	maps.DeleteFunc(b.m, func(_ K, t *touched[V]) bool { return t.at <= before })
}

// all returns every entry, in no order.
func (b *bounded[K, V]) all() iter.Seq2[K, *V] {
	return func(yield func(K, *V) bool) {
		for k, t := range b.m {
			if !yield(k, &t.v) {
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

func (f *facts) failed(err error) {
	text := err.Error()
	f.trouble.Store(&text)
}

func (f *facts) skip(n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Skipped += n
	f.trouble.Store(nil)
}

// apply applies rows, in the order of the log.
func (f *facts) apply(rows []activitylog.Entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range rows {
		f.applyRow(&rows[i])
	}
}

func (f *facts) applyRow(e *activitylog.Entry) {
	at := e.Time()
	f.rows++
	if f.Since.IsZero() {
		f.Since = at
	}
	switch {
	case e.Is(activitylog.SendStart):
		f.sent(e, at)
	case e.Is(activitylog.ProcessFinish):
		f.delivered(e, at)
	case e.Is(activitylog.Rejected):
		f.fail(StateFailure{At: at, MessageID: e.MessageID, Type: e.Type, From: e.Actor, Topic: e.Topic, Status: "rejected", Error: e.Error})
		f.peers.touch(e.Actor).fails(at, "rejected", e.Error)
	case e.Is(activitylog.LogGap):
		g := gap{At: at}
		_ = json.Unmarshal(e.Payload, &g) // unreadable members stay unknown
		f.gaps = appendKept(maxRecent, f.gaps, g)
	}
}

// sent applies the send_start row of a message.
func (f *facts) sent(e *activitylog.Entry, at time.Time) {
	m, ok := e.Decode(nil)
	if !ok {
		return
	}
	f.peers.touch(string(m.From)).sent.add(at)
	switch m.Type {
	case protocol.TypeSpawnRequest, protocol.TypeSpawnResult, protocol.TypeRouteAssigned, protocol.TypeConfigure:
		f.route(e, &m, at)
	case protocol.TypeTGMessage, protocol.TypeChatMessage:
		f.said(e, &m, at)
	case protocol.TypeTGReply, protocol.TypeChatReply:
		f.replied(e, &m, at)
	case protocol.TypeDeliveryStatus:
		f.status(e, &m, at)
	case protocol.TypeAgentEvent:
		f.agentEvent(e, &m, at)
	case protocol.TypeCollabEvent:
		f.collab(e, &m, at)
	}
}

// delivered applies the outcome of one delivery.
func (f *facts) delivered(e *activitylog.Entry, at time.Time) {
	p := f.peers.touch(e.Actor)
	p.received.add(at)
	if e.Status != activitylog.StatusOK {
		p.fails(at, e.Status, e.Error)
		f.fail(StateFailure{At: at, MessageID: e.MessageID, Type: e.Type, From: e.From, Topic: e.Topic, Peer: e.Actor, Status: e.Status, Error: e.Error})
	}
	if e.From == "" {
		return // no log holds its send_start
	}
	to := receiver(e.Actor, e.Topic)
	if to != e.Actor {
		f.peers.touch(to).received.add(at)
	}
	f.edges.touch(edgeKey{e.From, to}).add(at, e.Type, e.Status)
}

func (f *facts) fail(x StateFailure) {
	x.Error = text.Clip(x.Error, maxText)
	f.failures = appendKept(maxRecent, f.failures, x)
}

// appendKept appends to a list, which keeps at least the last so many items, and at most
// twice as many.
func appendKept[T any](keep int, list []T, v T) []T {
	if len(list) >= 2*keep {
		list = append(list[:0], list[len(list)-keep:]...)
	}
	return append(list, v)
}

// A rate counts events with exponential decay: its value is about the number of
// events in the last minute.
type rate struct {
	total int64
	value float64
	last  time.Time
}

const rateSpan = time.Minute

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
	return r.value * math.Exp(-max(t.Sub(r.last), 0).Seconds()/rateSpan.Seconds())
}

// A peerTally is what one identity did.
type peerTally struct {
	StateFailureStats
	sent     rate
	received rate
}

func (p *peerTally) fails(at time.Time, status, reason string) {
	p.StateFailureStats = StateFailureStats{p.Failures + 1, at, status, text.Clip(reason, maxText)}
}

// An edgeKey names a pair that talks.
type edgeKey struct{ from, to string }

// An edge is what one identity sent to another.
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

// receiver returns who got a message: the chat, if a bridge took it for one.
func receiver(peer, topic string) string {
	p, t := protocol.PeerID(peer), protocol.PeerID(topic)
	if protocol.MaySendForFamily(p) && protocol.IsIdentity(protocol.Topic(topic)) && p.Family() == t.Family() {
		return topic
	}
	return peer
}
