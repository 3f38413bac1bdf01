package bus

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"
	"hubbub/protocol/wire"
)

// TestInFlight_MayRiseDuringWait begins and ends publications, as another
// bus can make this one do while it stops.
func TestInFlight_MayRiseDuringWait(t *testing.T) {
	for range 1000 {
		f := newInFlight()
		f.begin()
		var others sync.WaitGroup
		for range 4 {
			others.Go(func() {
				for range 10 {
					f.begin()
					f.end()
				}
			})
		}
		others.Go(f.end)
		f.wait(nil)
		others.Wait()
		if n := f.count.Load(); n != 0 {
			t.Fatalf("%d are in flight", n)
		}
	}
	f := newInFlight()
	f.begin()
	over := make(chan time.Time, 1)
	over <- time.Time{}
	if f.wait(over) {
		t.Error("what is in flight was not waited for")
	}
}

// A silentCluster is a cluster whose other bus accepts messages and never reports their outcomes.
type silentCluster struct {
	mu   sync.Mutex // guards held
	held []*Forward
}

func (w *silentCluster) Attach(Local)                                       {}
func (w *silentCluster) Joined(Member)                                      {}
func (w *silentCluster) Left(protocol.PeerID, Stamp)                        {}
func (w *silentCluster) Subscribed(protocol.PeerID, protocol.Pattern, bool) {}
func (w *silentCluster) Unsubscribed(protocol.PeerID, protocol.Pattern)     {}
func (w *silentCluster) Missing() []string                                  { return nil }
func (w *silentCluster) Status() any                                        { return nil }
func (w *silentCluster) Forward(f *Forward)                                 { w.mu.Lock(); w.held = append(w.held, f); w.mu.Unlock() }

func (w *silentCluster) CheckDuplicate(_ DedupKey, done func([]DedupReply, error)) { done(nil, nil) }
func (w *silentCluster) ShareOutcome(DedupKey, []byte)                             {}

func (w *silentCluster) FailPending(reason string) {
	w.mu.Lock()
	held := w.held
	w.held = nil
	w.mu.Unlock()
	for _, f := range held {
		f.Fail(reason, true)
	}
}

// enters connects a peer in memory and subscribes it.
func enters(t *testing.T, srv *Server, id, pattern string) (far jsonrpc.Stream, next func() string) {
	t.Helper()
	near, far := wire.Pipe(nil)
	srv.start(near, "test", nil)
	next = func() string {
		frame, err := far.Read()
		if err != nil {
			return err.Error()
		}
		return string(frame)
	}
	for _, request := range [][2]string{{"initialize", `{"clientId":"` + id + `"}`}, {"subscribe", `{"topic":"` + pattern + `"}`}} {
		if err := far.Write(jsonrpc.AppendRequestText(nil, "0", request[0], request[1])); err != nil {
			t.Fatal(err)
		}
		if answer := next(); !strings.Contains(answer, `"result"`) {
			t.Fatalf("%s: %s", request[0], answer)
		}
	}
	return far, next
}

const toT = `{"topic":"t","payload":{"messageId":"m","type":"agent_event","from":"cli:x","timestamp":"2026-02-17T12:00:00Z","content":{}}}`

// TestStop_DoesNotWaitForOtherBuses stops a bus while a peer of another one has
// not answered: the sender is notified before its session is closed.
func TestStop_DoesNotWaitForOtherBuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := New(nil, &Options{Cluster: &silentCluster{}, StopTimeout: 3 * time.Second})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- srv.run(ctx, nil) }()
		srv.RemoteJoined("west", Member{Peer: "agent:far", Patterns: map[protocol.Pattern]bool{"t": false}})
		sender, next := enters(t, srv, "cli:x", "other")
		if err := sender.Write(jsonrpc.AppendRequestText(nil, "1", "sendMessage", toT)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		begun := time.Now()
		stop()
		if answer := next(); !strings.Contains(answer, `"id":1,`) || !strings.Contains(answer, `"status":"offline"`) {
			t.Errorf("the sender got %s; want its answer, with the peer offline", answer)
		}
		if err := <-ended; err != nil || time.Since(begun) > 4*time.Second {
			t.Errorf("the bus ended after %s: %v", time.Since(begun), err)
		}
	})
}

// TestStop_RefusesForwardsOfOtherBuses makes another bus forward a message
// before the stop, which is delivered, and one during the stop.
func TestStop_RefusesForwardsOfOtherBuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := New(nil, &Options{Cluster: &silentCluster{}, StopTimeout: time.Hour})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- srv.run(ctx, nil) }()
		ear, next := enters(t, srv, "agent:ear", "t")
		results := make(chan Result, 2)
		arrived := AcceptedMessage{Topic: "t", MessageID: "m", From: "cli:x", Payload: []byte(`{}`)}
		srv.Deliver(arrived, []protocol.PeerID{"agent:ear"}, func(r Result) { results <- r })
		if request := next(); !strings.Contains(request, "processMessage") {
			t.Fatal(request)
		}
		stop()
		synctest.Wait()
		srv.Deliver(arrived, []protocol.PeerID{"agent:ear"}, func(r Result) { results <- r })
		if r := <-results; r.DeliveredTo != 0 || len(r.Failures) != 1 || r.Failures[0].Status != protocol.OutcomeOffline {
			t.Errorf("a message that came after the stop: %+v; want it offline at once", r)
		}
		if err := ear.Write([]byte(`{"jsonrpc":"2.0","id":1,"result":{"processed":true}}`)); err != nil {
			t.Fatal(err)
		}
		if r := <-results; r.DeliveredTo != 1 {
			t.Errorf("the one before it: %+v; want it delivered", r)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
