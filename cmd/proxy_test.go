package cmd_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"hubbub/protocol"

	"github.com/coder/websocket"
)

// A hop is one of the four frames of a message through the bus.
type hop string

const (
	hopSend        hop = "sent"         // sendMessage, to the bus
	hopDeliver     hop = "delivered"    // processMessage, from the bus
	hopAcknowledge hop = "acknowledged" // the receiver's answer
	hopAccept      hop = "accepted"     // the bus's answer to the sender
)

var legs = []hop{hopSend, hopDeliver, hopAcknowledge, hopAccept}

// writer returns the program that writes the frame of a hop.
func (l hop) writer(from, to string) string {
	return map[hop]string{hopSend: from, hopDeliver: "bus", hopAcknowledge: to, hopAccept: "bus"}[l]
}

// A proxy is between the programs and their bus. It can hold a frame, so that a program is killed
// at exactly that step.
type proxy struct {
	bus string
	web *httptest.Server

	mu   sync.Mutex
	next *heldMessage // the frame to hold, or nil
}

// A heldMessage is the frame that a proxy holds or will hold.
type heldMessage struct {
	leg     hop
	kind    protocol.MessageType
	says    []string      // strings in the message, such as a topic
	came    chan struct{} // closed when the proxy holds the frame
	outcome chan bool     // whether the frame is delivered
}

func newProxy(t *testing.T, bus string) *proxy {
	p := &proxy{bus: bus}
	p.web = httptest.NewServer(p)
	t.Cleanup(p.web.Close)
	return p
}

// address returns the address for programs.
func (p *proxy) address() string { return "ws" + strings.TrimPrefix(p.web.URL, "http") }

// hold makes the proxy hold the next frame of a hop of a message that contains all strings.
func (p *proxy) hold(l hop, kind protocol.MessageType, says ...string) *heldMessage {
	h := &heldMessage{leg: l, kind: kind, says: says, came: make(chan struct{}), outcome: make(chan bool, 1)}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = h
	return h
}

// passes reports whether a frame is delivered. It waits while the frame is held.
func (p *proxy) passes(l hop, m *proxiedMessage) bool {
	p.mu.Lock()
	h := p.next
	if h == nil || h.leg != l || h.kind != m.kind || !m.says(h.says) {
		p.mu.Unlock()
		return true
	}
	p.next = nil
	p.mu.Unlock()
	close(h.came)
	return <-h.outcome
}

// A proxiedMessage is a message between its request and its answer.
type proxiedMessage struct {
	kind protocol.MessageType
	raw  string
}

func (m *proxiedMessage) says(all []string) bool {
	return !slices.ContainsFunc(all, func(one string) bool { return !strings.Contains(m.raw, `"`+one+`"`) })
}

// ServeHTTP forwards one connection.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	near, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return
	}
	defer near.CloseNow() //nolint:errcheck // closed below, as a rule
	far, _, err := websocket.Dial(r.Context(), "ws://"+p.bus, nil)
	if err != nil {
		return
	}
	defer far.CloseNow() //nolint:errcheck // as above
	near.SetReadLimit(-1)
	far.SetReadLimit(-1)
	var wg sync.WaitGroup
	c := &proxiedConn{proxy: p, sent: map[string]*proxiedMessage{}, delivered: map[string]*proxiedMessage{}}
	wg.Go(func() { c.pump(r.Context(), near, far, "sendMessage", hopSend, c.sent, hopAcknowledge, c.delivered) })
	wg.Go(func() { c.pump(r.Context(), far, near, "processMessage", hopDeliver, c.delivered, hopAccept, c.sent) })
	wg.Wait()
}

// A proxiedConn is one connection with its open requests by ID.
type proxiedConn struct {
	*proxy
	mu              sync.Mutex
	sent, delivered map[string]*proxiedMessage
}

// pump forwards frames until the connection ends. Requests of a method are one hop; answers to
// the requests of the other side are another.
func (c *proxiedConn) pump(ctx context.Context, from, to *websocket.Conn, method string, asks hop, asked map[string]*proxiedMessage, answers hop, open map[string]*proxiedMessage) {
	for {
		kind, frame, err := from.Read(ctx)
		if err != nil {
			if code := websocket.CloseStatus(err); code > 0 {
				_ = to.Close(code, "") // the other side may have gone
			}
			_ = to.CloseNow()
			return
		}
		if l, m := c.read(frame, method, asks, asked, answers, open); m != nil && !c.passes(l, m) {
			continue
		}
		_ = to.Write(ctx, kind, frame) // the next read fails too
	}
}

// read returns the hop and the message of a frame, or nil.
func (c *proxiedConn) read(frame []byte, method string, asks hop, asked map[string]*proxiedMessage, answers hop, open map[string]*proxiedMessage) (hop, *proxiedMessage) {
	var f struct {
		ID     json.RawMessage
		Method string
		Params struct {
			Payload struct{ Type protocol.MessageType }
		}
	}
	if json.Unmarshal(frame, &f) != nil {
		return "", nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.Method == method {
		m := &proxiedMessage{kind: f.Params.Payload.Type, raw: string(frame)}
		asked[string(f.ID)] = m
		return asks, m
	}
	m := open[string(f.ID)]
	if f.Method != "" || m == nil {
		return "", nil
	}
	delete(open, string(f.ID))
	return answers, m
}
