package chorus

import (
	"context"
	"errors"
	"sync"
)

// A queueing lets one caller at a time in for each key, in the order in which
// they came. What waits is bounded.
type queueing struct {
	limit int // callers of one key, the one inside included

	mu   sync.Mutex
	keys map[int64]*line
}

type line struct {
	waiting []chan struct{} // the first is the one inside
}

func newQueueing(limit int) *queueing {
	return &queueing{limit: limit, keys: map[int64]*line{}}
}

var errLine = errors.New("too many wait")

// enter waits for its turn. The returned func lets the next one in.
func (q *queueing) enter(ctx context.Context, key int64) (leave func(), err error) {
	q.mu.Lock()
	l := q.keys[key]
	if l == nil {
		l = &line{}
		q.keys[key] = l
	}
	if len(l.waiting) >= q.limit {
		q.mu.Unlock()
		return nil, errLine
	}
	mine := make(chan struct{})
	l.waiting = append(l.waiting, mine)
	if len(l.waiting) == 1 {
		close(mine)
	}
	q.mu.Unlock()
	select {
	case <-mine:
		return func() { q.leave(key, mine) }, nil
	case <-ctx.Done():
		q.leave(key, mine)
		return nil, ctx.Err()
	}
}

// leave takes a caller out of its line, and lets the next one in if it was the
// first.
func (q *queueing) leave(key int64, mine chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.keys[key]
	for i, c := range l.waiting {
		if c != mine {
			continue
		}
		l.waiting = append(l.waiting[:i], l.waiting[i+1:]...)
		if i == 0 && len(l.waiting) > 0 {
			close(l.waiting[0])
		}
		break
	}
	if len(l.waiting) == 0 {
		delete(q.keys, key)
	}
}
