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

	mu   sync.Mutex
	quit chan struct{}
	wg   sync.WaitGroup
}

func newNotifier(lookupEnv func(string) (string, bool)) *notifier {
	n := &notifier{quit: make(chan struct{})}
	n.socket, _ = lookupEnv("NOTIFY_SOCKET")
	if usec, ok := lookupEnv("WATCHDOG_USEC"); ok && n.socket != "" {
		if us, err := strconv.ParseInt(usec, 10, 64); err == nil && us > 0 {
			n.interval = time.Duration(us) * time.Microsecond / 2
		}
	}
	return n
}

// ready tells systemd that the program is up and starts to feed the watchdog.
func (n *notifier) ready() error {
	if err := n.send("READY=1"); err != nil || n.interval <= 0 {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case <-n.quit:
		return nil
	default:
	}
	n.wg.Go(func() {
		ticker := time.NewTicker(n.interval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				_ = n.send("WATCHDOG=1") // systemd acts when these stay away
			case <-n.quit:
				return
			}
		}
	})
	return nil
}

// stopping tells systemd that the program has begun to stop.
func (n *notifier) stopping() { _ = n.send("STOPPING=1") } // nothing depends on it

// close ends the feeding.
func (n *notifier) close() {
	n.mu.Lock()
	close(n.quit)
	n.mu.Unlock()
	n.wg.Wait()
}

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
