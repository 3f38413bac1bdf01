package system_test

import (
	"testing"
	"testing/synctest"
	"time"

	"hubbub/peers/system"
	"hubbub/protocol"
	"hubbub/protocol/timetest"
)

func TestIdle_EndsAnAgentUntilARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t, &system.Options{IdleStop: 100 * time.Second})
		bridge := h.bus.Join(t, "tg:bot", "tg:*")
		ask(t, bridge, "tg:1", protocol.SpawnRequest{RequestID: "r"})
		result(t, bridge)
		alive := h.bus.Join(t, "agent:tg-1")
		for range 3 { // it judges messages now and then
			timetest.Advance(80 * time.Second)
			alive.Send(t, protocol.TopicAttention, protocol.TypeAgentEvent, map[string]string{"event": "attention_decision"})
		}
		if h.launcher.actor("tg-1") == nil {
			t.Fatal("ended although it was in use")
		}
		timetest.Advance(130 * time.Second)
		if h.launcher.actor("tg-1") != nil {
			t.Fatal("not ended although nobody talked to it")
		}
		h.stop()
		h.start() // an idle agent is not started by a restart
		settle()
		if n := h.launcher.startCount(); n != 1 {
			t.Fatalf("%d starts", n)
		}
		ask(t, bridge, "tg:1", protocol.SpawnRequest{RequestID: "back"})
		if r, _ := result(t, bridge); r.RequestID != "back" || r.Agent != "agent:tg-1" {
			t.Errorf("%+v", r)
		}
	})
}

// TestIdle_WakeStartsTheAgent checks that a delivery at the broker starts a stopped agent, that
// nothing else does, and that no foreign agent is created.
func TestIdle_WakeStartsTheAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t, &system.Options{IdleStop: 100 * time.Second})
		bridge := h.bus.Join(t, "tg:bot", "tg:*")
		broker, evil := h.bus.Join(t, "collab:broker"), h.bus.Join(t, "agent:evil")
		ask(t, bridge, "tg:1", protocol.SpawnRequest{RequestID: "r"})
		result(t, bridge)
		timetest.Advance(130 * time.Second)
		want := protocol.AgentOnline{Event: "wanted", Agent: "agent:tg-1", DeliveryID: "dlv_1"}
		evil.Send(t, protocol.TopicAgents, protocol.TypeAgentEvent, want)
		unknown := want
		unknown.Agent = "agent:other"
		broker.Send(t, protocol.TopicAgents, protocol.TypeAgentEvent, unknown)
		settle()
		if n := h.launcher.startCount(); n != 1 || h.launcher.actor("tg-1") != nil {
			t.Fatalf("%d starts", n)
		}
		for range 3 {
			broker.Send(t, protocol.TopicAgents, protocol.TypeAgentEvent, want)
		}
		settle()
		if n := h.launcher.startCount(); n != 2 || h.launcher.actor("tg-1") == nil || h.launcher.actor("other") != nil {
			t.Errorf("%d starts; want the agent to run again", n)
		}
	})
}

// TestIdle_StartsAgainIfWantedWhileItEnds checks that an agent that is wanted while it ends, which takes
// longer than a look at its use, runs again and is not ended as idle at once.
func TestIdle_StartsAgainIfWantedWhileItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t, &system.Options{IdleStop: 100 * time.Second})
		h.launcher.mayEnd = make(chan struct{})
		bridge, broker := h.bus.Join(t, "tg:bot", "tg:*"), h.bus.Join(t, "collab:broker")
		ask(t, bridge, "tg:1", protocol.SpawnRequest{RequestID: "r"})
		result(t, bridge)
		timetest.Advance(155 * time.Second) // it is told to end after 125 s
		broker.Send(t, protocol.TopicAgents, protocol.TypeAgentEvent,
			protocol.AgentOnline{Event: "wanted", Agent: "agent:tg-1", DeliveryID: "dlv_1"})
		settle()
		close(h.launcher.mayEnd)
		timetest.Advance(80 * time.Second)
		if n := h.launcher.startCount(); n != 2 || h.launcher.actor("tg-1") == nil {
			t.Errorf("%d starts; want the agent to run again", n)
		}
	})
}

// TestIdle_BeginsWhenTheAgentIsOnline checks that an agent that takes longer to start than Options.IdleStop
// is not ended as idle before it is online.
func TestIdle_BeginsWhenTheAgentIsOnline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t, &system.Options{IdleStop: 100 * time.Second, StartTimeout: time.Hour})
		bridge, broker := h.bus.Join(t, "tg:bot", "tg:*"), h.bus.Join(t, "collab:broker")
		ask(t, bridge, "tg:1", protocol.SpawnRequest{RequestID: "r"})
		result(t, bridge)
		timetest.Advance(155 * time.Second)
		h.launcher.playing(func(s *fakeLauncher, spec system.Spec, a *fakeInstance) {
			time.Sleep(300 * time.Second)
			sayOnline(s, spec, a)
		})
		broker.Send(t, protocol.TopicAgents, protocol.TypeAgentEvent,
			protocol.AgentOnline{Event: "wanted", Agent: "agent:tg-1", DeliveryID: "dlv_1"})
		timetest.Advance(350 * time.Second)
		if n := h.launcher.startCount(); n != 2 || h.launcher.actor("tg-1") == nil {
			t.Errorf("%d starts; want the agent to run again", n)
		}
		timetest.Advance(125 * time.Second)
		if h.launcher.actor("tg-1") != nil {
			t.Error("the idle agent still runs")
		}
	})
}
