package program

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// withSignals returns a context that ends at the first signal to stop. The
// returned function releases everything and waits for the goroutine behind it.
// A second signal, or no end within stopTimeout, ends the process.
func withSignals(ctx context.Context, e *Env) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	if !signal.Ignored(syscall.SIGHUP) { // nohup stays nohup
		signal.Notify(signals, syscall.SIGHUP)
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case sig := <-signals:
			e.stopping.Store(true)
			e.Log.Info().Stringer("signal", sig).Msg("stopping")
			e.notify.stopping()
			cancel()
		case <-done:
			return
		}
		timer := time.NewTimer(stopTimeout)
		defer timer.Stop()
		select {
		case <-done:
		case <-signals:
			fmt.Fprintf(e.Stderr, "%s: stopped at once, at a second signal\n", e.Name)
			e.outside.exit(1)
		case <-timer.C:
			fmt.Fprintf(e.Stderr, "%s: did not stop within %s; ending anyway\n", e.Name, stopTimeout)
			e.outside.exit(1)
		}
	})
	return ctx, func() {
		close(done)
		signal.Stop(signals)
		cancel()
		wg.Wait()
	}
}
