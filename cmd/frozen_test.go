package cmd_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"hubbub/peers/peer"
	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"
	"hubbub/protocol/retry"
	"hubbub/protocol/wire"

	"github.com/nats-io/nats-server/v2/server"
)

// A contest is identities that are taken over between buses while messages are sent to
// them, and what became of these.
type contest struct {
	t       *testing.T
	buses   []string
	mu      sync.Mutex
	handled map[string]int // how many sessions got each message
	results map[string]protocol.SendResult
	serving sync.WaitGroup
	taken   atomic.Int64
}

// TestTakeoversWhileABusIsFrozen is for `make chaos` and `make test-partition`: it takes
// identities over between three buses, of which one at a time is stopped (SIGSTOP) for up
// to five seconds, as often as HUBBUB_TAKEOVERS says.
func TestTakeoversWhileABusIsFrozen(t *testing.T) {
	count, err := strconv.Atoi(os.Getenv("HUBBUB_TAKEOVERS"))
	if err != nil {
		t.Skip("HUBBUB_TAKEOVERS does not say how often; see make chaos")
	}
	nats, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	go nats.Start()
	defer nats.Shutdown()
	if !nats.ReadyForConnections(patience) {
		t.Fatal("the NATS server does not start")
	}
	c := &contest{t: t, handled: map[string]int{}, results: map[string]protocol.SendResult{}}
	var programs []*process
	for i := range 3 {
		address := freeAddress(t)
		programs = append(programs, start(t, t, "hubbub-bus", nil, "--log-format", "json", "--data", t.TempDir(), "--listen", address,
			"--name", fmt.Sprint("bus", i), "--cluster", nats.ClientURL()))
		c.buses = append(c.buses, "ws://"+address)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var others sync.WaitGroup
	for i, url := range c.buses {
		others.Go(func() { c.send(ctx, protocol.PeerID(fmt.Sprint("cli:sender-", i)), url) })
	}
	var takers sync.WaitGroup
	for k := range identities {
		takers.Go(func() {
			for c.taken.Load() < int64(count) {
				c.takeOver(ctx, k)
			}
		})
	}
	frozen := make(chan struct{})
	others.Go(func() {
		defer close(frozen)
		for ctx.Err() == nil {
			p := programs[rand.N(len(programs))].cmd.Process
			p.Signal(syscall.SIGSTOP) //nolint:errcheck // it runs until the test ends
			retry.Sleep(ctx, time.Duration(rand.N(5000))*time.Millisecond)
			p.Signal(syscall.SIGCONT) //nolint:errcheck // see above
			retry.Sleep(ctx, time.Duration(rand.N(4000))*time.Millisecond)
		}
	})
	takers.Wait()
	stop()
	others.Wait()
	for _, p := range programs {
		p.stop()
	}
	c.serving.Wait()
	c.judge()
}

// identities is how many of them are taken over at the same time.
const identities = 32

func name(k int) string { return fmt.Sprint("agent:x", k) }

// takeOver opens a session of an identity at some bus. It stays until it is replaced.
func (c *contest) takeOver(ctx context.Context, k int) {
	limit, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	s, err := wire.Dial(limit, c.buses[rand.N(len(c.buses))], nil)
	if err != nil {
		return // it is frozen
	}
	ready := make(chan struct{})
	c.serving.Go(func() {
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
			id, _, _ := strings.Cut(rest, `"`)
			c.mu.Lock()
			c.handled[id]++
			c.mu.Unlock()
			if s.Write(jsonrpc.AppendResult(nil, m.ID, []byte(`{"processed":true}`))) != nil {
				return
			}
		}
	})
	params := fmt.Sprintf(`{"clientId":%q,"subscriptions":[{"topic":%q}]}`, name(k), name(k))
	if s.Write(jsonrpc.AppendRequestText(nil, "0", "initialize", params)) != nil {
		return
	}
	s.Flush()
	select {
	case <-ready:
		c.taken.Add(1)
	case <-limit.Done():
		s.Close(wire.CloseNormal, "")
	}
}

// send sends to the identities until ctx ends, one message after another.
func (c *contest) send(ctx context.Context, id protocol.PeerID, url string) {
	p := peer.New(id, &peer.Options{Buses: []string{url}})
	err := p.RunWith(ctx, func(ctx context.Context) error {
		for ctx.Err() == nil {
			m := p.NewMessage(protocol.TypeAgentEvent, protocol.AgentOnline{})
			r, err := p.Send(context.WithoutCancel(ctx), protocol.Topic(name(rand.N(identities))), m)
			if err != nil {
				continue // the connection ended: the sender knows that it knows nothing
			}
			c.mu.Lock()
			c.results[string(m.MessageID)] = r
			c.mu.Unlock()
		}
		return nil
	})
	if err != nil {
		c.t.Error(err)
	}
}

// judge compares what the senders were told with what the sessions got.
func (c *contest) judge() {
	counts := map[string]int{}
	for id, r := range c.results {
		times := c.handled[id]
		verdict := "ok"
		switch {
		case times > 1:
			verdict = "DOUBLED"
		case r.DeliveredTo == 1 && times == 0:
			verdict = "LOST"
		case r.DeliveredTo == 1:
		case len(r.Failures) == 0 && times == 0:
			verdict = "nobody there"
		case len(r.Failures) == 1 && r.Failures[0].Written && times == 1:
			verdict = "handled, answer lost, written"
		case len(r.Failures) == 1 && r.Failures[0].Written:
			verdict = "not handled, written"
		case times == 0:
			verdict = "not handled, not written"
		default:
			verdict = "FALSELY FAILED"
		}
		if counts[verdict]++; strings.ToUpper(verdict) == verdict {
			c.t.Errorf("%s: %s, handled %d times: %+v", verdict, id, times, r)
		}
	}
	fmt.Printf("%d takeovers, %d messages: %v\n", c.taken.Load(), len(c.results), counts)
}
