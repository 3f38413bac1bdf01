package broker

import (
	"fmt"
	"time"

	"hubbub/peers/broker/rules"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/collab"
)

// A tx decides one batch, request by request. It has the state, the caller, the time, and the
// results of the requests. A method checks first and emits events afterwards, so that a refusal
// leaves no event. The exception is a message that is kept although nobody could be woken for it.
type tx struct {
	view
	db            *store.Tx
	opts          *Options
	presence      *presenceTracker
	now           time.Time
	newID         func(prefix string) string            // makes a fresh id
	stored        func(seq int64) (collab.Event, error) // reads the log without this batch
	digest        string                                // of the request
	events        []collab.Event                        // of this batch, not stored yet, oldest first
	sends         []sending                             // to be sent once the events are stored
	spawnRequests []spawnRequest                        // absent agents for which deliveries wait; also sent then
	answers       []answer                              // to the requests; also sent then

	chatEvents int // events of openChat, which stay if the request is refused
}

// A sending is an event for the topic of one peer.
type sending struct {
	to         protocol.PeerID
	event      collab.Event
	deliveryID string // if it is a wake
	again      int64  // the event about its previous sending; 0 if there was none
}

// emit makes an event, applies it to the state and returns it.
func emit[P any](t *tx, kind collab.EventType[P], target string, payload P, metadata any) collab.Event {
	e := collab.Event{Seq: t.seq + 1, At: formatTime(t.now), CollabEvent: protocol.CollabEvent{
		ID:      t.newID("evt_"),
		Type:    kind.Name,
		Source:  string(t.caller.Identity),
		Target:  target,
		Payload: rules.MustEncode(payload),
	}}
	if brokerEvents[kind.Name] {
		e.Source = string(protocol.PeerBroker)
	}
	if metadata != nil {
		e.Metadata = rules.MustEncode(metadata)
	}
	if err := t.apply(e); err != nil {
		rules.Must(&rules.InternalError{Err: err})
	}
	t.events = append(t.events, e)
	return e
}

// brokerEvents are the events whose source is always the broker.
var brokerEvents = map[string]bool{
	collab.EventDelivery.Name:     true,
	collab.EventWoken.Name:        true,
	collab.EventWakeDecided.Name:  true,
	collab.EventOffline.Name:      true,
	collab.EventAgentRetired.Name: true,
	collab.EventClaimOffered.Name: true,
}

// event reads one event of the log, including this batch.
func (t *tx) event(seq int64) collab.Event {
	if n := len(t.events); n > 0 && seq >= t.events[0].Seq {
		return t.events[seq-t.events[0].Seq]
	}
	e, err := t.stored(seq)
	rules.Must(err)
	return e
}

// message reads a message and the metadata of its event.
func (t *tx) message(id string) (collab.Message, collab.PostMetadata) {
	ref, ok := t.messages.find(id)
	if !ok {
		rules.FailNotFound("message", id)
	}
	m, meta, err := readMessage(t.event(ref.Seq))
	if err != nil {
		rules.Must(fmt.Errorf("reading message %s: %w", id, err))
	}
	return m, meta
}

// mustRepeat fails unless the request is a repetition of the one that created the record of
// target.
func (t *tx) mustRepeat(target, what, id string) {
	t.mustBeSameRequest(t.created.get(target), what, id)
}

// mustBeSameRequest is mustRepeat by the digest of the earlier request.
func (t *tx) mustBeSameRequest(digest, what, id string) {
	if digest != t.digest {
		rules.Fail(collab.CodeConflict, "%s %s exists with other content", what, id)
	}
}
