package bus

import (
	"sync/atomic"
	"time"
)

// An inFlight counts the publications that are not finished. It is no WaitGroup,
// whose count must not rise from 0 while somebody waits for it: another bus of
// the cluster may hand over a message at any time, also while this one stops.
type inFlight struct {
	count atomic.Int64
	none  chan struct{} // has room for one: the count fell to 0
}

func newInFlight() *inFlight { return &inFlight{none: make(chan struct{}, 1)} }

func (f *inFlight) begin() { f.count.Add(1) }

func (f *inFlight) end() {
	if f.count.Add(-1) > 0 {
		return
	}
	select {
	case f.none <- struct{}{}:
	default: // whoever waits will look
	}
}

// wait waits until nothing is in flight, or until the time is over, and reports
// which.
func (f *inFlight) wait(over <-chan time.Time) bool {
	for f.count.Load() > 0 {
		select {
		case <-f.none:
		case <-over:
			return false
		}
	}
	return true
}
