package chorus

import (
	"encoding/json"
	"errors"

	"hubbub/peers/outbox"
	"hubbub/protocol/chorus"

	lru "github.com/hashicorp/golang-lru/v2"
)

// maxUnhealthy is how many channels deliveryHealth keeps of each kind.
const maxUnhealthy = 1000

// deliveryHealth holds the channels whose callbacks did not answer, and those whose service does
// not accept lifecycle events. The events of a channel are sent one after another, so further
// reports would delay the others. It is lost on a restart and determined again.
type deliveryHealth struct {
	unresponsive *lru.Cache[string, int64]    // channel -> the message whose callback did not answer the last event
	noLifecycle  *lru.Cache[string, struct{}] // channels
}

func newDeliveryHealth() deliveryHealth {
	return deliveryHealth{
		unresponsive: newCache[string, int64](maxUnhealthy),
		noLifecycle:  newCache[string, struct{}](maxUnhealthy),
	}
}

// newCache makes a cache of a positive size.
func newCache[K comparable, V any](size int) *lru.Cache[K, V] {
	cache, err := lru.New[K, V](size)
	if err != nil {
		panic(err)
	}
	return cache
}

// Reasons for not sending an event.
var (
	errUnresponsive = errors.New("its callback did not answer the previous event")
	errNoLifecycle  = errors.New("the service does not accept lifecycle events")
)

// skipReason returns why an event is not sent, or nil.
func (t *deliveryHealth) skipReason(channel string, p *pendingEvent) error {
	if p.Event.Type == chorus.EventLifecycle {
		if t.noLifecycle.Contains(channel) {
			return errNoLifecycle
		}
		return nil
	}
	if inbound, found := t.unresponsive.Get(channel); found && p.isReport() && inbound == p.Inbound {
		return errUnresponsive
	}
	return nil
}

// record records the outcome of an event.
func (t *deliveryHealth) record(item outbox.Item, outcome outbox.State) {
	var p pendingEvent
	if json.Unmarshal(item.Body, &p) != nil {
		return
	}
	switch outcome {
	case outbox.StateSent, outbox.StateDead: // the callback answers
		t.unresponsive.Remove(item.Destination)
	case outbox.StateUnknown:
		t.unresponsive.Add(item.Destination, p.Inbound)
	}
}

// disableLifecycle records that a channel's service does not accept lifecycle events.
func (t *deliveryHealth) disableLifecycle(channel string) { t.noLifecycle.Add(channel, struct{}{}) }
