package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/protocol/timetest"
)

func openDB(t *testing.T, path string) *store.DB {
	t.Helper()
	db, err := store.Open(path, outbox.Schema)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func freshDB(t *testing.T) *store.DB { return openDB(t, filepath.Join(t.TempDir(), "peer.db")) }

// run runs an outbox until the returned function is called, which waits for its end.
func run(t *testing.T, box *outbox.Outbox) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := box.Run(ctx); err != nil {
			t.Error("Run:", err)
		}
	})
	stop = func() { cancel(); wg.Wait() }
	t.Cleanup(stop)
	return stop
}

func enqueue(t *testing.T, box *outbox.Outbox, destination string, keys ...string) {
	t.Helper()
	for _, key := range keys {
		if fresh, err := box.Enqueue(t.Context(), destination, key, []byte(key)); err != nil || !fresh {
			t.Fatalf("enqueue %s: fresh = %v, %v", key, fresh, err)
		}
	}
}

func count(ctx context.Context, db *store.DB, box *outbox.Outbox, destinations string, states ...outbox.State) (int, error) {
	tx := store.On(ctx, db)
	return box.Count(tx, destinations, states...), tx.Err()
}

func only(t *testing.T, box *outbox.Outbox) outbox.Item {
	t.Helper()
	items, err := box.List(t.Context(), nil)
	if err != nil || len(items) != 1 {
		t.Fatalf("%d items, %v; want one", len(items), err)
	}
	return items[0]
}

func TestBackoff_StaysWithinItsBounds(t *testing.T) {
	box := outbox.New(nil, nil, nil)
	for attempt := 1; attempt < 200; attempt++ {
		low, high := box.Backoff(attempt, 0), box.Backoff(attempt, 0.999)
		if low < time.Second || high > time.Minute || low >= high {
			t.Fatalf("attempt %d: from %s to %s", attempt, low, high)
		}
	}
	if d := box.Backoff(1, 0); d != time.Second {
		t.Errorf("first delay is %s", d)
	}
	if d := box.Backoff(50, 0); d != 30*time.Second {
		t.Errorf("late delays begin at %s", d)
	}
}

func TestOrder_WaitingItemHoldsItsDestinationOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		var log []string
		var mu sync.Mutex
		box := outbox.New(freshDB(t), func(_ context.Context, it outbox.Item) error {
			mu.Lock()
			defer mu.Unlock()
			log = append(log, fmt.Sprintf("%s#%d@%d", it.Key, it.Attempt, time.Since(begun)/time.Second))
			if it.Key == "a" && it.Attempt == 1 {
				return outbox.Retry(30*time.Second, errors.New("slow down"))
			}
			return nil
		}, nil)
		enqueue(t, box, "one", "a", "b")
		enqueue(t, box, "two", "c")
		run(t, box)
		timetest.Advance(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		got := strings.Join(log, " ")
		if got != "a#1@0 c#1@0 a#2@30 b#1@30" && got != "c#1@0 a#1@0 a#2@30 b#1@30" {
			t.Error(got)
		}
	})
}

func TestNotBefore_SurvivesARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "peer.db")
		var mu sync.Mutex
		var times []time.Time
		send := func(context.Context, outbox.Item) error {
			mu.Lock()
			defer mu.Unlock()
			times = append(times, time.Now())
			return outbox.Retry(time.Hour, errors.New("retry after an hour"))
		}
		box := outbox.New(openDB(t, path), send, &outbox.Options{Poll: time.Minute})
		enqueue(t, box, "tg:1", "a")
		stop := run(t, box)
		timetest.Advance(time.Minute)
		stop()
		again := outbox.New(openDB(t, path), send, &outbox.Options{Poll: time.Minute})
		run(t, again)
		if err := again.RetryNow(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		timetest.Advance(time.Hour)
		mu.Lock()
		defer mu.Unlock()
		if len(times) != 2 || times[1].Sub(times[0]) < time.Hour {
			t.Errorf("attempts at %v", times)
		}
	})
}

func TestRetryNow_EndsBackoffButNoRequestedDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up, attempts := false, map[string]int{}
		var mu sync.Mutex
		box := outbox.New(freshDB(t), func(_ context.Context, it outbox.Item) error {
			mu.Lock()
			defer mu.Unlock()
			attempts[it.Key]++
			if it.Key == "told" {
				return outbox.Retry(time.Hour, errors.New("told to wait"))
			}
			if !up {
				return errors.New("nobody there")
			}
			return nil
		}, nil)
		enqueue(t, box, "one", "backoff")
		enqueue(t, box, "two", "told")
		run(t, box)
		timetest.Advance(10 * time.Minute) // the backoff is at 30 s to 60 s now
		mu.Lock()
		up = true
		before := attempts["backoff"]
		mu.Unlock()
		if err := box.RetryNow(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		timetest.Advance(time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		if attempts["backoff"] != before+1 || attempts["told"] != 1 {
			t.Errorf("attempts %v, backoff before %d", attempts, before)
		}
	})
}

// TestBackoff_OutlivesAClockSetBack fails a first attempt while the clock is two hours ahead, as
// on a machine whose hardware clock keeps local time.
func TestBackoff_OutlivesAClockSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		ahead := 2 * time.Hour
		clock := func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			return time.Now().Add(ahead)
		}
		attempts := map[string]int{}
		box := outbox.New(freshDB(t), func(_ context.Context, it outbox.Item) error {
			mu.Lock()
			defer mu.Unlock()
			attempts[it.Key]++
			switch {
			case it.Key == "told":
				return outbox.Retry(2*time.Hour, errors.New("told to wait"))
			case it.Key == "backoff" && attempts[it.Key] == 1:
				return errors.New("nobody there")
			}
			return nil
		}, &outbox.Options{Now: clock})
		enqueue(t, box, "one", "backoff", "behind")
		enqueue(t, box, "two", "told")
		run(t, box)
		synctest.Wait()
		mu.Lock()
		ahead = 0
		mu.Unlock()
		timetest.Advance(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if attempts["backoff"] != 2 || attempts["behind"] != 1 || attempts["told"] != 1 {
			t.Errorf("attempts %v", attempts)
		}
	})
}

func TestMaxAge_MakesADeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var outcome outbox.State
		var cause error
		begun := time.Now()
		var settled time.Time
		box := outbox.New(freshDB(t), func(context.Context, outbox.Item) error { return errors.New("nobody there") },
			&outbox.Options{Poll: time.Hour, MinBackoff: 10 * time.Minute, MaxBackoff: 20 * time.Minute,
				AfterSettled: func(_ outbox.Item, o outbox.State, c error) { outcome, cause, settled = o, c, time.Now() }})
		enqueue(t, box, "tg:1", "a")
		run(t, box)
		timetest.Advance(25 * time.Hour)
		if outcome != outbox.StateDead || !strings.Contains(cause.Error(), "24h0m0s") || !strings.Contains(cause.Error(), "nobody there") {
			t.Errorf("%s: %v", outcome, cause)
		}
		if age := settled.Sub(begun); age > 24*time.Hour || age < 24*time.Hour-20*time.Minute {
			t.Errorf("dead after %s", age)
		}
		if item := only(t, box); string(item.Body) != "a" || item.Attempt < 70 {
			t.Errorf("dead letter %+v", item)
		}
	})
}

func TestMaxAge_EndsAnItemNeverAttempted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := freshDB(t)
		enqueue(t, outbox.New(db, nil, nil), "tg:1", "a")
		timetest.Advance(25 * time.Hour) // while the outbox does not run
		box := outbox.New(db, func(context.Context, outbox.Item) error { t.Error("sent too late"); return nil }, nil)
		run(t, box)
		timetest.Advance(time.Second)
		if item := only(t, box); item.State != outbox.StateDead || item.Attempt != 0 {
			t.Errorf("%+v", item)
		}
	})
}

// A classified error has its own classification.
type classified struct{ permanent, droppable bool }

func (c classified) Error() string   { return "not taken" }
func (c classified) Permanent() bool { return c.permanent }
func (c classified) Droppable() bool { return c.droppable }

func TestRetry_OverridesAClassifiedError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		box := outbox.New(freshDB(t), func(context.Context, outbox.Item) error {
			if attempts++; attempts == 3 {
				return nil
			}
			return outbox.Retry(0, classified{permanent: true})
		}, nil)
		enqueue(t, box, "tg:1", "a")
		run(t, box)
		timetest.Advance(5 * time.Minute)
		if item := only(t, box); item.State != outbox.StateSent || attempts != 3 {
			t.Errorf("%d attempts, %+v", attempts, item)
		}
	})
}

func TestOutcome_OfEachAttempt(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want outbox.State
	}{
		"sent":      {nil, outbox.StateSent},
		"permanent": {fmt.Errorf("wrapped: %w", outbox.Permanent(errors.New("chat not found"))), outbox.StateDead},
		"dropped":   {fmt.Errorf("wrapped: %w", outbox.Drop(errors.New("nobody needs it"))), outbox.StateDropped},
		"unknown":   {outbox.Unknown(errors.New("no answer came")), outbox.StateUnknown},

		"permanent by itself": {fmt.Errorf("wrapped: %w", classified{permanent: true}), outbox.StateDead},
		"needless by itself":  {classified{permanent: true, droppable: true}, outbox.StateDropped},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				box := outbox.New(freshDB(t), func(context.Context, outbox.Item) error { return c.err }, nil)
				enqueue(t, box, "tg:1", "a")
				run(t, box)
				timetest.Advance(5 * time.Minute)
				item := only(t, box)
				if item.State != c.want || item.Attempt != 1 || item.SettledAt.IsZero() {
					t.Errorf("%+v", item)
				}
				if c.err != nil && !strings.Contains(c.err.Error(), item.Error) {
					t.Errorf("stored error %q of %q", item.Error, c.err)
				}
			})
		})
	}
}

func TestSettle_IsRepeatedWithoutSendingAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sends, tells := 0, 0
		box := outbox.New(freshDB(t), func(context.Context, outbox.Item) error { sends++; return nil }, &outbox.Options{
			OnSettled: func(tx *store.Tx, _ outbox.Item, _ outbox.State, _ error) {
				if tells++; tells < 4 {
					tx.Fail(errors.New("disk full"))
				}
			}})
		enqueue(t, box, "tg:1", "a")
		run(t, box)
		timetest.Advance(5 * time.Minute)
		if sends != 1 || tells != 4 || only(t, box).State != outbox.StateSent {
			t.Errorf("sent %d times, told %d times, %s", sends, tells, only(t, box).State)
		}
	})
}

func TestStop_CutsAttemptsAfterItsGrace(t *testing.T) {
	for want, policy := range map[outbox.State]outbox.Interruption{
		outbox.StatePending: outbox.Resend, outbox.StateUnknown: outbox.SettleUnknown,
	} {
		synctest.Test(t, func(t *testing.T) {
			box := outbox.New(freshDB(t), func(ctx context.Context, _ outbox.Item) error {
				<-ctx.Done()
				return ctx.Err()
			}, &outbox.Options{OnInterrupted: policy})
			enqueue(t, box, "tg:1", "a")
			stop := run(t, box)
			timetest.Advance(time.Second)
			begun := time.Now()
			stop()
			if took := time.Since(begun); took != 5*time.Second {
				t.Errorf("stopping took %s", took)
			}
			if state := only(t, box).State; state != want {
				t.Errorf("state %s, want %s", state, want)
			}
		})
	}
}

func TestDestinations_RunInParallelWithinABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		now, most := 0, 0
		db := freshDB(t)
		box := outbox.New(db, func(context.Context, outbox.Item) error {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			now--
			mu.Unlock()
			return nil
		}, &outbox.Options{Parallel: 3})
		for i := range 9 {
			enqueue(t, box, fmt.Sprint("tg:", i), "a", "b")
		}
		begun := time.Now()
		run(t, box)
		for {
			timetest.Advance(100 * time.Millisecond)
			if sent, err := count(t.Context(), db, box, "*", outbox.StateSent); err != nil || sent == 18 {
				break
			}
		}
		if took := time.Since(begun).Round(time.Second); most != 3 || took != 6*time.Second {
			t.Errorf("at most %d at once, in %s", most, took)
		}
	})
}

func TestPut_FullOutboxRefuses(t *testing.T) {
	db := freshDB(t)
	box := outbox.New(db, nil, &outbox.Options{MaxPending: 3, MaxPerDestination: 2, MaxBody: 8})
	enqueue(t, box, "one", "a", "b")
	if _, err := box.Enqueue(t.Context(), "one", "c", nil); !errors.Is(err, outbox.ErrFull) || !strings.Contains(err.Error(), "for one") {
		t.Error("third item of one destination:", err)
	}
	enqueue(t, box, "two", "a")
	if _, err := box.Enqueue(t.Context(), "three", "a", nil); !errors.Is(err, outbox.ErrFull) {
		t.Error("fourth item:", err)
	}
	for _, destination := range []string{"one", "two", "three", "four", "five"} { // a caller may continue without the item
		err := store.InTx(t.Context(), db, func(tx *store.Tx) {
			if _, err := box.EnqueueTx(tx, destination, "dropped", nil); !errors.Is(err, outbox.ErrFull) {
				t.Error("in a transaction:", err)
			}
		})
		if open, err2 := count(t.Context(), db, box, "*", outbox.StatePending); open != 3 || err != nil || err2 != nil {
			t.Errorf("%d items are open, %v, %v", open, err, err2)
		}
	}
	if fresh, err := box.Enqueue(t.Context(), "one", "a", nil); fresh || err != nil {
		t.Error("a known item is no news, full or not:", fresh, err)
	}
	if _, err := box.Enqueue(t.Context(), "one", "big", make([]byte, 9)); !errors.Is(err, outbox.ErrTooLarge) {
		t.Error("too large:", err)
	}
	if _, err := box.Enqueue(t.Context(), strings.Repeat("x", 600), "k", nil); !errors.Is(err, outbox.ErrTooLarge) {
		t.Error("too long a name:", err)
	}
	items, err := box.List(t.Context(), nil)
	if err != nil || len(items) != 3 {
		t.Error(len(items), err)
	}
}

func TestPut_IsPartOfItsTransaction(t *testing.T) {
	db := freshDB(t)
	box := outbox.New(db, nil, nil)
	for _, commit := range []bool{false, true} {
		undone := errors.New("undone")
		err := store.InTx(t.Context(), db, func(tx *store.Tx) {
			if fresh, err := box.EnqueueTx(tx, "tg:1", "a", []byte("x")); !fresh || err != nil {
				t.Fatal(fresh, err)
			}
			if !commit {
				tx.Fail(undone)
			}
		})
		if commit && err != nil || !commit && !errors.Is(err, undone) {
			t.Fatal(err)
		}
		items, err := box.List(t.Context(), nil)
		if err != nil || (len(items) == 1) != commit {
			t.Errorf("commit %v: %d items, %v", commit, len(items), err)
		}
	}
}

func TestOutboxes_InOneDatabaseAreSeparate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := freshDB(t)
		sent := map[string]string{}
		for _, name := range []string{"bus", "telegram"} {
			box := outbox.New(db, func(_ context.Context, it outbox.Item) error { sent[name] += string(it.Body); return nil },
				&outbox.Options{Name: name})
			if fresh, err := box.Enqueue(t.Context(), "tg:1", "same", []byte(name)); !fresh || err != nil {
				t.Fatal(fresh, err)
			}
			run(t, box)
			timetest.Advance(time.Minute)
		}
		if sent["bus"] != "bus" || sent["telegram"] != "telegram" {
			t.Error(sent)
		}
	})
}

func TestRun_TwiceIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box := outbox.New(freshDB(t), nil, nil)
		run(t, box)
		synctest.Wait()
		if err := box.Run(t.Context()); !errors.Is(err, outbox.ErrRunning) {
			t.Error(err)
		}
	})
}
