package load

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"hubbub/protocol/retry"
)

// BenchmarkNeighbours measures how long a message takes from one peer to another and back while
// others load the same bus: a fan-out to 10,000 peers twice a second, 2,000 peers that arrive at
// once every two seconds, and 30 that never read what one sends them. A pair through a server
// that only echoes, at the same time, shows what the machine itself contributes. The three are in
// processes of their own. LOAD_TEST_FOR is how long each is measured (default 10s).
func BenchmarkNeighbours(b *testing.B) {
	length := 10 * time.Second
	if text := os.Getenv("LOAD_TEST_FOR"); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			b.Fatal(err)
		}
	}
	echo := startServer(b, "echo")
	for _, kind := range []string{"hubbub", "hubbub-nolog"} {
		for _, beside := range []string{"nobody", "fan-out", "arrivals", "deaf"} {
			b.Run(kind+"/"+beside, func(b *testing.B) {
				bus := startServer(b, kind)
				w := Workload{Name: "a pair", Senders: 1, Targets: 1, Depth: 1, Size: 100}
				ours, floors := w.steadySender(b, bus), w.steadySender(b, echo)
				if beside != "nobody" {
					startCrowd(b, beside, bus.(Bus).URL)
				}
				ctx, cancel := context.WithTimeout(b.Context(), length)
				defer cancel()
				var own, floor []time.Duration
				var measuring sync.WaitGroup
				measuring.Go(func() { own = ours(ctx) })
				measuring.Go(func() { floor = floors(ctx) })
				measuring.Wait()
				b.ReportMetric(0, "ns/op")
				for name, all := range map[string][]time.Duration{"": own, "echo-": floor} {
					slices.Sort(all)
					b.ReportMetric(all[len(all)/2].Seconds()*1e3, name+"p50-ms")
					b.ReportMetric(all[len(all)*99/100].Seconds()*1e3, name+"p99-ms")
					b.ReportMetric(all[len(all)-1].Seconds()*1e3, name+"worst-ms")
				}
			})
		}
	}
}

// steadySender connects a pair. It returns a function that sends a message every two milliseconds, unless
// the previous one is unanswered, and returns how long each took.
func (w Workload) steadySender(b *testing.B, s Server) func(context.Context) []time.Duration {
	r, err := s.rig(b.Context(), w, time.Now().UnixNano())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(r.close)
	if err := r.resume(); err != nil {
		b.Fatal(err)
	}
	return func(ctx context.Context) (took []time.Duration) {
		ticker := time.NewTicker(2 * time.Millisecond)
		defer ticker.Stop()
		for n := 0; ctx.Err() == nil; n++ {
			<-ticker.C
			one, err := r.senders[0].sendAll(n, 1, 1)
			if err != nil {
				b.Error(err)
				return append(took, 0)
			}
			took = append(took, one...)
		}
		return took
	}
}

// startCrowd starts a process that loads a bus until the test ends.
func startCrowd(b *testing.B, what, url string) {
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), asServer+"=crowd", "LOAD_TEST_CROWD="+what, "LOAD_TEST_BUS="+url)
	crowd, err := StartChild(cmd)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := crowd.Stop(); err != nil {
			b.Errorf("the crowd: %v", err)
		}
	})
}

// serveCrowd loads a bus.
func serveCrowd(ctx context.Context, what string, bus Bus) error {
	act, err := map[string]func(context.Context, Bus) (func() error, error){"fan-out": fanOuts, "arrivals": arrivals, "deaf": silentPeers}[what](ctx, bus)
	if err != nil {
		return err
	}
	return ServeChild(ctx, os.Stdin, os.Stdout, "tcp", func(ctx context.Context, _ net.Listener) error {
		for ctx.Err() == nil {
			if err := act(); err != nil && ctx.Err() == nil {
				return err
			}
		}
		return nil
	})
}

func fanOuts(ctx context.Context, bus Bus) (func() error, error) {
	r, err := bus.rig(ctx, Workload{Senders: 1, Targets: 10_000, Depth: 1, Size: 100}, 2)
	if err != nil {
		return nil, err
	}
	if err := r.resume(); err != nil {
		return nil, err
	}
	n := 0
	return func() error {
		n++
		_, err := r.senders[0].sendAll(n, 1, 1)
		retry.Sleep(ctx, 500*time.Millisecond)
		return err
	}, nil
}

func arrivals(ctx context.Context, bus Bus) (func() error, error) {
	return func() error {
		links := make([]*link, 2000)
		errs := make([]error, len(links))
		var arriving sync.WaitGroup
		for i := range links {
			arriving.Go(func() { links[i], errs[i] = bus.dial(ctx, fmt.Sprint("cli:crowd-", i), fmt.Sprint("crowd:", i)) })
		}
		arriving.Wait()
		for i, l := range links {
			if errs[i] != nil {
				return errs[i]
			}
			l.Close() //nolint:errcheck // it ends either way
		}
		retry.Sleep(ctx, 2*time.Second)
		return nil
	}, nil
}

// silentPeers starts 30 peers that never read, and one that sends them 64 KiB at most a thousand
// times a second, without waiting for the outcomes.
func silentPeers(ctx context.Context, bus Bus) (func() error, error) {
	for i := range 30 {
		if _, err := bus.dial(ctx, fmt.Sprint("cli:deaf-", i), "deaf"); err != nil {
			return nil, err
		}
	}
	l, err := bus.dial(ctx, "cli:loud")
	if err != nil {
		return nil, err
	}
	go func() { // ends with the link
		for _, err := l.next(); err == nil; _, err = l.next() { //nolint:revive // what they say does not matter
		}
	}()
	m := newMessage("deaf", "cli:loud", 64<<10)
	var out []byte
	n := 0
	return func() error {
		n++
		out = m.append(out[:0], n)
		l.send(out)
		if err := l.flush(); err != nil {
			return err
		}
		retry.Sleep(ctx, time.Millisecond)
		return nil
	}, nil
}
