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

// covers reports whether no bus that had this sign of life has given this one up. It
// compares both clocks of the machine: one of them may have stood still with it.
func (p *pulse) covers(beat uint64, at time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if beat > p.last || p.last-beat >= uint64(len(p.at)) {
		return false
	}
	sent := p.at[beat%uint64(len(p.at))]
	return !sent.IsZero() && max(at.Sub(sent), at.Round(0).Sub(sent.Round(0))) < p.lease
}
