package cluster_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hubbub/bus/cluster"
	"hubbub/protocol/jsonrpc"
	"hubbub/protocol/wire"
)

// onceParams are the params of a sendMessage with once from tg:1.
func onceParams(id string) string {
	return fmt.Sprintf(`{"once":true,"topic":"agent:x","payload":{"messageId":%q,"type":"tg_message","from":"tg:1","timestamp":"2026-02-17T12:00:00Z","content":{}}}`, id)
}

// A caller is a session that makes one request after another.
type caller struct {
	t testing.TB
	*wire.WebSocket
}

func call(t testing.TB, n *node, as string) caller {
	t.Helper()
	s, err := wire.Dial(t.Context(), n.URL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(wire.CloseNormal, "") })
	c := caller{t, s}
	if answer := c.ask("initialize", `{"clientId":"`+as+`","subscriptions":[{"topic":"`+as+`"}]}`); !strings.Contains(answer, "serverId") {
		t.Fatal(answer)
	}
	return c
}

func (c caller) send(method, params string) {
	if err := c.Write(jsonrpc.AppendRequestText(nil, "0", method, params)); err != nil {
		c.t.Error(err)
	}
	c.Flush()
}

func (c caller) next() string {
	frame, err := c.Read()
	if err != nil {
		return err.Error()
	}
	return string(frame)
}

func (c caller) ask(method, params string) string {
	c.send(method, params)
	return c.next()
}

// TestOnce_HoldsAtEveryBus sends each message at three buses at the same time,
// and then once more at each.
func TestOnce_HoldsAtEveryBus(t *testing.T) {
	nodes := joinAll(t, startNATS(t, 0).ClientURL(), 3)
	var callers []caller
	for i, n := range nodes {
		callers = append(callers, call(t, n, fmt.Sprint("tg:", i)))
	}
	receiver := call(t, nodes[1], "agent:x")
	settle(t, nodes...)
	var handled atomic.Int64
	var hearing sync.WaitGroup
	hearing.Go(func() {
		for {
			frame, err := receiver.Read()
			if err != nil {
				return
			}
			m, err := jsonrpc.Parse(frame)
			if err != nil || m.Kind != jsonrpc.KindRequest {
				t.Errorf("%s: %v", frame, err)
				return
			}
			handled.Add(1)
			if receiver.Write(jsonrpc.AppendResult(nil, m.ID, []byte(`{"processed":true}`))) != nil {
				return
			}
			receiver.Flush()
		}
	})
	const messages = 200
	for n := range messages {
		var sending sync.WaitGroup
		for _, c := range callers {
			sending.Go(func() {
				for range 2 {
					if got := c.ask("sendMessage", onceParams(fmt.Sprint("m", n))); !strings.Contains(got, `"deliveredTo":1,"addressee":"ok"}`) {
						t.Error(got)
					}
				}
			})
		}
		sending.Wait()
	}
	receiver.Close(wire.CloseNormal, "")
	hearing.Wait()
	if n := handled.Load(); n != messages {
		t.Errorf("%d deliveries of %d messages", n, messages)
	}
}

// TestOnce_RefusesWhileOwnerIsAway checks that a message that an unreachable bus took is not
// delivered by another bus, and gets its outcome when that bus is back. A message that it did
// not take is delivered without it, and the result says that it is partial.
func TestOnce_RefusesWhileOwnerIsAway(t *testing.T) {
	url := startNATS(t, 0)
	cut := startProxy(t, url.Addr().String())
	quick := &cluster.Options{Heartbeat: 50 * time.Millisecond, SilentAfter: 2 * time.Second}
	away := joinBy(t, cluster.New([]string{"nats://" + cut.listener.Addr().String()}, "away", quick), "away", nil)
	here := joinBy(t, cluster.New([]string{url.ClientURL()}, "here", quick), "here", nil)
	receiver, first, second := call(t, away, "agent:x"), call(t, away, "tg:0"), call(t, here, "tg:1")
	settle(t, away, here)

	first.send("sendMessage", onceParams("m1"))
	delivery := receiver.next()
	if !strings.Contains(delivery, `"messageId":"m1"`) {
		t.Fatal(delivery)
	}
	cut.freeze(true)
	waitFor(t, "the bus is not missed", func() bool { return here.part.Missing() != nil })
	for range 2 {
		if got := second.ask("sendMessage", onceParams("m1")); !strings.Contains(got, "the bus away took this message first") {
			t.Errorf("a repeat while its bus is away: %s", got)
		}
	}
	if got := second.ask("sendMessage", onceParams("m2")); !strings.Contains(got, `"partial":true,"missing":["away"]`) {
		t.Errorf("another message: %s", got)
	}
	m, err := jsonrpc.Parse([]byte(delivery))
	if err != nil {
		t.Fatal(err)
	}
	if err := receiver.Write(jsonrpc.AppendResult(nil, m.ID, []byte(`{"processed":true}`))); err != nil {
		t.Fatal(err)
	}
	receiver.Flush()
	if got := first.next(); !strings.Contains(got, `"deliveredTo":1`) {
		t.Errorf("the first outcome: %s", got)
	}
	cut.freeze(false)
	settle(t, away, here)
	var got string
	waitFor(t, "the outcome does not come", func() bool {
		got = second.ask("sendMessage", onceParams("m1"))
		return strings.Contains(got, `"deliveredTo":1,"addressee":"ok"}`)
	})
	away.Stop()
	away.stop()
	if again := second.ask("sendMessage", onceParams("m1")); again != got {
		t.Errorf("after its bus is gone: %s; want %s", again, got)
	}
}

// TestOnce_StartingBusCountsOnThoseThatAnswer checks that a starting bus does not wait for a bus
// that the others only remember. A message that the remembered bus took is still not delivered
// again.
func TestOnce_StartingBusCountsOnThoseThatAnswer(t *testing.T) {
	url := startNATS(t, 0)
	cut := startProxy(t, url.Addr().String())
	quick := &cluster.Options{Heartbeat: 50 * time.Millisecond, SilentAfter: 2 * time.Second}
	away := joinBy(t, cluster.New([]string{"nats://" + cut.listener.Addr().String()}, "away", quick), "away", nil)
	here := joinBy(t, cluster.New([]string{url.ClientURL()}, "here", quick), "here", nil)
	receiver, first := call(t, away, "agent:x"), call(t, away, "tg:0")
	settle(t, away, here)
	first.send("sendMessage", onceParams("m1"))
	if delivery := receiver.next(); !strings.Contains(delivery, `"messageId":"m1"`) {
		t.Fatal(delivery)
	}
	cut.freeze(true)
	waitFor(t, "the bus is not missed", func() bool { return here.part.Missing() != nil })
	for _, name := range []string{"late", "later"} {
		late := joinBy(t, cluster.New([]string{url.ClientURL()}, name, quick), name, nil)
		sender := call(t, late, "tg:1")
		tries := 0
		waitFor(t, "messages with once are refused at "+name, func() bool {
			tries++ // a repeat would have the outcome of the first, which may have come early
			got := sender.ask("sendMessage", onceParams(fmt.Sprintf("of %s %d", name, tries)))
			return strings.Contains(got, `"partial":true,"missing":["away"]`)
		})
		waitFor(t, "the owner of a message is not known at "+name, func() bool {
			return strings.Contains(sender.ask("sendMessage", onceParams("m1")), "the bus away took this message first")
		})
		sender.Close(wire.CloseNormal, "")
	}
}

// TestCluster_RestartUnderOneNameLeavesNothingMissing kills a bus and starts it again.
func TestCluster_RestartUnderOneNameLeavesNothingMissing(t *testing.T) {
	t.Parallel() // it waits for half a minute
	url := startNATS(t, 0)
	cut := startProxy(t, url.Addr().String())
	quick := &cluster.Options{Heartbeat: 50 * time.Millisecond, SilentAfter: 2 * time.Second}
	killed := joinBy(t, cluster.New([]string{"nats://" + cut.listener.Addr().String()}, "east", quick), "east", nil)
	here := joinBy(t, cluster.New([]string{url.ClientURL()}, "here", quick), "here", nil)
	settle(t, killed, here)
	cut.freeze(true)
	waitFor(t, "the bus is not missed", func() bool { return here.part.Missing() != nil })
	again := joinBy(t, cluster.New([]string{url.ClientURL()}, "east", quick), "east", nil)
	call(t, again, "agent:x")
	sender := call(t, here, "tg:1")
	settle(t, again, here)
	tries := 0
	waitFor(t, "nothing is missing after the restart", func() bool {
		tries++ // on a busy machine a bus may fall silent for a moment
		return !strings.Contains(sender.ask("sendMessage", onceParams(fmt.Sprint("m", tries))), "partial")
	})
}
