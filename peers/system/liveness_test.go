package system_test

import (
	"testing"
	"testing/synctest"
	"time"

	"hubbub/peers/system"
	"hubbub/protocol"
	"hubbub/protocol/timetest"
)

// TestSupervisor_RestartsAHangingAgent runs an agent whose process continues after its connection
// has ended, and a bridge that requests it three times a minute, or a little more rarely and all
// at once.
func TestSupervisor_RestartsAHangingAgent(t *testing.T) {
	for name, pauses := range map[string][]time.Duration{
		"evenly": {20 * time.Second, 20 * time.Second, 20 * time.Second}, "at once": {time.Second, 2 * time.Second, 72 * time.Second},
	} {
		t.Run(name, func(t *testing.T) { hangAndAsk(t, pauses) })
	}
}

func hangAndAsk(t *testing.T, pauses []time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t, nil)
		hang := make(chan struct{})
		h.launcher.playing(func(s *fakeLauncher, spec system.Spec, a *fakeInstance) {
			if a.handle != "1" {
				sayOnline(s, spec, a)
				return
			}
			p := s.bus.Join(s.t, a.name.PeerID(), protocol.Pattern(a.name.PeerID()))
			p.Send(s.t, protocol.TopicAgents, protocol.TypeAgentEvent, protocol.AgentOnline{Event: "online"})
			<-hang
			p.Leave()
		})
		bridge := h.bus.Join(t, "tg:bot", "tg:*")
		rounds := func(n int) {
			for i := range n * len(pauses) {
				ask(t, bridge, "tg:1", protocol.SpawnRequest{RequestID: time.Now().String()})
				if r, _ := result(t, bridge); r.Status != "spawned" {
					t.Errorf("request %d: %+v", i, r)
				}
				route(t, bridge)
				timetest.Advance(pauses[i%len(pauses)])
			}
		}
		rounds(5)
		if n := h.launcher.startCount(); n != 1 {
			t.Fatalf("%d starts of an agent that is there", n)
		}
		close(hang)
		timetest.Advance(time.Minute)
		if n := h.launcher.startCount(); n != 1 {
			t.Fatalf("%d starts of an agent that nobody asks for", n)
		}
		rounds(2)
		if n := h.launcher.startCount(); n != 2 {
			t.Errorf("%d starts of an agent that hangs; want one more", n)
		}
		rounds(5)
		if n := h.launcher.startCount(); n != 2 {
			t.Errorf("%d starts in the end", n)
		}
	})
}

// TestSupervisor_IgnoresAShortAbsence runs an agent that is absent for twenty seconds each hour,
// and bridges that request it often during that time.
func TestSupervisor_IgnoresAShortAbsence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t, &system.Options{StartTimeout: 5 * time.Second})
		leave, back := make(chan struct{}), make(chan struct{})
		h.launcher.playing(func(s *fakeLauncher, _ system.Spec, a *fakeInstance) {
			for {
				p := s.bus.Join(s.t, a.name.PeerID(), protocol.Pattern(a.name.PeerID()))
				p.Send(s.t, protocol.TopicAgents, protocol.TypeAgentEvent, protocol.AgentOnline{Event: "online"})
				select {
				case <-leave:
					p.Leave()
					<-back
				case <-a.ended:
					p.Leave()
					return
				}
			}
		})
		bridge := h.bus.Join(t, "tg:bot", "tg:*")
		asking := func() {
			ask(t, bridge, "tg:1", protocol.SpawnRequest{RequestID: time.Now().String()})
			result(t, bridge)
			route(t, bridge)
		}
		asking()
		for range 3 {
			leave <- struct{}{}
			for range 10 {
				timetest.Advance(2 * time.Second)
				asking()
			}
			back <- struct{}{}
			timetest.Advance(time.Hour)
		}
		if n := h.launcher.startCount(); n != 1 {
			t.Errorf("%d starts", n)
		}
	})
}

// TestSpawner_ChecksUnheardAgents checks that an agent that came while the spawner was away
// is asked on the connection whether it is online, and then serves a waiting request at once.
func TestSpawner_ChecksUnheardAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t, nil)
		h.launcher.outlive = true
		away := make(chan struct{})
		h.launcher.playing(func(s *fakeLauncher, _ system.Spec, a *fakeInstance) {
			p := s.bus.Join(s.t, a.name.PeerID(), protocol.Pattern(a.name.PeerID()))
			defer p.Leave()
			<-away
			d := p.Next(s.t)
			wanted := protocol.AgentOnline{}
			if err := d.Decode(&wanted); err != nil || d.Message.From != protocol.PeerSystem || wanted.Event != "wanted" || wanted.Agent != a.name.PeerID() {
				s.t.Errorf("the spawner says %s: %v", d.Message.Content, err)
			}
			p.Send(s.t, protocol.TopicAgents, protocol.TypeAgentEvent, protocol.AgentOnline{Event: "online"})
			<-a.ended
		})
		bridge := h.bus.Join(t, "tg:bot", "tg:*")
		ask(t, bridge, "tg:1", protocol.SpawnRequest{RequestID: "waits"})
		settle()
		h.stop()
		close(away)
		h.start()
		settle()
		if r, _ := result(t, bridge); r.RequestID != "waits" || r.Status != protocol.SpawnSpawned {
			t.Errorf("%+v", r)
		}
		route(t, bridge)
		if n := h.launcher.startCount(); n != 1 {
			t.Errorf("%d starts", n)
		}
	})
}
