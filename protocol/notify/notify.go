// Package notify wakes goroutines that wait for work. A Signal wakes one of them, and a Broadcast
// wakes all.
//
// Guarantees: Notify never blocks. Notifications of a Signal that were not received merge into
// one. A notification is never lost, even if it precedes the wait. After each receive, the waiter
// must therefore check for work, and may find none.
package notify

import (
	"context"
	"sync"
	"time"
)

// A Signal carries wake-ups from any number of goroutines to one. Copies of a Signal share its
// state. The zero Signal wakes no goroutine.
type Signal struct{ c chan struct{} }

// New returns a Signal without a pending notification.
func New() Signal { return Signal{make(chan struct{}, 1)} }

// Notify wakes the goroutine that waits for C, or the next one that will.
func (s Signal) Notify() {
	select {
	case s.c <- struct{}{}:
	default: // one is pending, and its receiver has not checked for work yet
	}
}

// C returns the channel that receives one value for all notifications since the last receive.
func (s Signal) C() <-chan struct{} { return s.c }

// Wait waits for a notification, for at most limit unless that is 0. It returns false if ctx
// ends.
func (s Signal) Wait(ctx context.Context, limit time.Duration) bool {
	var late <-chan time.Time
	if limit > 0 {
		late = time.After(limit)
	}
	select {
	case <-s.c:
	case <-late:
	case <-ctx.Done():
		return false
	}
	return true
}

// A Broadcast wakes all goroutines that wait for it. The zero Broadcast is ready to use.
type Broadcast struct {
	mu sync.Mutex
	c  chan struct{} // nil if no goroutine waits
}

// C returns a channel that is closed at the next notification. Call it before checking the state,
// so that no change is missed.
func (b *Broadcast) C() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.c == nil {
		b.c = make(chan struct{})
	}
	return b.c
}

// Notify wakes all waiting goroutines. It never blocks.
func (b *Broadcast) Notify() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.c != nil {
		close(b.c)
		b.c = nil
	}
}
