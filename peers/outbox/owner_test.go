package outbox_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/peers/store/storetest"
	"hubbub/protocol/timetest"
)

// TestEnqueueHeld_WaitsUntilMoved checks that a held item gets no attempt before, not even by
// RetryNow, that its place follows from its age, and that an item that is never moved becomes a
// dead letter.
func TestEnqueueHeld_WaitsUntilMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := freshDB(t)
		var mu sync.Mutex
		var happened []string
		note := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			happened = append(happened, what)
		}
		box := outbox.New(db, func(_ context.Context, it outbox.Item) error {
			note(it.Destination + " " + it.Key)
			return nil
		}, &outbox.Options{MaxAge: time.Hour, AfterSettled: func(it outbox.Item, s outbox.State, _ error) { note(it.Key + " " + string(s)) }})
		park := func(key string) {
			if err := store.InTx(t.Context(), db, func(tx *store.Tx) {
				_, err := box.EnqueueHeld(tx, "parked", key, nil)
				tx.Fail(err)
			}); err != nil {
				t.Fatal(err)
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- box.Run(ctx) }()
		park("first")
		timetest.Advance(time.Minute)
		if err := box.RetryNow(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		timetest.Advance(time.Minute)
		if len(happened) != 0 {
			t.Errorf("attempted: %q", happened)
		}
		if err := store.InTx(t.Context(), db, func(tx *store.Tx) {
			_, err := box.EnqueueTx(tx, "there", "second", nil)
			tx.Fail(err)
			box.Move(tx, "parked", "there")
		}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		park("never")
		timetest.Advance(2 * time.Hour)
		stop()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if want := []string{"there first", "first sent", "there second", "second sent", "never dead"}; !slices.Equal(happened, want) {
			t.Errorf("%q, want %q", happened, want)
		}
	})
}

// TestMove_KeepsTheOrderAtTheDestination also checks that an item that is being sent stays, and
// so does one whose key the destination has.
func TestMove_KeepsTheOrderAtTheDestination(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := freshDB(t)
		var mu sync.Mutex
		var sent []string
		box := outbox.New(db, func(_ context.Context, it outbox.Item) error {
			if it.Destination == "tg:1 > agent:a" {
				return errors.New("not there")
			}
			mu.Lock()
			defer mu.Unlock()
			sent = append(sent, it.Key)
			return nil
		}, nil)
		enqueue(t, box, "tg:1 > agent:b", "known")
		enqueue(t, box, "tg:1 > agent:a", "one", "known", "two")
		err := store.InTx(t.Context(), db, func(tx *store.Tx) { box.Move(tx, "tg:1 > agent:a", "tg:1 > agent:b") })
		if err != nil {
			t.Fatal(err)
		}
		run(t, box)
		timetest.Advance(time.Second)
		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(sent, []string{"known", "one", "two"}) {
			t.Errorf("sent %q", sent)
		}
		if n, err := count(t.Context(), db, box, "tg:1 > agent:a", outbox.StatePending); n != 1 || err != nil {
			t.Errorf("%d items stayed, %v; want one", n, err)
		}
		tx := store.On(t.Context(), db)
		group := box.ListByPrefix(tx, "tg:1 > agent:b", "t")
		if err := tx.Err(); err != nil || len(group) != 1 || group[0].Key != "two" || group[0].State != outbox.StateSent {
			t.Errorf("the group is %+v, %v", group, err)
		}
	})
}

// TestInterrupted_IsUnknownOnlyIfItMayHaveSent checks that an attempt that was cut off before it
// could have an effect is repeated.
func TestInterrupted_IsUnknownOnlyIfItMayHaveSent(t *testing.T) {
	for _, began := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			db := freshDB(t)
			var attempts atomic.Int64
			box := outbox.New(db, func(ctx context.Context, _ outbox.Item) error {
				if attempts.Add(1) > 1 {
					return nil
				}
				<-ctx.Done()
				return ctx.Err()
			}, &outbox.Options{OnInterrupted: outbox.SettleUnknown, MayHaveSent: func(outbox.Item) bool { return began }, AttemptTimeout: time.Second})
			enqueue(t, box, "tg:1", "a", "cut")
			if err := storetest.Exec(db, `UPDATE outbox SET state = 'sending' WHERE key = 'cut'`); err != nil {
				t.Fatal(err)
			}
			run(t, box)
			timetest.Advance(time.Minute)
			want := outbox.StateSent
			if began {
				want = outbox.StateUnknown
			}
			items, err := box.List(t.Context(), nil)
			if err != nil || len(items) != 2 || items[0].State != want || items[1].State != want {
				t.Errorf("began is %v: %+v, %v; want both %s", began, items, err, want)
			}
		})
	}
}

// TestRetryNow_EndsADelayOfOurOwn also checks that the delay is limited.
func TestRetryNow_EndsADelayOfOurOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := freshDB(t)
		var attempts atomic.Int64
		box := outbox.New(db, func(context.Context, outbox.Item) error {
			attempts.Add(1)
			return outbox.Later(time.Hour, errors.New("not yet"))
		}, &outbox.Options{MaxBackoff: 15 * time.Second})
		enqueue(t, box, "tg:1", "a")
		run(t, box)
		timetest.Advance(time.Second)
		if err := box.RetryNow(t.Context(), "tg:1"); err != nil {
			t.Fatal(err)
		}
		timetest.Advance(time.Second)
		if n := attempts.Load(); n != 2 {
			t.Errorf("%d attempts after RetryNow; want 2", n)
		}
		timetest.Advance(15 * time.Second)
		if n := attempts.Load(); n != 3 {
			t.Errorf("%d attempts after the longest delay; want 3", n)
		}
	})
}

// TestRetryNow_BeforeARequestedDelayDoesNotEndIt checks an attempt that ends with a delay after a
// call of RetryNow.
func TestRetryNow_BeforeARequestedDelayDoesNotEndIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var attempts atomic.Int64
		box := outbox.New(freshDB(t), func(context.Context, outbox.Item) error {
			attempts.Add(1)
			time.Sleep(2 * time.Second)
			return outbox.Later(10*time.Second, errors.New("not yet"))
		}, nil)
		enqueue(t, box, "tg:1", "a")
		run(t, box)
		timetest.Advance(time.Second)
		if err := box.RetryNow(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		timetest.Advance(10 * time.Second)
		if n := attempts.Load(); n != 1 {
			t.Errorf("%d attempts; want one", n)
		}
	})
}

func TestSettle_LeavesAnItemOpenOnError(t *testing.T) {
	why := errors.New("why")
	for err, open := range map[error]bool{
		nil: false, why: true, outbox.Retry(time.Second, why): true, outbox.Later(0, why): true,
		outbox.Permanent(why): false, outbox.Drop(why): false, outbox.Unknown(why): false,
	} {
		if outbox.WillRetry(err) != open {
			t.Errorf("Open(%T) = %v", err, !open)
		}
	}
}
