package program

import (
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// A notifier speaks to systemd, if that started the program: ready, alive,
// stopping. Without systemd it does nothing.
type notifier struct {
	interval time.Duration // how often to say that the program is alive; 0 = not asked for

	mu    sync.Mutex // guards the fields below
	up    bool       // ready was said
	alive time.Time  // when it was last said that the program is alive
}

func newNotifier() *notifier {
	watchdog, _ := daemon.SdWatchdogEnabled(false) //nolint:errcheck // what cannot be read is not asked for
	return &notifier{interval: watchdog / 2}
}

// ready tells systemd that the program is up. Its watchdog waits for pulses from
// now on.
func (n *notifier) ready() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.up = true
	_, err := daemon.SdNotify(false, daemon.SdNotifyReady)
	return err
}

// pulse feeds the watchdog, as often as that wants it.
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

// stopping tells systemd that the program has begun to stop.
func (n *notifier) stopping() { daemon.SdNotify(false, daemon.SdNotifyStopping) } //nolint:errcheck // nothing depends on it
