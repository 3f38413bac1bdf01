package cmd_test

import (
	"cmp"
	"os/exec"
	"testing"

	"hubbub/activitylog"
	spawner "hubbub/peers/system"
	"hubbub/protocol"
)

// TestWake_RestartsAgent checks that an idle agent that was stopped is started again, once, when
// the broker has work for it, and gets its wake, even if the spawner was down.
func TestWake_RestartsAgent(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts programs")
	}
	s := newFixture(t)
	s.start("broker")
	s.run["system"].kill()
	const idle = "--idle-stop=4s"
	s.start("system", idle)
	events := func(event string) (n int) {
		for _, p := range s.publicationsOf(activitylog.Filter{Types: []protocol.MessageType{protocol.TypeAgentEvent}}) {
			if e := contentOf[spawner.LifecycleEvent](p); p.message.From == protocol.PeerSystem && e.Event == event {
				n++
			}
		}
		return n
	}
	user := s.api.User("Will")
	chat := s.api.DM(user)
	s.api.Say(chat, user, "hello")
	s.awaitTexts(chat, 1)
	var agent protocol.PeerID
	s.await("the record of the agent", func() bool {
		for _, p := range s.publications() {
			agent = cmp.Or(agent, contentOf[protocol.SpawnResult](p).Agent)
		}
		return agent != ""
	})
	wakes := func() (n int) {
		for _, p := range s.publications() {
			if p.message.Type == protocol.TypeCollabEvent && p.entry.Topic == string(agent) && p.status == "ok" {
				n++
			}
		}
		return n
	}
	for round := range 2 {
		s.await("the end of the idle agent", func() bool { return events("stopped") > round })
		if round == 1 {
			s.run["system"].kill()
		}
		out, err := exec.CommandContext(t.Context(), built(t, "hubbub"), "work", "create", "write the notes", "--owner", agent.Name(), "--bus", "ws://"+s.bus, "--data", s.data).CombinedOutput()
		if err != nil {
			t.Fatalf("hubbub work create: %s", out)
		}
		if round == 1 {
			s.start("system", idle)
		}
		s.await("the wake", func() bool { return wakes() > round })
		s.await("the record of the start", func() bool { return events("spawned") > round+1 })
		if wanted, spawned := events("wanted"), events("spawned"); wanted != round+1 || spawned != round+2 {
			t.Errorf("wanted %d times, spawned %d times; want %d and %d", wanted, spawned, round+1, round+2)
		}
	}
}
