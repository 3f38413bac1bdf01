package peer

import (
	"context"
	"errors"
	"sync"
	"time"
)

// A queue runs jobs. Jobs of one key run one at a time and in order, except that a job may let the
// next one begin. At most maxActive jobs run at once.
type queue struct {
	maxActive  int // jobs that may run at once
	maxWaiting int // jobs that may wait
	workers    sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	lanes   map[string]*lane
	left    map[*lane]bool // of the running jobs that have let the next one begin
	ready   []*lane        // lanes with jobs that no worker runs
	running int            // workers
	waiting int            // jobs
	closed  bool
}

type lane struct {
	key   string
	jobs  []job
	began time.Time // start of the running job; zero if none runs
}

// A job may call next, once, to let the next job of its key begin.
type job func(next func())

func newQueue(most, bound int) *queue {
	return &queue{maxActive: most, maxWaiting: bound, lanes: map[string]*lane{}, left: map[*lane]bool{}}
}

// Reasons why a queue refuses a job. The texts continue a sentence about the peer.
var (
	errFull   = errors.New("is busy: its queue is full")
	errClosed = errors.New("is stopping")
)

// add adds a job. It returns errFull or errClosed if it cannot.
func (q *queue) add(key string, job job) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return errClosed
	case q.waiting >= q.maxWaiting:
		return errFull
	}
	q.waiting++
	l, ok := q.lanes[key]
	if !ok {
		l = &lane{key: key}
		q.lanes[key] = l
		q.ready = append(q.ready, l)
	}
	l.jobs = append(l.jobs, job)
	if !ok {
		q.startWorkerLocked()
	}
	return nil
}

func (q *queue) startWorkerLocked() {
	if q.running < q.maxActive {
		q.running++
		q.workers.Go(q.workLoop)
	}
}

// workLoop runs jobs until no lane is ready.
func (q *queue) workLoop() {
	q.mu.Lock()
	defer q.exitWorkerLocked()
	for len(q.ready) > 0 {
		q.runFirstLocked()
	}
}

// exitWorkerLocked ends a worker. If a job ended the worker's goroutine, as t.Fatal does, lanes
// may still be ready; then it starts another worker.
func (q *queue) exitWorkerLocked() {
	defer q.mu.Unlock()
	if len(q.ready) == 0 {
		q.running--
		return
	}
	q.workers.Go(q.workLoop)
}

// runFirstLocked runs the next job with the lock released.
func (q *queue) runFirstLocked() {
	l := q.ready[0]
	q.ready = q.ready[1:]
	job := l.jobs[0]
	l.jobs = l.jobs[1:]
	q.waiting--
	l.began = time.Now()
	q.mu.Unlock()
	var own *lane // of the job, once it has left l or ended
	defer func() {
		q.mu.Lock()
		if delete(q.left, own); own == nil {
			own = l
			q.freeLocked(l)
		}
	}()
	job(func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if own != nil {
			return
		}
		own = &lane{began: l.began}
		q.left[own] = true
		if q.freeLocked(l) {
			q.startWorkerLocked()
		}
	})
}

// freeLocked lets the next job of a lane begin, and reports whether there is one.
func (q *queue) freeLocked(l *lane) bool {
	l.began = time.Time{}
	if len(l.jobs) == 0 {
		delete(q.lanes, l.key)
		return false
	}
	q.ready = append(q.ready, l)
	return true
}

// isHung reports whether a running job started before the given time.
func (q *queue) isHung(since time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	hung := func(l *lane) bool { return !l.began.IsZero() && l.began.Before(since) }
	for _, l := range q.lanes {
		if hung(l) {
			return true
		}
	}
	for l := range q.left {
		if hung(l) {
			return true
		}
	}
	return false
}

// close drops the waiting jobs and waits until the running ones have ended, or until ctx ends.
func (q *queue) close(ctx context.Context) {
	q.mu.Lock()
	q.closed = true
	q.ready, q.waiting = nil, 0
	for _, l := range q.lanes {
		l.jobs = nil
	}
	q.mu.Unlock()
	done := make(chan struct{})
	go func() { // ends with the workers, which Run waits for
		q.workers.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}
