package agent_test

import (
	"context"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/read"
	"hubbub/bus/bustest"
	"hubbub/peers/agent"
	"hubbub/peers/agent/harness/scripted"
	"hubbub/peers/broker"
	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/timetest"
)

// TestIdleAgent_WritesNoRows checks that two idle agents and a broker write at most 20 rows in
// eleven minutes, without a spawner.
func TestIdleAgent_WritesNoRows(t *testing.T) {
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
			err := read.Open(bus.Log).Each(t.Context(), read.Filter{}, func(e *activitylog.Entry) error {
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

// TestIdleAgent_AnswersALateSpawner checks that an agent announces itself less and less often
// while nobody receives it, and at once when the spawner asks.
func TestIdleAgent_AnswersALateSpawner(t *testing.T) {
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

// TestOnIdle_IsCalledOnceAfterWork covers the start, an event with a turn, and a long quiet time.
func TestOnIdle_IsCalledOnceAfterWork(t *testing.T) {
	var idle atomic.Int32
	withFixture(t, newStub(answering("Yes.")), &agent.Options{OnIdle: func() { idle.Add(1) }}, func(t *testing.T, w *fixture) {
		expect := func(when string, want int32) {
			t.Helper()
			if got := idle.Load(); got != want {
				t.Errorf("%s: called %d times; want %d", when, got, want)
			}
		}
		w.sleep(5 * time.Second)
		expect("soon after the start", 0)
		w.sleep(55 * time.Second)
		expect("after the start", 1)
		w.say(dm("1", "Is it done?"))
		w.sleep(5 * time.Second)
		expect("soon after an answer", 1)
		w.sleep(55 * time.Second)
		expect("after an answer", 2)
		w.sleep(3 * time.Hour)
		expect("hours later", 2)
	})
}
