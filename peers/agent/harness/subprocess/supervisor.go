package subprocess

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/proc"
	"hubbub/protocol/notify"
	"hubbub/protocol/retry"

	"github.com/rs/zerolog"
)

// DefaultBackoff is the default backoff between restarts of a program.
var DefaultBackoff = retry.Backoff{Min: time.Second, Max: time.Minute}

// healthyAfter is how long a program must run before its earlier failures no longer count.
const healthyAfter = time.Minute

// A Supervisor keeps a program running: it restarts the program whenever it ends. S is one run of
// the program.
type Supervisor[S any] struct {
	mu       sync.Mutex
	current  *S               // the initialized run; nil if none
	changed  notify.Broadcast // current changed
	done     chan struct{}    // closed when Run has returned
	finalErr error            // why the program is no longer restarted; valid once done is closed
	lastErr  error            // how the last run ended; nil before that
}

// NewSupervisor makes a Supervisor. It starts nothing.
func NewSupervisor[S any]() *Supervisor[S] {
	return &Supervisor[S]{done: make(chan struct{})}
}

// Run calls the function run repeatedly, which starts the program and returns when the program
// has ended. The zero backoff means [DefaultBackoff]. Run returns nil when ctx ends, or the error
// of run if it wraps harness.ErrPermanent. Call it once.
func (l *Supervisor[S]) Run(
	ctx context.Context,
	pauses retry.Backoff,
	log *zerolog.Logger,
	run func(ctx context.Context) error,
) error {
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
			log.Warn().Err(err).Dur("pause_ms", pause).Int("failures", ends).Msg("harness program ended; restarting it")
		}
		return pause, false
	})
}

// SetCurrent records the initialized run, or nil if there is none.
func (l *Supervisor[S]) SetCurrent(live *S) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.current = live
	l.changed.Notify()
}

// Current returns the initialized run, or nil.
func (l *Supervisor[S]) Current() *S {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current
}

// Await waits for an initialized run. If ctx ends, the error is its cause and how the program
// last ended. If no run can follow, the error is that of Err.
func (l *Supervisor[S]) Await(ctx context.Context) (*S, error) {
	for {
		changed := l.changed.C()
		l.mu.Lock()
		live, ended := l.current, l.lastErr
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
				return nil, fmt.Errorf(
					"%w; its program ended: %v",
					context.Cause(ctx),
					ended,
				) //nolint:errorlint // only its text: its type must decide nothing
			}
			return nil, context.Cause(ctx)
		}
	}
}

// Done is closed when the program is no longer restarted; Err says why.
func (l *Supervisor[S]) Done() <-chan struct{} { return l.done }

// Err waits for Done and returns why the program is no longer restarted: harness.ErrStopped or
// the error of Run.
func (l *Supervisor[S]) Err() error {
	<-l.done
	return l.finalErr
}
