package program

import (
	"net"
	"strconv"
	"sync"
	"time"
)

// A notifier speaks to systemd, where that started the program: ready, alive,
// stopping. Without systemd it does nothing.
type notifier struct {
	socket   string        // address of systemd's socket, or empty
	interval time.Duration // how often to say that the program lives; 0 = not asked for

	mu    sync.Mutex // guards the fields below
	up    bool       // ready was said
	alive time.Time  // when it was last said that the program lives
}

func newNotifier(lookupEnv func(string) (string, bool)) *notifier {
	n := &notifier{}
	n.socket, _ = lookupEnv("NOTIFY_SOCKET")
	if usec, ok := lookupEnv("WATCHDOG_USEC"); ok && n.socket != "" {
		if us, err := strconv.ParseInt(usec, 10, 64); err == nil && us > 0 {
			n.interval = time.Duration(us) * time.Microsecond / 2
		}
	}
	return n
}

// ready tells systemd that the program is up, whose watchdog waits for pulses from
// now on.
func (n *notifier) ready() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.up = true
	return n.send("READY=1")
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
		_ = n.send("WATCHDOG=1") // systemd acts when these stay away
	}
}

// stopping tells systemd that the program has begun to stop.
func (n *notifier) stopping() { _ = n.send("STOPPING=1") } // nothing depends on it

func (n *notifier) send(state string) error {
	if n.socket == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Write([]byte(state))
	return err
}
