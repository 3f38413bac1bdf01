package cluster

import (
	"slices"
	"testing"
	"time"

	"hubbub/bus"

	"github.com/nats-io/nats.go"
)

// receiveFrom makes a bus receive a message of another one.
func receiveFrom(c *Cluster, from string, h header, content any) {
	h.From, h.Instance = from, from+"-1"
	c.receive(&nats.Msg{Data: join(h, encode(content))})
}

// TestCoverage_IsCompleteOnceAllBusesAreKnown starts a bus next to two others: its results are
// complete once both have sent their peers, and have recently received its heartbeat.
func TestCoverage_IsCompleteOnceAllBusesAreKnown(t *testing.T) {
	c := New(nil, "east", nil)
	bus.New(nil, &bus.Options{Cluster: c})
	now := time.Now()
	c.state.since = now.Add(-time.Minute)
	want := func(when string, at time.Time, want ...string) {
		t.Helper()
		if got := c.state.view.missing(at, c.options.certainFor()); !slices.Equal(got, want) || (got == nil) != (want == nil) {
			t.Errorf("%s: missing %q; want %q", when, got, want)
		}
	}
	asked := func(when string, want error) {
		t.Helper()
		c.CheckDuplicate(bus.DedupKey{From: "agent:x", MessageID: when}, func(_ []bus.DedupReply, err error) {
			if err != want {
				t.Errorf("%s, a message with once: %v; want %v", when, err, want)
			}
		})
	}
	hears := func(names ...string) map[string]uint64 {
		beats := map[string]uint64{}
		for _, name := range names {
			beats[name] = c.heartbeats.last
		}
		return beats
	}
	hello, members := header{Kind: kindHello, Epoch: 1, Beat: 7}, header{Kind: kindMembers, Epoch: 1, Beat: 7}

	want("nobody was heard", now, []string{}...)
	c.hello()
	receiveFrom(c, "west", hello, map[string]uint64{"north": 1, "east": 1})
	want("one was heard that has not heard this run of it", now, "north", "west")
	if !c.state.view.isolated {
		t.Error("a bus that nobody has heard is not apart")
	}
	c.recordHello(c.members.buses["west"], encode(hears("north", "east")))
	want("whom it names is not said yet", now, "north", "west")
	if !c.state.view.isolated {
		t.Error("a bus is not apart before it says who is missing")
	}
	receiveFrom(c, "west", hello, hears("north", "east"))
	if c.state.view.isolated {
		t.Error("a bus that was heard is apart")
	}
	want("its peers are unknown, and another bus", now, "north", "west")
	asked("another bus is unknown", errNotChecked)
	receiveFrom(c, "west", members, []bus.Member{})
	want("its peers are known", now, "north")
	receiveFrom(c, "north", hello, hears("west"))
	receiveFrom(c, "north", members, []bus.Member{})
	want("the other has not heard it", now, "north")
	receiveFrom(c, "north", hello, hears("west", "east"))
	want("all are known", now)

	receiveFrom(c, "west", hello, hears("north", "east"))
	said := c.heartbeats.sent(c.heartbeats.last)
	late := c.options.SilentAfter + 2*c.options.Heartbeat
	want("at the end of its time", said.Add(late))
	want("after it stood still", said.Add(late+1), "north", "west")
	c.beginEpoch("NATS: lost", now)
	want("its connection broke", now, "north", "west")
	receiveFrom(c, "north", members, []bus.Member{})
	receiveFrom(c, "west", members, []bus.Member{})
	want("they told their peers again", now)
	receiveFrom(c, "west", header{Kind: kindChange, Epoch: 1, Seq: 2}, change{Do: "left"})
	want("a change is missing", now, "west")
	receiveFrom(c, "west", header{Kind: kindMembers, Epoch: 1, Seq: 2}, []bus.Member{})
	receiveFrom(c, "north", header{Kind: kindBye}, nil)
	want("one has left that another still names", now)
	if got := c.state.view.heartbeatsHeard(c.state.heard); len(got) != 1 || got["west"] != 7 {
		t.Errorf("it hears %v; want west's sign of life 7", got)
	}
	c.tick(time.Now().Add(time.Minute))
	want("it is silent", now, "west")
	if got := c.state.view.heartbeatsHeard(c.state.heard); len(got) != 1 || got["west"] != 0 {
		t.Errorf("it hears %v; want west to be named as missed", got)
	}
}

// TestCluster_EndsIsolationWithoutOthers begins alone: for two heartbeats there may be others.
func TestCluster_EndsIsolationWithoutOthers(t *testing.T) {
	c := New(nil, "east", nil)
	bus.New(nil, &bus.Options{Cluster: c})
	missing := func() bool { return c.Missing() != nil }
	c.tick(time.Now().Add(time.Minute))
	if !missing() {
		t.Error("without NATS its results are whole")
	}
	c.setConnected(true, "connected")
	c.tick(c.state.since.Add(2*c.options.Heartbeat - 1))
	if !missing() {
		t.Error("its results are whole before others could be heard")
	}
	c.tick(c.state.since.Add(2 * c.options.Heartbeat))
	if missing() {
		t.Error("its results are not whole although there is nobody else")
	}
	c.setConnected(false, "lost")
	if !missing() {
		t.Error("its results are whole after it lost NATS")
	}
	beat := c.heartbeats.next(c.state.since.Add(-time.Second))
	receiveFrom(c, "west", header{Kind: kindHello, Epoch: 1, Beat: 1}, map[string]uint64{"east": beat})
	if !c.state.view.isolated {
		t.Error("what was heard before it lost NATS ended that")
	}
	receiveFrom(c, "west", header{Kind: kindHello, Epoch: 1, Beat: 2}, map[string]uint64{"east": c.heartbeats.next(c.state.since.Add(1))})
	if c.state.view.isolated {
		t.Error("it was heard, and is apart")
	}
}

// TestOnce_WaitsForSilentBus checks that a bus that has just lost NATS, or has just
// started, waits, because it cannot know whether another bus has a message with once. After
// a while, that counts as a partition.
func TestOnce_WaitsForSilentBus(t *testing.T) {
	c := New(nil, "east", nil)
	for age, want := range map[time.Duration]error{0: errNotChecked, c.options.SilentAfter - time.Second: errNotChecked, c.options.SilentAfter: nil} {
		c.state.since = time.Now().Add(-age)
		asked := false
		c.CheckDuplicate(bus.DedupKey{From: "agent:x", MessageID: "m"}, func(replies []bus.DedupReply, err error) {
			if asked = true; err != want || replies != nil {
				t.Errorf("after %s: %v, %v; want %v", age, replies, err, want)
			}
		})
		if !asked {
			t.Errorf("after %s: no answer", age)
		}
	}
}
