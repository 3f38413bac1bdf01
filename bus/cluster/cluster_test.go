package cluster_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hubbub/bus"
	"hubbub/bus/bustest"
	"hubbub/bus/cluster"
	"hubbub/protocol"
	"hubbub/protocol/transcript"
	"hubbub/protocol/wire"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// startNATS runs a NATS server inside the test; port 0 chooses one.
func startNATS(t testing.TB, port int) *server.Server {
	t.Helper()
	if port == 0 {
		port = server.RANDOM_PORT
	}
	return runNATS(t, &server.Options{Port: port})
}

// runNATS is startNATS with options.
func runNATS(t testing.TB, o *server.Options) *server.Server {
	t.Helper()
	o.Host, o.NoLog, o.NoSigs = "127.0.0.1", true, true
	s, err := server.NewServer(o)
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

// A node is one bus of a cluster.
type node struct {
	*bustest.Bus
	name string
	part *cluster.Cluster
	stop func()
}

func join(t testing.TB, name, url string, o *bus.Options) *node {
	t.Helper()
	return joinBy(t, cluster.New([]string{url}, name, nil), name, o)
}

func joinBy(t testing.TB, c *cluster.Cluster, name string, o *bus.Options) *node {
	t.Helper()
	var opts bus.Options
	if o != nil {
		opts = *o
	}
	opts.Name, opts.Cluster = name, c
	b := bustest.Start(t, &opts)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	n := &node{Bus: b, name: name, part: c, stop: sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the cluster of %s ended: %v", name, err)
		}
	})}
	t.Cleanup(n.stop)
	return n
}

func joinAll(t testing.TB, url string, count int) []*node {
	t.Helper()
	var nodes []*node
	for i := range count {
		nodes = append(nodes, join(t, fmt.Sprintf("bus %d.*>", i), url, nil)) // any character will do
	}
	settle(t, nodes...)
	return nodes
}

// settle waits until every bus knows every subscription, and every other bus.
func settle(t testing.TB, nodes ...*node) {
	t.Helper()
	waitFor(t, "the buses do not agree", func() bool { return agree(nodes) })
}

func agree(nodes []*node) bool {
	total, observing := 0, 0
	for _, n := range nodes {
		for _, m := range n.Server().Members() {
			total += len(m.Patterns)
			for _, observe := range m.Patterns {
				if observe {
					observing++
				}
			}
		}
	}
	for _, n := range nodes {
		if all, o := n.Server().Subscriptions(); all != total || o != observing || n.part.Missing() != nil {
			return false
		}
	}
	return true
}

func waitFor(t testing.TB, what string, condition func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for !condition() {
		select {
		case <-ctx.Done():
			t.Fatal(what)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// A settled connection sends nothing before all buses know what was subscribed.
type settled struct {
	transcript.Conn
	t     testing.TB
	nodes []*node
}

func (s settled) Send(frame []byte, binary bool) error {
	settle(s.t, s.nodes...)
	return s.Conn.Send(frame, binary)
}

// TestTranscripts_OverSeveralBuses runs the wire cases with each connection of a
// case on another bus: several buses behave as one.
func TestTranscripts_OverSeveralBuses(t *testing.T) {
	cases, err := transcript.Load(protocol.Transcripts)
	if err != nil {
		t.Fatal(err)
	}
	nats := startNATS(t, 0)
	for _, count := range []int{2, 3} {
		nodes := joinAll(t, nats.ClientURL(), count)
		for _, c := range cases {
			t.Run(fmt.Sprintf("%d/%s", count, c.Name), func(t *testing.T) {
				var dialled atomic.Int64
				err := c.Run(t.Context(), func(ctx context.Context) (transcript.Conn, error) {
					n := nodes[int(dialled.Add(1))%len(nodes)]
					conn, err := transcript.WebSocket(n.URL(), "")(ctx)
					return settled{conn, t, nodes}, err
				})
				if err != nil {
					t.Error(err)
				}
				waitFor(t, "sessions are left behind", func() bool {
					for _, n := range nodes {
						if all, _ := n.Server().Subscriptions(); all > 0 || len(n.Server().Members()) > 0 {
							return false
						}
					}
					return true
				})
			})
		}
		for _, n := range nodes {
			n.stop()
		}
	}
}

func TestCluster_SplitsLargeFrames(t *testing.T) {
	nodes := joinAll(t, startNATS(t, 0).ClientURL(), 2)
	receiver := nodes[1].Join(t, "agent:x", "agent:x")
	sender := nodes[0].Join(t, "cli:s")
	settle(t, nodes...)
	text := strings.Repeat("x", 1<<20-500)
	if r := sender.Send(t, "agent:x", protocol.TypeAgentEvent, map[string]string{"t": text}); r.DeliveredTo != 1 {
		t.Fatalf("result %+v", r)
	}
	if d := receiver.Next(t); !strings.Contains(string(d.Message.Content), text) {
		t.Error("the message was cut")
	}
}

// TestNames_CrossBuses checks that the names for which the sender's bus vouches reach
// a broker at another bus.
func TestNames_CrossBuses(t *testing.T) {
	nodes := joinAll(t, startNATS(t, 0).ClientURL(), 2)
	receiver := nodes[1].Join(t, protocol.PeerBroker, "collab:*")
	sender := nodes[0].Join(t, "agent:a")
	settle(t, nodes...)
	sender.Send(t, protocol.TopicBroker, protocol.TypeCollabRequest, map[string]string{"method": "x"})
	if d := receiver.Next(t); len(d.Names) != 1 || d.Names[0] != "*" {
		t.Errorf("vouched for %q", d.Names)
	}
}

func TestOrder_HoldsAcrossBuses(t *testing.T) {
	nodes := joinAll(t, startNATS(t, 0).ClientURL(), 2)
	receiver := nodes[1].Join(t, "agent:x", "agent:x")
	s, err := wire.Dial(t.Context(), nodes[0].URL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(wire.CloseNormal, "")
	write := func(frame string) {
		if err := s.Write([]byte(frame)); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"clientId":"cli:s"}}`)
	settle(t, nodes...)
	const count = 500
	for i := range count {
		pad := strings.Repeat("x", i%7*300)
		write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"sendMessage","params":{"topic":"agent:x","payload":{"messageId":"m%d","type":"agent_event","from":"cli:s","timestamp":"2026-02-17T12:00:00Z","content":{"p":%q}}}}`, i+1, i, pad))
	}
	for range count + 1 {
		if _, err := s.Read(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range count {
		if d := receiver.Next(t); string(d.Message.MessageID) != fmt.Sprint("m", i) {
			t.Fatalf("message %d is %s", i, d.Message.MessageID)
		}
	}
}

// TestCluster_FailsForwardsToDeadBus kills a bus while a message is under way: the sender gets an
// answer within seconds, whatever the delivery timeout.
func TestCluster_FailsForwardsToDeadBus(t *testing.T) {
	nats := startNATS(t, 0)
	a, b := join(t, "a", nats.ClientURL(), nil), join(t, "b", nats.ClientURL(), nil)
	far := b.Join(t, "agent:far", "agent:far")
	started, finish := make(chan struct{}), make(chan struct{})
	far.Refuse(func(*bustest.Delivery) error { close(started); <-finish; return nil })
	sender := a.Join(t, "cli:s")
	settle(t, a, b)
	result := make(chan protocol.SendResult, 1)
	go func() { result <- sender.Send(t, "agent:far", protocol.TypeAgentEvent, protocol.AgentOnline{}) }()
	select {
	case <-started:
	case r := <-result: // of a machine so busy that the buses lost each other
		t.Fatalf("the message did not come to its peer: %+v", r)
	}
	b.stop() // it leaves the cluster; its peer never answers
	r := <-result
	if len(r.Failures) != 1 || r.Failures[0].Status != protocol.OutcomeOffline || r.Failures[0].Peer != "agent:far" || r.Addressee != protocol.AddresseeFailed {
		t.Errorf("result %+v; want its peer offline", r)
	}
	close(finish)
}

func TestTakeover_NewestOfSimultaneousOnesStays(t *testing.T) {
	nodes := joinAll(t, startNATS(t, 0).ClientURL(), 3)
	for round := range 5 {
		id := fmt.Sprintf("agent:x%d", round)
		var dialling sync.WaitGroup
		conns := make([]transcript.Conn, len(nodes))
		for i, n := range nodes {
			dialling.Go(func() {
				conn, err := transcript.WebSocket(n.URL(), "")(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				conns[i] = conn
				if err := conn.Send([]byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"clientId":"`+id+`"}}`), false); err != nil {
					t.Error(err)
				}
			})
		}
		dialling.Wait()
		count := func() (live int) {
			for _, n := range nodes {
				for _, m := range n.Server().Members() {
					if string(m.Peer) == id {
						live++
					}
				}
			}
			return live
		}
		waitFor(t, "more or less than one session stays", func() bool { return count() == 1 })
		var closed atomic.Int32
		for _, conn := range conns {
			go func() {
				<-drained(conn)
				if conn.CloseCode() == protocol.CloseReplaced {
					closed.Add(1)
				}
			}()
		}
		waitFor(t, "a replaced session is not closed with 4001", func() bool { return int(closed.Load()) == len(nodes)-1 })
		for _, conn := range conns {
			conn.Close()
		}
		waitFor(t, "the last session is left behind", func() bool { return count() == 0 })
	}
}

// drained is closed when the connection has ended.
func drained(c transcript.Conn) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range c.Frames() {
		}
	}()
	return done
}

// A proxy stands between a bus and NATS and can be cut.
type proxy struct {
	listener net.Listener
	target   string
	mu       sync.Mutex // guards the fields below
	thawed   *sync.Cond
	frozen   bool
	conns    []net.Conn
	copying  sync.WaitGroup
}

func startProxy(t *testing.T, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, target: target}
	p.thawed = sync.NewCond(&p.mu)
	p.copying.Go(p.acceptLoop)
	t.Cleanup(func() {
		l.Close()
		p.freeze(false)
		p.mu.Lock()
		for _, c := range p.conns {
			c.Close()
		}
		p.mu.Unlock()
		p.copying.Wait()
	})
	return p
}

func (p *proxy) acceptLoop() {
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", p.target)
		if err != nil {
			in.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, in, out)
		p.mu.Unlock()
		p.copying.Go(func() { p.copyLoop(in, out) })
		p.copying.Go(func() { p.copyLoop(out, in) })
	}
}

func (p *proxy) copyLoop(to, from net.Conn) {
	defer to.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		for p.frozen {
			p.thawed.Wait()
		}
		p.mu.Unlock()
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// freeze holds back every byte, like a network that has lost its route.
func (p *proxy) freeze(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = on
	p.thawed.Broadcast()
}

// TestCluster_ReportsPartition cuts a bus off from NATS without closing its connection, as
// when a cable is pulled or the machine hangs.
func TestCluster_ReportsPartition(t *testing.T) {
	nats := startNATS(t, 0)
	cut := startProxy(t, nats.Addr().String())
	a, b := join(t, "a", nats.ClientURL(), nil), join(t, "b", "nats://"+cut.listener.Addr().String(), nil)
	far := b.Join(t, "agent:far", "agent:far")
	near := b.Join(t, "cli:near")
	sender := a.Join(t, "cli:s")
	settle(t, a, b)
	cut.freeze(true)
	sent := map[protocol.MessageID]bool{}
	for range 3 { // the first are on their way when the silence is noticed
		m := protocol.NewMessage(protocol.TypeAgentEvent, "cli:s", protocol.AgentOnline{})
		r, err := sender.Peer.Send(t.Context(), "agent:far", m)
		if err != nil || r.DeliveredTo != 0 {
			t.Fatalf("across the cut: %+v, %v", r, err)
		}
		sent[m.MessageID] = true
	}
	if r := near.Send(t, "agent:far", protocol.TypeAgentEvent, protocol.AgentOnline{}); r.DeliveredTo != 1 {
		t.Fatalf("on the cut side, of the same bus: %+v", r)
	}
	far.Next(t)
	cut.freeze(false)
	settle(t, a, b)
	waitFor(t, "the buses do not meet again", func() bool {
		return sender.Send(t, "agent:far", protocol.TypeAgentEvent, protocol.AgentOnline{}).DeliveredTo == 1
	})
	seen := map[protocol.MessageID]int{}
	for far.Pending() > 0 {
		seen[far.Next(t).Message.MessageID]++
	}
	for id, n := range seen {
		if n > 1 {
			t.Errorf("%s was delivered %d times", id, n)
		}
	}
}

// BenchmarkCluster sends acked messages to a peer of the same bus, to one of
// another bus with 2, 4 and 8 buses and with 100,000 subscriptions, and, for
// comparison in the same run, plain NATS requests.
func BenchmarkCluster(b *testing.B) {
	server := startNATS(b, 0)
	b.Run("nats request", func(b *testing.B) {
		nc, err := nats.Connect(server.ClientURL())
		if err != nil {
			b.Fatal(err)
		}
		defer nc.Close()
		other, err := nats.Connect(server.ClientURL())
		if err != nil {
			b.Fatal(err)
		}
		defer other.Close()
		if _, err := other.Subscribe("bench", func(m *nats.Msg) { m.Respond(nil) }); err != nil { //nolint:errcheck // the request fails
			b.Fatal(err)
		}
		if err := other.Flush(); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if _, err := nc.Request("bench", make([]byte, 200), time.Minute); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, count := range []int{2, 4, 8} {
		nodes := joinAll(b, server.ClientURL(), count)
		near, far := nodes[0].Join(b, "agent:near", "agent:near"), nodes[1].Join(b, "agent:far", "agent:far")
		sender := nodes[0].Join(b, "cli:s")
		settle(b, nodes...)
		measure := func(name string) {
			for _, topic := range []protocol.Topic{"agent:near", "agent:far"} {
				b.Run(fmt.Sprintf("%d buses%s/%s", count, name, topic), func(b *testing.B) {
					for b.Loop() {
						if r := sender.Send(b, topic, protocol.TypeAgentEvent, protocol.AgentOnline{}); r.DeliveredTo != 1 {
							b.Fatalf("%+v", r)
						}
					}
				})
			}
		}
		measure("")
		if count == 2 {
			for i := range 100 {
				patterns := make([]protocol.Pattern, 1000)
				for j := range patterns {
					patterns[j] = protocol.Pattern(fmt.Sprintf("other:%d:%d:*", i, j))
				}
				nodes[1].Join(b, protocol.PeerID(fmt.Sprint("cli:holder-", i)), patterns...)
			}
			settle(b, nodes...)
			measure(", 100,000 subscriptions")
		}
		_, _ = near, far
		for _, n := range nodes {
			n.stop()
		}
	}
}
