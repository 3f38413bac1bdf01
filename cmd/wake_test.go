package cmd_test

import (
	"bufio"
	"cmp"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"hubbub/activitylog/read"
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
	const idle = "--idle-stop=12s"
	s.start("system", idle)
	events := func(event string) (n int) {
		for _, p := range s.publicationsOf(read.Filter{Types: []protocol.MessageType{protocol.TypeAgentEvent}}) {
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
		// A spawner that starts tells an agent that is not online yet that it is wanted, too.
		if wanted, spawned := events("wanted"), events("spawned"); wanted <= round || spawned != round+2 {
			t.Errorf("wanted %d times, spawned %d times; want at least %d, and %d", wanted, spawned, round+1, round+2)
		}
	}
}

// TestWake_ReachesNextRun kills an agent that has a wake and has not answered it. Its next run gets
// the wake under the name of its new endpoint, and the sender, a program in Python, is notified of
// both.
func TestWake_ReachesNextRun(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts programs")
	}
	s := newBrokerFixture(t, true)
	data := t.TempDir()
	run := func() *process {
		return start(t, t, "hubbub-agent", []string{"HUBBUB_DATA=" + data, "HUBBUB_BUS=" + s.url}, "--id=lead", "--harness=scripted", "--compose-window=50ms")
	}
	lead := run()
	s.until(`lead +online`, "who")
	if err := lead.cmd.Process.Signal(syscall.SIGSTOP); err != nil { // it answers nothing from now on
		t.Fatal(err)
	}
	boss := s.python("invoke.py", "lead")
	out, err := boss.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	boss.Stderr = os.Stderr
	if err := boss.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = boss.Process.Kill()
		_ = boss.Wait()
	})
	lines := bufio.NewScanner(out)
	next := func() string {
		if !lines.Scan() {
			t.Fatalf("the program printed nothing more: %v", lines.Err())
		}
		return lines.Text()
	}
	flight, ok := strings.CutPrefix(next(), "invoked ")
	if !ok {
		t.Fatal("the program did not invoke")
	}
	s.until(`woke lead`, "why", flight)
	lead.kill()
	run()
	if missed, again := next(), next(); missed != "missed where it was pending" || again != "woken elsewhere pending" {
		t.Errorf("the sender was told %q and %q", missed, again)
	}
	s.until(`flight `+flight+` of lead is completed`, "why", flight)
}
