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

// rejoinGrace is how long an identity that the bus lost and found again has to announce itself
// anew: a new process does so, one whose bus was out of reach for a while does not know.
const rejoinGrace = 5 * time.Second

// joinTimeout is how long the bus may take to tell of an identity that has announced itself. It
// tells nothing of one that came and went at once.
const joinTimeout = time.Second

// A presenceTracker is who is on the bus, as the bus tells the broker. Nil is a roll of nobody, on a
// bus that tells nothing.
type presenceTracker struct {
	watches func() bool // the bus has told of all and tells of changes
	now     func() time.Time
	changed chan struct{}

	mu            sync.Mutex // guards the fields below
	startedAt     time.Time  // when the bus first told of anybody
	incomplete    bool       // who of those that were online is not there, since the bus has not told of all yet
	online        map[protocol.PeerID]bool
	left          map[protocol.PeerID]time.Time // of whom the writer does not know yet
	joined        map[protocol.PeerID]time.Time // those who joined lately
	announced     map[protocol.PeerID]time.Time // those who announced themselves, and of whom the bus has not told yet
	lostEndpoints map[string]bool               // endpoints that are offline because their identity was not on the bus
}

func newPresenceTracker(watches func() bool, now func() time.Time) *presenceTracker {
	return &presenceTracker{
		watches: watches, now: now, changed: make(chan struct{}, 1), incomplete: true, online: map[protocol.PeerID]bool{},
		left: map[protocol.PeerID]time.Time{}, joined: map[protocol.PeerID]time.Time{}, announced: map[protocol.PeerID]time.Time{}, lostEndpoints: map[string]bool{},
	}
}

// onPresence takes what the bus tells. It does not block.
func (r *presenceTracker) onPresence(p protocol.Presence) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if r.startedAt.IsZero() {
		r.startedAt = now
	}
	if p.State == protocol.PresenceLeft {
		delete(r.online, p.Peer)
		delete(r.joined, p.Peer)
		r.left[p.Peer] = now
	} else {
		r.online[p.Peer], r.joined[p.Peer] = true, now
	}
	delete(r.announced, p.Peer)
	r.signal()
}

func (r *presenceTracker) signal() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// onAnnounce notes that an identity has announced itself, so that the bus should tell of it.
func (r *presenceTracker) onAnnounce(id protocol.PeerID) {
	if !r.watching() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.online[id] {
		r.announced[id] = r.now()
		r.signal()
	}
}

// isOnline reports whether an identity is on the bus for sure.
func (r *presenceTracker) isOnline(id protocol.PeerID) bool {
	if !r.watching() {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.online[id]
}

// setLost notes that an endpoint is offline because its identity was not on the bus, or that
// it is so no more.
func (r *presenceTracker) setLost(endpointID string, lost bool) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if delete(r.lostEndpoints, endpointID); lost {
		r.lostEndpoints[endpointID] = true
	}
}

func (r *presenceTracker) isLost(endpointID string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lostEndpoints[endpointID]
}

func (r *presenceTracker) watching() bool { return r != nil && r.watches() }

// An presenceChanges is who left, and when, and who came back that did not say so.
type presenceChanges struct {
	left     map[protocol.PeerID]time.Time
	since    time.Time // if not zero, the bus has told of all: who is not there and was not heard of since then is gone
	returned []protocol.PeerID
}

// takeChanges returns the news since the last call, and how long the next may wait; 0 for until
// there are some.
func (r *presenceTracker) takeChanges() (a presenceChanges, next time.Duration) {
	watching := r.watching() // which may wait for hear
	r.mu.Lock()
	defer r.mu.Unlock()
	a.left, r.left = r.left, map[protocol.PeerID]time.Time{}
	if r.incomplete && watching {
		a.since, r.incomplete = r.startedAt, false
	}
	now := r.now()
	for id := range r.announced {
		if isDue(r.announced, id, now, joinTimeout, &next) {
			a.left[id] = now
		}
	}
	for _, id := range slices.Sorted(maps.Keys(r.joined)) {
		if isDue(r.joined, id, now, rejoinGrace, &next) {
			a.returned = append(a.returned, id)
		}
	}
	return a, next
}

// isDue reports whether an identity has been in a map for that long, and takes it out then; else
// next is no longer than until it has.
func isDue(in map[protocol.PeerID]time.Time, id protocol.PeerID, now time.Time, after time.Duration, next *time.Duration) bool {
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
		case <-b.writer.presence.changed:
		case <-due.C:
		}
		news, next := b.writer.presence.takeChanges()
		if next > 0 {
			due.Reset(next)
		}
		for b.writer.change(ctx, func(t *tx) { (identityHandler{t}).applyPresence(news) }) != nil && retry.Sleep(ctx, time.Second) {
		}
	}
}

// applyPresence takes the endpoints offline whose identity has left the bus, and back those whose
// identity the bus had lost for a while.
func (t identityHandler) applyPresence(a presenceChanges) {
	for _, id := range sortedKeys(t.endpoints) {
		e := t.endpoints[id]
		heard := collab.ParseTime(e.LastHeartbeatAt)
		at, gone := a.left[e.Identity]
		if !gone && !a.since.IsZero() && !t.presence.isOnline(e.Identity) {
			at, gone = a.since, true
		}
		if gone && e.Status == collab.StatusOnline && !heard.After(at) {
			t.setOffline(e, string(e.Identity)+" left the bus")
			t.presence.setLost(id, true)
		}
	}
	for _, id := range a.returned {
		mine := t.endpointsThat(func(e *endpoint) bool {
			return e.Identity == id && (t.presence.isLost(e.EndpointID) || e.Status == collab.StatusOnline)
		})
		if !slices.ContainsFunc(mine, func(e *endpoint) bool { return e.Status == collab.StatusOnline }) && t.presence.isOnline(id) {
			for _, e := range mine {
				t.presence.setLost(e.EndpointID, false)
				t.setOnline(e)
			}
		}
	}
}
