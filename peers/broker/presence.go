package broker

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"hubbub/peers/broker/rules"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/notify"
	"hubbub/protocol/retry"
)

// rejoinGrace is how long a rejoined identity may take to announce itself. A new process
// announces itself; a process that only lost its connection does not know.
const rejoinGrace = 5 * time.Second

// joinTimeout is how long the bus may take to report an identity that has announced itself. The
// bus does not report a peer that joined and left at once.
const joinTimeout = time.Second

// A presenceTracker tracks the peers on the bus. A nil tracker knows nobody, on a bus that
// reports no presence.
type presenceTracker struct {
	watches func() bool // the bus has reported all peers and reports changes
	now     func() time.Time
	changed notify.Signal

	mu            sync.Mutex // guards the fields below
	startedAt     time.Time  // time of the first report
	incomplete    bool       // peers that were online may be gone, as the bus has not reported all yet
	online        map[protocol.PeerID]bool
	left          map[protocol.PeerID]time.Time // not yet known to the writer
	joined        map[protocol.PeerID]time.Time // recently joined
	announced     map[protocol.PeerID]time.Time // announced, and not reported by the bus yet
	lostEndpoints map[string]bool               // endpoints that are offline because their identity left the bus
}

func newPresenceTracker(watches func() bool, now func() time.Time) *presenceTracker {
	return &presenceTracker{
		watches:       watches,
		now:           now,
		changed:       notify.New(),
		incomplete:    true,
		online:        map[protocol.PeerID]bool{},
		left:          map[protocol.PeerID]time.Time{},
		joined:        map[protocol.PeerID]time.Time{},
		announced:     map[protocol.PeerID]time.Time{},
		lostEndpoints: map[string]bool{},
	}
}

// onPresence takes a report from the bus. It does not block.
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
	r.changed.Notify()
}

// onAnnounce notes that an identity has announced itself, so that the bus should report it.
func (r *presenceTracker) onAnnounce(id protocol.PeerID) {
	if !r.watching() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.online[id] {
		r.announced[id] = r.now()
		r.changed.Notify()
	}
}

// isOnline reports whether an identity is known to be on the bus.
func (r *presenceTracker) isOnline(id protocol.PeerID) bool {
	if !r.watching() {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.online[id]
}

// setLost records whether an endpoint is offline because its identity left the bus.
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

// presenceChanges lists the peers that left, and those that returned without announcing
// themselves.
type presenceChanges struct {
	left map[protocol.PeerID]time.Time
	// if not zero, the bus has reported all peers: absent ones without a sign of life since then are gone
	since    time.Time
	returned []protocol.PeerID
}

// takeChanges returns the changes since the last call, and the time until the next are due, or 0
// if none are expected.
func (r *presenceTracker) takeChanges() (a presenceChanges, next time.Duration) {
	watching := r.watching() // may wait for onPresence
	r.mu.Lock()
	defer r.mu.Unlock()
	a.left, r.left = r.left, map[protocol.PeerID]time.Time{}
	if r.incomplete && watching {
		a.since, r.incomplete = r.startedAt, false
	}
	now := r.now()
	due := func(in map[protocol.PeerID]time.Time, id protocol.PeerID, after time.Duration) bool {
		wait := in[id].Add(after).Sub(now)
		if wait <= 0 {
			delete(in, id)
		} else if next == 0 || wait < next {
			next = wait
		}
		return wait <= 0
	}
	for id := range r.announced {
		if due(r.announced, id, joinTimeout) {
			a.left[id] = now
		}
	}
	for _, id := range slices.Sorted(maps.Keys(r.joined)) {
		if due(r.joined, id, rejoinGrace) {
			a.returned = append(a.returned, id)
		}
	}
	return a, next
}

// presenceLoop applies changes of presence to the state.
func (b *Broker) presenceLoop(ctx context.Context) error {
	due := time.NewTimer(time.Hour)
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-b.writer.presence.changed.C():
		case <-due.C:
		}
		news, next := b.writer.presence.takeChanges()
		if next > 0 {
			due.Reset(next)
		}
		apply := func(t *tx) { (identityHandler{t}).applyPresence(news) }
		for b.writer.change(ctx, apply) != nil && retry.Sleep(ctx, time.Second) {
		}
	}
}

// applyPresence takes the endpoints of departed identities offline, and those of returned
// identities online.
func (t identityHandler) applyPresence(a presenceChanges) {
	for _, id := range sortedKeys(t.Endpoints) {
		e := t.Endpoints[id]
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
		mine := t.EndpointsThat(func(e *rules.Endpoint) bool {
			return e.Identity == id && (t.presence.isLost(e.EndpointID) || e.Status == collab.StatusOnline)
		})
		if !slices.ContainsFunc(mine, func(e *rules.Endpoint) bool { return e.Status == collab.StatusOnline }) &&
			t.presence.isOnline(id) {
			for _, e := range mine {
				t.presence.setLost(e.EndpointID, false)
				t.setOnline(e)
			}
		}
	}
}
