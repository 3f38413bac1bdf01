// Package notify wakes a goroutine that waits for work.
//
// Guarantees: Notify never blocks; notifications that nobody has received yet merge
// into one; a notification is never lost, even if it precedes the wait. The waiter must
// therefore look for its work after each receive, and may find none.
package notify

// A Signal carries wake-ups from any number of goroutines to one. Copies of a Signal
// share its state. The zero Signal wakes nobody.
type Signal struct{ c chan struct{} }

// New returns a Signal without a pending notification.
func New() Signal { return Signal{make(chan struct{}, 1)} }

// Notify wakes the goroutine that waits for C, or the next one that waits for it.
func (s Signal) Notify() {
	select {
	case s.c <- struct{}{}:
	default: // one is pending, and its receiver has yet to look for its work
	}
}

// C returns the channel that delivers one value for all notifications since the last.
func (s Signal) C() <-chan struct{} { return s.c }
