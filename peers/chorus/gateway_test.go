package chorus_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/agent/external"
	"hubbub/peers/chorus"
	"hubbub/peers/peer"
	"hubbub/protocol"

	"github.com/rs/zerolog"
)

// loopback is what tests allow the gateway to reach.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// A fixture is a gateway on a real bus, with everything it logs.
type fixture struct {
	t      *testing.T
	bus    *bustest.Bus
	folder string
	store  *chorus.Store
	url    string
	logs   *lockedBuffer
	stop   func()
}

// start runs a gateway on a bus. Adjust may change its options.
func start(t *testing.T, b *bustest.Bus, folder string, adjust func(*chorus.Options)) *fixture {
	t.Helper()
	store, err := chorus.OpenStore(folder)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &fixture{t: t, bus: b, folder: folder, store: store, url: "http://" + listener.Addr().String(), logs: &lockedBuffer{}}
	log := zerolog.New(r.logs).Level(zerolog.DebugLevel)
	ready := make(chan struct{})
	opts := &chorus.Options{
		Allow: loopback, ComposeWindow: -1, MinBackoff: time.Millisecond, Log: &log,
		Peer: &peer.Options{Buses: []string{b.URL()}}, OnReady: func() { close(ready) }, OpenAgent: openAgent,
	}
	if adjust != nil {
		adjust(opts)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- chorus.New(store, listener, opts).Run(ctx) }()
	var once sync.Once
	r.stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("the gateway ended: %v", err)
			}
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(r.stop)
	select {
	case <-ready:
	case err := <-done:
		done <- err
		t.Fatalf("the gateway ended: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("the gateway is not ready")
	}
	return r
}

// openAgent runs an external agent as hubbub-chorus does.
func openAgent(s *chorus.AgentSpec) (chorus.Agent, error) {
	return external.Open((*external.Spec)(s))
}

// startNew runs a gateway on a bus of its own, in parallel with other tests.
func startNew(t *testing.T, adjust func(*chorus.Options)) *fixture {
	t.Helper()
	t.Parallel()
	return start(t, bustest.Start(t, nil), filepath.Join(t.TempDir(), "chorus"), adjust)
}

// inbox makes an inbox and returns its connection string.
func (r *fixture) inbox(name chorus.InboxName) string {
	r.t.Helper()
	secret, err := r.store.CreateInbox(context.Background(), name)
	if err != nil {
		r.t.Fatal(err)
	}
	return chorus.ConnectionString(r.url, secret)
}

// A lockedBuffer is a buffer for several writers.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// A call is one request that a receiver got.
type call struct {
	method, uri string
	header      http.Header
	body        map[string]any
	raw         string
}

// A receiver is an HTTP server outside: a service's callback, or an external
// agent. It answers 200 unless respond says otherwise.
type receiver struct {
	t     *testing.T
	url   string
	calls chan call

	mu      sync.Mutex
	respond func(w http.ResponseWriter, r *http.Request, n int) bool
	n       int
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{t: t, calls: make(chan call, 1000)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		raw, _ := io.ReadAll(req.Body)
		c := call{method: req.Method, uri: req.RequestURI, header: req.Header.Clone(), raw: string(raw)}
		if err := json.Unmarshal(raw, &c.body); err != nil {
			t.Errorf("a body is not a JSON object: %q", raw)
		}
		r.mu.Lock()
		n, respond := r.n, r.respond
		r.n++
		r.mu.Unlock()
		r.calls <- c
		if respond != nil && respond(w, req, n) {
			return
		}
		w.WriteHeader(http.StatusOK)
	}))
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

func (r *receiver) responding(f func(w http.ResponseWriter, req *http.Request, n int) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.respond = f
}

// next waits for a call.
func (r *receiver) next() call {
	r.t.Helper()
	select {
	case c := <-r.calls:
		return c
	case <-time.After(time.Minute):
		r.t.Fatal("no call came")
		return call{}
	}
}

// types reads n events and returns their types, statuses of lifecycle events
// included.
func (r *receiver) types(n int) string {
	r.t.Helper()
	var list []string
	for range n {
		list = append(list, r.kind())
	}
	return strings.Join(list, " ")
}

// kind reads an event and returns its type, see call.kind.
func (r *receiver) kind() string {
	r.t.Helper()
	c := r.next()
	return c.kind()
}

// kind is an event's type, and the status of a lifecycle event.
func (c *call) kind() string {
	kind, _ := c.body["type"].(string)
	if kind == "lifecycle" {
		kind += ":" + c.body["status"].(string)
	}
	return kind
}

func (r *receiver) none() {
	r.t.Helper()
	select {
	case c := <-r.calls:
		r.t.Errorf("an unexpected call came: %s", c.raw)
	default:
	}
}

// post POSTs JSON and returns status and body.
func post(t *testing.T, url string, body any, header ...string) (int, string) {
	t.Helper()
	raw, ok := body.(string)
	if !ok {
		b, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		raw = string(b)
	}
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(answer)
}

// nextOutcome returns the delivery statuses of a reply up to the final one, with its reason.
func nextOutcome(t *testing.T, agent *bustest.Scripted) (statuses string) {
	t.Helper()
	for {
		var s protocol.DeliveryStatus
		if err := agent.NextOf(t, protocol.TypeDeliveryStatus).Decode(&s); err != nil {
			t.Fatal(err)
		}
		if statuses += s.Status + " "; s.Status != protocol.StatusAccepted {
			return statuses + s.Reason
		}
	}
}

// posted is the body of a POST to an inbox.
func posted(channel, id, content, callback string) map[string]any {
	return map[string]any{
		"channel":  map[string]any{"id": channel},
		"message":  map[string]any{"id": id, "sender": "alice", "content": content},
		"callback": callback,
	}
}

// spawner answers spawn requests the way the system agent does, assigning one
// agent to every channel. On a bus with credentials it shows a token.
func spawner(t *testing.T, b *bustest.Bus, agent protocol.PeerID, token ...string) {
	t.Helper()
	p := peer.New(protocol.PeerSystem, &peer.Options{Buses: []string{b.URL()}, Token: strings.Join(token, "")})
	p.Handle(protocol.TypeSpawnRequest, func(_ context.Context, d *peer.Delivery) error {
		var req protocol.SpawnRequest
		if err := d.Decode(&req); err != nil {
			return err
		}
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			_, _ = p.Send(ctx, d.Message.From.Topic(), p.NewMessage(protocol.TypeSpawnResult,
				protocol.SpawnResult{RequestID: req.RequestID, Topic: req.Topic, Agent: agent, Status: protocol.SpawnSpawned}))
			_, _ = p.Send(ctx, req.Topic, p.NewMessage(protocol.TypeRouteAssigned,
				protocol.RouteAssigned{Topic: req.Topic, Agent: agent, RequestID: req.RequestID}))
		}()
		return nil
	})
	run(t, p, "system:*")
}

// run runs a peer until the test ends.
func run(t *testing.T, p *peer.Peer, pattern protocol.Pattern) {
	t.Helper()
	if err := p.Subscribe(context.Background(), pattern); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = p.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	wait, end := context.WithTimeout(context.Background(), time.Minute)
	defer end()
	if err := p.Ready(wait); err != nil {
		t.Fatal(err)
	}
}

// A clock is moved by the test, and by a second every ten seconds: on a busy machine an answer may
// take seconds. It does not stand still, since the gateway waits by it.
type clock struct {
	start time.Time
	mu    sync.Mutex // guards moved
	moved time.Duration
}

func newClock() *clock { return &clock{start: time.Now()} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.start.Add(time.Since(c.start)/10 + c.moved)
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.moved += d
}

// waitFor polls a condition that nothing announces.
func waitFor(t *testing.T, holds func() bool) {
	t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for !holds() {
		select {
		case <-deadline.C:
			t.Fatal("it does not become true")
		case <-ticker.C:
		}
	}
}

func prefixesOf(texts ...string) []netip.Prefix {
	var list []netip.Prefix
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}
