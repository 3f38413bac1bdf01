package broker

import (
	"maps"
	"slices"
	"time"
)

// sweep does what is due by the clock alone: endpoints that fell silent, claims
// that ran out, and, when thorough, work that waits for too long.
func (t *turn) sweep(thorough bool) error {
	t.expireEndpoints()
	t.expireClaims()
	if thorough {
		return t.sweepStale()
	}
	return nil
}

// nextDue is when sweep has something to do, whatever the thorough one has.
func (t *turn) nextDue() (next time.Time) {
	for id := range t.held {
		next = sooner(next, parseTime(t.claims[id].ExpiresAt))
	}
	for _, e := range t.endpoints {
		if e.Status == StatusOnline {
			next = sooner(next, parseTime(e.LastHeartbeatAt).Add(t.endpointTimeout))
		}
	}
	return next
}

// sweepStale wakes the next-move owners of what nobody has touched for
// staleAfter: work that is open, waiting or in review, open and answered
// questions, and flights that never began. Each is woken for once per staleAfter;
// while a wake for it still waits for its agent, no other is made.
func (t *turn) sweepStale() error {
	for _, id := range t.workOrder {
		w := *t.work[id]
		if w.State != WorkOpen && w.State != WorkWaiting && w.State != WorkReview || !t.stale(w.ID, w.UpdatedAt) {
			continue
		}
		t.wakeFor(subject{work: &w, sweep: true}, "")
	}
	for _, id := range t.questionOrder {
		q := *t.questions[id]
		if q.Terminal() || !t.stale(q.ID, q.UpdatedAt) {
			continue
		}
		t.wakeFor(subject{question: &q, sweep: true}, "")
	}
	for _, id := range sortedKeys(t.flights) {
		f := *t.flights[id]
		if f.State != FlightQueued && f.State != FlightWaking || !t.stale(f.ID, f.UpdatedAt) {
			continue
		}
		if err := t.remindFlight(f); err != nil {
			return err
		}
	}
	t.dropBestEffort()
	return nil
}

// stale reports whether nothing was done about a record for staleAfter, and
// nobody was woken for it.
func (t *turn) stale(id, updatedAt string) bool {
	last := parseTime(updatedAt)
	if ref, ok := t.wakes[id]; ok {
		if woken := parseTime(ref.at); woken.After(last) {
			last = woken
		}
	}
	return t.now.Sub(last) >= t.staleAfter && len(t.owed(id)) == 0
}

// remindFlight wakes the agent of a flight that never began.
func (t *turn) remindFlight(f Flight) error {
	d := t.deliveries[f.DeliveryID]
	if d == nil || d.Terminal() || d.Wake != wakeWoken {
		return nil // it is woken when its agent announces itself
	}
	dec := t.choose(Situation{Explicit: []string{f.TargetAgentID}}, locality{})
	t.emit(EventWakeDecided, "flight:"+f.ID, WakeDecided{RecordID: f.ID, RecordKind: "flight", Sweep: true, Decision: dec}, nil)
	if dec.Outcome != OutcomeWoken {
		return nil
	}
	about := subject{invocation: t.invocations[f.InvocationID], sweep: true}
	if w := t.work[f.WorkItemID]; w != nil {
		copied := *w
		about.work = &copied
	}
	t.woken(*d, dec, about)
	return nil
}

// dropBestEffort cancels the best-effort deliveries that nobody took.
func (t *turn) dropBestEffort() {
	for _, agent := range sortedKeys(t.openTo) {
		for _, id := range slices.Clone(t.openTo[agent]) {
			d := t.deliveries[id].at(t.now)
			if d.Policy == PolicyBestEffort && d.Status == DeliveryPending && t.now.Sub(parseTime(d.UpdatedAt)) >= t.staleAfter {
				t.cancelDelivery(d, "best effort: nobody took it")
			}
		}
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
