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

// withSignals returns a context that ends at the first signal to stop, and a function
// that releases everything and waits for the goroutine behind it. A second signal, or
// no end within stopTimeout, ends the process.
func withSignals(ctx context.Context, e *Env) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	hangups := make(chan os.Signal, 1)
	switch {
	case signal.Ignored(syscall.SIGHUP): // nohup stays nohup
	case e.outside.terminal:
		signal.Notify(signals, syscall.SIGHUP)
	default: // a service: somebody expects it to read its settings again
		signal.Notify(hangups, syscall.SIGHUP)
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for !e.stopping.Load() {
			select {
			case sig := <-signals:
				e.stopping.Store(true)
				e.Log.Info().Stringer("signal", sig).Msg("stopping")
				e.notify.stopping()
				cancel()
			case <-hangups:
				e.Log.Warn().Msg("SIGHUP changes nothing: tokens and certificates are read again by themselves, and other settings at the next start")
			case <-done:
				return
			}
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
		signal.Stop(hangups)
		cancel()
		wg.Wait()
	}
}

// controlled reports whether a terminal controls this process: then SIGHUP means that
// the terminal is gone.
func controlled() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	tty.Close() //nolint:errcheck // nothing was written
	return true
}
