package cluster

import (
	"math/rand/v2"
	"sync"
	"time"
)

// heartbeats number the heartbeats of this bus. With each forward, another bus returns the number
// of the last heartbeat that it has received. So this bus knows, by its own clock alone, how old
// that heartbeat is when the forward arrives. If the other bus may have given up on the forward by
// then, this bus refuses it instead of delivering it late.
type heartbeats struct {
	lease time.Duration // no bus that received a heartbeat gives up on this bus before the lease has passed

	mu   sync.Mutex // guards the fields below
	last uint64
	at   [64]time.Time // of the last heartbeats, by number
}

// newHeartbeats starts at a random number, so that messages for an earlier run match nothing.
func newHeartbeats(lease time.Duration) heartbeats {
	return heartbeats{lease: lease, last: rand.Uint64() >> 1}
}

// next returns the number for the next heartbeat.
func (h *heartbeats) next(at time.Time) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last++
	h.at[h.last%uint64(len(h.at))] = at
	return h.last
}

// withinLease reports whether the buses that have received this heartbeat cannot have given up on
// this bus.
func (h *heartbeats) withinLease(beat uint64, at time.Time) bool {
	return age(at, h.sent(beat)) < h.lease
}

// sent returns when a heartbeat was sent. It returns zero for one that is too old or from another
// run.
func (h *heartbeats) sent(beat uint64) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if beat > h.last || h.last-beat >= uint64(len(h.at)) {
		return time.Time{}
	}
	return h.at[beat%uint64(len(h.at))]
}

// age returns the time since then, by the monotonic or the wall clock, whichever shows more. One
// of them may stop while the machine is suspended.
func age(at, then time.Time) time.Duration {
	return max(at.Sub(then), at.Round(0).Sub(then.Round(0)))
}
