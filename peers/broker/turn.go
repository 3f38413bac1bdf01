package broker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"hubbub/protocol"
)

// A turn is one request being decided: the state, who asks, the time, and what
// comes of it. Methods check first and emit afterwards, so that a refusal leaves
// no event behind (except where a message is kept although nobody could be
// woken for it).
type turn struct {
	*state
	limits
	caller Caller
	now    time.Time
	mint   func(prefix string) string     // a fresh id
	stored func(seq int64) (Event, error) // reads the log, without this batch
	digest string                         // of the request
	events []Event                        // of this batch that are not stored yet, oldest first
	sends  []sending                      // what is to be sent once they are
	failed error                          // an event that could not be made: a mistake of the program
}

// limits are the settings on which decisions depend.
type limits struct {
	endpointTimeout time.Duration
	staleAfter      time.Duration
	retireAfter     time.Duration
}

// A sending is a fact that goes to somebody's own topic.
type sending struct {
	to         protocol.PeerID
	event      Event
	deliveryID string // of the wake, if it is one
	again      int64  // not zero when it was sent before: the event that says so
}

// emit makes an event, applies it to the state and returns it.
func (t *turn) emit(kind, target string, payload, metadata any) Event {
	e := Event{
		Seq: t.seq + 1, ID: t.mint("evt_"), Type: kind, Source: string(t.caller.Identity), Target: target,
		Payload: t.encode(payload), At: stamp(t.now),
	}
	if brokersOwn[kind] {
		e.Source = string(protocol.PeerBroker)
	}
	if metadata != nil {
		e.Metadata = t.encode(metadata)
	}
	if t.failed != nil {
		return e
	}
	if t.failed = t.apply(e); t.failed == nil {
		t.events = append(t.events, e)
	}
	return e
}

// brokersOwn are the facts that the broker alone decides, whoever asked.
var brokersOwn = map[string]bool{
	EventDelivery: true, EventWoken: true, EventWakeDecided: true, EventOffline: true, EventAgentRetired: true, EventClaimOffered: true,
}

func (t *turn) encode(v any) json.RawMessage {
	raw, err := encode(v)
	if err != nil && t.failed == nil {
		t.failed = err
	}
	return raw
}

// encode marshals without escaping <, > and &: texts are not for web pages.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encoding a %T: %w", v, err)
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// event reads one event of the log, this batch included.
func (t *turn) event(seq int64) (Event, error) {
	if n := len(t.events); n > 0 && seq >= t.events[0].Seq {
		return t.events[seq-t.events[0].Seq], nil
	}
	return t.stored(seq)
}

// message reads a message and the metadata of its event.
func (t *turn) message(id string) (Message, postMetadata, error) {
	var m Message
	var meta postMetadata
	ref, ok := t.messages[id]
	if !ok {
		return m, meta, notFound("message", id)
	}
	e, err := t.event(ref.seq)
	if err != nil {
		return m, meta, err
	}
	if err := json.Unmarshal(e.Payload, &m); err != nil {
		return m, meta, fmt.Errorf("reading message %s: %w", id, err)
	}
	if err := json.Unmarshal(e.Metadata, &meta); err != nil {
		return m, meta, fmt.Errorf("reading message %s: %w", id, err)
	}
	return m, meta, nil
}
