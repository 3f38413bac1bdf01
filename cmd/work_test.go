package cmd_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"hubbub/bus/bustest"
)

// A brokerFixture is a bus with a broker that reminds after a short time.
type brokerFixture struct {
	t         *testing.T
	url, data string
}

func newBrokerFixture(t *testing.T, broker bool) *brokerFixture {
	t.Helper()
	s := &brokerFixture{t: t, data: t.TempDir()}
	address := bustest.FreeAddress(t)
	s.url = "ws://" + address
	start(t, t, "hubbub-bus", nil, "--listen", address, "--data", s.data)
	if broker {
		start(t, t, "hubbub-broker", []string{"HUBBUB_BUS=" + s.url}, "--data", s.data, "--sweep-interval=200ms", "--stale-after=2s")
	}
	return s
}

// run runs hubbub and returns its output.
func (s *brokerFixture) run(args ...string) (out, errors string) {
	s.t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(s.t.Context(), built(s.t, "hubbub"), args...)
	cmd.Env = append(cmd.Environ(), "HUBBUB_BUS="+s.url, "HUBBUB_DATA="+s.data)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		s.t.Fatalf("hubbub %s: %v\n%s%s", strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return stdout.String(), stderr.String()
}

// until repeats hubbub until its output matches.
func (s *brokerFixture) until(want string, args ...string) {
	s.t.Helper()
	expr := regexp.MustCompile("(?m)" + want)
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	out, errors := "", ""
	for deadline := time.Now().Add(2 * patience); time.Now().Before(deadline); <-ticker.C {
		if out, errors = s.run(args...); expr.MatchString(out + errors) {
			return
		}
	}
	s.t.Fatalf("hubbub %s never printed %q, but\n%s%s", strings.Join(args, " "), want, out, errors)
}

// python starts a program of testdata/broker.
func (s *brokerFixture) python(program string, args ...string) *exec.Cmd {
	s.t.Helper()
	if exec.CommandContext(s.t.Context(), "python3", "--version").Run() != nil {
		s.t.Skip("there is no Python here")
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*time.Minute)
	s.t.Cleanup(cancel)
	return exec.CommandContext(ctx, "python3", append([]string{"-B", filepath.Join("testdata", "broker", program), s.url}, args...)...)
}

// TestWork_AtCommandLine creates work, shows who is woken and why, gets a reminder to review it,
// sends it back and closes it. why shows each step.
func TestWork_AtCommandLine(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts programs")
	}
	s := newBrokerFixture(t, true)
	start(t, t, "hubbub-agent", []string{"HUBBUB_DATA=" + t.TempDir(), "HUBBUB_BUS=" + s.url}, "--id=agent:lead", "--harness=scripted", "--compose-window=100ms",
		"--alias=Timber", "--workspace-id=ops")
	s.until(`lead +online .* ops .*Timber `, "who")
	s.run("work", "create", "write the notes", "--as", "will", "--id", "wi-1", "--owner", "will", "--quiet")
	if out, _ := s.run("work", "assign", "wi-1", "@timber.ops", "--as", "will"); !strings.Contains(out, "(woke lead)") {
		t.Errorf("the assignment says %s", out)
	}
	if out, _ := s.run("work", "show", "wi-1"); !strings.Contains(out, "lead: has the next move on wi-1") {
		t.Errorf("why lead was woken: %s", out)
	}
	s.run("invoke", "lead", "write the notes", "--as", "will", "--work", "wi-1", "--wait")
	s.until(`^wi-1 +review .* will \(cli:will\)`, "work", "list")
	s.until(`^reminder: wi-1 \(write the notes\) waits for will: has the next move on wi-1`, "work", "list", "--as", "will")
	s.run("work", "reject", "wi-1", "--as", "will", "--summary", "shorter")
	s.run("invoke", "timber", "shorter", "--as", "will", "--work", "wi-1", "--wait")
	s.until(`^wi-1 +review`, "work", "list")
	s.run("work", "accept", "wi-1", "--as", "will")
	s.until(`since .*: done, owner lead, accepted`, "why", "wi-1")
	why, _ := s.run("why", "wi-1")
	for _, want := range []string{
		`cli:will\S*  created: open, owner will \(cli:will\)`, `handoff: open, owner lead`, `woke lead \(lead: has the next move on wi-1`,
		`handed to lead: "write the notes"`, `flight \S+ of lead is completed`, `review_requested: review, owner lead, next move will`,
		`reminder, as nothing had happened: tells will: has the next move on wi-1`, `progressed|review|rejected`, `accepted|done: done`,
	} {
		if !regexp.MustCompile(want).MatchString(why) {
			t.Errorf("why does not say %q:\n%s", want, why)
		}
	}
}

// TestWork_FromOtherProgram does the same with a program in another language, written only from
// the help.
func TestWork_FromOtherProgram(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts programs")
	}
	s := newBrokerFixture(t, true)
	out, err := s.python("team.py").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := regexp.MustCompile(`^created (\S+) open\nassigned agent:py-worker\nwoken woken py-worker explicit_mention py-worker: was invoked.*\n` +
		`review review pending agent:py-boss\nreminded next_move_owner True \S+ py-boss: has the next move.*\nclosed \S+ done accepted\n$`)
	made := want.FindSubmatch(out)
	if made == nil {
		t.Fatalf("the program printed\n%s", out)
	}
	s.until(`since .*: done, owner py-worker, accepted`, "why", string(made[1]))
	s.until(`reminder, as nothing had happened: woke py-boss \(py-boss: has the next move`, "why", string(made[1]))
}

// TestWork_WithOtherBroker runs the conformance kit on a broker in another language, written only
// from the help.
func TestWork_WithOtherBroker(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts programs")
	}
	s := newBrokerFixture(t, false)
	broker := s.python("broker.py")
	var said bytes.Buffer
	broker.Stderr = &said
	ready, err := broker.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := broker.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = broker.Process.Kill()
		_ = broker.Wait()
		if t.Failed() {
			t.Log(said.String())
		}
	})
	if _, err := ready.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	if out, _ := s.run("conformance", "broker"); !strings.Contains(out, "5 passed, 0 failed, 0 skipped") {
		t.Errorf("the kit says\n%s", out)
	}
}

// TestWork_AmbiguousNames checks that people can act on their work although an agent has their
// name, and that a person is reminded of their own work and of what they own.
func TestWork_AmbiguousNames(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts programs")
	}
	s := newBrokerFixture(t, true)
	start(t, t, "hubbub-agent", []string{"HUBBUB_DATA=" + t.TempDir(), "HUBBUB_BUS=" + s.url}, "--id=agent:will", "--harness=scripted")
	s.until(`will +online`, "who")
	s.run("work", "create", "write the notes", "--as", "will", "--id", "wi-1", "--owner", "agent:will", "--quiet")
	for _, step := range [][2]string{
		{"review", `next: will \(cli:will\)`}, {"reject", `working .* next: will .*woke will`}, {"review", `review`}, {"accept", `done`}, {"reopen", `open`},
	} {
		if out, _ := s.run("work", step[0], "wi-1", "--as", "will"); !regexp.MustCompile(step[1]).MatchString(out) {
			t.Errorf("%s says %s", step[0], out)
		}
	}
	s.run("work", "create", "mine", "--as", "bob", "--id", "wi-2")
	s.run("work", "wait", "wi-2", "the build", "--kind", "artifact", "--as", "bob")
	s.run("work", "create", "for a ghost", "--as", "bob", "--id", "wi-3", "--owner", "bob", "--next", "ghost")
	s.until(`reminder: wi-2 \(mine\) waits for bob: has the next move on wi-2, which waits for the build; no change for \d+s`, "work", "list", "--as", "bob")
	s.until(`reminder: wi-3 \(for a ghost\) waits for bob: owns wi-3, and ghost has not taken its wake`, "work", "list", "--as", "bob")
	s.run("work", "arrived", "the build", "--as", "bob")
	out, _ := s.run("invoke", "will", "hello", "--as", "bob", "--json", "--wait")
	var flight struct{ ID string }
	if err := json.Unmarshal([]byte(out), &flight); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s.until(`since .*: flight `+flight.ID+` of will is completed`, "why", flight.ID)
	s.run("conversation", "create", "a room", "--as", "bob", "--id", "room")
	lost := exec.CommandContext(t.Context(), built(t, "hubbub"), "say", "room", "@ghost hello", "--as=bob", "--bus="+s.url, "--data="+s.data)
	if said, err := lost.CombinedOutput(); err == nil || !regexp.MustCompile(`nobody announced the name, alias or role @ghost; the message is stored as msg_\w+\n`).Match(said) {
		t.Errorf("what is said to nobody ends with %v: %s", err, said)
	}
	if _, said := s.run("work", "list", "--as", "bob"); strings.Contains(said, "wi-2") {
		t.Errorf("bob is reminded of what he has gone on with: %s", said)
	}
}
