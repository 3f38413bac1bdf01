package collab_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/broker"
	client "hubbub/peers/collab"
	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/timetest"
)

// A fixture is a bus on which a broker comes and goes.
type fixture struct {
	t   *testing.T
	bus *bustest.Bus
	dir string
}

// withFixture runs a test on a clock of its own.
func withFixture(t *testing.T, test func(t *testing.T, w *fixture)) {
	synctest.Test(t, func(t *testing.T) { test(t, &fixture{t: t, bus: bustest.StartInMemory(t, nil), dir: t.TempDir()}) })
}

// broker starts a real broker and returns what stops it.
func (w *fixture) broker() (stop func()) {
	w.t.Helper()
	db, err := store.Open(filepath.Join(w.dir, "broker.db"), broker.Schema)
	if err != nil {
		w.t.Fatal(err)
	}
	ready := make(chan struct{})
	b := broker.New(db, peer.New(protocol.PeerBroker, &peer.Options{Dial: w.bus.Dial}), &broker.Options{OnReady: func() { close(ready) }})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- errors.Join(b.Run(ctx), db.Close()) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("the broker ended: %v", err)
		}
	}
	w.t.Cleanup(stop)
	<-ready
	return stop
}

// client connects a peer with a client of the broker.
func (w *fixture) client(id protocol.PeerID, opts *client.Options) *client.Client {
	w.t.Helper()
	s := w.bus.Join(w.t, id, protocol.Pattern(id))
	c := client.New(id, s.Peer.Send, opts)
	s.Refuse(func(d *peer.Delivery) error {
		if d.Message.Type == protocol.TypeCollabResult {
			return c.Take(w.t.Context(), d)
		}
		return nil
	})
	return c
}

func TestClient_GetsAnswers(t *testing.T) {
	withFixture(t, func(t *testing.T, w *fixture) {
		w.broker()
		c := w.client("agent:lead", nil)
		got, err := collab.WorkCreate.Ask(t.Context(), c, collab.WorkParams{Title: new("Write"), OwnerID: new("lead"), NextMoveOwnerID: new("lead")})
		if err != nil || got.WorkItem.Title != "Write" || got.WorkItem.CreatedByID != "lead" || got.Wake.Asked {
			t.Errorf("create: %+v, %v", got, err)
		}
		got, err = collab.WorkWake.Ask(t.Context(), c, collab.IDParams{ID: got.WorkItem.ID})
		if err != nil || !got.Wake.Asked || got.Wake.Made != nil || got.Decision.Outcome != collab.OutcomeNobody {
			t.Errorf("wake: %+v, %v; want that the sender is not woken", got, err)
		}
		page, err := collab.WorkList.Ask(t.Context(), c, collab.WorkListParams{OwnerID: "lead"})
		if err != nil || len(page.Items) != 1 || page.Next != nil {
			t.Fatalf("list: %+v, %v", page, err)
		}
		if item, err := page.Items[0].Read(); err != nil || item.ID != got.WorkItem.ID {
			t.Errorf("item: %+v, %v", item, err)
		}
		if _, err := collab.WorkGet.Ask(t.Context(), c, collab.IDParams{ID: "no"}); collab.Refusal(err) != collab.CodeNotFound {
			t.Errorf("a record that does not exist: %v", err)
		}
		if _, err := c.Call(t.Context(), "no.such", nil); collab.Refusal(err) != collab.CodeInvalid {
			t.Errorf("a method that does not exist: %v", err)
		}
	})
}

func TestClient_FailsWithoutABroker(t *testing.T) {
	withFixture(t, func(t *testing.T, w *fixture) {
		c := w.client("agent:lead", nil)
		began := time.Now()
		if _, err := c.Claim(t.Context(), "evt_1", client.ClaimTTL); !errors.Is(err, collab.ErrNoBroker) || time.Since(began) > 0 {
			t.Errorf("claim after %v: %v", time.Since(began), err)
		}
		if c.Known() || c.Seen() || c.Present(t.Context()) {
			t.Error("a broker that never was there is known")
		}
	})
}

// TestClaim_WaitsForARestartingBroker checks that a claim waits for a broker that restarts with
// its state, and not for one that stays away.
func TestClaim_WaitsForARestartingBroker(t *testing.T) {
	withFixture(t, func(t *testing.T, w *fixture) {
		stop := w.broker()
		lead, other := w.client("agent:lead", nil), w.client("agent:other", nil)
		if g, err := lead.Claim(t.Context(), "evt_1", client.ClaimTTL); err != nil || !g.Granted {
			t.Fatalf("%+v, %v", g, err)
		}
		if c, err := other.ClaimOf(t.Context(), "evt_2"); err != nil || c.EventID != "" {
			t.Fatalf("a claim that nobody made: %+v, %v", c, err)
		}
		stop()
		go func() {
			time.Sleep(5 * time.Second)
			w.broker()
		}()
		began := time.Now()
		if g, err := other.Claim(t.Context(), "evt_1", client.ClaimTTL); err != nil || g.Granted || g.Owner != "lead" {
			t.Errorf("while the broker restarts: %+v, %v", g, err)
		}
		if took := time.Since(began); took < 5*time.Second || took > 8*time.Second {
			t.Errorf("the broker was waited for %v", took)
		}
		if c, err := other.ClaimOf(t.Context(), "evt_1"); err != nil || c.Identity != "agent:lead" || c.Token != 1 {
			t.Errorf("the claim: %+v, %v", c, err)
		}
	})
}

func TestClaim_StopsWaitingAfterGrace(t *testing.T) {
	withFixture(t, func(t *testing.T, w *fixture) {
		stop := w.broker()
		c := w.client("agent:lead", nil)
		if !c.Present(t.Context()) || !c.Known() || !c.Seen() {
			t.Fatal("the broker is not known")
		}
		stop()
		timetest.Advance(5 * time.Second)
		began := time.Now()
		_, err := c.ClaimOf(t.Context(), "evt_1")
		if took := time.Since(began); !errors.Is(err, collab.ErrNoBroker) || took < client.Grace-time.Second || took > client.Grace+time.Second {
			t.Errorf("after %v: %v", took, err)
		}
		if c.Known() || c.Seen() {
			t.Error("a broker that left long ago is known")
		}
	})
}

// TestRecall_KeepsGraceOverARestart covers a program that starts together with its broker.
func TestRecall_KeepsGraceOverARestart(t *testing.T) {
	withFixture(t, func(t *testing.T, w *fixture) {
		var seen []time.Time
		remember := func(_ context.Context, at time.Time) error {
			seen = append(seen, at)
			return nil
		}
		stop := w.broker()
		first := w.client("agent:first", &client.Options{Remember: remember})
		for range 3 {
			first.Present(t.Context())
			timetest.Advance(5 * time.Second)
		}
		if len(seen) != 1 {
			t.Fatalf("remembered at %v; want once", seen)
		}
		stop()
		second := w.client("agent:second", nil)
		second.Recall(seen[0])
		if !second.Known() {
			t.Error("a broker of a minute ago is not known at the start")
		}
		timetest.Advance(client.Grace)
		if second.Known() {
			t.Error("the broker is known forever")
		}
		third := w.client("agent:third", nil)
		third.Recall(time.Now().Add(-25 * time.Hour))
		if third.Known() {
			t.Error("a broker of yesterday is known at the start")
		}
	})
}

// TestAttend_AnnouncesAndSendsHeartbeats checks that an endpoint is announced, kept online, and
// announced again to a broker that lost it.
func TestAttend_AnnouncesAndSendsHeartbeats(t *testing.T) {
	withFixture(t, func(t *testing.T, w *fixture) {
		c := w.client("agent:lead", nil)
		var announced atomic.Int32
		who := collab.AnnounceParams{LogicalAgentID: "lead", HarnessType: "scripted", Roles: []string{"ops"}, WakePolicy: collab.WakeAuto}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.Attend(ctx, who, func(context.Context) { announced.Add(1) })
		}()
		timetest.Advance(5 * time.Second) // it looks and finds none
		stop := w.broker()
		timetest.Advance(30 * time.Second)
		online := func() {
			t.Helper()
			got, err := collab.IdentityResolve.Ask(t.Context(), c, collab.LabelParams{Label: "@ops"})
			if err != nil || got.Identity.EndpointID != c.Endpoint() || got.Identity.Status != collab.StatusOnline {
				t.Errorf("the endpoint: %+v, %v", got, err)
			}
		}
		online()
		timetest.Advance(5 * time.Minute)
		online()
		if announced.Load() != 1 {
			t.Errorf("announced %d times while the broker knew it", announced.Load())
		}
		stop()
		w.dir = t.TempDir() // a broker without state
		w.broker()
		timetest.Advance(16 * time.Minute) // since the former one watched the bus, no heartbeat is sooner
		online()
		if announced.Load() != 2 {
			t.Errorf("announced %d times; want again to a new broker", announced.Load())
		}
		cancel()
		<-done
	})
}

// TestAttend_LooksRarelyForAnAbsentBroker checks that an idle client leaves the bus alone while
// there is no broker, looks for one when it has work, and finds one that comes hours later. After
// that, it looks soon again for one that went away.
func TestAttend_LooksRarelyForAnAbsentBroker(t *testing.T) {
	withFixture(t, func(t *testing.T, w *fixture) {
		s := w.bus.Join(t, "agent:lead", "agent:lead")
		var looks atomic.Int32
		c := client.New("agent:lead", func(ctx context.Context, topic protocol.Topic, m protocol.Message) (protocol.SendResult, error) {
			looks.Add(1)
			return s.Peer.Send(ctx, topic, m)
		}, nil)
		s.Refuse(func(d *peer.Delivery) error { return c.Take(w.t.Context(), d) })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); c.Attend(ctx, collab.AnnounceParams{LogicalAgentID: "lead"}, nil) }()
		expect := func(when string, least, most int32) {
			t.Helper()
			if n := looks.Swap(0); n < least || n > most {
				t.Errorf("%s: %d requests; want %d to %d", when, n, least, most)
			}
		}
		timetest.Advance(40 * time.Second)
		expect("at first", 2, 2)
		timetest.Advance(6 * time.Hour)
		expect("in six hours", 24, 29)
		timetest.Advance(time.Minute)
		looks.Store(0)
		c.Look()
		timetest.Advance(time.Second)
		expect("with work", 1, 1)
		c.Look()
		c.Look()
		timetest.Advance(40 * time.Second)
		expect("with more work", 1, 1)
		stop := w.broker()
		timetest.Advance(16 * time.Minute)
		if !c.Seen() {
			t.Error("a broker that came was not found within 16 minutes")
		}
		looks.Store(0)
		stop()
		timetest.Advance(15*time.Minute + 40*time.Second) // until the next heartbeat, and the look after it
		expect("after it went away", 2, 3)
		cancel()
		<-done
	})
}

// TestClient_HasSeveralIdentities covers a gateway that asks for its agents over one connection.
func TestClient_HasSeveralIdentities(t *testing.T) {
	withFixture(t, func(t *testing.T, w *fixture) {
		w.broker()
		c := w.client("chorus:hub", nil)
		send := func(ctx context.Context, topic protocol.Topic, m protocol.Message) (protocol.SendResult, error) {
			return protocol.SendResult{}, errors.New(string(m.From) + " has no link")
		}
		other := client.New("chorus:hub", send, nil)
		if _, err := other.As("agent:x").Claim(t.Context(), "evt_1", client.ClaimTTL); err == nil || peer.OutcomeOf(err) != peer.Unsent {
			t.Errorf("an error of sending: %v", err)
		}
		if x, y := c.As("agent:x"), c.As("agent:y"); x.Endpoint() == y.Endpoint() || x.Endpoint() == c.Endpoint() {
			t.Error("two identities have one endpoint")
		}
		if !c.Present(t.Context()) || !c.As("agent:x").Known() {
			t.Error("identities do not share what is known of the broker")
		}
	})
}

// TestTake_AcceptsOnlyTheBroker checks that answers of others are ignored, that an unexpected
// answer is accepted, and that a request that the broker rejects fails at once.
func TestTake_AcceptsOnlyTheBroker(t *testing.T) {
	withFixture(t, func(t *testing.T, w *fixture) {
		fake := w.bus.Join(t, protocol.PeerBroker, "collab:*")
		s := w.bus.Join(t, "agent:lead", "agent:lead")
		c := client.New("agent:lead", s.Peer.Send, nil)
		s.Refuse(func(d *peer.Delivery) error { return c.Take(t.Context(), d) })
		if r := w.bus.Join(t, "cli:x").Send(t, "agent:lead", protocol.TypeCollabResult, protocol.CollabResult{OK: true}); r.DeliveredTo != 0 {
			t.Errorf("the answer of a command line: %+v", r)
		}
		if r := fake.Send(t, "agent:lead", protocol.TypeCollabResult, protocol.CollabResult{RequestID: "old", Error: &protocol.CollabError{Code: "conflict"}}); r.DeliveredTo != 1 {
			t.Errorf("an answer that nobody waits for: %+v", r)
		}
		fake.Refuse(func(*peer.Delivery) error { return peer.Reject("full") })
		if _, err := c.Call(t.Context(), "claim.get", nil); peer.OutcomeOf(err) != peer.Rejected {
			t.Errorf("rejected: %v", err)
		}
		fake.Refuse(nil)
		began := time.Now()
		if _, err := c.Call(t.Context(), "claim.get", nil); err == nil || time.Since(began) != client.Patience {
			t.Errorf("without an answer after %v: %v", time.Since(began), err)
		}
	})
}

// TestLeave_NotifiesTheBroker checks that the broker takes the endpoint offline at once.
func TestLeave_NotifiesTheBroker(t *testing.T) {
	withFixture(t, func(t *testing.T, w *fixture) {
		w.broker()
		lead, will := w.client("agent:lead", nil), w.client("cli:will", nil)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); lead.Attend(ctx, collab.AnnounceParams{}, nil) }()
		synctest.Wait()
		stop()
		<-done
		lead.Leave(t.Context())
		page, err := collab.IdentityList.Ask(t.Context(), will, collab.PageParams{})
		if err != nil || len(page.Items) != 1 {
			t.Fatalf("%v, %v", page, err)
		}
		if e, err := page.Items[0].Read(); err != nil || e.Status != collab.StatusOffline {
			t.Errorf("the endpoint is %+v, %v", e, err)
		}
	})
}
