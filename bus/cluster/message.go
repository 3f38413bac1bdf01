package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
)

// The kinds of message between buses.
const (
	kindHello   = "hello"   // to all: I am here, and this is the number of my last change
	kindBye     = "bye"     // to all: I am leaving
	kindChange  = "change"  // to all: one change of my peers
	kindSync    = "sync"    // to one: tell me all your peers
	kindMembers = "members" // the answer
	kindForward = "forward" // to one: a message for your peers
	kindOutcome = "outcome" // the answer
	kindAsk     = "ask"     // to all: may I deliver this message with once?
	kindVote    = "vote"    // the answer
	kindFirst   = "first"   // to all: the outcome of a message with once
)

// A header is the first line of every message.
type header struct {
	Kind     string `json:"k"`
	From     string `json:"f"`           // name of the bus
	Instance string `json:"i"`           // which run of it
	Epoch    uint64 `json:"e,omitempty"` // hello, members: grows when messages may have been lost
	Seq      uint64 `json:"s,omitempty"` // number of the change, or of the last one
	Beat     uint64 `json:"b,omitempty"` // hello, members: number of this sign of life; forward: of the other bus's last one
	ID       uint64 `json:"id,omitempty"`
	Part     int    `json:"p,omitempty"` // from 0
	Parts    int    `json:"n,omitempty"` // 0 for a message in one part
}

var errNoHeader = errors.New("a message between buses has no header")

// parse is the inverse of join: it reads the first line and returns the rest.
func parse(data []byte, head any) (body []byte, err error) {
	line, body, ok := bytes.Cut(data, []byte("\n"))
	if !ok {
		return nil, errNoHeader
	}
	return body, json.Unmarshal(line, head)
}

// headerRoom is how many bytes of a NATS payload are reserved for the header.
const headerRoom = 2 << 10

// split encodes a message as NATS payloads of at most most bytes each.
func split(h header, body []byte, most int) [][]byte {
	room := max(most-headerRoom, 1)
	if len(body) <= room {
		return [][]byte{join(h, body)}
	}
	h.Parts = (len(body) + room - 1) / room
	parts := make([][]byte, 0, h.Parts)
	for h.Part = 0; h.Part < h.Parts; h.Part++ {
		n := min(room, len(body))
		parts = append(parts, join(h, body[:n]))
		body = body[n:]
	}
	return parts
}

// join writes a message: its head as one line of JSON, and its body.
func join(head any, body []byte) []byte { return append(append(encode(head), '\n'), body...) }

// encode writes a value of this package, each of which can be written.
func encode(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("a %T cannot be marshalled: %v", v, err))
	}
	return raw
}

// decode reads what another bus sent, and reports whether it could.
func (c *Cluster) decode(from, what string, body []byte, into any) bool {
	return c.understood(from, what, json.Unmarshal(body, into))
}

// understood reports whether something that another bus sent could be read.
func (c *Cluster) understood(from, what string, err error) bool {
	if err != nil {
		c.options.Log.Warn().Err(err).Str("bus", from).Msg("cluster: " + what + " from another bus cannot be read; ignored")
	}
	return err == nil
}

type partKey struct {
	from, instance, kind string
	id                   uint64
}

// A partial is a message whose last parts have not arrived yet.
type partial struct {
	body  []byte
	next  int
	since time.Time
}

// maxPartial bounds the size of a message that arrives in parts, in bytes, and
// maxPartials the number of incomplete messages.
const (
	maxPartial  = 256 << 20
	maxPartials = 1024
)

var errTwin = errors.New("another bus has the same name; give each its own --name")

// receive handles one NATS payload.
func (c *Cluster) receive(m *nats.Msg) {
	var h header
	body, err := parse(m.Data, &h)
	if err != nil {
		c.options.Log.Warn().Err(err).Msg("cluster: message from another bus cannot be read; ignored")
		return
	}
	if h.From == c.name {
		if h.Instance != c.instance {
			c.twin.note(c.options.Log, zerolog.ErrorLevel, errTwin, time.Now())
		}
		return
	}
	if h.Parts > 0 {
		var whole bool
		if body, whole = c.gather(h, body); !whole {
			return
		}
	}
	c.handle(h, body)
}

// gather collects the parts of a message, which arrive in order. It returns true with
// the last one.
func (c *Cluster) gather(h header, body []byte) ([]byte, bool) {
	key := partKey{h.From, h.Instance, h.Kind, h.ID}
	p := c.parts[key]
	if h.Part == 0 && len(c.parts) < maxPartials {
		p = &partial{since: time.Now()}
		c.parts[key] = p
	}
	if p == nil || p.next != h.Part || len(p.body)+len(body) > maxPartial {
		delete(c.parts, key)
		return nil, false
	}
	p.body, p.next, p.since = append(p.body, body...), p.next+1, time.Now()
	if p.next < h.Parts {
		return nil, false
	}
	delete(c.parts, key)
	return p.body, true
}

func (c *Cluster) handle(h header, body []byte) {
	if h.Kind == kindBye {
		if m := c.buses[h.From]; m != nil && m.instance == h.Instance {
			c.forget(h.From, "has left")
		}
		return
	}
	m := c.meet(h)
	was := m.stale
	switch h.Kind {
	case kindHello:
		c.takeHello(m, h, body)
	case kindChange:
		c.takeChange(m, h, body)
	case kindSync:
		c.sendMembers(h)
	case kindMembers:
		c.takeMembers(m, h, body)
	case kindForward:
		c.takeForward(h, body)
	case kindOutcome:
		c.takeOutcome(h, body)
	case kindAsk:
		c.takeAsk(h, body)
	case kindVote:
		c.takeVote(h, body)
	case kindFirst:
		c.takeFirst(h, body)
	}
	if h.Kind == kindHello || m.stale != was {
		c.look()
	}
}
