package outbox_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/protocol/timetest"
)

// TestEnqueue_WhileRunning checks that each item is sent once, in the order of its destination,
// without the search that a timer causes, whether items come together or one by one, to as many
// destinations as are served at once, fewer or more, and whether their attempts take time.
func TestEnqueue_WhileRunning(t *testing.T) {
	for _, c := range []struct {
		senders, destinations, each int
		together                    bool
		pause                       time.Duration
		interrupted                 outbox.Interruption
	}{
		{senders: 1, destinations: 1, each: 30},
		{senders: 8, destinations: 3, each: 10},
		{senders: 8, destinations: 12, each: 10},
		{senders: 1, destinations: 12, each: 3, together: true},
		{senders: 8, destinations: 12, each: 3, together: true, pause: time.Millisecond},
		{senders: 4, destinations: 2, each: 10, pause: time.Microsecond},
		{senders: 4, destinations: 5, each: 5, interrupted: outbox.SettleUnknown},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &receiver{t: t, pause: c.pause, sent: map[string]int{}, last: map[string]int64{}}
				db := freshDB(t)
				box := outbox.New(db, r.send, &outbox.Options{Parallel: 3, Poll: time.Hour, OnInterrupted: c.interrupted})
				began, stop := time.Now(), run(t, box)
				synctest.Wait()
				var wg sync.WaitGroup
				for s := range c.senders {
					wg.Go(func() { enqueueAll(t, db, box, s, c.destinations, c.each, c.together) })
				}
				wg.Wait()
				total := c.senders * c.destinations * c.each
				for r.count() < total && time.Since(began) < time.Minute {
					timetest.Advance(time.Millisecond)
				}
				stop()
				for item, n := range r.sent {
					if n != 1 {
						t.Errorf("%s was sent %d times", item, n)
					}
				}
				if open, err := count(t.Context(), db, box, "*", outbox.StatePending, outbox.StateSending); err != nil ||
					open != 0 || len(r.sent) != total || r.most > 3 {
					t.Errorf("%d of %d items sent, at most %d at once; %d open, %v", len(r.sent), total, r.most, open, err)
				}
			})
		})
	}
}

// A receiver counts what is sent to it.
type receiver struct {
	t     *testing.T
	pause time.Duration

	mu        sync.Mutex
	sent      map[string]int   // by destination and key
	last      map[string]int64 // ids by destination
	now, most int
}

func (r *receiver) send(_ context.Context, it outbox.Item) error {
	r.mu.Lock()
	if it.ID < r.last[it.Destination] || it.Attempt != 1 || string(it.Body) != it.Key {
		r.t.Errorf("%+v follows item %d", it, r.last[it.Destination])
	}
	r.now++
	r.most = max(r.most, r.now)
	r.last[it.Destination] = it.ID
	r.sent[it.Destination+" "+it.Key]++
	r.mu.Unlock()
	time.Sleep(r.pause) // in a bubble
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now--
	return nil
}

func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.sent)
}

// enqueueAll enqueues items to each destination: in one transaction, or each in one of its own.
func enqueueAll(t *testing.T, db *store.DB, box *outbox.Outbox, sender, destinations, each int, together bool) {
	put := func(tx *store.Tx, i int) {
		key := fmt.Sprint(sender, "-", i)
		_, err := box.EnqueueTx(tx, fmt.Sprint("tg:", i%destinations), key, []byte(key))
		tx.Fail(err)
	}
	var err error
	if together {
		err = store.InTx(t.Context(), db, func(tx *store.Tx) {
			for i := range destinations * each {
				put(tx, i)
			}
		})
	}
	for i := 0; !together && err == nil && i < destinations*each; i++ {
		err = store.InTx(t.Context(), db, func(tx *store.Tx) { put(tx, i) })
	}
	if err != nil {
		t.Error(err)
	}
}
