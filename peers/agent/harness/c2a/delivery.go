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

// enqueueLocked inserts a delivery by sequence, after equal ones.
func (h *Harness) enqueueLocked(d *delivery) {
	h.pending = append(h.pending, d)
	slices.SortStableFunc(h.pending, func(a, b *delivery) int { return cmp.Compare(a.turn.Event.Sequence, b.turn.Event.Sequence) })
	for _, token := range append([]string{d.turn.Event.EventID, d.turn.Event.IdempotencyKey, d.turn.ID}, d.turn.Event.MergedEventIDs...) {
		if token != "" {
			h.tokens.Put(token, d.turn.ID)
		}
	}
}

// dueLocked returns the deliveries to send to a session now, in order of sequence, and
// when the next one is due (zero if none is).
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
			h.accepted.Put(d.turn.ID, id)
			h.settleLocked(d, nil)
			h.poke() // the window has room
			return
		}
	}
}
