package program

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// withSignals returns a context that ends at the first stop signal, and a function that releases
// everything and waits for the goroutine. A second signal, or stopTimeout, ends the process.
func withSignals(ctx context.Context, e *Env) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	hangups := make(chan os.Signal, 1)
	switch {
	case signal.Ignored(syscall.SIGHUP): // nohup stays nohup
	case e.outside.terminal:
		signal.Notify(signals, syscall.SIGHUP)
	default: // a service: the sender expects it to reload its settings
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
				e.Log.Warn().Msg("SIGHUP changes nothing: tokens and certificates are read again by themselves, and " +
					"other settings at the next start")
			case <-done:
				return
			}
		}
		select {
		case <-done:
			return
		case <-signals:
			fmt.Fprintf(e.Stderr, "%s: stopped at once, at a second signal\n", e.Name)
		case <-time.After(stopTimeout):
			fmt.Fprintf(e.Stderr, "%s: did not stop within %s; ending anyway\n", e.Name, stopTimeout)
		}
		e.outside.exit(1)
	})
	return ctx, func() {
		close(done)
		signal.Stop(signals)
		signal.Stop(hangups)
		cancel()
		wg.Wait()
	}
}

// controlled reports whether the process has a controlling terminal. Then SIGHUP means that the
// terminal is gone.
func controlled() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	tty.Close() //nolint:errcheck // nothing was written
	return true
}

// A notifier notifies systemd, if that started the program: ready, alive, stopping. Without
// systemd it does nothing.
type notifier struct {
	interval time.Duration // between reports that the program is alive; 0: not requested

	mu    sync.Mutex // guards the fields below
	up    bool       // ready was reported
	alive time.Time  // time of the last report
}

func newNotifier() *notifier {
	watchdog, _ := daemon.SdWatchdogEnabled(false) //nolint:errcheck // what cannot be read is not asked for
	return &notifier{interval: watchdog / 2}
}

// ready tells systemd that the program is up. Its watchdog expects pulses from now on.
func (n *notifier) ready() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.up = true
	_, err := daemon.SdNotify(false, daemon.SdNotifyReady)
	return err
}

// pulse feeds the watchdog as often as requested.
func (n *notifier) pulse() {
	if n.interval <= 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if at := time.Now(); n.up && at.Sub(n.alive) >= n.interval {
		n.alive = at
		daemon.SdNotify(false, daemon.SdNotifyWatchdog) //nolint:errcheck // systemd acts when these stay away
	}
}

// stopping tells systemd that the program is stopping.
func (n *notifier) stopping() {
	daemon.SdNotify(false,
		daemon.SdNotifyStopping)
} //nolint:errcheck // nothing depends on it
