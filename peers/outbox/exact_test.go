package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/peers/store/storetest"
	"hubbub/protocol/timetest"
)

// TestAttempts_AreMadeOnTime checks to the second, with rare polls and without jitter.
func TestAttempts_AreMadeOnTime(t *testing.T) {
	why := errors.New("why")
	for name, c := range map[string]struct {
		results []error
		want    []float64
	}{
		"at once":                     {nil, []float64{0}},
		"a backoff doubles":           {[]error{why, why, why, why}, []float64{0, 1, 3, 7, 15}},
		"a delay that was named":      {[]error{outbox.Retry(7*time.Second, why)}, []float64{0, 7}},
		"one beyond the longest":      {[]error{outbox.Retry(700*time.Second, why)}, []float64{0, 700}},
		"none was named":              {[]error{outbox.Retry(0, why), outbox.Retry(-time.Second, why)}, []float64{0, 1, 3}},
		"one that nobody asked for":   {[]error{outbox.Later(7*time.Second, why)}, []float64{0, 7}},
		"the same beyond the longest": {[]error{outbox.Later(700*time.Second, why)}, []float64{0, 60}},
		"none nobody asked for":       {[]error{outbox.Later(0, why), outbox.Later(-time.Second, why)}, []float64{0, 1, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tried := newTimes()
				box := outbox.New(freshDB(t), func(_ context.Context, it outbox.Item) error {
					tried.note()
					if it.Attempt <= len(c.results) {
						return c.results[it.Attempt-1]
					}
					return nil
				}, &outbox.Options{Poll: 6 * time.Hour, Jitter: func() float64 { return 0 }})
				run(t, box)
				synctest.Wait()
				enqueue(t, box, "tg:1", "a") // it wakes the outbox
				timetest.Advance(20 * time.Minute)
				if got := tried.all(); !slices.Equal(got, c.want) {
					t.Errorf("attempts at %v; want %v", got, c.want)
				}
			})
		})
	}
}

// TestSettle_RepeatsOnTime also checks that AfterSettled is called once.
func TestSettle_RepeatsOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tried, told := newTimes(), newTimes()
		var works atomic.Bool
		box := outbox.New(freshDB(t), func(_ context.Context, it outbox.Item) error {
			if it.Attempt == 1 {
				return errors.New("not yet") // no outcome
			}
			return nil
		}, &outbox.Options{
			Poll: time.Hour, Jitter: func() float64 { return 0 },
			OnSettled: func(tx *store.Tx, it outbox.Item, _ outbox.State, _ error) {
				if tried.note(); !works.Load() {
					tx.Fail(errors.New("disk full"))
				}
				if it.State != outbox.StateSent || it.SettledAt.IsZero() || it.Error != "" {
					t.Errorf("told of %+v", it)
				}
			},
			AfterSettled: func(outbox.Item, outbox.State, error) { told.note() },
		})
		enqueue(t, box, "tg:1", "a")
		run(t, box)
		timetest.Advance(10 * time.Second)
		works.Store(true)
		timetest.Advance(10 * time.Second)
		if got := tried.all(); !slices.Equal(got, []float64{1, 2, 4, 8, 16}) {
			t.Errorf("tried at %v", got)
		}
		if got := told.all(); !slices.Equal(got, []float64{16}) {
			t.Errorf("told at %v", got)
		}
	})
}

// TestOperator_RequestsTakeEffectAtOnce uses a process that runs the outbox itself.
func TestOperator_RequestsTakeEffectAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tried := newTimes()
		box := outbox.New(freshDB(t), func(_ context.Context, it outbox.Item) error {
			tried.note()
			if it.Key == "told" {
				return outbox.Retry(time.Hour, errors.New("told to wait"))
			}
			return nil
		}, &outbox.Options{Poll: 6 * time.Hour})
		enqueue(t, box, "tg:1", "told", "behind")
		run(t, box)
		timetest.Advance(5 * time.Second)
		items, err := box.List(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := box.Retry(t.Context(), items[0].ID); err != nil {
			t.Fatal(err)
		}
		timetest.Advance(5 * time.Second)
		if err := box.Drop(t.Context(), items[0].ID); err != nil { // what it held up follows
			t.Fatal(err)
		}
		timetest.Advance(5 * time.Second)
		if got := tried.all(); !slices.Equal(got, []float64{0, 5, 10}) {
			t.Errorf("attempts at %v", got)
		}
	})
}

func TestItem_NeverSentHasNoAttempt(t *testing.T) {
	for _, attempted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			db := freshDB(t)
			enqueue(t, outbox.New(db, nil, nil), "tg:1", "a")
			if attempted {
				if err := storetest.Exec(db, "UPDATE outbox SET error = 'nobody there'"); err != nil {
					t.Fatal(err)
				}
			}
			timetest.Advance(24*time.Hour + 400*time.Millisecond)
			run(t, outbox.New(db, func(context.Context, outbox.Item) error { t.Error("sent too late"); return nil }, nil))
			timetest.Advance(time.Second)
			want := "given up 24h0m0s after it was queued: " + map[bool]string{false: "it was never attempted", true: "nobody there"}[attempted]
			if it := only(t, outbox.New(db, nil, nil)); it.State != outbox.StateDead || it.Error != want {
				t.Errorf("%s: %q; want %q", it.State, it.Error, want)
			}
		})
	}
}

func TestAttemptErrors_WrapTheirCause(t *testing.T) {
	why := errors.New("why")
	for _, err := range []error{outbox.Retry(time.Second, why), outbox.Later(0, why), outbox.Permanent(why), outbox.Drop(why), outbox.Unknown(why)} {
		if !errors.Is(err, why) || err.Error() != "why" {
			t.Errorf("%T is %q, and wraps %v", err, err, errors.Unwrap(err))
		}
	}
	if got := outbox.Permanent(nil).Error(); got != "" {
		t.Errorf("of no error it says %q", got)
	}
}

// TestStoredError_IsCut checks that the first KiB is kept.
func TestStoredError_IsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := strings.Repeat("x", 3000)
		box := outbox.New(freshDB(t), func(context.Context, outbox.Item) error { return outbox.Permanent(errors.New(long)) }, nil)
		enqueue(t, box, "tg:1", "a")
		run(t, box)
		timetest.Advance(time.Second)
		if it := only(t, box); it.Error != long[:1024] {
			t.Errorf("%d bytes are stored", len(it.Error))
		}
	})
}

func TestPut_TakesTheLargestItem(t *testing.T) {
	long := strings.Repeat("x", 513)
	for name, c := range map[string]struct {
		destination, key string
		body             int
		right            bool
	}{
		"the longest names": {long[:512], long[:512], 8, true}, "a longer destination": {long, "k", 8, false},
		"a longer key": {"d", long, 8, false}, "a larger body": {"d", "k", 9, false},
	} {
		box := outbox.New(freshDB(t), nil, &outbox.Options{MaxBody: 8})
		fresh, err := box.Enqueue(t.Context(), c.destination, c.key, make([]byte, c.body))
		if fresh != c.right || c.right != (err == nil) || !c.right && !errors.Is(err, outbox.ErrTooLarge) {
			t.Errorf("%s: %v, %v", name, fresh, err)
		}
	}
}

// many fills a queue with n items of one destination, by SQL, which is quicker.
func many(t *testing.T, n int, state outbox.State) *outbox.Outbox {
	t.Helper()
	db := freshDB(t)
	if err := storetest.Exec(db, `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		INSERT INTO outbox (queue, destination, key, body, state, enqueued_at, not_before, expires_at, settled_at)
		SELECT '', 'tg:1', 'k' || i, x'', ?, 0, 0, 0, 0 FROM n`, n, string(state)); err != nil {
		t.Fatal(err)
	}
	return outbox.New(db, nil, nil)
}

func TestList_IsBoundedUnlessAllIsRequested(t *testing.T) {
	box := many(t, 1001, outbox.StateDead)
	for name, c := range map[string]struct {
		filter *outbox.Filter
		n      int
		first  int64
	}{
		"no filter": {nil, 1000, 1}, "an empty one": {&outbox.Filter{}, 1000, 1}, "one": {&outbox.Filter{Limit: 1}, 1, 1},
		"all": {&outbox.Filter{Limit: -1}, 1001, 1}, "behind one": {&outbox.Filter{After: 400}, 601, 401},
		"of a destination": {&outbox.Filter{Destination: "tg:1"}, 1000, 1}, "of another": {&outbox.Filter{Destination: "tg:2"}, 0, 0},
		"in another state": {&outbox.Filter{States: []outbox.State{outbox.StateSent}}, 0, 0},
	} {
		items, err := box.List(t.Context(), c.filter)
		if err != nil || len(items) != c.n || c.n > 0 && items[0].ID != c.first {
			t.Errorf("%s: %d items, %v", name, len(items), err)
		}
	}
}

func TestPrune_RemovesAllOldItems(t *testing.T) {
	for state, n := range map[outbox.State]int{
		outbox.StateSent: 1200, outbox.StateDropped: 1000, outbox.StateDead: 501, outbox.StateUnknown: 500, outbox.StatePending: 3,
	} {
		want := n
		if state == outbox.StatePending {
			want = 0
		}
		box := many(t, n, state)
		if forgot, err := box.Prune(t.Context()); err != nil || forgot != want {
			t.Errorf("forgot %d of %d that are %s, %v", forgot, n, state, err)
		}
		if left, err := box.List(t.Context(), &outbox.Filter{Limit: -1}); err != nil || len(left) != n-want {
			t.Errorf("%d of %d that were %s are left, %v", len(left), n, state, err)
		}
	}
}

func TestQueues_ListsThoseOfADatabase(t *testing.T) {
	db := freshDB(t)
	for _, name := range []string{"telegram", "bus", "telegram"} {
		box := outbox.New(db, nil, &outbox.Options{Name: name})
		if _, err := box.Enqueue(t.Context(), "tg:1", "a", nil); err != nil {
			t.Fatal(err)
		}
	}
	tx := store.On(t.Context(), db)
	if got := outbox.QueueNames(tx); tx.Err() != nil || !slices.Equal(got, []string{"bus", "telegram"}) {
		t.Errorf("%q, %v", got, tx.Err())
	}
	if err := storetest.Exec(db, "ALTER TABLE outbox RENAME TO away"); err != nil {
		t.Fatal(err)
	}
	if got := outbox.QueueNames(tx); tx.Err() != nil || len(got) != 0 {
		t.Errorf("without an outbox: %q, %v", got, tx.Err())
	}
}

// TestRun_CanRunAgain starts an outbox whose Run has ended, and checks that it prunes old items
// every hour.
func TestRun_CanRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := freshDB(t)
		box := outbox.New(db, func(context.Context, outbox.Item) error { return nil }, &outbox.Options{Poll: 10 * time.Minute})
		for i := range 2 {
			enqueue(t, box, "tg:1", fmt.Sprint("k", i))
			stop := run(t, box)
			timetest.Advance(time.Second)
			stop()
		}
		if n, err := count(t.Context(), db, box, "*", outbox.StateSent); err != nil || n != 2 {
			t.Errorf("%d are sent, %v", n, err)
		}
		run(t, box)
		timetest.Advance(time.Second)
		if err := storetest.Exec(db, "UPDATE outbox SET settled_at = 1"); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			after time.Duration
			want  int
		}{{59 * time.Minute, 2}, {time.Minute, 0}} {
			timetest.Advance(c.after)
			if n, err := count(t.Context(), db, box, "*"); err != nil || n != c.want {
				t.Errorf("%d are known, %v; want %d", n, err, c.want)
			}
		}
	})
}

// TestRetry_KeepsOrResetsAgeAndAttempts checks that a waiting item keeps both, and that a settled
// one starts over.
func TestRetry_KeepsOrResetsAgeAndAttempts(t *testing.T) {
	begun := time.Unix(1_000_000, 0)
	now := begun.Add(time.Hour)
	for state, c := range map[outbox.State]struct {
		attempt int
		expires time.Time
	}{
		outbox.StatePending: {7, begun.Add(24 * time.Hour)}, outbox.StateDead: {0, now.Add(24 * time.Hour)},
		outbox.StateUnknown: {0, now.Add(24 * time.Hour)}, outbox.StateDropped: {0, now.Add(24 * time.Hour)},
	} {
		db, clock := freshDB(t), begun
		box := outbox.New(db, nil, &outbox.Options{Now: func() time.Time { return clock }})
		enqueue(t, box, "tg:1", "a")
		if err := storetest.Exec(db, `UPDATE outbox SET state = ?, attempt = 7, paced = 1, not_before = not_before * 2, settled_at = 5`, string(state)); err != nil {
			t.Fatal(err)
		}
		clock = now
		if err := box.Retry(t.Context(), only(t, box).ID); err != nil {
			t.Fatal(err)
		}
		it := only(t, box)
		if it.State != outbox.StatePending || it.Attempt != c.attempt || !it.ExpiresAt.Equal(c.expires) || !it.NotBefore.Equal(now) || !it.EnqueuedAt.Equal(begun) {
			t.Errorf("%s: it is %+v", state, it)
		}
		var paced, settled int
		if err := storetest.Scan(db, []any{&paced, &settled}, `SELECT paced, settled_at FROM outbox`); err != nil || paced != 0 || settled != 0 {
			t.Errorf("%s: paced %d, settled at %d, %v", state, paced, settled, err)
		}
	}
}

// TestRetention_KeepsKeysForItsTime checks the time to the microsecond, and that open items stay.
func TestRetention_KeepsKeysForItsTime(t *testing.T) {
	now := time.Unix(10_000_000, 0)
	for state, age := range map[outbox.State]time.Duration{
		outbox.StateSent: 7 * 24 * time.Hour, outbox.StateDropped: 7 * 24 * time.Hour, outbox.StateDead: 30 * 24 * time.Hour, outbox.StateUnknown: 30 * 24 * time.Hour,
	} {
		db := freshDB(t)
		box := outbox.New(db, nil, &outbox.Options{Now: func() time.Time { return now }})
		other := outbox.New(db, nil, &outbox.Options{Name: "other", Now: func() time.Time { return now }})
		enqueue(t, box, "tg:1", "a", "b")
		enqueue(t, other, "tg:1", "c")
		end := now.Add(-age).UnixMicro()
		if err := storetest.Exec(db, `UPDATE outbox SET state = ?, settled_at = ? - (key <> 'a')`, string(state), end); err != nil {
			t.Fatal(err)
		}
		if n, err := box.Prune(t.Context()); err != nil || n != 1 || only(t, box).Key != "a" {
			t.Errorf("%s: forgot %d, %v", state, n, err)
		}
		if it := only(t, other); it.Key != "c" {
			t.Errorf("of another queue is left %+v", it)
		}
	}
}

// TestOperator_TouchesOneQueueOnly checks that the other queues of the database do not change.
func TestOperator_TouchesOneQueueOnly(t *testing.T) {
	db, begun := freshDB(t), time.Unix(1_000_000, 0)
	box := outbox.New(db, nil, &outbox.Options{Now: func() time.Time { return begun }})
	other := outbox.New(db, nil, &outbox.Options{Name: "other", MaxPending: 2, MaxPerDestination: 2, Now: func() time.Time { return begun }})
	enqueue(t, other, "tg:1", "a", "b")
	enqueue(t, box, "tg:1", "a", "b", "c")
	if _, err := other.Enqueue(t.Context(), "tg:2", "c", nil); !errors.Is(err, outbox.ErrFull) {
		t.Errorf("a full queue: %v", err)
	}
	theirs, err := other.List(t.Context(), nil)
	if err != nil || len(theirs) != 2 {
		t.Fatal(theirs, err)
	}
	for _, err := range []error{box.Retry(t.Context(), theirs[0].ID), box.Drop(t.Context(), theirs[0].ID)} {
		if !errors.Is(err, outbox.ErrNotFound) || !strings.Contains(err.Error(), fmt.Sprint("item ", theirs[0].ID)) {
			t.Errorf("of another queue: %v", err)
		}
	}
	if err := storetest.Exec(db, `UPDATE outbox SET not_before = not_before + 1, attempt = 3`); err != nil {
		t.Fatal(err)
	}
	if err := box.RetryNow(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if err := store.InTx(t.Context(), db, func(tx *store.Tx) {
		box.Move(tx, "tg:1", "tg:2")
		if ours, all, dead := box.Count(tx, "tg:*"), other.Count(tx, "tg:1", outbox.StatePending, outbox.StateSending), other.Count(tx, "*", outbox.StateDead); ours != 3 || all != 2 || dead != 0 {
			t.Errorf("%d, %d and %d are counted", ours, all, dead)
		}
		if n := box.Count(tx, "tg:1"); n != 0 {
			t.Errorf("%d are where they were", n)
		}
		if ours, all := box.ListByPrefix(tx, "tg:2", ""), other.ListByPrefix(tx, "tg:1", "b"); len(ours) != 3 || len(all) != 1 || all[0].Key != "b" {
			t.Errorf("the groups are %v and %v", ours, all)
		}
	}); err != nil {
		t.Fatal(err)
	}
	for box, attempt := range map[*outbox.Outbox]int{box: 0, other: 3} {
		items, err := box.List(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range items {
			if it.Attempt != attempt || it.NotBefore.Equal(begun) != (attempt == 0) {
				t.Errorf("hurried: %+v", it)
			}
		}
	}
}

// TestRetryNow_TouchesWaitingItemsOnly checks that it leaves items that are due, have a requested
// delay, or have another destination.
func TestRetryNow_TouchesWaitingItemsOnly(t *testing.T) {
	db, now := freshDB(t), time.Unix(1_000_000, 0)
	box := outbox.New(db, nil, &outbox.Options{Now: func() time.Time { return now }})
	enqueue(t, box, "here", "waits", "due", "told", "dead")
	enqueue(t, box, "there", "elsewhere")
	for _, statement := range []string{
		`UPDATE outbox SET attempt = 3, not_before = not_before + 1000000 WHERE key <> 'due'`, `UPDATE outbox SET attempt = 3 WHERE key = 'due'`,
		`UPDATE outbox SET paced = 1 WHERE key = 'told'`, `UPDATE outbox SET state = 'dead' WHERE key = 'dead'`,
	} {
		if err := storetest.Exec(db, statement); err != nil {
			t.Fatal(err)
		}
	}
	hurried := func() (keys []string) {
		items, err := box.List(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range items {
			if it.Attempt == 0 && it.NotBefore.Equal(now) {
				keys = append(keys, it.Key)
			}
		}
		return keys
	}
	for _, c := range []struct {
		destination string
		want        []string
	}{{"nowhere", nil}, {"here", []string{"waits"}}} {
		if err := box.RetryNow(t.Context(), c.destination); err != nil || !slices.Equal(hurried(), c.want) {
			t.Errorf("of %s were hurried %v, %v", c.destination, hurried(), err)
		}
	}
	if err := box.RetryNow(t.Context(), ""); err != nil || !slices.Equal(hurried(), []string{"waits", "elsewhere"}) {
		t.Errorf("%v were hurried, %v", hurried(), err)
	}
}
