package bus

import (
	"sync/atomic"
	"time"

	"hubbub/protocol/notify"
)

// An inFlight counts the publications that are not finished. A WaitGroup is unsuitable: its count
// must not rise from 0 while a goroutine waits, but another bus of the cluster may forward a
// message at any time, even while this bus stops.
type inFlight struct {
	count atomic.Int64
	zero  notify.Signal // the count fell to 0
}

func newInFlight() *inFlight { return &inFlight{zero: notify.New()} }

func (f *inFlight) begin() { f.count.Add(1) }

func (f *inFlight) end() {
	if f.count.Add(-1) == 0 {
		f.zero.Notify()
	}
}

// wait waits until nothing is in flight. It returns false if timeout fires first.
func (f *inFlight) wait(timeout <-chan time.Time) bool {
	for f.count.Load() > 0 {
		select {
		case <-f.zero.C():
		case <-timeout:
			return false
		}
	}
	return true
}
