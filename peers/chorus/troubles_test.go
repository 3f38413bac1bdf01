package chorus

import (
	"fmt"
	"testing"

	"hubbub/peers/outbox"
)

// TestTroublesAreBounded: each channel whose callback is dead for good is
// remembered, and services make channels as they like.
func TestTroublesAreBounded(t *testing.T) {
	all := troubles{ofChannel: map[string]trouble{}}
	for i := range 2*maxTroubles + 1 {
		channel := fmt.Sprintf("chorus:inbox.%d", i)
		all.note(outbox.Item{Destination: channel, Body: []byte(`{"inbound":7}`)}, outbox.StateUnknown)
		if last, ok := all.of(channel, 7); !ok || !last.silent {
			t.Fatalf("channel %d: %+v, %t", i, last, ok)
		}
		if n := len(all.ofChannel); n > maxTroubles {
			t.Fatalf("%d channels are remembered; at most %d may be", n, maxTroubles)
		}
	}
}
