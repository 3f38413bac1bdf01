package cluster

import (
	"math/rand/v2"
	"sync"
	"time"
)

// A pulse is the row of this bus's own signs of life. Each has a number, which the other
// buses send back with what they forward. So this bus knows, by its own clock alone, how
// long the other one has been waiting for a sign of life at most when a forward arrives:
// one that the other bus may have given up by then is refused, not delivered late.
type pulse struct {
	lease time.Duration // within it after a sign of life no bus gives this one up

	mu   sync.Mutex // guards the fields below
	last uint64
	at   [64]time.Time // of the last signs of life, by their numbers
}

// newPulse numbers from a random place, so that this run takes nothing that is meant for
// the one before.
func newPulse(lease time.Duration) pulse { return pulse{lease: lease, last: rand.Uint64() >> 1} }

// next returns the number of a sign of life that is about to be sent.
func (p *pulse) next(at time.Time) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	p.at[p.last%uint64(len(p.at))] = at
	return p.last
}

// covers reports whether no bus that had this sign of life has given this one up.
func (p *pulse) covers(beat uint64, at time.Time) bool {
	return age(at, p.sent(beat)) < p.lease
}

// sent returns when a sign of life was sent, or zero if that was long ago or another run's.
func (p *pulse) sent(beat uint64) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if beat > p.last || p.last-beat >= uint64(len(p.at)) {
		return time.Time{}
	}
	return p.at[beat%uint64(len(p.at))]
}

// age returns how long ago something was, by the clock that says more: one of them may have
// stood still with the machine.
func age(at, then time.Time) time.Duration {
	return max(at.Sub(then), at.Round(0).Sub(then.Round(0)))
}
