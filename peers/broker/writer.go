package broker

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"hubbub/peers/store"
	"hubbub/protocol/collab"
)

// maxBatch is how many jobs become durable in one transaction at most.
const maxBatch = 256

var errStopping = errors.New("the broker is stopping; send the request again")

// A job is something for the writer: a request to decide, or a change that the
// broker itself makes. Done gets one error, nil once the job is durable.
type job struct {
	request *request
	decide  func(t *tx) error
	done    chan error
}

// A writer owns the state and is the only one that changes it or the database's
// events. It takes all jobs that wait, decides them one after the other, stores
// what came of them in one transaction, and only then lets anything out.
type writer struct {
	db        *sql.DB
	opts      *Options
	jobs      chan job
	enqueue   func(ctx context.Context, db *sql.Tx, t *tx, s sending) error
	committed func(t *tx) // after each commit

	state *state

	mu       sync.Mutex  // guards deferred
	deferred []statement // to be run along with the next commit
}

// A statement is one SQL statement and its arguments.
type statement struct {
	query string
	args  []any
}

// later runs a statement along with the next commit, within a second. The statement
// must be repeatable: it runs again if the commit fails.
func (w *writer) later(query string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deferred = append(w.deferred, statement{query, args})
}

// postponed returns the statements that wait for a commit.
func (w *writer) postponed() []statement {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.deferred[:len(w.deferred):len(w.deferred)]
}

// submit hands a job to the writer and waits until it is durable. It waits for
// room in the queue as long as ctx allows.
func (w *writer) submit(ctx context.Context, j job) error {
	j.done = make(chan error, 1)
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

// change makes a change of the broker itself durable.
func (w *writer) change(ctx context.Context, decide func(t *tx) error) error {
	return w.submit(ctx, job{decide: decide})
}

// run commits until ctx ends. After a failed commit it loads the state anew, since
// that no longer follows from the log; run fails only if this fails too.
func (w *writer) run(ctx context.Context) error {
	flush := time.NewTicker(time.Second)
	defer flush.Stop()
	for {
		var jobs []job
		select {
		case <-ctx.Done():
			w.refuseRest()
			return w.commit(context.WithoutCancel(ctx), nil)
		case <-flush.C:
			if len(w.postponed()) == 0 {
				continue
			}
		case j := <-w.jobs:
			jobs = w.gather(j)
		}
		if err := w.commit(context.WithoutCancel(ctx), jobs); err != nil {
			return err
		}
	}
}

func (w *writer) gather(first job) []job {
	jobs := []job{first}
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

func (w *writer) refuseRest() {
	for {
		select {
		case j := <-w.jobs:
			j.done <- errStopping
		default:
			return
		}
	}
}

// commit makes a batch of jobs durable and tells their submitters. If one job fails
// for a reason of its own, the others are tried without it.
func (w *writer) commit(ctx context.Context, jobs []job) error {
	t, guilty, err := w.try(ctx, jobs)
	if err == nil {
		for _, j := range jobs {
			j.done <- nil
		}
		w.committed(t)
		return nil
	}
	w.opts.Log.Error().Err(err).Int("jobs", len(jobs)).Msg("batch not stored; its requests are refused")
	if w.state, err = load(ctx, w.db); err != nil {
		err = fmt.Errorf("the state cannot be rebuilt after a failed write: %w", err)
		for _, j := range jobs {
			j.done <- err
		}
		return err
	}
	if guilty < 0 {
		for _, j := range jobs {
			j.done <- errors.New("the broker cannot store anything now; see its log, and send the request again")
		}
		return nil
	}
	jobs[guilty].done <- errors.New("the broker failed on this request; see its log")
	rest := append(append([]job{}, jobs[:guilty]...), jobs[guilty+1:]...)
	if len(rest) == 0 {
		return nil
	}
	return w.commit(ctx, rest)
}

// try decides and stores a batch. guilty is the index of the job that is to blame for
// the error, or -1.
func (w *writer) try(ctx context.Context, jobs []job) (t *tx, guilty int, err error) {
	guilty = -1
	deferred := w.postponed()
	err = store.InTx(ctx, w.db, func(db *sql.Tx) error {
		for _, s := range deferred {
			if err := store.Exec(ctx, db, s.query, s.args...); err != nil {
				return err
			}
		}
		t = &tx{
			state: w.state, opts: w.opts, now: w.opts.Now().UTC(),
			mint:   func(prefix string) string { return newID(prefix, w.opts.Now()) },
			stored: func(seq int64) (collab.Event, error) { return readEvent(ctx, db, seq) },
		}
		for i, j := range jobs {
			if err := w.decide(ctx, db, t, j); err != nil {
				var own *mistake
				if errors.As(err, &own) {
					guilty = i
				}
				return err
			}
		}
		t.caller = brokerItself
		for _, s := range t.sends {
			if err := w.enqueue(ctx, db, t, s); err != nil {
				return err
			}
		}
		if t.failed != nil {
			return t.failed
		}
		return appendEvents(ctx, db, t.events)
	})
	if err == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.deferred = w.deferred[len(deferred):]
	}
	return t, guilty, err
}

// A mistake is an error of the program in deciding one job.
type mistake struct{ error }

func (m *mistake) Unwrap() error { return m.error }

// decide runs one job. The error is a mistake, or one of the database.
func (w *writer) decide(ctx context.Context, db *sql.Tx, t *tx, j job) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &mistake{fmt.Errorf("panic: %v\n%s", p, debug.Stack())}
		}
		if err == nil && t.failed != nil {
			err = &mistake{t.failed}
		}
	}()
	if j.request == nil {
		t.caller = brokerItself
		return j.decide(t)
	}
	a, err := answerRequest(ctx, db, t, *j.request)
	t.answers = append(t.answers, a)
	return err
}
