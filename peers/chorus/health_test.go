package chorus

import (
	"fmt"
	"testing"

	"hubbub/peers/outbox"
	"hubbub/protocol/chorus"
)

// TestDeliveryHealth_IsBounded checks that many channels with dead callbacks do not use more and
// more memory.
func TestDeliveryHealth_IsBounded(t *testing.T) {
	all := newDeliveryHealth()
	report, end := &pendingEvent{Inbound: 7, Event: chorus.Event{Type: chorus.EventStatus}}, &pendingEvent{Inbound: 7, Event: chorus.Event{Type: chorus.EventLifecycle}}
	for i := range 2*maxUnhealthy + 1 {
		channel := fmt.Sprintf("chorus:inbox.%d", i)
		all.record(outbox.Item{Destination: channel, Body: []byte(`{"inbound":7}`)}, outbox.StateUnknown)
		if why := all.skipReason(channel, report); why != errUnresponsive {
			t.Fatalf("channel %d: %v", i, why)
		}
		all.disableLifecycle(channel)
		if why := all.skipReason(channel, end); why != errNoLifecycle {
			t.Fatalf("channel %d: %v", i, why)
		}
		if n := max(all.unresponsive.Len(), all.noLifecycle.Len()); n > maxUnhealthy {
			t.Fatalf("%d channels are remembered; at most %d may be", n, maxUnhealthy)
		}
	}
}
