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
	kindHello   = "hello"   // to all: a heartbeat, with the number of the last change
	kindBye     = "bye"     // to all: the sender leaves
	kindChange  = "change"  // to all: one change of the sender's peers
	kindSync    = "sync"    // to one: a request for all its peers
	kindMembers = "members" // the answer to sync
	kindForward = "forward" // to one: a message for its peers
	kindOutcome = "outcome" // the answer to forward
	kindAsk     = "ask"     // to all: may the sender deliver this message with once?
	kindReply   = "vote"    // the answer to ask
	kindShared  = "first"   // to all: the outcome of a message with once
)

// A header is the first line of every message.
type header struct {
	Kind     string `json:"k"`
	From     string `json:"f"`           // name of the bus
	Instance string `json:"i"`           // identifies the run of the bus
	Epoch    uint64 `json:"e,omitempty"` // hello, members: grows when messages may have been lost
	Seq      uint64 `json:"s,omitempty"` // number of this change, or of the last one
	// hello, members: number of this heartbeat; forward: of the receiver's last one
	Beat  uint64 `json:"b,omitempty"`
	ID    uint64 `json:"id,omitempty"`
	Part  int    `json:"p,omitempty"` // from 0
	Parts int    `json:"n,omitempty"` // 0 for a message in one part
}

var errNoHeader = errors.New("a message between buses has no header")

// parse is the inverse of join. It unmarshals the first line and returns the rest.
func parse(data []byte, head any) (body []byte, err error) {
	line, body, ok := bytes.Cut(data, []byte("\n"))
	if !ok {
		return nil, errNoHeader
	}
	return body, json.Unmarshal(line, head)
}

// headerRoom is how many bytes of a NATS payload are reserved for the header.
const headerRoom = 2 << 10

// split encodes a message as NATS payloads of at most limit bytes each.
func split(h header, body []byte, limit int) [][]byte {
	room := max(limit-headerRoom, 1)
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

// join encodes a message: its head as one line of JSON, and its body.
func join(head any, body []byte) []byte { return append(append(encode(head), '\n'), body...) }

// encode marshals a value of this package. It cannot fail.
func encode(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("a %T cannot be marshalled: %v", v, err))
	}
	return raw
}

// decode unmarshals a message from another bus, and reports whether it succeeded.
func (c *Cluster) decode(from, what string, body []byte, into any) bool {
	return c.readable(from, what, json.Unmarshal(body, into))
}

// readable reports whether err is nil. Otherwise it logs that a message from another bus cannot
// be read.
func (c *Cluster) readable(from, what string, err error) bool {
	if err != nil {
		c.options.Log.Warn().Err(err).Str("bus", from).
			Msg("cluster: ignored " + what + " from another bus, which cannot be read")
	}
	return err == nil
}

var errNameConflict = errors.New("another bus has the same name; give each its own --name")

// receive handles one NATS payload.
func (c *Cluster) receive(m *nats.Msg) {
	var h header
	body, err := parse(m.Data, &h)
	if err != nil {
		c.options.Log.Warn().Err(err).Msg("cluster: ignored a message from another bus, which cannot be read")
		return
	}
	if h.From == c.name {
		if h.Instance != c.instance {
			c.nameFault.report(c.options.Log, zerolog.ErrorLevel, errNameConflict, time.Now())
		}
		return
	}
	if h.Parts > 0 {
		var whole bool
		if body, whole = c.reassembler.add(h, body); !whole {
			return
		}
	}
	c.handle(h, body)
}

func (c *Cluster) handle(h header, body []byte) {
	if h.Kind == kindBye {
		if m := c.members.buses[h.From]; m != nil && m.instance == h.Instance {
			c.removeBus(h.From, "has left")
		}
		return
	}
	m := c.ensureMember(h)
	was := m.stale
	switch h.Kind {
	case kindHello:
		c.handleHello(m, h, body)
	case kindChange:
		c.handleChange(m, h, body)
	case kindSync:
		c.sendMembers(h)
	case kindMembers:
		c.handleMembers(m, h, body)
	case kindForward:
		c.handleForward(h, body)
	case kindOutcome:
		c.handleOutcome(h, body)
	case kindAsk:
		c.handleAsk(h, body)
	case kindReply:
		c.handleReply(h, body)
	case kindShared:
		c.handleSharedOutcome(h, body)
	}
	if h.Kind == kindHello || m.stale != was {
		c.updateView()
	}
}
