package c2a

import (
	"cmp"
	"slices"
	"time"

	"hubbub/peers/agent/harness"
)

// A delivery is one event on its way to the program. Harness.mu guards it.
type delivery struct {
	turn    *harness.Turn
	next    int       // attempt of the next send
	attempt int       // of the last send
	sentTo  *session  // that got the last send
	due     time.Time // when it is sent again
	lastID  string    // request id of the last send
	ids     []string  // request ids of every send
	settled bool
	err     error
	done    chan struct{} // closed when settled
}

// enqueueLocked inserts a delivery by sequence, behind its equals.
func (h *Harness) enqueueLocked(d *delivery) {
	at, _ := slices.BinarySearchFunc(h.pending, d.turn.Event.Sequence, func(p *delivery, sequence int64) int {
		if p.turn.Event.Sequence <= sequence {
			return -1
		}
		return cmp.Compare(p.turn.Event.Sequence, sequence)
	})
	h.pending = slices.Insert(h.pending, at, d)
	for _, token := range append([]string{d.turn.Event.EventID, d.turn.Event.IdempotencyKey, d.turn.ID}, d.turn.Event.MergedEventIDs...) {
		h.tokens.put(token, d.turn.ID)
	}
}

func (h *Harness) removeLocked(d *delivery) {
	if i := slices.Index(h.pending, d); i >= 0 {
		h.pending = slices.Delete(h.pending, i, i+1)
	}
}

// dueLocked returns what is to be sent to a session now, in order of sequence,
// and when the next delivery falls due (zero: none).
func (h *Harness) dueLocked(s *session, now time.Time) (due []*delivery, next time.Time) {
	open := 0
	for _, d := range h.pending {
		if d.sentTo == s {
			open++
		}
	}
	for _, d := range h.pending {
		switch {
		case d.sentTo != s:
			if open < h.opts.Window {
				open++
				due = append(due, d)
			}
		case !d.due.After(now):
			due = append(due, d)
		case next.IsZero() || d.due.Before(next):
			next = d.due
		}
	}
	return due, next
}

// acceptedLocked settles the delivery that a request id belongs to.
func (h *Harness) acceptedLocked(id string) {
	for _, d := range h.pending {
		if slices.Contains(d.ids, id) {
			h.accepted.put(d.turn.ID, id)
			h.settleLocked(d, nil)
			h.poke() // the window has room
			return
		}
	}
}

// recent is a bounded map: the oldest entry goes when it is full.
type recent struct {
	limit  int
	values map[string]string
	order  []string
}

func newRecent(limit int) recent { return recent{limit: limit, values: map[string]string{}} }

func (r *recent) put(key, value string) {
	if key == "" {
		return
	}
	if _, known := r.values[key]; !known {
		r.order = append(r.order, key)
	}
	r.values[key] = value
	for len(r.order) > r.limit {
		delete(r.values, r.order[0])
		r.order = r.order[1:]
	}
}

// take returns a value and forgets it.
func (r *recent) take(key string) (string, bool) {
	value, ok := r.values[key]
	if ok {
		delete(r.values, key)
		r.order = slices.DeleteFunc(r.order, func(k string) bool { return k == key })
	}
	return value, ok
}
