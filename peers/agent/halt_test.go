package agent_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/agent/harness"
	"hubbub/protocol"
)

// runUntilStopped runs until it is stopped, and counts how often that happened.
func runUntilStopped(stopped *int) func(context.Context, *harness.Turn, harness.Tools) (harness.Outcome, error) {
	return func(ctx context.Context, _ *harness.Turn, _ harness.Tools) (harness.Outcome, error) {
		<-ctx.Done()
		*stopped++
		return harness.Outcome{}, context.Cause(ctx)
	}
}

// halt makes the chat, or a command line, halt or resume the agent, and reports whether the agent
// accepted.
func (w *fixture) halt(by *bustest.Scripted, from protocol.PeerID, scope protocol.Topic, halt string) bool {
	w.t.Helper()
	r := by.SendAs(w.t, from, "agent:lead", protocol.TypeConfigure, protocol.Configure{TalkTo: scope, Halt: halt, By: "Will"})
	w.sleep(time.Second)
	return r.DeliveredTo == 1
}

// halts returns what the agent recorded of halts.
func (w *fixture) halts() (list []string) {
	for _, r := range w.records {
		if r.is("halt") {
			list = append(list, fmt.Sprint(r["state"], " ", r["scope"], " by ", r["by"], " ", r["stopped"]))
		}
	}
	return list
}

func TestHalt_StopsRunningAndLaterTurns(t *testing.T) {
	stopped := 0
	withFixture(t, newStub(runUntilStopped(&stopped)), nil, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "go on for ever"))
		w.sleep(5 * time.Second)
		w.say(by(dm("e2", "and this waits"), "78", "human"))
		w.sleep(5 * time.Second)
		w.halt(w.tg, "tg:42", "tg:42", "on")
		if stopped != 1 {
			t.Fatalf("%d turns were stopped", stopped)
		}
		equal(t, "halts", w.halts(), []string{"halted tg:42 by Will [e1 e2]"})
		w.wantDispositions("e1 failed", "e2 failed")
		w.wantTexts("lead: halted by Will. 2 turns stopped; nothing runs until /resume.")

		w.stop() // a halt outlives restarts
		w.start()
		w.ask("e3", "e4")
		w.wantTexts("lead: halted by Will. 2 turns stopped; nothing runs until /resume.",
			"I was halted by Will and answer nothing until /resume or hubbub resume.")
		w.wantDispositions("e1 failed", "e2 failed", "e3 failed", "e4 failed")
		if len(w.stub.seen()) != 1 {
			t.Errorf("%d turns ran", len(w.stub.seen()))
		}

		w.stub.mu.Lock()
		w.stub.turn = answering("yes")
		w.stub.mu.Unlock()
		w.halt(w.tg, "tg:42", "tg:42", "off")
		w.ask("e5")
		if texts := fmt.Sprint(w.replies); !strings.Contains(texts, "resumed by Will") || w.replies[len(w.replies)-1].Text != "yes" || len(w.stub.seen()) != 2 {
			t.Errorf("after resume %d turns ran, and the chat heard %s", len(w.stub.seen()), texts)
		}
	})
}

func TestHalt_HoldsInAllChats(t *testing.T) {
	stopped := 0
	withFixture(t, newStub(runUntilStopped(&stopped)), nil, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "go on for ever"))
		w.sleep(5 * time.Second)
		will := w.bus.Join(t, "cli:will")
		if w.halt(w.tg, "tg:42", "agent:lead", "on") || w.halt(w.tg, "tg:42", "tg:43", "on") || w.halt(will, "cli:will", "tg:42", "maybe") || stopped != 0 {
			t.Fatal("a chat halted more than itself, or halt was neither on nor off")
		}
		if !w.halt(will, "cli:will", "tg:43", "on") || !w.halt(will, "cli:will", "tg:43", "off") {
			t.Fatal("a halt of a chat of others was not taken")
		}
		w.wantTexts() // the agent says nothing there
		if n := w.tg.Pending(); n != 0 || stopped != 0 {
			t.Fatalf("%d messages came of it, %d turns were stopped", n, stopped)
		}
		if !w.halt(will, "cli:will", "agent:lead", "on") || stopped != 1 {
			t.Fatalf("%d turns were stopped", stopped)
		}
		equal(t, "halts", w.halts(), []string{"halted tg:43 by Will <nil>", "resumed tg:43 by Will <nil>", "halted agent:lead by Will [e1]"})
		w.wantTexts("lead: halted by Will. 1 turn stopped; nothing runs until /resume.")
		if !w.halt(w.tg, "tg:42", "tg:42", "off") { // a chat cannot end another chat's halt
			t.Fatal("resume was not taken")
		}
		w.ask("e2")
		w.wantDispositions("e1 failed", "e2 failed")
		w.stub.mu.Lock()
		w.stub.turn = answering("yes")
		w.stub.mu.Unlock()
		w.halt(will, "cli:will", "agent:lead", "off")
		w.ask("e3")
		w.wantDispositions("e1 failed", "e2 failed", "e3 responded")
	})
}
