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

// A leg is one of the four frames of a message's way through the bus.
type leg string

const (
	legSend        leg = "sent"         // sendMessage, to the bus
	legDeliver     leg = "delivered"    // processMessage, from the bus
	legAcknowledge leg = "acknowledged" // the answer of the one who got it
	legAccept      leg = "accepted"     // the bus's answer to the sender
)

var legs = []leg{legSend, legDeliver, legAcknowledge, legAccept}

// writer returns who writes the frame of a leg of a message.
func (l leg) writer(from, to string) string {
	return map[leg]string{legSend: from, legDeliver: "bus", legAcknowledge: to, legAccept: "bus"}[l]
}

// A tap stands between the programs and their bus. It passes every frame on,
// and can hold one, so that a program is killed at exactly that step.
type tap struct {
	bus string
	web *httptest.Server

	mu   sync.Mutex
	next *held // the frame to hold, nil for none
}

// A held is the frame that a tap holds, or shall hold when it comes.
type held struct {
	leg     leg
	kind    protocol.MessageType
	says    []string      // strings that the message has, such as a topic
	came    chan struct{} // closed when the tap holds it
	outcome chan bool     // whether it goes on
}

func newTap(t *testing.T, bus string) *tap {
	p := &tap{bus: bus}
	p.web = httptest.NewServer(p)
	t.Cleanup(p.web.Close)
	return p
}

// address is where programs find the bus.
func (p *tap) address() string { return "ws" + strings.TrimPrefix(p.web.URL, "http") }

// hold makes the tap hold the next frame of a leg of a message with some strings.
func (p *tap) hold(l leg, kind protocol.MessageType, says ...string) *held {
	h := &held{leg: l, kind: kind, says: says, came: make(chan struct{}), outcome: make(chan bool, 1)}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = h
	return h
}

// passes reports whether a frame goes on; it waits while the frame is held.
func (p *tap) passes(l leg, m *passing) bool {
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

// A passing is a message on one connection, between its request and its answer.
type passing struct {
	kind protocol.MessageType
	raw  string
}

func (m *passing) says(all []string) bool {
	return !slices.ContainsFunc(all, func(one string) bool { return !strings.Contains(m.raw, `"`+one+`"`) })
}

// ServeHTTP passes one connection on.
func (p *tap) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
	c := &tapped{tap: p, sent: map[string]*passing{}, delivered: map[string]*passing{}}
	wg.Go(func() { c.pump(r.Context(), near, far, "sendMessage", legSend, c.sent, legAcknowledge, c.delivered) })
	wg.Go(func() { c.pump(r.Context(), far, near, "processMessage", legDeliver, c.delivered, legAccept, c.sent) })
	wg.Wait()
}

// A tapped is one connection with its open requests, by id.
type tapped struct {
	*tap
	mu              sync.Mutex
	sent, delivered map[string]*passing
}

// pump passes frames on until the connection ends: requests of a method are one
// leg, answers to the requests of the other side are another.
func (c *tapped) pump(ctx context.Context, from, to *websocket.Conn, method string, asks leg, asked map[string]*passing, answers leg, open map[string]*passing) {
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
func (c *tapped) read(frame []byte, method string, asks leg, asked map[string]*passing, answers leg, open map[string]*passing) (leg, *passing) {
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
		m := &passing{kind: f.Params.Payload.Type, raw: string(frame)}
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
