package proc

import (
	"context"
	"time"

	"hubbub/protocol/retry"
)

// Supervise calls run repeatedly until ctx ends, or until classify returns down. It returns nil or
// the last error of run. run starts a process and returns when it has ended. classify gets the
// number of ends in a row and the last error, and returns the pause before the next run. The
// count restarts at 1 after a run of at least steady.
func Supervise(ctx context.Context, steady time.Duration, run func(ctx context.Context) error,
	classify func(ends int, err error) (pause time.Duration, down bool),
) error {
	for ends := 1; ; ends++ {
		began := time.Now()
		err := run(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(began) >= steady {
			ends = 1
		}
		pause, down := classify(ends, err)
		if down {
			return err
		}
		if !retry.Sleep(ctx, pause) {
			return nil
		}
	}
}
