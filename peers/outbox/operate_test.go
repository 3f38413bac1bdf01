package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
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

func TestOperator_ListsRetriesAndDrops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "peer.db")
		var mu sync.Mutex
		broken, sent := true, ""
		box := outbox.New(openDB(t, path), func(_ context.Context, it outbox.Item) error {
			mu.Lock()
			defer mu.Unlock()
			if broken {
				return outbox.Permanent(errors.New("bot was blocked"))
			}
			sent += it.Key
			return nil
		}, nil)
		enqueue(t, box, "tg:1", "a", "b", "c")
		run(t, box)
		timetest.Advance(time.Second)
		db := openDB(t, path)
		operator := outbox.New(db, nil, nil) // another process, which sends nothing
		dead, err := operator.List(t.Context(), &outbox.Filter{States: []outbox.State{outbox.StateDead, outbox.StateUnknown}})
		if err != nil || len(dead) != 3 || dead[0].Error != "bot was blocked" || string(dead[0].Body) != "a" {
			t.Fatalf("%+v, %v", dead, err)
		}
		mu.Lock()
		broken = false
		mu.Unlock()
		for _, id := range []int64{dead[1].ID, dead[0].ID} {
			if err := operator.Retry(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		if err := operator.Drop(t.Context(), dead[2].ID); err != nil {
			t.Fatal(err)
		}
		timetest.Advance(6 * time.Second) // the running outbox polls every 5 s
		mu.Lock()
		if sent != "ab" {
			t.Errorf("sent %q; want both in their old order", sent)
		}
		mu.Unlock()
		if err := operator.Retry(t.Context(), dead[0].ID); !errors.Is(err, outbox.ErrSettled) {
			t.Error("retrying a sent item:", err)
		}
		if err := operator.Drop(t.Context(), dead[0].ID); !errors.Is(err, outbox.ErrSettled) {
			t.Error("dropping a sent item:", err)
		}
		if err := operator.Drop(t.Context(), 99); !errors.Is(err, outbox.ErrNotFound) || !strings.Contains(err.Error(), "99") {
			t.Error("dropping nothing:", err)
		}
		if err := operator.Drop(t.Context(), dead[2].ID); err != nil {
			t.Error("dropping twice:", err)
		}
		for state, want := range map[outbox.State]int{outbox.StateSent: 2, outbox.StateDropped: 1, outbox.StateDead: 0} {
			if n, err := count(t.Context(), db, operator, "tg:*", state); err != nil || n != want {
				t.Errorf("%d items are %s, %v; want %d", n, state, err, want)
			}
		}
	})
}

func TestOperator_LeavesItemsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box := outbox.New(freshDB(t), func(context.Context, outbox.Item) error { time.Sleep(time.Minute); return nil }, nil)
		enqueue(t, box, "tg:1", "a")
		run(t, box)
		timetest.Advance(time.Second)
		id := only(t, box).ID
		if err := box.Drop(t.Context(), id); !errors.Is(err, outbox.ErrBusy) {
			t.Error("drop:", err)
		}
		if err := box.Retry(t.Context(), id); !errors.Is(err, outbox.ErrBusy) {
			t.Error("retry:", err)
		}
	})
}

func TestPrune_RemovesSettledKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box := outbox.New(freshDB(t), func(_ context.Context, it outbox.Item) error {
			if it.Key == "dead" {
				return outbox.Permanent(errors.New("no"))
			}
			return nil
		}, &outbox.Options{Poll: 12 * time.Hour})
		enqueue(t, box, "tg:1", "sent", "dead")
		run(t, box)
		timetest.Advance(6 * 24 * time.Hour)
		if fresh, err := box.Enqueue(t.Context(), "tg:1", "sent", nil); fresh || err != nil {
			t.Error("within its retention a key is known:", fresh, err)
		}
		timetest.Advance(2 * 24 * time.Hour)
		items, err := box.List(t.Context(), nil)
		if err != nil || len(items) != 1 || items[0].Key != "dead" {
			t.Errorf("%+v, %v; want the dead letter alone", items, err)
		}
		enqueue(t, box, "tg:1", "sent")
		timetest.Advance(23 * 24 * time.Hour)
		if items, err = box.List(t.Context(), nil); err != nil || len(items) != 0 {
			t.Errorf("%+v, %v; want nothing", items, err)
		}
	})
}

// TestSettle_FailingUntilTheEndIsInterrupted checks an OnSettled that fails until Run's grace is
// over: the item counts as interrupted, and the next start decides on it.
func TestSettle_FailingUntilTheEndIsInterrupted(t *testing.T) {
	for name, test := range map[string]struct {
		next  outbox.Interruption
		state outbox.State
		sends int64
	}{
		"it is sent again":         {outbox.Resend, outbox.StateSent, 2},
		"its outcome is not known": {outbox.SettleUnknown, outbox.StateUnknown, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "peer.db")
				var sends, tried atomic.Int64
				send := func(context.Context, outbox.Item) error { sends.Add(1); return nil }
				refuse := func(tx *store.Tx, _ outbox.Item, _ outbox.State, _ error) {
					tried.Add(1)
					tx.Fail(errors.New("the disk is full"))
				}
				box := outbox.New(openDB(t, path), send, &outbox.Options{OnSettled: refuse, StopTimeout: time.Second})
				enqueue(t, box, "tg:1", "a")
				stop := run(t, box)
				timetest.Advance(30 * time.Second)
				stop()
				if sends.Load() != 1 || tried.Load() < 4 {
					t.Fatalf("sent %d times, its outcome tried %d times; want one send, and several tries", sends.Load(), tried.Load())
				}
				if it := only(t, box); it.State != outbox.StateSending {
					t.Fatalf("after the stop it is %s", it.State)
				}
				next := outbox.New(openDB(t, path), send, &outbox.Options{OnInterrupted: test.next})
				run(t, next)
				timetest.Advance(time.Second)
				if it := only(t, next); it.State != test.state || sends.Load() != test.sends {
					t.Errorf("it is %s after %d sends, want %s after %d", it.State, sends.Load(), test.state, test.sends)
				}
			})
		})
	}
}

func TestRun_OutlivesAnUnusableDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := freshDB(t)
		var mu sync.Mutex
		sent := ""
		box := outbox.New(db, func(_ context.Context, it outbox.Item) error {
			mu.Lock()
			defer mu.Unlock()
			sent += it.Key
			return nil
		}, nil)
		exec := func(statement string) {
			t.Helper()
			if err := storetest.Exec(db, statement); err != nil {
				t.Fatal(err)
			}
		}
		enqueue(t, box, "tg:1", "a")
		exec("ALTER TABLE outbox RENAME TO away")
		run(t, box)
		timetest.Advance(time.Minute)
		if _, err := box.Enqueue(t.Context(), "tg:1", "b", nil); err == nil {
			t.Error("an item was taken that is stored nowhere")
		}
		if _, err := box.List(t.Context(), nil); err == nil {
			t.Error("List says that nothing waits")
		}
		if _, err := count(t.Context(), db, box, "*"); err == nil {
			t.Error("Count says that nothing waits")
		}
		exec("ALTER TABLE away RENAME TO outbox")
		timetest.Advance(10 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if sent != "a" {
			t.Errorf("sent %q, want what was stored", sent)
		}
	})
}

// After a restart of the bus, a sender often returns before its addressee: the first attempt
// fails, and the next must not wait for the backoff of the time before.
func TestRetryNow_ResetsTheBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var up atomic.Bool
		var sent atomic.Pointer[time.Time]
		box := outbox.New(freshDB(t), func(context.Context, outbox.Item) error {
			if !up.Load() {
				return errors.New("nobody there")
			}
			now := time.Now()
			sent.Store(&now)
			return nil
		}, nil)
		enqueue(t, box, "tg:1", "a")
		run(t, box)
		timetest.Advance(10 * time.Minute) // the backoff is at 30 s to 60 s now
		if err := box.RetryNow(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		timetest.Advance(100 * time.Millisecond)
		up.Store(true)
		back := time.Now()
		timetest.Advance(2 * time.Minute)
		if at := sent.Load(); at == nil || at.Sub(back) > 2*time.Second {
			t.Errorf("sent at %v, the other was back at %v", at, back)
		}
	})
}

// The addressee may return during an attempt that fails because of its absence. The attempt is
// then repeated at once.
func TestRetryNow_DuringAnAttemptEndsItsBackoff(t *testing.T) {
	for destination, want := range map[string]int{"slow": 2, "": 2, "other": 1} {
		synctest.Test(t, func(t *testing.T) {
			var attempts atomic.Int32
			box := outbox.New(freshDB(t), func(context.Context, outbox.Item) error {
				attempts.Add(1)
				time.Sleep(3 * time.Second)
				return errors.New("nobody there")
			}, &outbox.Options{MinBackoff: time.Hour, MaxBackoff: 2 * time.Hour})
			enqueue(t, box, "slow", "a")
			run(t, box)
			timetest.Advance(time.Second)
			if err := box.RetryNow(t.Context(), destination); err != nil {
				t.Fatal(err)
			}
			timetest.Advance(time.Minute)
			if n := int(attempts.Load()); n != want {
				t.Errorf("%d attempts although %q was hurried, want %d", n, destination, want)
			}
		})
	}
}

// TestDrop_NotifiesTheOwner checks that OnSettled and AfterSettled are called, as for other
// outcomes.
func TestDrop_NotifiesTheOwner(t *testing.T) {
	var told []string
	tell := func(when string) func(it outbox.Item, state outbox.State, cause error) {
		return func(it outbox.Item, state outbox.State, cause error) {
			told = append(told, fmt.Sprintf("%s %s %s %s: %v", when, it.Key, it.State, state, cause))
		}
	}
	within := tell("within")
	box := outbox.New(freshDB(t), nil, &outbox.Options{
		OnSettled:    func(_ *store.Tx, it outbox.Item, state outbox.State, cause error) { within(it, state, cause) },
		AfterSettled: tell("after"),
	})
	enqueue(t, box, "tg:1", "a")
	for range 2 {
		if err := box.Drop(t.Context(), only(t, box).ID); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"within a dropped dropped: dropped by an operator", "after a dropped dropped: dropped by an operator"}
	if !slices.Equal(told, want) {
		t.Errorf("told were %q; want %q", told, want)
	}
}

// TestRun_RestsWithoutReleasableItems checks that an outbox polls only while it has an item that another
// process can release, and notices within Options.Poll that one did.
func TestRun_RestsWithoutReleasableItems(t *testing.T) {
	for outcome, polls := range map[outbox.State]bool{
		"": false, outbox.StateSent: false,
		outbox.StateDead: true, outbox.StateUnknown: true, outbox.StateDropped: true, outbox.StatePending: true,
	} {
		synctest.Test(t, func(t *testing.T) {
			why := errors.New("why")
			result := map[outbox.State]error{
				outbox.StateDead: outbox.Permanent(why), outbox.StateUnknown: outbox.Unknown(why),
				outbox.StateDropped: outbox.Drop(why), outbox.StatePending: outbox.Retry(20*time.Hour, why),
			}
			db := freshDB(t)
			var looks, sent atomic.Int64
			box := outbox.New(db, func(context.Context, outbox.Item) error {
				sent.Add(1)
				return result[outcome]
			}, &outbox.Options{Poll: 15 * time.Second, Now: func() time.Time {
				looks.Add(1)
				return time.Now()
			}})
			run(t, box)
			if outcome != "" {
				enqueue(t, box, "tg:1", "a")
			}
			timetest.Advance(time.Minute)
			looks.Store(0)
			timetest.Advance(50 * time.Minute)
			if n := looks.Load(); polls != (n > 0) {
				t.Errorf("%q: looked at the clock %d times while idle", outcome, n)
			}
			if !polls {
				enqueue(t, box, "tg:1", "b")
			} else if err := outbox.New(db, nil, nil).Retry(t.Context(), only(t, box).ID); err != nil {
				t.Fatal(err)
			}
			timetest.Advance(15 * time.Second)
			want := int64(2)
			if outcome == "" {
				want = 1
			}
			if n := sent.Load(); n != want {
				t.Errorf("%q: attempted %d times; want %d", outcome, n, want)
			}
		})
	}
}

// TestSelectUnsent_SkipsSentItems checks the query of an idle outbox, whose sent items may be many.
func TestSelectUnsent_SkipsSentItems(t *testing.T) {
	db := freshDB(t)
	plan, err := storetest.Plan(db, outbox.SelectUnsent, "")
	if err != nil || !strings.Contains(plan, "INDEX outbox_open (queue=?)") ||
		!strings.Contains(plan, "INDEX outbox_settled (queue=? AND state=?)") || strings.Contains(plan, "SCAN outbox") {
		t.Errorf("%s\n%v", plan, err)
	}
	for state, want := range map[outbox.State]bool{
		outbox.StatePending: true, outbox.StateSending: true, outbox.StateDead: true, outbox.StateUnknown: true,
		outbox.StateDropped: true, outbox.StateSent: false,
	} {
		box := outbox.New(db, nil, &outbox.Options{Name: string(state)})
		enqueue(t, box, "tg:1", "a")
		if err := storetest.Exec(db, "UPDATE outbox SET state = ?1 WHERE queue = ?1", string(state)); err != nil {
			t.Fatal(err)
		}
		var got bool
		if err := storetest.Scan(db, []any{&got}, outbox.SelectUnsent, string(state)); err != nil || got != want {
			t.Errorf("%s: %t, %v; want %t", state, got, err, want)
		}
	}
}
