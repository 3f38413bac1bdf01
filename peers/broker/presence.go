package broker

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/retry"
)

// settleTime is how long an identity that the bus lost and found again has to announce itself
// anew: a new process does so, one whose bus was out of reach for a while does not know.
const settleTime = 5 * time.Second

// showTime is how long the bus may take to tell of an identity that has announced itself. It
// tells nothing of one that came and went at once.
const showTime = time.Second

// A roll is who is on the bus, as the bus tells the broker. Nil is a roll of nobody, on a
// bus that tells nothing.
type roll struct {
	watches func() bool // the bus has told of all and tells of changes
	now     func() time.Time
	news    chan struct{}

	mu      sync.Mutex // guards the fields below
	begun   time.Time  // when the bus first told of anybody
	unknown bool       // who of those that were online is not there, since the bus has not told of all yet
	there   map[protocol.PeerID]bool
	left    map[protocol.PeerID]time.Time // of whom the writer does not know yet
	joined  map[protocol.PeerID]time.Time // those who joined lately
	said    map[protocol.PeerID]time.Time // those who announced themselves, and of whom the bus has not told yet
	lost    map[string]bool               // endpoints that are offline because their identity was not on the bus
}

func newRoll(watches func() bool, now func() time.Time) *roll {
	return &roll{
		watches: watches, now: now, news: make(chan struct{}, 1), unknown: true, there: map[protocol.PeerID]bool{},
		left: map[protocol.PeerID]time.Time{}, joined: map[protocol.PeerID]time.Time{}, said: map[protocol.PeerID]time.Time{}, lost: map[string]bool{},
	}
}

// hear takes what the bus tells. It does not block.
func (r *roll) hear(p protocol.Presence) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if r.begun.IsZero() {
		r.begun = now
	}
	if p.State == protocol.PresenceLeft {
		delete(r.there, p.Peer)
		delete(r.joined, p.Peer)
		r.left[p.Peer] = now
	} else {
		r.there[p.Peer], r.joined[p.Peer] = true, now
	}
	delete(r.said, p.Peer)
	r.signal()
}

func (r *roll) signal() {
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// expect notes that an identity has announced itself, so that the bus should tell of it.
func (r *roll) expect(id protocol.PeerID) {
	if !r.watching() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.there[id] {
		r.said[id] = r.now()
		r.signal()
	}
}

// has reports whether an identity is on the bus for sure.
func (r *roll) has(id protocol.PeerID) bool {
	if !r.watching() {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.there[id]
}

// setLost notes that an endpoint is offline because its identity was not on the bus, or that
// it is so no more.
func (r *roll) setLost(endpointID string, lost bool) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if delete(r.lost, endpointID); lost {
		r.lost[endpointID] = true
	}
}

func (r *roll) hasLost(endpointID string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost[endpointID]
}

func (r *roll) watching() bool { return r != nil && r.watches() }

// An absence is who left, and when, and who came back that did not say so.
type absence struct {
	left  map[protocol.PeerID]time.Time
	since time.Time // if not zero, the bus has told of all: who is not there and was not heard of since then is gone
	back  []protocol.PeerID
}

// take returns the news since the last call, and how long the next may wait; 0 for until
// there are some.
func (r *roll) take() (a absence, next time.Duration) {
	watching := r.watching() // which may wait for hear
	r.mu.Lock()
	defer r.mu.Unlock()
	a.left, r.left = r.left, map[protocol.PeerID]time.Time{}
	if r.unknown && watching {
		a.since, r.unknown = r.begun, false
	}
	now := r.now()
	for id := range r.said {
		if due(r.said, id, now, showTime, &next) {
			a.left[id] = now
		}
	}
	for _, id := range slices.Sorted(maps.Keys(r.joined)) {
		if due(r.joined, id, now, settleTime, &next) {
			a.back = append(a.back, id)
		}
	}
	return a, next
}

// due reports whether an identity has been in a map for that long, and takes it out then; else
// next is no longer than until it has.
func due(in map[protocol.PeerID]time.Time, id protocol.PeerID, now time.Time, after time.Duration, next *time.Duration) bool {
	wait := in[id].Add(after).Sub(now)
	if wait <= 0 {
		delete(in, id)
		return true
	}
	if *next == 0 || wait < *next {
		*next = wait
	}
	return false
}

// presenceLoop has the writer take in who left and who came back.
func (b *Broker) presenceLoop(ctx context.Context) error {
	due := time.NewTimer(time.Hour)
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-b.writer.roll.news:
		case <-due.C:
		}
		news, next := b.writer.roll.take()
		if next > 0 {
			due.Reset(next)
		}
		for b.writer.change(ctx, func(t *tx) { hearOf(t, news) }) != nil && retry.Sleep(ctx, time.Second) {
		}
	}
}

// hearOf takes the endpoints offline whose identity has left the bus, and back those whose
// identity the bus had lost for a while.
func hearOf(t *tx, a absence) {
	for _, id := range sortedKeys(t.endpoints) {
		e := t.endpoints[id]
		heard := collab.ParseTime(e.LastHeartbeatAt)
		at, gone := a.left[e.Identity]
		if !gone && !a.since.IsZero() && !t.roll.has(e.Identity) {
			at, gone = a.since, true
		}
		if gone && e.Status == collab.StatusOnline && !heard.After(at) {
			t.setOffline(e, string(e.Identity)+" left the bus")
			t.roll.setLost(id, true)
		}
	}
	for _, id := range a.back {
		mine := t.endpointsThat(func(e *endpoint) bool {
			return e.Identity == id && (t.roll.hasLost(e.EndpointID) || e.Status == collab.StatusOnline)
		})
		if !slices.ContainsFunc(mine, func(e *endpoint) bool { return e.Status == collab.StatusOnline }) && t.roll.has(id) {
			for _, e := range mine {
				t.roll.setLost(e.EndpointID, false)
				comeBack(t, e)
			}
		}
	}
}
