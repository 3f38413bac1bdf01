package activitylog

import (
	"errors"
	"fmt"
	"time"
)

// ErrBehind is in the chain of Admit's errors.
var ErrBehind = errors.New("the activity log cannot keep up")

// Admit returns why no new message may start, or nil if one may. The error wraps
// ErrBehind. There is one only if Options.Required is set, while the log cannot keep
// up: it has made no progress for 250 ms, or for 50 ms with a queue more than half
// full, so that the rows of admitted messages still fit.
func (w *Writer) Admit() error {
	if !w.opts.Required {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	q := &w.q
	if q.closed || q.lost.rows > 0 {
		return fmt.Errorf("%w: %s", ErrBehind, q.stallReason(stallAfter))
	}
	if q.rows == 0 && q.reason == "" {
		return nil
	}
	limit := stallAfter
	if q.rows*2 > w.opts.QueueRows || q.bytes*2 > w.opts.QueueBytes {
		limit = freshProgress
	}
	if time.Since(q.progress) < limit {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrBehind, q.stallReason(stallAfter))
}
