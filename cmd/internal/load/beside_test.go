package load

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"hubbub/activitylog"
	"hubbub/bus"
)

// asServer makes this test binary a server, so that a benchmark can tell what
// the server uses from what the driver uses.
const asServer = "LOAD_TEST_SERVER"

func TestMain(m *testing.M) {
	kind := os.Getenv(asServer)
	if kind == "" {
		os.Exit(m.Run())
	}
	scheme := "ws"
	if kind == "tcp" {
		scheme = "tcp"
	}
	err := ServeChild(context.Background(), os.Stdin, os.Stdout, scheme, func(ctx context.Context, l net.Listener) error {
		return serveAs(ctx, kind, l, os.Getenv("LOAD_TEST_FOLDER"))
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, kind, err)
		os.Exit(1)
	}
}

func serveAs(ctx context.Context, kind string, l net.Listener, folder string) error {
	switch kind {
	case "echo":
		return ServeEcho(ctx, l)
	case "tcp":
		return ServeTCP(ctx, l)
	case "naive":
		return serveNaive(ctx, l, filepath.Join(folder, "activity.db"))
	case "nats":
		return serveNATS(ctx, l, "")
	case "jetstream":
		return serveNATS(ctx, l, folder)
	case "hubbub-nolog":
		return bus.New(nil, nil).Serve(ctx, l)
	case "hubbub":
		log := activitylog.NewWriter(filepath.Join(folder, "activity.db"), nil)
		logCtx, endLog := context.WithCancel(context.WithoutCancel(ctx))
		logged := make(chan error, 1)
		go func() { logged <- log.Run(logCtx) }()
		err := bus.New(log, nil).Serve(ctx, l)
		endLog()
		<-logged
		return err
	default:
		return fmt.Errorf("there is no server %q", kind)
	}
}

// startServer runs a server as a process of its own until the test ends.
func startServer(t testing.TB, kind string) Server {
	t.Helper()
	return serverIn(t, kind, t.TempDir())
}

func serverIn(t testing.TB, kind, folder string) Server {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), asServer+"="+kind, "LOAD_TEST_FOLDER="+folder)
	child, err := StartChild(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := child.Stop(); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	})
	switch kind {
	case "echo":
		return EchoFloor{child}
	case "tcp":
		return TCPFloor{child}
	case "nats", "jetstream":
		return natsServer{child}
	case "naive":
		return naiveServer{child}
	default:
		return Bus{URL: child.Address, HTTP: "http" + child.Address[len("ws"):]}
	}
}

// A naiveServer is a process that runs serveNaive.
type naiveServer struct{ *Child }

func (s naiveServer) rig(ctx context.Context, w Workload, run int64) (*rig, error) {
	return Bus{URL: s.Address}.rig(ctx, w, run)
}

// fourPairs is the workload that systems are compared by.
func fourPairs(messages int) Workload {
	return Workload{Name: "4 pairs, depth 64", Senders: 4, Depth: 64, Messages: messages, Targets: 1, Size: 100}
}

// BenchmarkBeside runs one workload, 4 pairs with 64 messages in flight each,
// through other systems and through the bus: the naive bus of this package,
// nats-server over WebSocket with request and reply, and the same with a copy of
// every message in a JetStream stream on disk. Give it messages enough for a
// second or more: -benchtime 100000x.
func BenchmarkBeside(b *testing.B) {
	for _, kind := range []string{"naive", "jetstream", "nats", "hubbub", "hubbub-nolog"} {
		b.Run(kind, func(b *testing.B) {
			w := fourPairs(max(b.N, 1000))
			s := startServer(b, kind)
			r, err := s.rig(b.Context(), w, 1)
			if err != nil {
				b.Fatal(err)
			}
			defer r.close()
			m, err := w.measure(b.Context(), s, r)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(m.PerSecond, "messages/s")
			b.ReportMetric(m.CPU*10, "server-µs/message")
			b.ReportMetric(m.P50.Seconds()*1e3, "p50-ms")
			b.ReportMetric(m.P99.Seconds()*1e3, "p99-ms")
			b.ReportMetric(float64(m.RSS)/(1<<20), "server-MiB")
		})
	}
}
