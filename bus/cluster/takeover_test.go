package cluster_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hubbub/bus/cluster"
	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"
	"hubbub/protocol/wire"
)

// TestTakeover_BetweenThreeBuses takes over an identity repeatedly, each time at another
// bus, while a peer of each bus sends to it and one bus is sometimes cut off from NATS for
// a moment. No message reaches two sessions, and none that reached one is reported as
// never sent. A lost message came from the bus that was cut off, or went there.
func TestTakeover_BetweenThreeBuses(t *testing.T) {
	url := startNATS(t, 0)
	cut := startProxy(t, url.Addr().String())
	quick := &cluster.Options{Heartbeat: 50 * time.Millisecond, SilentAfter: 300 * time.Millisecond}
	var nodes []*node
	for i, at := range []string{url.ClientURL(), url.ClientURL(), "nats://" + cut.listener.Addr().String()} {
		name := fmt.Sprint("bus", i)
		nodes = append(nodes, joinBy(t, cluster.New([]string{at}, name, quick), name, nil))
	}
	settle(t, nodes...)
	dial := func(n *node, params string) *wire.WebSocket {
		s, err := wire.Dial(t.Context(), n.URL(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Write(jsonrpc.AppendRequestText(nil, "0", "initialize", params)); err != nil {
			t.Fatal(err)
		}
		if answer, err := s.Read(); err != nil || !strings.Contains(string(answer), "serverId") {
			t.Fatalf("initialize: %s, %v", answer, err)
		}
		return s
	}
	var serving sync.WaitGroup
	var mu sync.Mutex
	handled := map[string]int{}
	serve := func(n *node) *wire.WebSocket {
		s := dial(n, `{"clientId":"agent:x","subscriptions":[{"topic":"agent:x"}]}`)
		serving.Go(func() {
			defer s.Close(wire.CloseNormal, "")
			for {
				frame, err := s.Read()
				if err != nil {
					return
				}
				m, err := jsonrpc.Parse(frame)
				if err != nil || string(m.Method) != protocol.MethodProcessMessage {
					continue
				}
				_, rest, _ := strings.Cut(string(m.Params), `"messageId":"`)
				id, _, _ := strings.Cut(rest, `"`)
				mu.Lock()
				handled[id]++
				mu.Unlock()
				if s.Write(jsonrpc.AppendResult(nil, m.ID, []byte(`{"processed":true}`))) != nil {
					return
				}
			}
		})
		return s
	}
	last := serve(nodes[0])
	settle(t, nodes...)
	var over atomic.Bool
	var sending sync.WaitGroup
	var ok, written, unwritten, absent atomic.Int64
	results := sync.Map{}
	for i, n := range nodes {
		sender := n.Join(t, protocol.PeerID(fmt.Sprint("cli:s", i)))
		sending.Go(func() {
			for !over.Load() {
				m := protocol.NewMessage(protocol.TypeAgentEvent, sender.Peer.ID(), protocol.AgentOnline{})
				r, err := sender.Peer.Send(t.Context(), "agent:x", m)
				switch {
				case err != nil:
					t.Error(err)
				case r.DeliveredTo > 1:
					t.Errorf("%+v", r)
				case r.DeliveredTo == 1:
					ok.Add(1)
				case len(r.Failures) == 0:
					absent.Add(1)
				case r.Failures[0].Written:
					written.Add(1)
				default:
					unwritten.Add(1)
				}
				results.Store(string(m.MessageID), r)
			}
		})
	}
	const rounds = 300
	for round := range rounds {
		if round%50 == 25 {
			cut.freeze(true)
			time.AfterFunc(time.Duration(rand.N(700))*time.Millisecond, func() { cut.freeze(false) })
		}
		last = serve(nodes[rand.N(3)])
	}
	cut.freeze(false)
	over.Store(true)
	sending.Wait()
	last.Close(wire.CloseNormal, "")
	for _, n := range nodes {
		n.Stop()
	}
	serving.Wait()
	for id, times := range handled {
		r, known := results.Load(id)
		if times > 1 {
			t.Errorf("%s was delivered %d times: %+v", id, times, r)
		}
		if known && r.(protocol.SendResult).DeliveredTo == 0 && (len(r.(protocol.SendResult).Failures) == 0 || !r.(protocol.SendResult).Failures[0].Written) {
			t.Errorf("%s was delivered, and its sender was told that it was not: %+v", id, r)
		}
	}
	t.Logf("%d takeovers: %d ok, %d written, %d unwritten, %d absent", rounds, ok.Load(), written.Load(), unwritten.Load(), absent.Load())
}
