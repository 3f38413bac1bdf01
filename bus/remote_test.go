package bus_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"hubbub/activitylog/audit"
	"hubbub/activitylog/read"
	"hubbub/bus"
	"hubbub/bus/bustest"
	"hubbub/bus/report"
	"hubbub/protocol"
	"hubbub/protocol/wire"
)

// A linkedCluster is the simplest cluster: two buses of one process, which call each
// other. While it is cut, nothing passes.
type linkedCluster struct {
	name     string
	local    bus.Local
	far      *linkedCluster
	mu       sync.Mutex // guards cut
	cut      bool
	forwards sync.WaitGroup
}

// startLinked starts two buses, east and west, that form a cluster.
func startLinked(t *testing.T) (east, west *bustest.Bus, links [2]*linkedCluster) {
	t.Helper()
	links = [2]*linkedCluster{{name: "east"}, {name: "west"}}
	links[0].far, links[1].far = links[1], links[0]
	east = bustest.Start(t, &bus.Options{Name: "east", Cluster: links[0], PeerWindow: 1})
	west = bustest.Start(t, &bus.Options{Name: "west", Cluster: links[1], PeerWindow: 1})
	t.Cleanup(func() { links[0].forwards.Wait(); links[1].forwards.Wait() })
	return east, west, links
}

func (c *linkedCluster) Attach(l bus.Local)  { c.local = l }
func (c *linkedCluster) Joined(m bus.Member) { c.far.local.RemoteJoined(c.name, m) }
func (c *linkedCluster) Left(p protocol.PeerID, s bus.Stamp) {
	c.far.local.RemoveRemotePeer(c.name, p, s)
}
func (c *linkedCluster) Unsubscribed(p protocol.PeerID, q protocol.Pattern) {
	c.far.local.RemoveRemotePattern(c.name, p, q)
}
func (c *linkedCluster) Missing() []string  { return nil }
func (c *linkedCluster) FailPending(string) { c.forwards.Wait() } // it holds none for long
func (c *linkedCluster) Status() any        { return map[string]string{"tiedTo": c.far.name} }

func (c *linkedCluster) Subscribed(p protocol.PeerID, q protocol.Pattern, observe bool) {
	c.far.local.AddRemotePattern(c.name, p, q, observe)
}

func (c *linkedCluster) CheckDuplicate(who bus.DedupKey, done func([]bus.DedupReply, error)) {
	reply := c.far.local.AnswerDuplicateCheck(bus.BusInstance{Bus: c.name}, who)
	reply.From = bus.BusInstance{Bus: c.far.name}
	done([]bus.DedupReply{reply}, nil)
}

func (c *linkedCluster) ShareOutcome(who bus.DedupKey, answer []byte) {
	c.far.local.StoreOutcome(who, answer)
}

func (c *linkedCluster) Forward(f *bus.Forward) {
	c.mu.Lock()
	cut := c.cut
	c.mu.Unlock()
	c.forwards.Go(func() {
		switch {
		case cut && len(f.Peers) > 0:
			f.Fail("cannot be reached", false)
		case !cut:
			c.far.local.Deliver(f.Message, slices.Concat(f.Peers, f.Observe), func(r bus.Result) {
				if len(f.Peers) > 0 {
					c.forwards.Go(func() { f.Complete(r) }) // the far bus may hold locks
				}
			})
		}
	})
}

func TestCluster_DeliversOnceToPeersOfBothBuses(t *testing.T) {
	east, west, _ := startLinked(t)
	near := east.Join(t, "agent:near", "news*", "*ws")
	far := west.Join(t, "agent:far", "news*", "*ws")
	far.Refuse(func(d *bustest.Delivery) error {
		if d.Message.Type == protocol.TypeTGReply {
			return errors.New("not today")
		}
		return nil
	})
	sender := east.Join(t, "cli:op")
	if r := sender.Send(t, "news", protocol.TypeAgentEvent, protocol.AgentOnline{}); r.DeliveredTo != 2 || len(r.Failures) != 0 {
		t.Errorf("a message to both: %+v", r)
	}
	if near.Next(t); far.Next(t).Message.From != "cli:op" || near.Pending()+far.Pending() != 0 {
		t.Errorf("%d and %d deliveries too many", near.Pending(), far.Pending())
	}
	r := sender.Send(t, "news", protocol.TypeTGReply, protocol.ChatReply{})
	if r.DeliveredTo != 1 || len(r.Failures) != 1 || r.Failures[0].Peer != "agent:far" || r.Failures[0].Status != protocol.OutcomeError {
		t.Errorf("one that the far peer fails: %+v", r)
	}
	if got := rows(t, east, "event='process_finish' AND actor='agent:far'"); len(got) != 0 {
		t.Errorf("east wrote rows of a peer of west: %v", got)
	}
	if got := rows(t, west, "event='process_finish' AND actor='agent:far'"); len(got) != 2 {
		t.Errorf("west wrote %v; want the two deliveries of its peer", got)
	}
	if got := rows(t, west, "event LIKE 'send%'"); len(got) != 0 {
		t.Errorf("west wrote rows of a message that east accepted: %v", got)
	}
}

// TestTakeover_LogsOfBothBusesAreWhole moves a peer to another bus while a delivery waits in its
// queue: the message follows it, and the logs have no row too many and lack none.
func TestTakeover_LogsOfBothBusesAreWhole(t *testing.T) {
	for name, moveToSender := range map[string]bool{"to the sender's bus": true, "away from it": false} {
		t.Run(name, func(t *testing.T) {
			east, west, _ := startLinked(t)
			from, to := east, west
			if moveToSender {
				from, to = west, east
			}
			older, sender := rawPeer(t, from, "agent:x", "t"), rawPeer(t, east, "cli:s")
			sender.write(sendFrame(1, "t", "cli:s", "read"))
			first, err := older.read()
			if err != nil {
				t.Fatal(err)
			}
			sender.write(sendFrame(2, "t", "cli:s", "queued"))
			waitFor(t, func() bool {
				return slices.ContainsFunc(from.Server().Peers(), func(p report.Peer) bool { return p.Queued == 1 })
			})
			stream, err := to.Dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer stream.Close(wire.CloseNormal, "")
			newer := &raw{t, stream}
			newer.request("initialize", `{"clientId":"agent:x","subscriptions":[{"topic":"t"}]}`)
			older.write(`{"jsonrpc":"2.0","id":` + string(first.ID) + `,"result":{}}`)
			second, err := newer.read()
			if err != nil {
				t.Fatal(err)
			}
			newer.write(`{"jsonrpc":"2.0","id":` + string(second.ID) + `,"result":{}}`)
			for range 2 {
				if m, err := sender.read(); err != nil || !strings.Contains(string(m.Result), `"deliveredTo":1}`) {
					t.Errorf("a result is %s, %v; want one delivery", m.Result, err)
				}
			}
			east.Stop()
			west.Stop()
			logs := read.Open(east.Log, west.Log)
			defer logs.Close()
			v, err := audit.Verify(t.Context(), logs, nil)
			if err != nil || !v.OK() || v.Complete != 2 {
				t.Errorf("%+v, %v; want two complete messages and no problem", v, err)
			}
		})
	}
}

func TestAddressee_IsFoundOnAnotherBus(t *testing.T) {
	east, west, links := startLinked(t)
	west.Join(t, "tg:bot", "tg:*")
	agent := east.Join(t, "agent:a")
	send := func(want protocol.Addressee, delivered int) {
		t.Helper()
		if r := agent.Send(t, "tg:42", protocol.TypeTGReply, protocol.ChatReply{}); r.Addressee != want || r.DeliveredTo != delivered {
			t.Errorf("%+v; want the addressee %s and %d deliveries", r, want, delivered)
		}
	}
	send(protocol.AddresseeOK, 1)
	links[0].mu.Lock()
	links[0].cut = true
	links[0].mu.Unlock()
	send(protocol.AddresseeFailed, 0)
	if got := rows(t, east, "event='process_finish' AND status='offline' AND actor='tg:bot'"); len(got) != 1 {
		t.Errorf("the end of the lost delivery is %v", got)
	}
	links[0].local.RemoveBus("west")
	links[0].local.RemoveBus("south") // which nobody knows
	send(protocol.AddresseeAbsent, 0)
}

func TestRemote_ForgetsPeersThatLeft(t *testing.T) {
	east, west, links := startLinked(t)
	far := west.Join(t, "agent:far", "a", "b")
	watcher := west.Join(t, "cli:watcher")
	if err := watcher.Observe(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	sender := east.Join(t, "cli:op")
	send := func(topic protocol.Topic) int {
		return sender.Send(t, topic, protocol.TypeAgentEvent, protocol.AgentOnline{}).DeliveredTo
	}
	if n := send("b"); n != 1 {
		t.Errorf("%d deliveries; want one, and one observation", n)
	}
	watcher.Next(t)
	if err := far.Unsubscribe(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if n := send("a"); n != 0 {
		t.Errorf("%d deliveries after an unsubscribe", n)
	}
	if all, observing := east.Server().Subscriptions(); all != 2 || observing != 1 {
		t.Errorf("east routes to %d subscriptions, %d of them observe; want 2 and 1", all, observing)
	}
	far.Leave()
	waitFor(t, func() bool { return len(west.Server().Peers()) == 1 })
	if n := send("b"); n != 0 {
		t.Errorf("%d deliveries after the peer left", n)
	}
	watcher.Next(t) // it still observes
	links[0].local.RemoveRemotePeer("west", "agent:nobody", bus.Stamp{})
	links[0].local.RemoveRemotePattern("south", "agent:nobody", "x")
}

func TestTakeover_NewerSessionWinsAcrossBuses(t *testing.T) {
	east, west, links := startLinked(t)
	older := rawPeer(t, east, "agent:x", "agent:x")
	rawPeer(t, west, "agent:x", "agent:x")
	if _, err := older.read(); wire.CloseCode(err) != protocol.CloseReplaced {
		t.Errorf("the older session: %v; want close code 4001", err)
	}
	list := links[1].local.Members()
	if len(list) != 1 || list[0].Peer != "agent:x" || list[0].Stamp.Bus != "west" || len(list[0].Patterns) != 1 {
		t.Fatalf("the members of west are %+v", list)
	}
	mine := list[0].Stamp
	if newer, ok := links[1].local.RemoteJoined("zenith", bus.Member{Peer: "agent:x", Stamp: bus.Stamp{At: mine.At - 1, Bus: "zenith"}}); !ok || newer.Stamp != mine || len(newer.Patterns) != 1 {
		t.Errorf("an older claim: %+v, %t; want to be told of %+v", newer, ok, mine)
	}
	if _, ok := links[1].local.RemoteJoined("west", bus.Member{Peer: "agent:x", Stamp: mine}); ok || len(west.Server().Peers()) != 1 {
		t.Error("a session replaced itself")
	}
	if _, ok := links[1].local.RemoteJoined("zenith", bus.Member{Peer: "agent:y", Stamp: mine}); ok {
		t.Error("an identity that is not here is newer")
	}
	for _, c := range []struct {
		a, b bus.Stamp
		want bool
	}{{bus.Stamp{At: 2}, bus.Stamp{At: 1}, true}, {bus.Stamp{At: 1, Bus: "b"}, bus.Stamp{At: 1, Bus: "a"}, true}, {bus.Stamp{At: 1, Bus: "a"}, bus.Stamp{At: 1, Bus: "a"}, false}} {
		if c.a.Newer(c.b) != c.want {
			t.Errorf("%+v newer than %+v: %t", c.a, c.b, !c.want)
		}
	}
}
