package agent_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/agent"
	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/harnesstest"
	"hubbub/peers/attention"
	"hubbub/peers/peer"
	"hubbub/protocol"
)

// The environment of a child: TestMain runs an agent, or a C2A program, instead of the tests.
const (
	childBus   = "AGENT_TEST_BUS"   // address of the bus
	childData  = "AGENT_TEST_DATA"  // path of the database
	childCrash = "AGENT_TEST_CRASH" // step at which it kills itself, or empty; with #2 the second time
	childActs  = "AGENT_TEST_ACTS"  // what its model does: text, send, react, defer, hang
)

func TestMain(m *testing.M) {
	if os.Getenv(programDies) != "" {
		runProgram()
		os.Exit(0)
	}
	harnesstest.RunHoldIfAsked()
	if file := os.Getenv(programAnswers); file != "" {
		runAnswering(file)
		os.Exit(0)
	}
	if os.Getenv(childBus) != "" {
		if err := runChild(); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getenv(harnesstest.ACPRoleEnv) != "" {
		harnesstest.ServeACP()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// runChild runs an agent whose model never repeats an answer.
func runChild() error {
	db, err := agent.Open(os.Getenv(childData))
	if err != nil {
		return err
	}
	crashAt, second := strings.CutSuffix(os.Getenv(childCrash), "#2")
	var times atomic.Int32
	die := func(step string) {
		if step == crashAt && (times.Add(1) == 2 || !second) {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	words := fmt.Sprint("words of process ", os.Getpid())
	h := newStub(func(ctx context.Context, t *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
		outcome := harness.Outcome{State: harness.Finished}
		switch os.Getenv(childActs) {
		case "decide":
			if err := t.Approver.Approve(ctx, "shell", json.RawMessage(`{"command":"make"}`)); err != nil {
				return outcome, err
			}
			ran, err := os.OpenFile(os.Getenv(childData)+".ran", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err == nil {
				_, err = ran.WriteString("ran\n")
				err = errors.Join(err, ran.Close())
			}
			outcome.FinalText = "ran"
			return outcome, err
		case "send":
			call(tools, "chat.send_message", map[string]any{"text": words})
		case "react":
			call(tools, "chat.react", map[string]any{"signal": "working"})
			call(tools, "chat.send_message", map[string]any{"text": words})
		case "defer":
			if t.Deferrals == 0 && t.Event.EventID == "e1" {
				call(tools, "chat.defer", map[string]any{"reason": "not now", "eta": "1s"})
			} else {
				outcome.FinalText = words
			}
		case "remind":
			if t.Event.EventID == "e1" {
				call(tools, "chat.remind", map[string]any{"when": "1s", "text": "the deploy"})
			} else {
				call(tools, "chat.send_message", map[string]any{"text": words})
			}
			outcome.FinalText = words
		case "oblige":
		case "hang":
			select {}
		default:
			outcome.FinalText = words
		}
		return outcome, nil
	})
	opts := &agent.Options{
		Peer: &peer.Options{Buses: []string{os.Getenv(childBus)}}, ComposeWindow: 50 * time.Millisecond,
		OnReady: func() { fmt.Println("ready") },
	}
	if os.Getenv(childActs) == "oblige" {
		opts.Version, opts.Escalation.Person = attention.Version0811, "tg:88"
		opts.Returns = &attention.ReturnIntervals{Buffered: 500 * time.Millisecond}
	}
	opts.CrashWith(die)
	return agent.New("agent:lead", db, h, opts).Run(context.Background())
}

// A child is a running agent process.
type child struct {
	cmd  *exec.Cmd
	died chan struct{}
}

func startChild(t *testing.T, b *bustest.Bus, data, crash, acts string) *child {
	t.Helper()
	c := &child{cmd: exec.Command(os.Args[0], "-test.run=^$"), died: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), childBus+"="+b.URL(), childData+"="+data, childCrash+"="+crash, childActs+"="+acts)
	c.cmd.Stderr = os.Stderr
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready := make(chan struct{}, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if lines.Text() == "ready" {
				ready <- struct{}{}
			}
		}
		c.cmd.Wait() //nolint:errcheck // it is killed
		close(c.died)
	}()
	t.Cleanup(c.kill)
	select {
	case <-ready:
	case <-c.died: // a crash at the start
	case <-time.After(time.Minute):
		t.Fatal("the agent does not become ready")
	}
	return c
}

func (c *child) kill() {
	c.cmd.Process.Kill() //nolint:errcheck // it may be dead
	<-c.died
}

// TestSIGKILL_AgentLosesAndDoublesNothing kills the agent at each step of a
// turn, whatever its model does, and starts it again.
func TestSIGKILL_AgentLosesAndDoublesNothing(t *testing.T) {
	for acts, steps := range map[string][]string{
		"text":  {"started", "returned"},
		"send":  {"stored", "started", "acted", "returned"},
		"react": {"acted"},
		"defer": {"acted", "returned"},
	} {
		for _, step := range steps {
			t.Run(acts+" "+step, func(t *testing.T) { killAt(t, acts, step) })
		}
	}
}

func killAt(t *testing.T, acts, step string) {
	b := bustest.Start(t, nil)
	system := b.Join(t, "agent:system", "system:attention")
	tg := b.Join(t, "tg:bot", "tg:*")
	data := filepath.Join(t.TempDir(), "agent.db")
	first := startChild(t, b, data, step, acts)
	m := dm("e1", "hello")
	tg.SendAs(t, "tg:42", "agent:lead", protocol.TypeTGMessage, m)
	<-first.died
	second := startChild(t, b, data, "", acts)
	for tg.SendAs(t, "tg:42", "agent:lead", protocol.TypeTGMessage, m).DeliveredTo != 1 { // the bridge does so too
	}
	final := ""
	for final == "" {
		if r := content[record](t, system.Next(t)); r.is("disposition") && r["disposition"] != "claimed" && r["disposition"] != "deferred" {
			final = fmt.Sprint(r["disposition"])
		}
	}
	tg.SendAs(t, "tg:42", "agent:lead", protocol.TypeTGMessage, m) // once more, to no effect
	tg.SendAs(t, "tg:42", "agent:lead", protocol.TypeTGMessage, dm("e2", "and?"))
	texts := map[string]string{} // by event
	for texts["e2"] == "" {
		d := tg.NextOf(t, protocol.TypeTGReply)
		r := content[protocol.ChatReply](t, d)
		if r.Text == "" {
			continue
		}
		if before := texts[r.InReplyTo]; before != "" && before != r.Text {
			t.Errorf("%s was answered %q and then %q", r.InReplyTo, before, r.Text)
		}
		texts[r.InReplyTo] = r.Text
	}
	mine := fmt.Sprint(first.cmd.Process.Pid)
	switch {
	case acts == "react" && step == "acted": // it had reacted, and said nothing: no other words
		if final != "failed" || !strings.HasPrefix(texts["e1"], "I could not answer") {
			t.Errorf("ended %s with %q; want failed, and its author told", final, texts["e1"])
		}
	case final != "responded":
		t.Errorf("ended %s; want responded", final)
	case acts == "defer":
		if strings.HasSuffix(texts["e1"], mine) {
			t.Errorf("the answer is %q; the first process had put it off", texts["e1"])
		}
	case (step == "acted" || step == "returned" && acts != "text") && !strings.HasSuffix(texts["e1"], mine):
		t.Errorf("the answer is %q; want the words of the first process", texts["e1"])
	case (step == "stored" || step == "started") && strings.HasSuffix(texts["e1"], mine):
		t.Errorf("the answer is %q; the first process had not said anything", texts["e1"])
	}
	second.kill()
}

// TestSIGKILL_RepeatsATurnWithAHigherAttempt checks that a turn that was killed before it acted
// is delivered again as another attempt.
func TestSIGKILL_RepeatsATurnWithAHigherAttempt(t *testing.T) {
	b := bustest.Start(t, nil)
	system := b.Join(t, "agent:system", "system:attention")
	tg := b.Join(t, "tg:bot", "tg:*")
	data := filepath.Join(t.TempDir(), "agent.db")
	first := startChild(t, b, data, "", "hang")
	tg.SendAs(t, "tg:42", "agent:lead", protocol.TypeTGMessage, dm("e1", "hello"))
	var states []string
	seen := map[protocol.MessageID]bool{} // records are sent at least once
	next := func(want string) {
		for {
			d := system.Next(t)
			r := content[record](t, d)
			if !r.is("turn") || seen[d.Message.MessageID] {
				continue
			}
			seen[d.Message.MessageID] = true
			states = append(states, fmt.Sprint(r["attempt"], " ", r["state"]))
			if r["state"] == want {
				return
			}
		}
	}
	next("started")
	first.kill()
	startChild(t, b, data, "", "send")
	next("finished")
	equal(t, "turns", states, []string{"1 started", "1 interrupted", "2 started", "2 finished"})
}

// TestSIGKILL_RunsAnApprovedToolOnce kills the agent at each step of a decision: the question is
// asked again only if its verdict was used up, and the tool runs once, after a row that allows it.
func TestSIGKILL_RunsAnApprovedToolOnce(t *testing.T) {
	for step, questions := range map[string]int{"decision asked": 1, "decided": 1, "decision used": 2} {
		t.Run(step, func(t *testing.T) {
			b := bustest.Start(t, nil)
			system, tg := b.Join(t, "agent:system", "system:attention"), b.Join(t, "tg:bot", "tg:*")
			data := filepath.Join(t.TempDir(), "agent.db")
			first := startChild(t, b, data, step, "decide")
			say := func(m protocol.ChatMessage) {
				for tg.SendAs(t, "tg:42", "agent:lead", protocol.TypeTGMessage, m).DeliveredTo != 1 {
				}
			}
			asked := map[string]bool{} // by key
			reply := func() protocol.ChatReply {
				for {
					if r := content[protocol.ChatReply](t, tg.NextOf(t, protocol.TypeTGReply)); r.Text != "" {
						return r
					}
				}
			}
			answer := func(r protocol.ChatReply) {
				if len(r.Buttons) > 0 && !asked[r.IdempotencyKey] {
					asked[r.IdempotencyKey] = true
					say(dm(fmt.Sprint("v", len(asked)), r.Buttons[0].Value))
				}
			}
			tg.SendAs(t, "tg:42", "agent:lead", protocol.TypeTGMessage, dm("e1", "deploy"))
			if step == "decision used" {
				answer(reply())
			}
			<-first.died
			if _, err := os.Stat(data + ".ran"); !errors.Is(err, os.ErrNotExist) {
				t.Fatalf("it ran before it was killed: %v", err)
			}
			startChild(t, b, data, "", "decide")
			for r := reply(); r.Text != "ran"; r = reply() {
				answer(r)
			}
			allowed := map[string]bool{} // by decision
			for ended := false; !ended; {
				r := content[record](t, system.Next(t))
				ended = r.is("disposition") && r["disposition"] == "responded"
				if r.is("decision") && r["state"] == "allowed" && r["by"] == "tg:77" {
					allowed[fmt.Sprint(r["decisionId"])] = true
				}
			}
			ran, err := os.ReadFile(data + ".ran")
			if err != nil || string(ran) != "ran\n" || len(asked) != questions || len(allowed) != questions {
				t.Errorf("ran %q, %v; asked %v, allowed %v; want %d", ran, err, asked, allowed, questions)
			}
		})
	}
}
