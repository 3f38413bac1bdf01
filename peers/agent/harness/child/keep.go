package child

import (
	"context"
	"errors"
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

// Keep calls run again and again, with backoff from 1 s to 60 s, until ctx ends
// (nil) or run fails with harness.ErrPermanent (that error). Run starts the
// program and returns when it has ended.
func Keep(ctx context.Context, clock harness.Clock, log *zerolog.Logger, run func(ctx context.Context) error) error {
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
