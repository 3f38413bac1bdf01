package notify_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"hubbub/protocol/notify"
)

func pending(s notify.Signal) bool {
	select {
	case <-s.C():
		return true
	default:
		return false
	}
}

func TestSignal_MergesPendingNotifications(t *testing.T) {
	s := notify.New()
	if pending(s) {
		t.Error("a new signal has a notification")
	}
	s.Notify()
	s.Notify()
	if !pending(s) {
		t.Error("a notification before the wait is lost")
	}
	if pending(s) {
		t.Error("two notifications were not merged")
	}
}

func TestSignal_ZeroValueWakesNobody(t *testing.T) {
	var s notify.Signal
	s.Notify()
	if pending(s) {
		t.Error("the zero signal has a notification")
	}
}

// TestSignal_NeverLosesAWakeUp lets senders count work and notify, while one receiver
// takes all work that it finds after each wake-up. A wake-up lost between the
// receiver's check and its next wait would block it forever.
func TestSignal_NeverLosesAWakeUp(t *testing.T) {
	const senders, each = 8, 2000
	s := notify.New()
	var work atomic.Int64
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			for range each {
				work.Add(1)
				s.Notify()
			}
		})
	}
	for taken := int64(0); taken < senders*each; {
		<-s.C()
		taken += work.Swap(0)
	}
	wg.Wait()
}
