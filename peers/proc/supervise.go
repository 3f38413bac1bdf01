package proc

import (
	"context"
	"time"

	"hubbub/protocol/retry"
)

// Supervise calls run again and again until ctx ends (nil), or until judge says that it
// shall stay down (the error of run). Run starts a process and returns when that has
// ended. Judge gets the number of ends in a row, counted anew after a run of at least
// steady, and the last error. It returns the pause before the next run.
func Supervise(ctx context.Context, steady time.Duration, run func(ctx context.Context) error,
	judge func(ends int, err error) (pause time.Duration, down bool),
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
		pause, down := judge(ends, err)
		if down {
			return err
		}
		if !retry.Sleep(ctx, pause) {
			return nil
		}
	}
}
