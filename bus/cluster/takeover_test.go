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

// An identityPeer runs sessions of agent:x at several buses and counts what they process.
type identityPeer struct {
	t       *testing.T
	serving sync.WaitGroup

	mu      sync.Mutex
	handled map[string]int // by message ID
}

// takeOver opens a session at a bus, which closes the identity's previous one.
func (p *identityPeer) takeOver(n *node) *wire.WebSocket {
	s, err := wire.Dial(p.t.Context(), n.URL(), nil)
	if err != nil {
		p.t.Fatal(err)
	}
	params := `{"clientId":"agent:x","subscriptions":[{"topic":"agent:x"}]}`
	if err := s.Write(jsonrpc.AppendRequestText(nil, "0", "initialize", params)); err != nil {
		p.t.Fatal(err)
	}
	if answer, err := s.Read(); err != nil || !strings.Contains(string(answer), "serverId") {
		p.t.Fatalf("initialize: %s, %v", answer, err)
	}
	p.serving.Go(func() { p.serve(s) })
	return s
}

// serve answers the deliveries of a session until it ends.
func (p *identityPeer) serve(s *wire.WebSocket) {
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
		p.mu.Lock()
		p.handled[id]++
		p.mu.Unlock()
		if s.Write(jsonrpc.AppendResult(nil, m.ID, []byte(`{"processed":true}`))) != nil {
			return
		}
	}
}

// A steadySender sends to agent:x from every bus until it is stopped.
type steadySender struct {
	stopped atomic.Bool
	sending sync.WaitGroup
	results sync.Map // protocol.SendResult, by message ID

	ok, written, unwritten, absent atomic.Int64
}

// start sends from a peer of a bus.
func (s *steadySender) start(t *testing.T, n *node, id protocol.PeerID) {
	sender := n.Join(t, id)
	s.sending.Go(func() {
		for !s.stopped.Load() {
			m := protocol.NewMessage(protocol.TypeAgentEvent, sender.Peer.ID(), protocol.AgentOnline{})
			r, err := sender.Peer.Send(t.Context(), "agent:x", m)
			switch {
			case err != nil:
				t.Error(err)
			case r.DeliveredTo > 1:
				t.Errorf("%+v", r)
			case r.DeliveredTo == 1:
				s.ok.Add(1)
			case len(r.Failures) == 0:
				s.absent.Add(1)
			case r.Failures[0].Written:
				s.written.Add(1)
			default:
				s.unwritten.Add(1)
			}
			s.results.Store(string(m.MessageID), r)
		}
	})
}

// TestTakeover_BetweenThreeBuses takes over an identity repeatedly, each time at another
// bus, while a peer of each bus sends to it and one bus is sometimes cut off from NATS for
// a moment. No message reaches two sessions, and none that reached one is reported as
// never sent. A message is lost only if it came from the bus that was cut off, or went there.
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
	x := &identityPeer{t: t, handled: map[string]int{}}
	last := x.takeOver(nodes[0])
	settle(t, nodes...)
	sender := &steadySender{}
	for i, n := range nodes {
		sender.start(t, n, protocol.PeerID(fmt.Sprint("cli:s", i)))
	}
	const rounds = 300
	for round := range rounds {
		if round%50 == 25 {
			cut.freeze(true)
			time.AfterFunc(time.Duration(rand.N(700))*time.Millisecond, func() { cut.freeze(false) })
		}
		last = x.takeOver(nodes[rand.N(3)])
	}
	cut.freeze(false)
	sender.stopped.Store(true)
	sender.sending.Wait()
	last.Close(wire.CloseNormal, "")
	for _, n := range nodes {
		n.Stop()
	}
	x.serving.Wait()
	for id, times := range x.handled {
		stored, known := sender.results.Load(id)
		r, _ := stored.(protocol.SendResult)
		if times > 1 {
			t.Errorf("%s was delivered %d times: %+v", id, times, r)
		}
		if known && r.DeliveredTo == 0 && (len(r.Failures) == 0 || !r.Failures[0].Written) {
			t.Errorf("%s was delivered, but its result says that it was never sent: %+v", id, r)
		}
	}
	t.Logf("%d takeovers: %d ok, %d written, %d unwritten, %d absent", rounds, sender.ok.Load(), sender.written.Load(), sender.unwritten.Load(), sender.absent.Load())
}
