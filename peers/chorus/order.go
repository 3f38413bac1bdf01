package chorus

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/semaphore"
)

// A queueing lets one caller at a time in for each key, in the order in which
// they came, and bounds how many wait.
type queueing struct {
	limit int // callers of one key, the one inside included

	mu   sync.Mutex
	keys map[int64]*line
}

// A line is the callers of one key. The queueing's mu guards callers.
type line struct {
	inside  *semaphore.Weighted
	callers int
}

func newQueueing(limit int) *queueing {
	return &queueing{limit: limit, keys: map[int64]*line{}}
}

var errLine = errors.New("too many wait")

// enter waits for the caller's turn. The caller calls leave to let the next one in.
func (q *queueing) enter(ctx context.Context, key int64) (leave func(), err error) {
	q.mu.Lock()
	l := q.keys[key]
	if l == nil {
		l = &line{inside: semaphore.NewWeighted(1)}
		q.keys[key] = l
	}
	full := l.callers >= q.limit
	if !full {
		l.callers++
	}
	q.mu.Unlock()
	if full {
		return nil, errLine
	}
	if err := l.inside.Acquire(ctx, 1); err != nil {
		q.gone(key, l)
		return nil, err
	}
	return func() {
		l.inside.Release(1)
		q.gone(key, l)
	}, nil
}

// gone forgets a caller, and the line with the last of them.
func (q *queueing) gone(key int64, l *line) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if l.callers--; l.callers == 0 {
		delete(q.keys, key)
	}
}
