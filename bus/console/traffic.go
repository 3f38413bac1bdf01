package console

import (
	"math"
	"time"

	"hubbub/protocol"
	"hubbub/protocol/text"
)

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
	StateTrouble
	sent     rate
	received rate
}

func (p *peerTally) fails(at time.Time, status, reason string) {
	p.StateTrouble = StateTrouble{p.Failures + 1, at, status, text.Clip(reason, maxText)}
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
	if protocol.SpeaksForFamily(p) && protocol.IsIdentity(protocol.Topic(topic)) && p.Family() == t.Family() {
		return topic
	}
	return peer
}
