package bus

import (
	"sync/atomic"
	"time"
)

// An inFlight counts the publications that are not finished. A WaitGroup would not
// do: its count must not rise from 0 while somebody waits, but another bus of the
// cluster may forward a message at any time, even while this bus stops.
type inFlight struct {
	count atomic.Int64
	none  chan struct{} // capacity 1; holds a value after the count fell to 0
}

func newInFlight() *inFlight { return &inFlight{none: make(chan struct{}, 1)} }

func (f *inFlight) begin() { f.count.Add(1) }

func (f *inFlight) end() {
	if f.count.Add(-1) > 0 {
		return
	}
	select {
	case f.none <- struct{}{}:
	default: // a value is there already
	}
}

// wait waits until nothing is in flight. It returns false if over fires first.
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
