package agent_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/activitylog"
	"hubbub/bus/bustest"
	"hubbub/peers/agent/harness/scripted"
	"hubbub/peers/broker"
	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/timetest"
)

// TestIdleMinutesLeaveNoRows: two agents and a broker of which nobody wants anything write
// at most 20 rows in eleven minutes, without a spawner that hears the agents.
func TestIdleMinutesLeaveNoRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := bustest.StartLogged(t, nil)
		db, err := store.Open(filepath.Join(t.TempDir(), "broker.db"), broker.Schema)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		b := broker.New(db, peer.New(protocol.PeerBroker, &peer.Options{Dial: bus.Dial}), nil)
		go func() { ended <- b.Run(ctx) }()
		t.Cleanup(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("the broker ended: %v", err)
			}
			db.Close()
		})
		start(t, bus, "agent:a", scripted.New(nil), nil)
		start(t, bus, "agent:b", scripted.New(nil), nil)
		rows := func() (all []string) {
			t.Helper()
			bus.Sync(t)
			err := activitylog.Open(bus.Log).Each(t.Context(), activitylog.Filter{}, func(e *activitylog.Entry) error {
				all = append(all, strings.Join([]string{e.TS, e.Event, e.Type, e.From, e.Actor, e.Topic, e.Status}, " "))
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			return all
		}
		timetest.Advance(2 * time.Minute) // everybody is announced
		before := len(rows())
		timetest.Advance(11 * time.Minute)
		if left := rows()[before:]; before == 0 || len(left) > 20 {
			t.Errorf("eleven idle minutes of two agents and a broker left %d rows; want at most 20:\n%s", len(left), strings.Join(left, "\n"))
		}
	})
}

// TestASpawnerThatCameLateIsToldOnceItAsks: while nobody hears that an agent is there it
// says so less and less often, and at once when the spawner asks.
func TestASpawnerThatCameLateIsToldOnceItAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := bustest.StartInMemory(t, nil)
		start(t, bus, "agent:lead", newStub(accepting), nil)
		timetest.Advance(20 * time.Minute)
		system := bus.Join(t, "agent:system", "system:agents")
		stranger := bus.Join(t, "agent:other")
		wanted := protocol.AgentOnline{Event: "wanted", Agent: "agent:lead"}
		stranger.Send(t, "agent:lead", protocol.TypeAgentEvent, wanted)
		timetest.Advance(time.Second)
		if n := system.Pending(); n != 0 {
			t.Fatalf("the agent announced itself %d times because a stranger asked", n)
		}
		system.Send(t, "agent:lead", protocol.TypeAgentEvent, wanted)
		timetest.Advance(time.Second)
		if system.Pending() != 1 {
			t.Fatalf("%d announcements a second after the spawner asked; want 1", system.Pending())
		}
		if online := content[protocol.AgentOnline](t, system.Next(t)); online.Agent != "agent:lead" || online.Event != "online" {
			t.Errorf("online says %+v", online)
		}
		timetest.Advance(10 * time.Minute)
		if n := system.Pending(); n != 0 {
			t.Errorf("it is said %d times more though it was heard", n)
		}
	})
}
