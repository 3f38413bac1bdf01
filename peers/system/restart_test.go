package system_test

import (
	"testing"
	"testing/synctest"
	"time"

	"hubbub/peers/system"
	"hubbub/protocol"
	"hubbub/protocol/timetest"
)

// TestSpawn_WaitsForTheNextInstance checks that no announcement names an instance that has ended.
// Otherwise a bridge would send messages that nobody receives, and back off.
func TestSpawn_WaitsForTheNextInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t, &system.Options{MinBackoff: 10 * time.Second})
		bridge := h.bus.Join(t, "tg:bot", "tg:*")
		ask(t, bridge, "tg:1", protocol.SpawnRequest{RequestID: "first"})
		result(t, bridge)
		route(t, bridge)
		settle()
		h.launcher.actor("tg-1").end(&system.Exit{Reason: "signal: killed"})
		settle()
		ask(t, bridge, "tg:1", protocol.SpawnRequest{RequestID: "while it rests"})
		timetest.Advance(9 * time.Second)
		if n := bridge.Pending(); n != 0 {
			t.Fatalf("%d answers while the agent is not there", n)
		}
		timetest.Advance(12 * time.Second)
		if n := bridge.Pending(); n != 2 {
			t.Fatalf("%d answers when the agent is back", n)
		}
		if r, _ := result(t, bridge); r.RequestID != "while it rests" || r.Status != protocol.SpawnSpawned {
			t.Errorf("%+v", r)
		}
		if r := route(t, bridge); r.RequestID != "while it rests" || r.Agent != "agent:tg-1" {
			t.Errorf("%+v", r)
		}
	})
}

// settle lets everything happen that is due within a moment of the bubble's clock.
func settle() { timetest.Advance(50 * time.Millisecond) }
