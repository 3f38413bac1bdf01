package bus

import (
	"slices"
	"time"

	"hubbub/protocol/jsonrpc"
	"hubbub/protocol/wire"
)

// A window holds the deliveries of a session that have no outcome yet. Its session's mu
// guards it.
type window struct {
	backlog     *wire.Backlog // counts the queued bytes of all sessions
	calls       jsonrpc.Calls[*delivery]
	unanswered  int         // deliveries written and not answered
	queue       []*delivery // deliveries that wait for room, in order
	queuedBytes int
	observed    uint64 // number of messages written whose answers are ignored
}

// enqueue adds a delivery to the queue.
func (w *window) enqueue(d *delivery) {
	d.queued = true
	w.queue = append(w.queue, d)
	w.addQueuedBytes(len(d.publication.params))
}

// dequeue returns the first delivery of the queue, and counts it as unanswered.
func (w *window) dequeue() *delivery {
	d := w.queue[0]
	w.queue[0] = nil
	w.queue = w.queue[1:]
	w.addQueuedBytes(-len(d.publication.params))
	d.queued = false
	w.unanswered++
	return d
}

// take removes the delivery with this id. It returns false if no delivery has it.
func (w *window) take(id uint64) (*delivery, bool) {
	d, ok := w.calls.Take(id)
	if ok {
		w.release(d)
	}
	return d, ok
}

// release frees the place of a delivery that was removed from calls.
func (w *window) release(d *delivery) {
	if !d.queued {
		w.unanswered--
		return
	}
	if i := slices.Index(w.queue, d); i >= 0 {
		w.queue = slices.Delete(w.queue, i, i+1)
		w.addQueuedBytes(-len(d.publication.params))
	}
}

// takeAll removes all deliveries.
func (w *window) takeAll() map[uint64]*delivery {
	w.addQueuedBytes(-w.queuedBytes)
	w.queue, w.unanswered = nil, 0
	return w.calls.TakeAll()
}

// takeUnsent removes and returns the queued deliveries whose start is recorded.
func (w *window) takeUnsent() (unsent []*delivery) {
	for _, d := range slices.Clone(w.queue) {
		if d.recorded {
			w.take(d.id)
			unsent = append(unsent, d)
		}
	}
	return unsent
}

// takeExpired removes and returns the deliveries that were accepted by the deadline.
func (w *window) takeExpired(deadline time.Time) (expired []*delivery) {
	for id, d := range w.calls.All {
		if !d.publication.accepted.After(deadline) {
			w.take(id)
			expired = append(expired, d)
		}
	}
	return expired
}

func (w *window) addQueuedBytes(n int) {
	w.queuedBytes += n
	w.backlog.Add(n)
}
