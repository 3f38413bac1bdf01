package outbox_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/peers/store/storetest"
	"hubbub/protocol/timetest"

	"pgregory.net/rapid"
)

// A script is a random history: the items with their times, the result of each attempt, and the
// number of steps after which each life of the program is killed.
type script struct {
	interrupted outbox.Interruption
	items       []scriptedItem
	kills       []int // crash points passed in each life before it is killed
}

type scriptedItem struct {
	destination, key string
	life             int           // in which the item is enqueued
	after            time.Duration // since that life began
	results          []string      // of its attempts, the last one repeated
	took             time.Duration
}

func (l scriptedItem) name() string { return l.destination + "/" + l.key }

func drawScript(t *rapid.T) script {
	s := script{kills: rapid.SliceOfN(rapid.IntRange(0, 25), 0, 4).Draw(t, "kills")}
	s.interrupted = rapid.SampledFrom([]outbox.Interruption{outbox.Resend, outbox.SettleUnknown}).Draw(t, "interrupted")
	for i := range rapid.IntRange(1, 10).Draw(t, "letters") {
		s.items = append(s.items, scriptedItem{
			destination: rapid.SampledFrom([]string{"tg:1", "tg:2", "agent:x"}).Draw(t, "destination"),
			key:         fmt.Sprint("k", i),
			life:        rapid.IntRange(0, len(s.kills)).Draw(t, "life"),
			after:       time.Duration(rapid.IntRange(0, 5).Draw(t, "after")) * time.Second,
			results: rapid.SliceOfN(rapid.SampledFrom(
				[]string{"ok", "ok", "fail", "later", "never", "unknown"}), 1, 4).Draw(t, "results"),
			took: time.Duration(rapid.IntRange(0, 3).Draw(t, "took")) * time.Second,
		})
	}
	return s
}

// A scriptRun is one script being played; it survives the lives of the program.
type scriptRun struct {
	script   script
	path     string
	mu       sync.Mutex
	accepted []scriptedItem // in the order of Enqueue's answers, fresh ones only
	attempts []attempt
	problems []error
}

// An attempt is one call of SendFunc.
type attempt struct {
	name, result string
	number       int
	ended        time.Time
}

func (tr *scriptRun) problem(format string, args ...any) {
	tr.problems = append(tr.problems, fmt.Errorf(format, args...))
}

func (tr *scriptRun) itemOf(item outbox.Item) (scriptedItem, int) {
	for i, l := range tr.script.items {
		if l.destination == item.Destination && l.key == item.Key {
			return l, i
		}
	}
	panic("an item that nobody enqueued: " + item.Key)
}

func (tr *scriptRun) lastAttempt(name string) (last attempt, count int) {
	for _, a := range tr.attempts {
		if a.name == name {
			last = a
			count++
		}
	}
	return last, count
}

// send plays the letter's next result and checks what a receiver could see.
func (tr *scriptRun) send(_ context.Context, item outbox.Item) error {
	tr.mu.Lock()
	l, _ := tr.itemOf(item)
	last, count := tr.lastAttempt(l.name())
	stored := item.Error == fmt.Sprintf("try %d", last.number)
	switch {
	case item.Attempt <= last.number:
		tr.problem("%s: attempt %d after attempt %d", l.name(), item.Attempt, last.number)
	case stored && last.result == "later" && time.Now().Before(last.ended.Add(90*time.Second)):
		tr.problem("%s: attempted %s after it was told to wait 90s", l.name(), time.Since(last.ended))
	case stored && last.result == "fail" && time.Now().Before(last.ended.Add(time.Second)):
		tr.problem("%s: attempted %s after a failure", l.name(), time.Since(last.ended))
	case count > 0 && !stored && tr.script.interrupted == outbox.SettleUnknown:
		tr.problem("%s: repeated although the end of the last attempt is not known", l.name())
	}
	result := l.results[min(count, len(l.results)-1)]
	i := len(tr.attempts)
	tr.attempts = append(tr.attempts, attempt{l.name(), result, item.Attempt, time.Time{}})
	tr.mu.Unlock()
	time.Sleep(l.took)
	tr.mu.Lock()
	tr.attempts[i].ended = time.Now()
	tr.mu.Unlock()
	failure := fmt.Errorf("try %d", item.Attempt)
	switch result {
	case "fail":
		return failure
	case "later":
		return outbox.Retry(90*time.Second, failure)
	case "never":
		return outbox.Permanent(failure)
	case "unknown":
		return outbox.Unknown(failure)
	}
	return nil
}

// live runs one life of the program: until it is killed, or without a kill until
// nothing is open.
func (tr *scriptRun) live(n int) error {
	db, err := store.Open(tr.path, outbox.Schema+"CREATE TABLE told (name TEXT, outcome TEXT);")
	if err != nil {
		return err
	}
	defer db.Close()
	box := outbox.New(db, tr.send, &outbox.Options{
		OnInterrupted: tr.script.interrupted, Parallel: 2, MaxAge: 5 * time.Minute, Poll: time.Minute,
		OnSettled: func(tx *store.Tx, item outbox.Item, outcome outbox.State, _ error) {
			l, _ := tr.itemOf(item)
			tx.Exec("INSERT INTO told VALUES (?, ?)", l.name(), string(outcome))
		},
	})
	var steps atomic.Int64
	killed := n < len(tr.script.kills)
	box.CrashWith(func(string) error {
		if killed && steps.Add(1) > int64(tr.script.kills[n]) {
			return outbox.ErrCrash
		}
		return nil
	})
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var wg sync.WaitGroup
	ended := make(chan error, 1)
	wg.Go(func() { ended <- box.Run(ctx) })
	defer wg.Wait()
	defer stop()
	if err := tr.enqueue(ctx, box, n); err != nil {
		return err
	}
	for range 1000 {
		select {
		case err := <-ended:
			if !errors.Is(err, outbox.ErrCrash) {
				return fmt.Errorf("run ended by itself: %w", err)
			}
			return nil
		case <-time.After(time.Minute):
		}
		open, err := count(ctx, db, box, "*", outbox.StatePending, outbox.StateSending)
		if err != nil || open == 0 {
			return err
		}
	}
	return errors.New("items stay open although nothing fails for ever")
}

// enqueue enqueues this life's items at their times, each twice. A kill in between does not
// affect accepted ones.
func (tr *scriptRun) enqueue(ctx context.Context, box *outbox.Outbox, life int) error {
	begun := time.Now()
	for second := time.Duration(0); second <= 5*time.Second; second += time.Second {
		for _, l := range tr.script.items {
			if l.life != life || l.after != second {
				continue
			}
			time.Sleep(time.Until(begun.Add(second)))
			for _, want := range []bool{true, false} {
				fresh, err := box.Enqueue(ctx, l.destination, l.key, []byte(l.name()))
				if err != nil || fresh != want {
					return fmt.Errorf("enqueue %s: fresh = %v, %w; want %v", l.name(), fresh, err, want)
				}
			}
			tr.mu.Lock()
			tr.accepted = append(tr.accepted, l)
			tr.mu.Unlock()
		}
	}
	return nil
}

// check compares the whole history with the guarantees of the package.
func (tr *scriptRun) check() error {
	db, err := store.Open(tr.path, outbox.Schema+"CREATE TABLE told (name TEXT, outcome TEXT);")
	if err != nil {
		return err
	}
	defer db.Close()
	begun := map[string][]string{} // items by destination, in the order of first attempts
	lastOf := map[string]int{}
	for i, a := range tr.attempts {
		if _, seen := lastOf[a.name]; !seen {
			begun[destinationOf(a.name)] = append(begun[destinationOf(a.name)], a.name)
		}
		lastOf[a.name] = i
	}
	for _, l := range tr.accepted {
		tr.checkOutcome(db, l)
	}
	tr.checkOrder(begun, lastOf)
	return errors.Join(tr.problems...)
}

func (tr *scriptRun) checkOutcome(db *store.DB, l scriptedItem) {
	var state, told string
	var times int
	err := storetest.Scan(db, []any{&state, &times, &told}, `SELECT state, (SELECT count(*) FROM told WHERE name = ?1), (SELECT max(outcome) FROM told WHERE name = ?1)
		FROM outbox WHERE destination = ?2 AND key = ?3`, l.name(), l.destination, l.key)
	if err != nil {
		tr.problem("%s is lost: %w", l.name(), err)
		return
	}
	if times != 1 || told != state {
		tr.problem("%s: state %s, told %d times, of %s", l.name(), state, times, told)
	}
	last, _ := tr.lastAttempt(l.name())
	sent := 0
	for _, a := range tr.attempts {
		if a.name == l.name() && a.result == "ok" {
			sent++
		}
	}
	possible := map[string]string{"sent": "ok", "unknown": "unknown"}[state]
	giveUp := tr.script.interrupted == outbox.SettleUnknown && state == "unknown"
	if possible != "" && last.result != possible && !giveUp {
		tr.problem("%s: state %s although the last attempt gave %q", l.name(), state, last.result)
	}
	if limit := 1 + len(tr.script.kills); sent > limit || tr.script.interrupted == outbox.SettleUnknown && sent > 1 {
		tr.problem("%s: sent %d times with %d kills", l.name(), sent, len(tr.script.kills))
	}
}

// checkOrder checks that no item is attempted before the last attempts of all older items of its
// destination, except items that were settled without an attempt.
func (tr *scriptRun) checkOrder(begun map[string][]string, lastOf map[string]int) {
	place := map[string]int{}
	for i, l := range tr.accepted {
		place[l.name()] = i
	}
	for _, names := range begun {
		for i := 1; i < len(names); i++ {
			if place[names[i]] < place[names[i-1]] {
				tr.problem("%s was begun after %s", names[i], names[i-1])
			}
		}
		for i := 1; i < len(names); i++ {
			for j, a := range tr.attempts {
				if a.name == names[i] && j < lastOf[names[i-1]] {
					tr.problem("%s was attempted before %s was settled", names[i], names[i-1])
				}
			}
		}
	}
}

func destinationOf(name string) string {
	dir, _ := filepath.Split(name)
	return dir
}

// TestSIGKILL_NothingIsLostOrReordered plays random histories with kills at every step.
func TestSIGKILL_NothingIsLostOrReordered(t *testing.T) {
	if err := flag.Set("rapid.checks", "12"); err != nil { // each is several lives on a real disk
		t.Fatal(err)
	}
	dir, n := t.TempDir(), 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		tr := &scriptRun{script: drawScript(rt), path: filepath.Join(dir, fmt.Sprint(n), "peer.db")}
		var err error
		synctest.Test(t, func(*testing.T) {
			for life := 0; life <= len(tr.script.kills) && err == nil; life++ {
				err = tr.live(life)
			}
			if err == nil {
				err = tr.check()
			}
		})
		if err != nil {
			for _, a := range tr.attempts {
				rt.Logf("attempt %d at %s: %s", a.number, a.name, a.result)
			}
			rt.Fatal(err)
		}
	})
}

// TestRun_MarksWithSettlement checks that the transaction that settles an item marks the next
// one, unless other destinations may be waiting for room.
func TestRun_MarksWithSettlement(t *testing.T) {
	for parallel, want := range map[int]int{0: 2, 3: 2, 2: 10, 1: 10} {
		synctest.Test(t, func(t *testing.T) {
			var marks, sent atomic.Int64
			box := outbox.New(freshDB(t), func(context.Context, outbox.Item) error {
				sent.Add(1)
				return nil
			}, &outbox.Options{Parallel: parallel})
			box.CrashWith(func(point string) error {
				if point == "before mark" {
					marks.Add(1)
				}
				return nil
			})
			enqueue(t, box, "tg:1", "a", "b", "c", "d", "e")
			enqueue(t, box, "tg:2", "a", "b", "c", "d", "e")
			run(t, box)
			timetest.Advance(time.Second)
			if n := int(marks.Load()); sent.Load() != 10 || n < want/2 || n > want {
				t.Errorf("with room for %d: %d sent with %d marks of their own; want at most %d", parallel, sent.Load(), n, want)
			}
		})
	}
}
