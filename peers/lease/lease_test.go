package lease_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/lease"
	"hubbub/protocol/retry"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
)

func startNATS(t *testing.T, dir string, port int) *server.Server {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: port, NoLog: true, NoSigs: true, JetStream: true, StoreDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	if !s.ReadyForConnections(20 * time.Second) {
		t.Fatal("the NATS server does not start")
	}
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	return s
}

// A worker counts how many work at once.
type worker struct {
	name    string
	stop    context.CancelFunc
	started chan string
	ended   chan error
}

func work(t *testing.T, url, name string, active *atomic.Int32, started chan string) *worker {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &worker{name: name, stop: cancel, started: started, ended: make(chan error, 1)}
	l := lease.New([]string{url}, "tg:42 *>", name, &lease.Options{TTL: 5 * time.Second})
	go func() {
		w.ended <- l.Run(ctx, func(ctx context.Context) error {
			if active.Add(1) != 1 {
				t.Error("two are active at once")
			}
			started <- name
			<-ctx.Done()
			active.Add(-1)
			return ctx.Err()
		})
	}()
	t.Cleanup(cancel)
	return w
}

func next(t *testing.T, started chan string) string {
	t.Helper()
	select {
	case name := <-started:
		return name
	case <-time.After(time.Minute):
		t.Fatal("nobody becomes active")
		return ""
	}
}

func TestRun_StandbyTakesOver(t *testing.T) {
	dir := t.TempDir()
	url := "nats://" + bustest.FreeAddress(t)
	nats := startNATS(t, dir, portOf(t, url))
	var active atomic.Int32
	started := make(chan string, 10)
	workers := map[string]*worker{}
	workers["a"] = work(t, url, "a", &active, started)
	if name := next(t, started); name != "a" {
		t.Fatal(name)
	}
	workers["b"] = work(t, url, "b", &active, started)
	workers["a"].stop()
	if err := <-workers["a"].ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v; want what the work returned", err)
	}
	if name := next(t, started); name != "b" {
		t.Fatal(name)
	}
	// Without NATS no member is active. When it returns, one is.
	nats.Shutdown()
	nats.WaitForShutdown()
	workers["c"] = work(t, url, "c", &active, started)
	for active.Load() != 0 {
		runtime.Gosched()
	}
	startNATS(t, dir, portOf(t, url))
	next(t, started)
	workers["b"].stop()
	workers["c"].stop()
	<-workers["b"].ended
	<-workers["c"].ended
}

// TestRun_OutlivesRestartOfNATS checks that NATS knows the holder of a lease after a restart within
// the TTL. The holder cannot release its lease, because NATS is stopped first.
func TestRun_OutlivesRestartOfNATS(t *testing.T) {
	dir := t.TempDir()
	url := "nats://" + bustest.FreeAddress(t)
	nats := startNATS(t, dir, portOf(t, url))
	lines := make(lineWriter, 100)
	log := zerolog.New(lines)
	options := &lease.Options{TTL: time.Hour, Log: &log}
	ctx, cancel := context.WithCancel(t.Context())
	ended, started := make(chan error, 1), make(chan string, 1)
	go func() {
		ended <- lease.New([]string{url}, "broker", "a", options).Run(ctx, func(ctx context.Context) error {
			started <- "a"
			<-ctx.Done()
			return nil
		})
	}()
	next(t, started)
	nats.Shutdown()
	nats.WaitForShutdown()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	startNATS(t, dir, portOf(t, url))
	for len(lines) > 0 {
		<-lines
	}
	go lease.New([]string{url}, "broker", "b", options).Run(t.Context(), func(context.Context) error { return nil }) //nolint:errcheck // it ends with the test
	if line := <-lines; !strings.Contains(line, "a has it") {
		t.Errorf("the standby logs %s", line)
	}
}

// TestRun_KeepsLeaseOnThreeServers checks that a lease of a cluster of NATS servers is on three of
// them, so that it outlives any one.
func TestRun_KeepsLeaseOnThreeServers(t *testing.T) {
	var servers []*server.Server
	var routes []*url.URL
	for i := range 3 {
		options := &server.Options{
			ServerName: fmt.Sprint("n", i), Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true,
			JetStream: true, StoreDir: t.TempDir(), Routes: routes,
			Cluster: server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: server.RANDOM_PORT},
		}
		if i == 0 {
			options.Cluster.Port = portOf(t, "nats://"+bustest.FreeAddress(t))
			routes = []*url.URL{{Scheme: "nats", Host: fmt.Sprint("127.0.0.1:", options.Cluster.Port)}}
			options.Routes = routes
		}
		s, err := server.NewServer(options)
		if err != nil {
			t.Fatal(err)
		}
		go s.Start()
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
		servers = append(servers, s)
	}
	ready, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	isLeader := func(s *server.Server) bool { return s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == 3 }
	for !slices.ContainsFunc(servers, isLeader) {
		if !retry.Sleep(ready, 10*time.Millisecond) {
			t.Fatal("the NATS servers elect no leader")
		}
	}
	want := errors.New("done")
	err := lease.New([]string{servers[0].ClientURL()}, "broker", "a", nil).Run(ready, func(context.Context) error { return want })
	if !errors.Is(err, want) {
		t.Fatal(err)
	}
	nc, err := nats.Connect(servers[0].ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(ready, "KV_hubbub-leases")
	if err != nil {
		t.Fatal(err)
	}
	if n := stream.CachedInfo().Config.Replicas; n != 3 {
		t.Errorf("the lease is on %d servers", n)
	}
}

func portOf(t *testing.T, url string) int {
	t.Helper()
	_, text, err := net.SplitHostPort(strings.TrimPrefix(url, "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func TestRun_EndsWithTheWork(t *testing.T) {
	nats := startNATS(t, t.TempDir(), server.RANDOM_PORT)
	want := errors.New("the bot token is wrong")
	for _, cluster := range []string{"", "a.b", "Küche 7"} { // all names that a bus accepts, and more
		l := lease.New([]string{nats.ClientURL()}, "broker", "a", &lease.Options{Prefix: cluster})
		if err := l.Run(t.Context(), func(context.Context) error { return want }); !errors.Is(err, want) {
			t.Errorf("in the cluster %q: Run = %v", cluster, err)
		}
	}
}

// TestRun_OutlivesRefusedCredentials checks that a standby takes the lease once NATS accepts its
// credentials.
func TestRun_OutlivesRefusedCredentials(t *testing.T) {
	options := &server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true, JetStream: true,
		StoreDir: t.TempDir(), Username: "u", Password: "old"}
	s, err := server.NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(20 * time.Second) {
		t.Fatal("the NATS server does not start")
	}
	attempts, closed := make(dialer, 100), make(chan struct{})
	l := lease.New([]string{"nats://u:new@" + s.Addr().String()}, "broker", "a", &lease.Options{NATS: []nats.Option{
		nats.SetCustomDialer(attempts),
		nats.ClosedHandler(func(*nats.Conn) { close(closed) }),
	}})
	ended, want := make(chan error, 1), errors.New("done")
	go func() { ended <- l.Run(t.Context(), func(context.Context) error { return want }) }()
	for range 4 {
		select {
		case <-attempts:
		case <-closed:
			t.Fatal("it gives up")
		}
	}
	accepting := options.Clone()
	accepting.Password = "new"
	if err := s.ReloadOptions(accepting); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, want) {
		t.Errorf("Run = %v", err)
	}
}

// A dialer counts attempts to connect.
type dialer chan struct{}

func (d dialer) Dial(network, address string) (net.Conn, error) {
	select {
	case d <- struct{}{}:
	default:
	}
	return net.Dial(network, address) //nolint:noctx // the client gives none
}

// A lineWriter is a log that passes on each line.
type lineWriter chan string

func (w lineWriter) Write(line []byte) (int, error) {
	w <- string(line)
	return len(line), nil
}

func TestRun_SaysWhyNATSIsNotReached(t *testing.T) {
	lines := make(lineWriter, 100)
	log := zerolog.New(lines)
	l := lease.New([]string{"nats://" + bustest.FreeAddress(t)}, "broker", "a", &lease.Options{Log: &log})
	go l.Run(t.Context(), func(context.Context) error { return nil }) //nolint:errcheck // it ends with the test
	if line := <-lines; !strings.Contains(line, `"warn"`) || !strings.Contains(line, "connection refused") {
		t.Errorf("it logs %s", line)
	}
}
