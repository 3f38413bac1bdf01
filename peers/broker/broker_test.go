package broker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/broker"
	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/peers/store/storetest"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/timetest"
)

type object = map[string]any

// A running is a broker that a test has started.
type running struct {
	stop func()
	done chan error
}

// start runs a broker on a bus until the test ends or stop is called.
func start(t testing.TB, b *bustest.Bus, path string, opts *broker.Options) *running {
	t.Helper()
	return startOver(t, &peer.Options{Dial: b.Dial, Concurrency: 128}, path, opts)
}

// startOver is start, connected to the bus as link says.
func startOver(t testing.TB, link *peer.Options, path string, opts *broker.Options) *running {
	t.Helper()
	db := storetest.Open(t, "broker", path, func(path string) (*store.DB, error) { return store.Open(path, broker.Schema) })
	var o broker.Options
	if opts != nil {
		o = *opts
	}
	ready := make(chan struct{})
	o.OnReady = func() { close(ready) }
	br := broker.New(db, peer.New(protocol.PeerBroker, link), &o)
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{done: make(chan error, 1)}
	go func() {
		err := br.Run(ctx)
		r.done <- errors.Join(err, db.Close())
	}()
	var once sync.Once
	r.stop = func() {
		once.Do(func() {
			cancel()
			if err := <-r.done; err != nil {
				t.Errorf("the broker ended: %v", err)
			}
		})
	}
	t.Cleanup(r.stop)
	select {
	case <-ready:
	case err := <-r.done:
		t.Fatalf("the broker ended: %v", err)
	}
	return r
}

// A client asks the broker as one identity.
type client struct {
	*bustest.Scripted
	t       testing.TB
	results chan protocol.CollabResult
	events  chan protocol.CollabEvent
	next    int

	rejected atomic.Pointer[string] // messages with this in their content are rejected
}

func join(t testing.TB, b *bustest.Bus, id protocol.PeerID, patterns ...protocol.Pattern) *client {
	t.Helper()
	return asking(t, b.Join(t, id, append(patterns, protocol.Pattern(id))...))
}

// asking makes a client of a connected peer.
func asking(t testing.TB, s *bustest.Scripted) *client {
	c := &client{Scripted: s, t: t, results: make(chan protocol.CollabResult, 10_000), events: make(chan protocol.CollabEvent, 10_000)}
	c.Refuse(func(d *bustest.Delivery) error {
		if text := c.rejected.Load(); text != nil && strings.Contains(string(d.Message.Content), *text) {
			return peer.Reject("I do not take this")
		}
		switch d.Message.Type {
		case protocol.TypeCollabResult:
			var r protocol.CollabResult
			if err := d.Decode(&r); err != nil {
				return err
			}
			c.results <- r
		case protocol.TypeCollabEvent:
			var e protocol.CollabEvent
			if err := d.Decode(&e); err != nil {
				return err
			}
			c.events <- e
		}
		return nil
	})
	return c
}

// ask sends a request and waits for its result.
func (c *client) ask(method string, params any) protocol.CollabResult {
	c.t.Helper()
	c.next++
	return c.askAs(fmt.Sprint("r", c.next), method, params)
}

func (c *client) askAs(requestID, method string, params any) protocol.CollabResult {
	c.t.Helper()
	raw, err := json.Marshal(params)
	if err != nil {
		c.t.Fatal(err)
	}
	sent := c.Send(c.t, protocol.TopicBroker, protocol.TypeCollabRequest, protocol.CollabRequest{Method: method, Params: raw, RequestID: requestID})
	if sent.Addressee != protocol.AddresseeOK {
		c.t.Fatalf("%s: the request was not taken: %+v", method, sent)
	}
	return c.result(requestID)
}

func (c *client) result(requestID string) protocol.CollabResult {
	c.t.Helper()
	for {
		r := wait(c.t, c.results)
		if r.RequestID == requestID {
			return r
		}
	}
}

func (c *client) do(method string, params any) object {
	c.t.Helper()
	r := c.ask(method, params)
	if !r.OK {
		c.t.Fatalf("%s: %+v", method, r.Error)
	}
	return decode(c.t, r.Result)
}

// event waits for the next event of a type.
func (c *client) event(kind string) protocol.CollabEvent {
	c.t.Helper()
	for {
		if e := wait(c.t, c.events); e.Type == kind {
			return e
		}
	}
}

func wait[T any](t testing.TB, from chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(time.Minute):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

func decode(t testing.TB, raw json.RawMessage) object {
	t.Helper()
	var out object
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return out
}

func TestBroker_AnswersRequestsOverTheBus(t *testing.T) {
	b := bustest.Start(t, nil)
	start(t, b, filepath.Join(t.TempDir(), "broker.db"), nil)
	watch := join(t, b, "cli:watch", "collab:events")
	lead, will := join(t, b, "agent:lead"), join(t, b, "cli:will")
	lead.do("identity.announce", object{"logicalAgentId": "lead", "endpointId": "e1"})
	will.do("conversation.create", object{"id": "c", "kind": "group"})
	posted := will.do("message.post", object{"conversationId": "c", "text": "@lead hi", "surface": "human"})
	woken := lead.event(collab.EventWoken.Name)
	var w collab.Wake
	if err := json.Unmarshal(woken.Payload, &w); err != nil || w.Message == nil || w.Message.Text != "@lead hi" || w.Rule != collab.RuleExplicit {
		t.Errorf("woken with %s, %v", woken.Payload, err)
	}
	if woken.Source != "collab:broker" || woken.Target != "agent:lead" {
		t.Errorf("woken = %+v", woken)
	}
	for i, want := range []string{
		collab.EventOnline.Name, collab.EventConversation.Name, collab.EventMessagePosted.Name, collab.EventDelivery.Name, collab.EventWoken.Name,
	} {
		e := wait(t, watch.events)
		if e.Type != want || decode(t, e.Metadata)["seq"] != float64(i+1) {
			t.Errorf("fact %d is %s %s, want %s", i+1, e.Type, e.Metadata, want)
		}
		if want == collab.EventWoken.Name && e.ID != woken.ID {
			t.Errorf("two wakes: %s and %s", e.ID, woken.ID)
		}
	}
	if r := will.ask("message.post", object{"conversationId": "c", "text": "@ghost hi", "surface": "human"}); r.OK || r.Error.Code != "unknown_target" {
		t.Errorf("got %+v", r)
	}
	if r := will.ask("no.method", nil); r.OK || r.Error.Code != "invalid" {
		t.Errorf("got %+v", r)
	}
	will.Send(t, protocol.TopicBroker, protocol.TypeCollabRequest, object{"method": 5, "requestId": "odd"})
	if r := wait(t, will.results); r.OK || r.Error.Code != "invalid" {
		t.Errorf("got %+v", r)
	}
	if posted["wake"].(object)["targetAgentId"] != "lead" {
		t.Errorf("posted = %v", posted)
	}
}

func TestBroker_RepeatsTheFirstAnswer(t *testing.T) {
	b := bustest.Start(t, nil)
	path := filepath.Join(t.TempDir(), "broker.db")
	r := start(t, b, path, nil)
	will := join(t, b, "cli:will")
	will.do("conversation.create", object{"id": "c", "kind": "group"})
	params := object{"conversationId": "c", "text": "once"}
	first := will.askAs("same", "message.post", params)
	second := will.askAs("same", "message.post", params)
	r.stop()
	start(t, b, path, nil)
	third := will.askAs("same", "message.post", params)
	id := func(r protocol.CollabResult) any { return decode(t, r.Result)["message"].(object)["id"] }
	if id(first) != id(second) || id(second) != id(third) || decode(t, third.Result)["duplicate"] != true {
		t.Errorf("answers differ:\n%s\n%s\n%s", first.Result, second.Result, third.Result)
	}
	if other := will.askAs("same", "message.post", object{"conversationId": "c", "text": "other"}); other.OK || other.Error.Code != "conflict" {
		t.Errorf("another request under the same requestId: %+v", other)
	}
	if again := will.askAs("same", "message.post", params); !again.OK {
		t.Errorf("after the conflict: %+v", again)
	}
	if got := will.do("conversation.get", object{"id": "c"})["messages"].([]any); len(got) != 1 {
		t.Errorf("%d messages", len(got))
	}
	join(t, b, "cli:ann").askAs("same", "message.post", object{"conversationId": "c", "text": "mine"}) // another caller's id does not matter
	// A refusal changed nothing: once its cause is gone the same request works.
	late := object{"conversationId": "late", "text": "x"}
	if r := will.askAs("l", "message.post", late); r.OK {
		t.Error("posted to nowhere")
	}
	will.do("conversation.create", object{"id": "late", "kind": "group"})
	if r := will.askAs("l", "message.post", late); !r.OK {
		t.Errorf("got %+v", r.Error)
	}
}

func TestWake_WaitsForAnAbsentAgent(t *testing.T) {
	b := bustest.Start(t, nil)
	start(t, b, filepath.Join(t.TempDir(), "broker.db"), nil)
	watch := join(t, b, "cli:watch", "collab:events")
	lead, will := join(t, b, "agent:lead"), join(t, b, "cli:will")
	lead.do("identity.announce", object{"endpointId": "e1"})
	will.do("conversation.create", object{"id": "c", "kind": "group"})
	lead.Leave()
	// The bus may report the departure of lead before this post, or after it.
	if r := will.ask("message.post", object{"conversationId": "c", "text": "@lead hi"}); !r.OK && r.Error.Code != "unavailable" {
		t.Fatalf("got %+v", r.Error)
	}
	watch.event(collab.EventOffline.Name)
	if r := will.ask("message.post", object{"conversationId": "c", "text": "@lead again"}); r.OK || r.Error.Code != "unavailable" {
		t.Fatalf("got %+v", r)
	}
	back := join(t, b, "agent:lead")
	back.do("identity.announce", object{"endpointId": "e2"})
	for _, want := range []string{"@lead hi", "@lead again"} {
		var w collab.Wake
		if err := json.Unmarshal(back.event(collab.EventWoken.Name).Payload, &w); err != nil || w.Message.Text != want {
			t.Errorf("woken with %+v, want %q", w, want)
		}
	}
	back.do("identity.announce", object{"endpointId": "e2"})
	if n := len(back.events); n != 0 {
		t.Errorf("%d more wakes", n)
	}
}

func TestClaim_ExpiresOnTheBrokersClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bustest.StartInMemory(t, nil)
		r := start(t, b, filepath.Join(t.TempDir(), "broker.db"), nil)
		defer r.stop()
		one, two := join(t, b, "agent:a"), join(t, b, "agent:b")
		if got := one.do("claim.acquire", object{"eventId": "e", "ttlMs": 2000}); got["granted"] != true {
			t.Errorf("got %v", got)
		}
		if got := two.do("claim.acquire", object{"eventId": "e", "ttlMs": 2000}); got["granted"] != false || got["owner"] != "a" {
			t.Errorf("got %v", got)
		}
		begun := time.Now()
		offered := two.event(collab.EventClaimOffered.Name)
		if took := time.Since(begun); took < 1900*time.Millisecond || took > 2500*time.Millisecond {
			t.Errorf("offered again after %s", took)
		}
		if decode(t, offered.Payload)["eventId"] != "e" {
			t.Errorf("offered %s", offered.Payload)
		}
		if got := two.do("claim.acquire", object{"eventId": "e", "ttlMs": 2000}); got["granted"] != true || got["token"] != 2.0 {
			t.Errorf("got %v", got)
		}
	})
}

func TestBroker_SweepsByTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bustest.StartInMemory(t, nil)
		r := start(t, b, filepath.Join(t.TempDir(), "broker.db"), &broker.Options{
			SweepInterval: time.Second, StaleAfter: 10 * time.Second, EndpointTimeout: time.Hour,
		})
		defer r.stop()
		lead, will := join(t, b, "agent:lead"), join(t, b, "cli:will")
		lead.do("identity.announce", object{"endpointId": "e1"})
		will.do("work_item.create", object{"id": "w", "title": "t", "ownerId": "lead", "nextMoveOwnerId": "lead", "state": "review"})
		timetest.Advance(35 * time.Second)
		if n := len(lead.events); n != 1 {
			t.Errorf("%d wakes in 35s; want one reminder", n)
		}
		if why := will.do("wake.explain", object{"workItemId": "w"}); why["rule"] != "requester" || why["targetAgentId"] != "will" {
			t.Errorf("who asked for it was not reminded after that: %v", why)
		}
	})
}

func TestBroker_StopsCleanly(t *testing.T) {
	b := bustest.Start(t, nil)
	path := filepath.Join(t.TempDir(), "broker.db")
	for range 3 {
		r := start(t, b, path, nil)
		will := join(t, b, "cli:will")
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				defer cancel()
				m := will.NewMessage(protocol.TypeCollabRequest, protocol.CollabRequest{Method: "identity.list", RequestID: fmt.Sprint(i)})
				will.Peer.Send(ctx, protocol.TopicBroker, m) //nolint:errcheck // it may come too late
			})
		}
		r.stop()
		wg.Wait()
		will.Leave()
	}
}

// TestWake_FollowsAnAgentThatDiedWithIt checks an agent that dies without an answer and returns
// at once, so that no wake finds it absent.
func TestWake_FollowsAnAgentThatDiedWithIt(t *testing.T) {
	b := bustest.Start(t, nil)
	start(t, b, filepath.Join(t.TempDir(), "broker.db"), nil)
	lead, helper := b.Join(t, "agent:lead", "agent:lead"), join(t, b, "agent:helper")
	taken := make(chan struct{})
	take := sync.OnceFunc(func() { close(taken) })
	held := asking(t, lead)
	held.Refuse(func(d *bustest.Delivery) error {
		if d.Message.Type == protocol.TypeCollabEvent {
			take() // it never acknowledges it
		} else {
			var r protocol.CollabResult
			if err := d.Decode(&r); err != nil {
				return err
			}
			held.results <- r
		}
		return nil
	})
	held.do("identity.announce", object{"endpointId": "e1"})
	helper.do("conversation.create", object{"id": "c", "kind": "group"})
	helper.do("message.post", object{"conversationId": "c", "text": "hi", "targets": []string{"lead"}})
	wait(t, taken)
	lead.Leave()
	back := join(t, b, "agent:lead")
	back.do("identity.announce", object{"endpointId": "e2"})
	var w collab.Wake
	if err := json.Unmarshal(back.event(collab.EventWoken.Name).Payload, &w); err != nil || w.EndpointID != "e2" || w.Message.Text != "hi" {
		t.Errorf("woken with %+v, %v", w, err)
	}
	for _, want := range []string{collab.WakeMissed, collab.WakeWoken} {
		var d collab.Delivery
		e := helper.event(collab.EventDeliveryChanged.Name)
		if err := json.Unmarshal(e.Payload, &d); err != nil || d.Wake != want || want == collab.WakeWoken && d.EndpointID != "e2" {
			t.Errorf("the sender hears %s, %v; want %s", e.Payload, err, want)
		}
	}
}
