package cmd_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/peer"
	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"
	"hubbub/protocol/retry"
	"hubbub/protocol/wire"

	"github.com/nats-io/nats-server/v2/server"
)

// A takeoverTest moves identities between buses while messages are sent to them, and records the
// outcomes.
type takeoverTest struct {
	t     *testing.T
	buses []string
	taken atomic.Int64

	mu      sync.Mutex                         // guards the fields below
	handled map[string]map[protocol.PeerID]int // sessions of each identity that received each message
	sent    []sent
	spans   map[protocol.PeerID][]span
	visits  map[protocol.PeerID][]connection
	serving sync.WaitGroup
}

// A sent is a message with its result.
type sent struct {
	id           string
	by           protocol.PeerID
	topic        protocol.Topic
	at, answered time.Time
	result       protocol.SendResult
}

// A span is a time in which an identity was subscribed without a gap.
type span struct{ from, to time.Time }

// A connection is a session that an identity requested from a bus.
type connection struct {
	at  time.Time
	bus int
}

// TestTakeovers_DuringFaults is for `make chaos` and `make test-partition`. It moves identities
// between three buses, HUBBUB_TAKEOVERS times, while other identities connect and disconnect.
// Meanwhile one bus at a time is stopped (SIGSTOP) for up to five seconds, cut off from NATS, or
// killed and restarted, or NATS itself is down.
func TestTakeovers_DuringFaults(t *testing.T) {
	count, err := strconv.Atoi(os.Getenv("HUBBUB_TAKEOVERS"))
	if err != nil {
		t.Skip("HUBBUB_TAKEOVERS does not say how often; see make chaos")
	}
	nats := startNATS(t, server.RANDOM_PORT)
	c := &takeoverTest{
		t: t, handled: map[string]map[protocol.PeerID]int{}, spans: map[protocol.PeerID][]span{}, visits: map[protocol.PeerID][]connection{},
	}
	var programs []*process
	var begin []func() *process
	for i := range 3 {
		address, data := bustest.FreeAddress(t), t.TempDir()
		begin = append(begin, func() *process {
			return start(t, t, "hubbub-bus", nil, "--log-format", "json", "--data", data, "--listen", address,
				"--name", busName(i), "--cluster", nats.ClientURL())
		})
		programs = append(programs, begin[i]())
		c.buses = append(c.buses, "ws://"+address)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var others, takers sync.WaitGroup
	for i := range senders {
		others.Go(func() { c.send(ctx, protocol.PeerID(fmt.Sprint("cli:sender-", i)), c.buses[i%len(c.buses)]) })
	}
	for k := range identities {
		if k%2 == 1 {
			others.Go(func() { c.reconnectLoop(ctx, name(k)) })
			continue
		}
		takers.Go(func() {
			for c.taken.Load() < int64(count) && ctx.Err() == nil {
				if c.visit(ctx, name(k)) != nil {
					c.taken.Add(1)
				}
				retry.Sleep(ctx, time.Duration(rand.N(300))*time.Millisecond) // 50,000 takeovers take ten minutes
			}
		})
	}
	enough := make(chan struct{})
	go func() { defer close(enough); takers.Wait() }()
	for running := true; running; {
		i := rand.N(len(programs))
		p := programs[i].cmd.Process
		what := rand.N(6)
		t.Logf("%s: %s, trouble %d", time.Now().Format(clock), busName(i), what)
		switch what {
		case 0:
			programs[i].kill()
			programs[i] = begin[i]()
		case 1:
			cutOff(t, nats, "hubbub-bus "+busName(i))
		case 2:
			port := nats.Addr().(*net.TCPAddr).Port
			nats.Shutdown()
			nats.WaitForShutdown()
			retry.Sleep(ctx, time.Duration(rand.N(4000))*time.Millisecond)
			nats = startNATS(t, port)
		default:
			p.Signal(syscall.SIGSTOP) //nolint:errcheck // it runs until the test ends
			retry.Sleep(ctx, time.Duration(rand.N(5000))*time.Millisecond)
			p.Signal(syscall.SIGCONT) //nolint:errcheck // see above
		}
		t.Logf("%s: over", time.Now().Format(clock))
		select {
		case <-enough:
			running = false
		case <-time.After(time.Duration(rand.N(4000)) * time.Millisecond):
		}
	}
	stop()
	others.Wait()
	for _, p := range programs {
		p.stop()
	}
	c.serving.Wait()
	c.checkAll()
}

const clock = "15:04:05.000" // time format of reports

// Half of the identities are taken over all the time, the others connect and disconnect. senders
// send to them.
const (
	identities = 32
	senders    = 12
)

func name(k int) protocol.PeerID { return protocol.PeerID(fmt.Sprint("agent:x", k)) }

func busName(i int) string { return fmt.Sprint("bus", i) }

// everybody is the topic to which every identity subscribes, in addition to its own.
const everybody protocol.Topic = "news"

func startNATS(t *testing.T, port int) *server.Server {
	t.Helper()
	nats, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: port, NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	go nats.Start()
	t.Cleanup(nats.Shutdown)
	if !nats.ReadyForConnections(patience) {
		t.Fatal("the NATS server does not start")
	}
	return nats
}

// cutOff closes a connection to NATS. The bus reconnects half a second later.
func cutOff(t *testing.T, nats *server.Server, name string) {
	all, err := nats.Connz(nil)
	if err != nil {
		t.Error(err)
		return
	}
	for _, conn := range all.Conns {
		if conn.Name == name {
			nats.DisconnectClientByID(conn.Cid) //nolint:errcheck // it is gone already
		}
	}
}

// visit opens a session of an identity at a bus. The session stays until it is replaced. visit
// returns nil if the bus does not answer in time; then it is unknown who has the identity.
func (c *takeoverTest) visit(ctx context.Context, id protocol.PeerID) *wire.WebSocket {
	limit, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	bus := rand.N(len(c.buses))
	s, err := wire.Dial(limit, c.buses[bus], nil)
	if err != nil {
		return nil // the bus is frozen
	}
	c.mu.Lock()
	c.visits[id] = append(c.visits[id], connection{time.Now(), bus})
	mine := len(c.visits[id])
	c.mu.Unlock()
	ready := make(chan struct{})
	c.serving.Go(func() {
		c.serve(s, id, ready)
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.visits[id]) == mine { // it has not been replaced
			c.endLocked(id)
		}
	})
	params := fmt.Sprintf(`{"clientId":%q,"subscriptions":[{"topic":%q},{"topic":%q}]}`, id, id, everybody)
	if s.Write(jsonrpc.AppendRequestText(nil, "0", "initialize", params)) == nil {
		s.Flush()
		select {
		case <-ready:
			c.mu.Lock()
			defer c.mu.Unlock()
			if list := c.spans[id]; len(list) == 0 || !list[len(list)-1].to.IsZero() {
				c.spans[id] = append(list, span{from: time.Now()})
			}
			return s
		case <-limit.Done():
		}
	}
	c.leave(s, id)
	return nil
}

func (c *takeoverTest) leave(s *wire.WebSocket, id protocol.PeerID) {
	c.mu.Lock()
	c.endLocked(id)
	c.mu.Unlock()
	s.Close(wire.CloseNormal, "")
}

// endLocked records that an identity may not be connected from now on.
func (c *takeoverTest) endLocked(id protocol.PeerID) {
	if list := c.spans[id]; len(list) > 0 && list[len(list)-1].to.IsZero() {
		list[len(list)-1].to = time.Now()
	}
}

func (c *takeoverTest) reconnectLoop(ctx context.Context, id protocol.PeerID) {
	for ctx.Err() == nil {
		if s := c.visit(ctx, id); s != nil {
			retry.Sleep(ctx, time.Duration(rand.N(8000))*time.Millisecond)
			c.leave(s, id)
		}
		retry.Sleep(ctx, time.Duration(rand.N(1000))*time.Millisecond)
	}
}

// serve answers the messages of a session until it ends.
func (c *takeoverTest) serve(s *wire.WebSocket, id protocol.PeerID, ready chan struct{}) {
	defer s.Close(wire.CloseNormal, "")
	for {
		frame, err := s.Read()
		if err != nil {
			return
		}
		m, err := jsonrpc.Parse(frame)
		if err == nil && m.Kind == jsonrpc.KindResponse {
			close(ready)
		}
		if err != nil || string(m.Method) != protocol.MethodProcessMessage {
			continue
		}
		_, rest, _ := strings.Cut(string(m.Params), `"messageId":"`)
		message, _, _ := strings.Cut(rest, `"`)
		c.mu.Lock()
		if c.handled[message] == nil {
			c.handled[message] = map[protocol.PeerID]int{}
		}
		c.handled[message][id]++
		c.mu.Unlock()
		if s.Write(jsonrpc.AppendResult(nil, m.ID, []byte(`{"processed":true}`))) != nil {
			return
		}
	}
}

// send sends messages to one identity or to all until ctx ends.
func (c *takeoverTest) send(ctx context.Context, id protocol.PeerID, url string) {
	p := peer.New(id, &peer.Options{Buses: []string{url}})
	err := p.RunWith(ctx, func(ctx context.Context) error {
		for ctx.Err() == nil {
			m := p.NewMessage(protocol.TypeAgentEvent, protocol.AgentOnline{})
			s := sent{id: string(m.MessageID), by: id, topic: everybody, at: time.Now()}
			if rand.N(8) > 0 {
				s.topic = protocol.Topic(name(rand.N(identities)))
			}
			var err error
			if s.result, err = p.Send(context.WithoutCancel(ctx), s.topic, m); err != nil {
				continue // the connection ended, so the sender knows that the outcome is unknown
			}
			s.answered = time.Now()
			c.mu.Lock()
			c.sent = append(c.sent, s)
			c.mu.Unlock()
		}
		return nil
	})
	if err != nil {
		c.t.Error(err)
	}
}

// checkAll compares the results with what the sessions received.
func (c *takeoverTest) checkAll() {
	counts := map[string]int{}
	for id, by := range c.handled {
		for peer, times := range by {
			if times > 1 {
				c.t.Errorf("DOUBLED: %s was handled %d times by %s", id, times, peer)
			}
		}
	}
	for _, s := range c.sent {
		reached := 0
		for k := range identities {
			peer := name(k)
			if s.topic != everybody && s.topic != protocol.Topic(peer) {
				continue
			}
			verdict := c.check(s, peer)
			if verdict == "ok" {
				reached++
			}
			if counts[verdict]++; strings.ToUpper(verdict) == verdict {
				c.t.Errorf("%s: %s to %s by %s, %s to %s: %+v; %s", verdict, peer, s.topic, s.by, s.at.Format(clock), s.answered.Format(clock), s.result, c.around(s, peer))
			}
		}
		if reached != s.result.DeliveredTo {
			c.t.Errorf("MISCOUNTED: %d have it of %+v", reached, s)
		}
	}
	fmt.Printf("%d takeovers, %d messages: %v\n", c.taken.Load(), len(c.sent), counts)
}

// around lists the visits of an identity around the time of a message.
func (c *takeoverTest) around(s sent, id protocol.PeerID) string {
	var visits []string
	for _, v := range c.visits[id] {
		if v.at.After(s.at.Add(-known)) && v.at.Before(s.answered.Add(known)) {
			visits = append(visits, v.at.Format(clock)+" at "+busName(v.bus))
		}
	}
	return strings.Join(visits, ", ")
}

// check describes the outcome of a message at one identity, in capitals if it is wrong.
func (c *takeoverTest) check(s sent, id protocol.PeerID) string {
	handled := c.handled[s.id][id] > 0
	i := slices.IndexFunc(s.result.Failures, func(f protocol.Failure) bool { return f.Peer == id })
	switch {
	case i >= 0 && handled && s.result.Failures[i].Written:
		return "handled, answer lost, written"
	case i >= 0 && handled:
		return "FALSELY FAILED"
	case i >= 0 && s.result.Failures[i].Written:
		return "not handled, written"
	case i >= 0:
		return "not handled, not written"
	case handled:
		return "ok"
	case !c.subscribed(s, id):
		return "perhaps not there"
	case s.result.Partial && c.namesMissing(s, id):
		return "at a missing bus"
	}
	return "UNNAMED"
}

// known bounds the time until all buses know who is subscribed, or report that they do not.
const known = 3 * time.Second

// subscribed reports whether an identity was subscribed without a gap, so that the message's bus
// had to know it.
func (c *takeoverTest) subscribed(s sent, id protocol.PeerID) bool {
	return slices.ContainsFunc(c.spans[id], func(x span) bool {
		return x.from.Add(known).Before(s.at) && (x.to.IsZero() || x.to.After(s.answered.Add(time.Second)))
	})
}

// moved bounds the time from the beginning of a visit until all buses know of it: the visit has a
// second to be answered, and the other buses know a second later.
const moved = 2 * time.Second

// namesMissing reports whether a result names the bus of an identity as missing, or says that missing
// buses are unknown. The bus that the identity left counts until all buses know that it moved.
func (c *takeoverTest) namesMissing(s sent, id protocol.PeerID) bool {
	last := 0
	for i, v := range c.visits[id] {
		if v.at.Before(s.at.Add(-moved)) {
			last = i
		}
	}
	return len(s.result.Missing) == 0 || slices.ContainsFunc(c.visits[id][last:], func(v connection) bool {
		return v.at.Before(s.answered) && slices.Contains(s.result.Missing, busName(v.bus))
	})
}
