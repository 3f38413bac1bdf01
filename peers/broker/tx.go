package broker

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"hubbub/protocol"
	"hubbub/protocol/collab"
)

// A tx decides one batch, one request after the other: it has the state, the caller,
// the time, and what comes of the requests. A method checks first and emits
// afterwards, so that a refusal leaves no event behind (except if a message is kept
// although nobody could be woken for it).
type tx struct {
	*state
	opts    *Options
	caller  Caller
	now     time.Time
	mint    func(prefix string) string            // a fresh id
	stored  func(seq int64) (collab.Event, error) // reads the log, without this batch
	digest  string                                // of the request
	events  []collab.Event                        // of this batch that are not stored yet, oldest first
	sends   []sending                             // what is to be sent once they are
	answers []answer                              // to the requests, to be sent likewise
	failed  error                                 // an event that could not be made: a mistake of the program
}

// A sending is a fact that goes to somebody's own topic.
type sending struct {
	to         protocol.PeerID
	event      collab.Event
	deliveryID string // of the wake, if it is one
	again      int64  // the event that says that it was sent before; 0 if it was not
}

// emit makes an event, applies it to the state and returns it.
func emit[P any](t *tx, kind collab.EventType[P], target string, payload P, metadata any) collab.Event {
	e := collab.Event{
		Seq: t.seq + 1, ID: t.mint("evt_"), Type: kind.Name, Source: string(t.caller.Identity), Target: target,
		Payload: t.encode(payload), At: stamp(t.now),
	}
	if brokersOwn[kind.Name] {
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

// brokersOwn are the events whose source is the broker, whoever asked.
var brokersOwn = map[string]bool{
	collab.EventDelivery.Name: true, collab.EventWoken.Name: true, collab.EventWakeDecided.Name: true,
	collab.EventOffline.Name: true, collab.EventAgentRetired.Name: true, collab.EventClaimOffered.Name: true,
}

func (t *tx) encode(v any) json.RawMessage {
	raw, err := collab.Encode(v)
	if err != nil && t.failed == nil {
		t.failed = err
	}
	return raw
}

// event reads one event of the log, this batch included.
func (t *tx) event(seq int64) (collab.Event, error) {
	if n := len(t.events); n > 0 && seq >= t.events[0].Seq {
		return t.events[seq-t.events[0].Seq], nil
	}
	return t.stored(seq)
}

// message reads a message and the metadata of its event.
func (t *tx) message(id string) (m collab.Message, meta collab.PostMetadata, err error) {
	ref, ok := t.messages[id]
	if !ok {
		return m, meta, notFound("message", id)
	}
	e, err := t.event(ref.seq)
	if err != nil {
		return m, meta, err
	}
	if err := errors.Join(json.Unmarshal(e.Payload, &m), json.Unmarshal(e.Metadata, &meta)); err != nil {
		return m, meta, fmt.Errorf("reading message %s: %w", id, err)
	}
	return m, meta, nil
}

// madeBefore returns nil if the request repeats the one that made the record of
// target, and a conflict if a different request made it.
func (t *tx) madeBefore(target, what, id string) error {
	if t.created[target] == t.digest {
		return nil
	}
	return collab.Refuse(collab.CodeConflict, "%s %s exists with other content", what, id)
}
