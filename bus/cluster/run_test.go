package cluster

import (
	"bytes"
	"context"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
)

// TestSendQueue_IsBounded queues up to the bound in bytes and one past it,
// and again once the sender has taken something.
func TestSendQueue_IsBounded(t *testing.T) {
	c := New(nil, "east", nil)
	part := outgoing{body: make([]byte, maxQueued/4)}
	for i := range 4 {
		if !c.queue.enqueue(part) {
			t.Fatalf("part %d of 4 was refused", i+1)
		}
	}
	if c.queue.enqueue(outgoing{body: []byte("x")}) {
		t.Error("a byte too much was queued")
	}
	if !c.queue.enqueue(outgoing{}) {
		t.Error("a message without a body was refused")
	}
	nc, err := nats.Connect("nats://east.invalid", nats.RetryOnFailedConnect(true), nats.ReconnectBufSize(-1), nats.SetCustomDialer(noServer{}))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	ctx, stop := context.WithCancel(t.Context())
	sent := make(chan struct{})
	go func() { defer close(sent); c.sendLoop(ctx, nc) }()
	patience, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for c.queue.bytes.Load() > 0 {
		select {
		case <-patience.Done():
			t.Fatalf("%d bytes still wait", c.queue.bytes.Load())
		case <-time.After(time.Millisecond):
		}
	}
	stop()
	<-sent
	if !c.queue.enqueue(part) {
		t.Error("there is no room once the sender has taken all")
	}
}

// noServer has no server.
type noServer struct{}

func (noServer) Dial(string, string) (net.Conn, error) { return nil, net.ErrClosed }

// TestCluster_RunsUseDistinctIDs restarts a bus: an outcome for the previous
// run must match nothing that waits.
func TestCluster_RunsUseDistinctIDs(t *testing.T) {
	before, now := New(nil, "east", nil), New(nil, "east", nil)
	apart := max(before.state.nextID, now.state.nextID) - min(before.state.nextID, now.state.nextID)
	if apart < 1<<20 { // by chance once in 2^42 runs
		t.Errorf("the runs number from %d and from %d", before.state.nextID, now.state.nextID)
	}
}

// TestFault_ReportsNameConflictOnce uses another bus of the same name, which sends
// something twice a second and at every subscription.
func TestFault_ReportsNameConflictOnce(t *testing.T) {
	var logged bytes.Buffer
	log := zerolog.New(&logged)
	c := New(nil, "east", &Options{Log: &log})
	reports := func() int { return bytes.Count(logged.Bytes(), []byte("another bus has the same name")) }
	for range 100 {
		c.receive(&nats.Msg{Data: join(header{Kind: kindHello, From: "east", Instance: "another"}, nil)})
	}
	if reports() != 1 {
		t.Errorf("a twin that was heard 100 times was told %d times; want once", reports())
	}
	c.receive(&nats.Msg{Data: join(header{Kind: kindHello, From: "east", Instance: c.instance}, nil)})
	if reports() != 1 || len(c.members.buses) != 0 {
		t.Error("a bus took its own words for those of another")
	}
}

// TestNATS_ConnectionsNoticeDeadServer checks that the activity stream and the
// cluster notice a dead server equally soon: the stream once waited for minutes.
func TestNATS_ConnectionsNoticeDeadServer(t *testing.T) {
	o := (&Options{NATS: []nats.Option{nats.SetCustomDialer(noServer{})}}).withDefaults()
	c := New([]string{"nats://east.invalid"}, "east", &o)
	s := NewActivityStream([]string{"nats://east.invalid"}, "activity", "east", &o)
	for what, dial := range map[string]func() (*nats.Conn, error){"cluster": c.connect, "copy": s.connect} {
		nc, err := dial()
		if err != nil {
			t.Fatal(err)
		}
		if got := nc.Opts.PingInterval; got != time.Second {
			t.Errorf("the %s pings every %s, want 1 s", what, got)
		}
		nc.Close()
	}
}
