package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"hubbub/peers/broker/rules"
	"hubbub/peers/store"
	"hubbub/protocol/collab"
)

// maxBatch bounds the jobs of one transaction.
const maxBatch = 256

var errStopping = errors.New("the broker is stopping; send the request again")

// A job is work for the writer: a request, or a change by the broker itself. Done gets one error,
// nil once the job is stored.
type job struct {
	decide func(t *tx)
	done   chan error
}

// A writer owns the state. No other code changes it or the events in the database. The writer
// takes all waiting jobs, decides them one by one, stores the results in one transaction, and
// only then sends anything.
type writer struct {
	db           *store.DB
	opts         *Options
	presence     *presenceTracker
	jobs         chan job
	enqueue      func(t *tx, s sending)
	enqueueSpawn func(t *tx, a spawnRequest)
	committed    func(t *tx) // after each commit

	state *state

	mu       sync.Mutex        // guards deferred
	deferred []func(*store.Tx) // to be run with the next commit
}

// deferToCommit runs a function in the transaction of the next commit, within a second. It must
// be repeatable: it runs again if the commit fails.
func (w *writer) deferToCommit(do func(tx *store.Tx)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deferred = append(w.deferred, do)
}

// takeDeferred returns the functions that wait for a commit.
func (w *writer) takeDeferred() []func(*store.Tx) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.deferred[:len(w.deferred):len(w.deferred)]
}

// change makes the writer decide something, and waits until that is stored. It waits for room in
// the queue until ctx ends.
func (w *writer) change(ctx context.Context, decide func(t *tx)) error {
	j := job{decide, make(chan error, 1)}
	select {
	case w.jobs <- j:
	case <-ctx.Done():
		return fmt.Errorf("the broker is busy: %w", ctx.Err())
	}
	select {
	case err := <-j.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run commits until ctx ends. After a failed commit it loads the state again, because the memory
// no longer matches the log. It fails only if this fails too.
func (w *writer) run(ctx context.Context) error {
	flush := time.NewTicker(time.Second)
	defer flush.Stop()
	for {
		var jobs []job
		select {
		case <-ctx.Done():
			for len(w.jobs) > 0 {
				reply(w.collect(nil), errStopping)
			}
			return w.commit(context.WithoutCancel(ctx), nil)
		case <-flush.C:
			if len(w.takeDeferred()) == 0 {
				continue
			}
		case j := <-w.jobs:
			jobs = w.collect([]job{j})
		}
		if err := w.commit(context.WithoutCancel(ctx), jobs); err != nil {
			return err
		}
	}
}

// collect adds the waiting jobs to a batch.
func (w *writer) collect(jobs []job) []job {
	for len(jobs) < maxBatch {
		select {
		case j := <-w.jobs:
			jobs = append(jobs, j)
		default:
			return jobs
		}
	}
	return jobs
}

func reply(jobs []job, err error) {
	for _, j := range jobs {
		j.done <- err
	}
}

// commit stores a batch of jobs and answers their submitters. If one job fails for a reason of
// its own, the others are tried without it.
func (w *writer) commit(ctx context.Context, jobs []job) error {
	t, guilty, err := w.commitBatch(ctx, jobs)
	if err == nil {
		reply(jobs, nil)
		w.committed(t)
		return nil
	}
	w.opts.Log.Error().Err(err).Int("jobs", len(jobs)).Msg("batch not stored; its requests are refused")
	if w.state, err = load(ctx, w.db, w.opts.Now()); err != nil {
		err = fmt.Errorf("the state cannot be rebuilt after a failed write: %w", err)
		reply(jobs, err)
		return err
	}
	if guilty < 0 {
		reply(jobs, errors.New("the broker cannot store anything now; see its log, and send the request again"))
		return nil
	}
	reply(jobs[guilty:guilty+1], errors.New("the broker failed on this request; see its log"))
	if jobs = slices.Delete(jobs, guilty, guilty+1); len(jobs) == 0 {
		return nil
	}
	return w.commit(ctx, jobs)
}

// commitBatch decides and stores a batch. guilty is the index of the job that caused the error,
// or -1.
func (w *writer) commitBatch(ctx context.Context, jobs []job) (t *tx, guilty int, err error) {
	guilty = -1
	deferred := w.takeDeferred()
	err = store.InTx(ctx, w.db, func(db *store.Tx) {
		for _, do := range deferred {
			do(db)
		}
		w.state.tables.tx = db
		t = &tx{
			view:     view{state: w.state},
			db:       db,
			opts:     w.opts,
			presence: w.presence,
			now:      w.opts.Now().UTC(),
			newID:    func(prefix string) string { return newID(prefix, w.opts.Now()) },
			stored:   func(seq int64) (collab.Event, error) { return readEvent(db, seq) },
		}
		for i, j := range jobs {
			t.caller = rules.BrokerCaller
			if db.Fail(rules.Attempt(func() { j.decide(t) })); db.Err() == nil {
				continue
			}
			if _, own := errors.AsType[*rules.InternalError](db.Err()); own {
				guilty = i
			}
			return
		}
		t.caller = rules.BrokerCaller
		for _, s := range t.sends {
			db.Fail(rules.Attempt(func() { w.enqueue(t, s) }))
		}
		for _, a := range t.spawnRequests {
			db.Fail(rules.Attempt(func() { w.enqueueSpawn(t, a) }))
		}
		for _, e := range t.events {
			appendEvent(db, e)
		}
		if len(t.events) > 0 {
			w.state.tables.flush()
			db.Exec(`UPDATE applied SET seq = ?`, w.state.seq)
		}
	})
	if err == nil {
		w.state.tables.evict()
		w.mu.Lock()
		defer w.mu.Unlock()
		w.deferred = w.deferred[len(deferred):]
	}
	return t, guilty, err
}
