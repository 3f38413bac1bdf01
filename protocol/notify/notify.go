// Package notify wakes goroutines that wait for work. A Signal wakes one of them, and a Broadcast
// wakes all.
//
// Guarantees: Notify never blocks. Notifications of a Signal that were not received merge into
// one. A notification is never lost, even if it precedes the wait. After each receive, the waiter
// must therefore check for work, and may find none.
package notify

// A Signal carries wake-ups from any number of goroutines to one. Copies of a Signal
// share its state. The zero Signal wakes nobody.
type Signal struct{ c chan struct{} }

// New returns a Signal without a pending notification.
func New() Signal { return Signal{make(chan struct{}, 1)} }

// Notify wakes the goroutine that waits for C, or the next one that will.
func (s Signal) Notify() {
	select {
	case s.c <- struct{}{}:
	default: // one is pending, and its receiver has yet to look for its work
	}
}

// C returns the channel that receives one value for all notifications since the last receive.
func (s Signal) C() <-chan struct{} { return s.c }
