package child

import (
	"context"
	"errors"
	"sync"
	"time"

	"hubbub/peers/agent/harness"

	"github.com/rs/zerolog"
)

// Bounds of the wait before a program is started again, and how long it must
// have run for its failures to be forgotten.
const (
	shortestWait = time.Second
	longestWait  = time.Minute
	forgiveness  = time.Minute
)

// A Life is that of a program which is started again whenever it ends. S is one
// run of it.
type Life[S any] struct {
	mu      sync.Mutex
	live    *S            // initialized and running; nil otherwise
	changed chan struct{} // closed and replaced when live changes
	over    chan struct{} // closed when Keep has returned
	err     error         // why nothing is started any more; valid then
}

// NewLife makes a life that has not begun.
func NewLife[S any]() *Life[S] {
	return &Life[S]{changed: make(chan struct{}), over: make(chan struct{})}
}

// Keep calls run again and again, with backoff from 1 s to 60 s, until ctx ends
// (nil) or run fails with harness.ErrPermanent (that error). Run starts the
// program and returns when it has ended. Call Keep once.
func (l *Life[S]) Keep(ctx context.Context, clock harness.Clock, log *zerolog.Logger, run func(ctx context.Context) error) error {
	err := keep(ctx, clock, log, func(ctx context.Context) error {
		defer l.Set(nil)
		return run(ctx)
	})
	l.err = harness.ErrStopped
	if err != nil {
		l.err = err
	}
	close(l.over)
	return err
}

// Set says that a run is initialized, or with nil that none is.
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

// Await waits for a run that is initialized. It fails with the cause of ctx,
// or with Err where there will be none any more.
func (l *Life[S]) Await(ctx context.Context) (*S, error) {
	for {
		l.mu.Lock()
		live, changed := l.live, l.changed
		l.mu.Unlock()
		if live != nil {
			return live, nil
		}
		select {
		case <-changed:
		case <-l.over:
			return nil, l.err
		case <-ctx.Done():
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

func keep(ctx context.Context, clock harness.Clock, log *zerolog.Logger, run func(ctx context.Context) error) error {
	for failures := 0; ; {
		began := clock.Now()
		err := run(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, harness.ErrPermanent) {
			return err
		}
		if clock.Now().Sub(began) >= forgiveness {
			failures = 0
		}
		failures++
		wait := harness.Backoff(failures, shortestWait, longestWait)
		if log != nil {
			log.Warn().Err(err).Dur("wait", wait).Int("failures", failures).Msg("the harness program ended and is started again")
		}
		if clock.Sleep(ctx, wait) != nil {
			return nil
		}
	}
}
