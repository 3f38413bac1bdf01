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

// A hop is one of the four frames of a message's way through the bus.
type hop string

const (
	legSend        hop = "sent"         // sendMessage, to the bus
	legDeliver     hop = "delivered"    // processMessage, from the bus
	legAcknowledge hop = "acknowledged" // the answer of the one who got it
	legAccept      hop = "accepted"     // the bus's answer to the sender
)

var legs = []hop{legSend, legDeliver, legAcknowledge, legAccept}

// writer returns who writes the frame of a leg of a message.
func (l hop) writer(from, to string) string {
	return map[hop]string{legSend: from, legDeliver: "bus", legAcknowledge: to, legAccept: "bus"}[l]
}

// A proxy stands between the programs and their bus. It passes every frame on,
// and can hold one, so that a program is killed at exactly that step.
type proxy struct {
	bus string
	web *httptest.Server

	mu   sync.Mutex
	next *heldMessage // the frame to hold, nil for none
}

// A heldMessage is the frame that a tap holds, or shall hold when it comes.
type heldMessage struct {
	leg     hop
	kind    protocol.MessageType
	says    []string      // strings that the message has, such as a topic
	came    chan struct{} // closed when the tap holds it
	outcome chan bool     // whether it goes on
}

func newProxy(t *testing.T, bus string) *proxy {
	p := &proxy{bus: bus}
	p.web = httptest.NewServer(p)
	t.Cleanup(p.web.Close)
	return p
}

// address is where programs find the bus.
func (p *proxy) address() string { return "ws" + strings.TrimPrefix(p.web.URL, "http") }

// hold makes the tap hold the next frame of a leg of a message with some strings.
func (p *proxy) hold(l hop, kind protocol.MessageType, says ...string) *heldMessage {
	h := &heldMessage{leg: l, kind: kind, says: says, came: make(chan struct{}), outcome: make(chan bool, 1)}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = h
	return h
}

// passes reports whether a frame goes on; it waits while the frame is held.
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

// A proxiedMessage is a message on one connection, between its request and its answer.
type proxiedMessage struct {
	kind protocol.MessageType
	raw  string
}

func (m *proxiedMessage) says(all []string) bool {
	return !slices.ContainsFunc(all, func(one string) bool { return !strings.Contains(m.raw, `"`+one+`"`) })
}

// ServeHTTP passes one connection on.
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
	wg.Go(func() { c.pump(r.Context(), near, far, "sendMessage", legSend, c.sent, legAcknowledge, c.delivered) })
	wg.Go(func() { c.pump(r.Context(), far, near, "processMessage", legDeliver, c.delivered, legAccept, c.sent) })
	wg.Wait()
}

// A proxiedConn is one connection with its open requests, by id.
type proxiedConn struct {
	*proxy
	mu              sync.Mutex
	sent, delivered map[string]*proxiedMessage
}

// pump passes frames on until the connection ends: requests of a method are one
// leg, answers to the requests of the other side are another.
func (c *proxiedConn) pump(ctx context.Context, from, to *websocket.Conn, method string, asks hop, asked map[string]*proxiedMessage, answers hop, open map[string]*proxiedMessage) {
	for {
		kind, frame, err := from.Read(ctx)
		if err != nil {
			if code := websocket.CloseStatus(err); code > 0 {
				_ = to.Close(code, "") // the other side may be gone
			}
			_ = to.CloseNow()
			return
		}
		if l, m := c.read(frame, method, asks, asked, answers, open); m != nil && !c.passes(l, m) {
			continue
		}
		_ = to.Write(ctx, kind, frame) // the next read tells
	}
}

// read says which leg of which message a frame is; nil for any other frame.
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
