package subprocess

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/proc"
	"hubbub/protocol/retry"

	"github.com/rs/zerolog"
)

// DefaultBackoff is the default of the pauses before a program is started again.
var DefaultBackoff = retry.Backoff{Min: time.Second, Max: time.Minute}

// healthyAfter is how long a program must have run for its failures to be forgotten.
const healthyAfter = time.Minute

// A Supervisor keeps a program running: it is started again whenever it ends. S is one
// run of it.
type Supervisor[S any] struct {
	mu       sync.Mutex
	current  *S            // initialized and running; nil otherwise
	changed  chan struct{} // closed and replaced when live changes
	done     chan struct{} // closed when Keep has returned
	finalErr error         // why the program is not started any more; valid once over is closed
	lastErr  error         // how the last run ended; nil before the first end
}

// NewSupervisor makes a Life that has not begun.
func NewSupervisor[S any]() *Supervisor[S] {
	return &Supervisor[S]{changed: make(chan struct{}), done: make(chan struct{})}
}

// Run calls run again and again, with pauses in between (zero means [Pauses]),
// until ctx ends (nil) or run fails with harness.ErrPermanent (that error). Run
// starts the program and returns when it has ended. Call Keep once.
func (l *Supervisor[S]) Run(ctx context.Context, pauses retry.Backoff, log *zerolog.Logger, run func(ctx context.Context) error) error {
	l.finalErr = harness.ErrStopped
	defer close(l.done)
	if pauses == (retry.Backoff{}) {
		pauses = DefaultBackoff
	}
	return proc.Supervise(ctx, healthyAfter, func(ctx context.Context) error {
		defer l.SetCurrent(nil)
		return run(ctx)
	}, func(ends int, err error) (time.Duration, bool) {
		if errors.Is(err, harness.ErrPermanent) {
			l.finalErr = err
			return 0, true
		}
		l.mu.Lock()
		l.lastErr = err
		l.mu.Unlock()
		pause := pauses.After(ends)
		if log != nil {
			log.Warn().Err(err).Dur("pause_ms", pause).Int("failures", ends).Msg("harness program ended; starting it again")
		}
		return pause, false
	})
}

// SetCurrent records the run that is initialized, or with nil that there is none.
func (l *Supervisor[S]) SetCurrent(live *S) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.current = live
	close(l.changed)
	l.changed = make(chan struct{})
}

// Current returns the run that is initialized, or nil.
func (l *Supervisor[S]) Current() *S {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current
}

// Await waits for a run that is initialized. It fails with the cause of ctx and how the
// program last ended, or with Err if there will be none any more.
func (l *Supervisor[S]) Await(ctx context.Context) (*S, error) {
	for {
		l.mu.Lock()
		live, changed, ended := l.current, l.changed, l.lastErr
		l.mu.Unlock()
		if live != nil {
			return live, nil
		}
		select {
		case <-changed:
		case <-l.done:
			return nil, l.finalErr
		case <-ctx.Done():
			if ended != nil {
				return nil, fmt.Errorf("%w; its program ended: %v", context.Cause(ctx), ended) //nolint:errorlint // its words alone: what it was decides nothing
			}
			return nil, context.Cause(ctx)
		}
	}
}

// Done is closed when the program is not started any more; Err says why.
func (l *Supervisor[S]) Done() <-chan struct{} { return l.done }

// Err returns why the program is not started any more: harness.ErrStopped, or
// what made Keep fail. It waits for that.
func (l *Supervisor[S]) Err() error {
	<-l.done
	return l.finalErr
}
