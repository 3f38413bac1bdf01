package subprocess

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/child"
	"hubbub/protocol/retry"

	"github.com/rs/zerolog"
)

// Pauses is the default of the pauses before a program is started again.
var Pauses = retry.Backoff{Min: time.Second, Max: time.Minute}

// steady is how long a program must have run for its failures to be forgotten.
const steady = time.Minute

// A Life keeps a program running: it is started again whenever it ends. S is one
// run of it.
type Life[S any] struct {
	mu      sync.Mutex
	live    *S            // initialized and running; nil otherwise
	changed chan struct{} // closed and replaced when live changes
	over    chan struct{} // closed when Keep has returned
	err     error         // why the program is not started any more; valid once over is closed
	ended   error         // how the last run ended; nil before the first end
}

// NewLife makes a Life that has not begun.
func NewLife[S any]() *Life[S] {
	return &Life[S]{changed: make(chan struct{}), over: make(chan struct{})}
}

// Keep calls run again and again, with pauses in between (zero means [Pauses]),
// until ctx ends (nil) or run fails with harness.ErrPermanent (that error). Run
// starts the program and returns when it has ended. Call Keep once.
func (l *Life[S]) Keep(ctx context.Context, pauses retry.Backoff, log *zerolog.Logger, run func(ctx context.Context) error) error {
	l.err = harness.ErrStopped
	defer close(l.over)
	if pauses == (retry.Backoff{}) {
		pauses = Pauses
	}
	return child.Keep(ctx, steady, func(ctx context.Context) error {
		defer l.Set(nil)
		return run(ctx)
	}, func(ends int, err error) (time.Duration, bool) {
		if errors.Is(err, harness.ErrPermanent) {
			l.err = err
			return 0, true
		}
		l.mu.Lock()
		l.ended = err
		l.mu.Unlock()
		pause := pauses.After(ends)
		if log != nil {
			log.Warn().Err(err).Dur("pause_ms", pause).Int("failures", ends).Msg("harness program ended; starting it again")
		}
		return pause, false
	})
}

// Set records the run that is initialized, or with nil that there is none.
func (l *Life[S]) Set(live *S) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.live = live
	close(l.changed)
	l.changed = make(chan struct{})
}

// Live returns the run that is initialized, or nil.
func (l *Life[S]) Live() *S {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.live
}

// Await waits for a run that is initialized. It fails with the cause of ctx and how the
// program last ended, or with Err if there will be none any more.
func (l *Life[S]) Await(ctx context.Context) (*S, error) {
	for {
		l.mu.Lock()
		live, changed, ended := l.live, l.changed, l.ended
		l.mu.Unlock()
		if live != nil {
			return live, nil
		}
		select {
		case <-changed:
		case <-l.over:
			return nil, l.err
		case <-ctx.Done():
			if ended != nil {
				return nil, fmt.Errorf("%w; its program ended: %v", context.Cause(ctx), ended) //nolint:errorlint // its words alone: what it was decides nothing
			}
			return nil, context.Cause(ctx)
		}
	}
}

// Over is closed when the program is not started any more; Err says why.
func (l *Life[S]) Over() <-chan struct{} { return l.over }

// Err returns why the program is not started any more: harness.ErrStopped, or
// what made Keep fail. It waits for that.
func (l *Life[S]) Err() error {
	<-l.over
	return l.err
}
