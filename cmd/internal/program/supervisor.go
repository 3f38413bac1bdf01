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
	"github.com/rs/zerolog"
)

// withSignals returns a context that ends at the first stop signal, and a function that releases
// everything and waits for the goroutine. A second signal ends the process, and so does a stop that
// takes longer than stopTimeout and ExtendStop allow.
func withSignals(ctx context.Context, e *Env) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	hangups := make(chan os.Signal, 1)
	switch {
	case signal.Ignored(syscall.SIGHUP): // nohup stays nohup
	case e.process.terminal:
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
				e.Log.Warn().Msg("SIGHUP changes nothing: tokens and certificates are reloaded automatically, and " +
					"other settings at the next start")
			case <-done:
				return
			}
		}
		e.awaitEnd(signals, done)
	})
	return ctx, func() {
		close(done)
		signal.Stop(signals)
		signal.Stop(hangups)
		cancel()
		wg.Wait()
	}
}

// sameStop is the time within which more signals belong to the first: timeout(1) signals the
// program and then its process group.
const sameStop = 500 * time.Millisecond

// awaitEnd waits until the program has stopped and done is closed. It ends the process at another
// signal after sameStop, if the stop takes too long, or if a command hangs in its output.
func (e *Env) awaitEnd(signals <-chan os.Signal, done <-chan struct{}) {
	began := time.Now()
	until := began.Add(stopTimeout)
	var look <-chan time.Time
	if e.process.blocked != nil {
		ticker := time.NewTicker(sameStop)
		defer ticker.Stop()
		look = ticker.C
	}
	for left := stopTimeout; left > 0; left = time.Until(until) {
		select {
		case <-done:
			return
		case <-signals:
			if time.Since(began) < sameStop {
				continue
			}
			fmt.Fprintf(e.Stderr, "%s: stopped at once, at a second signal\n", e.Name)
			e.process.exit(1)
			return
		case <-look:
			if e.process.blocked(sameStop) {
				fmt.Fprintf(e.Stderr, "%s: stopped at once, because nothing reads its output\n", e.Name)
				e.process.exit(1)
				return
			}
		case <-time.After(left):
			until = time.Unix(0, e.stopUntil.Load())
		}
	}
	fmt.Fprintf(e.Stderr, "%s: did not stop within %s; ending anyway\n", e.Name,
		time.Since(began).Round(100*time.Millisecond))
	e.process.exit(1)
}

// stopMargin is how long a program may take to end after the last step of an extended stop.
const stopMargin = 2 * time.Second

// ExtendStop lets a stop last until then, and stopMargin longer. It also tells the log and systemd, so
// that no supervisor ends the program earlier. A later call replaces an earlier one.
func (e *Env) ExtendStop(until time.Time) {
	until = until.Add(stopMargin)
	e.stopUntil.Store(until.UnixNano())
	// `hubbub up` waits for this line, so it is written at every log level.
	e.Log.Log().Str(zerolog.LevelFieldName, zerolog.LevelWarnValue).Time("until", until).Msg("stopping takes longer")
	e.notify.extend(time.Until(until))
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
	watchdog, _ := daemon.SdWatchdogEnabled(false) //nolint:errcheck // an unreadable value requests no reports
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
		daemon.SdNotify(false, daemon.SdNotifyWatchdog) //nolint:errcheck // systemd acts if the reports stop
	}
}

// extend tells systemd how much longer the program may take to stop.
func (n *notifier) extend(by time.Duration) {
	//nolint:errcheck // systemd then ends the program as before
	daemon.SdNotify(false, fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", by.Microseconds()))
}

// stopping tells systemd that the program is stopping.
func (n *notifier) stopping() {
	daemon.SdNotify(false, daemon.SdNotifyStopping) //nolint:errcheck // nothing depends on it
}
