package agent_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"hubbub/peers/agent"
	"hubbub/peers/agent/harness"
	"hubbub/protocol"
)

// partsOf lists the text parts of a turn.
func partsOf(t *harness.Turn) []string {
	var parts []string
	for _, p := range t.Event.Content {
		parts = append(parts, p.Text)
	}
	return parts
}

func TestCompose_JoinsFragmentsInOneTurn(t *testing.T) {
	withFixture(t, newStub(answering("here")), nil, func(t *testing.T, w *fixture) {
		for i, text := range []string{"when someone types", "in", "pieces", "like this"} {
			w.say(dm(fmt.Sprint("e", i+1), text))
			w.sleep(1500 * time.Millisecond)
		}
		if len(w.stub.seen()) != 0 {
			t.Fatal("a turn began before the window passed")
		}
		w.sleep(time.Second)
		turns := w.stub.seen()
		if len(turns) != 1 {
			t.Fatalf("%d turns; want 1", len(turns))
		}
		equal(t, "parts", partsOf(&turns[0]), []string{"when someone types", "in", "pieces", "like this"})
		equal(t, "merged ids", turns[0].Event.MergedEventIDs, []string{"e1", "e2", "e3", "e4"})
		if turns[0].Event.EventID != "e4" {
			t.Errorf("the event is %s; want e4", turns[0].Event.EventID)
		}
		w.sleep(time.Second)
		w.wantDispositions("e1 superseded", "e2 superseded", "e3 superseded", "e4 responded")
		w.wantTexts("here")
		if w.replies[0].InReplyTo != "e4" {
			t.Errorf("the answer is to %s; want e4", w.replies[0].InReplyTo)
		}
	})
}

func TestCompose_EndsAtTheCap(t *testing.T) {
	withFixture(t, newStub(answering("ok then")), &agent.Options{ComposeCap: 6 * time.Second}, func(t *testing.T, w *fixture) {
		for i := range 8 {
			w.say(dm(fmt.Sprint("e", i+1), "more"))
			w.sleep(1500 * time.Millisecond)
		}
		w.sleep(5 * time.Second)
		turns := w.stub.seen()
		if len(turns) != 2 {
			t.Fatalf("%d turns; want 2", len(turns))
		}
		if n := len(turns[0].Event.MergedEventIDs); n != 4 {
			t.Errorf("the first turn has %d fragments; want the 4 of 6 s", n)
		}
	})
}

func TestCompose_KeepsAuthorsApart(t *testing.T) {
	withFixture(t, newStub(answering("ok then")), nil, func(t *testing.T, w *fixture) {
		w.say(dm("w1", "from Will"))
		w.say(by(dm("m1", "from Mia"), "78", "human"))
		w.say(dm("w2", "more from Will"))
		w.sleep(4 * time.Second)
		turns := w.stub.seen()
		if len(turns) != 2 {
			t.Fatalf("%d turns; want 2", len(turns))
		}
		got := map[string][]string{}
		for i := range turns {
			got[turns[i].Event.Author.ID] = partsOf(&turns[i])
		}
		equal(t, "Will's", got["77"], []string{"from Will", "more from Will"})
		equal(t, "Mia's", got["78"], []string{"from Mia"})
	})
}

func TestCompose_PassesAStopWordAtOnce(t *testing.T) {
	withFixture(t, newStub(answering("stopped")), nil, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "deploy to production"))
		w.sleep(500 * time.Millisecond)
		w.say(dm("e2", "wait"))
		w.sleep(10 * time.Millisecond)
		turns := w.stub.seen()
		if len(turns) != 1 {
			t.Fatalf("%d turns; want 1 at once", len(turns))
		}
		equal(t, "parts", partsOf(&turns[0]), []string{"deploy to production", "wait"})
		if turns[0].Event.Mode != "immediate" || turns[0].Event.Priority != "urgent" {
			t.Errorf("the turn is %s, %s", turns[0].Event.Mode, turns[0].Event.Priority)
		}
	})
}

func TestCompose_PassesAnUrgentMessageAtOnce(t *testing.T) {
	withFixture(t, newStub(silent), nil, func(t *testing.T, w *fixture) {
		m := dm("e1", "production is down")
		m.Priority = "urgent"
		w.say(m)
		w.sleep(10 * time.Millisecond)
		if len(w.stub.seen()) != 1 {
			t.Fatal("an urgent message waits")
		}
	})
}

// holding works on its turn until it is stopped.
func holding(ctx context.Context, _ *harness.Turn, _ harness.Tools) (harness.Outcome, error) {
	<-ctx.Done()
	return harness.Outcome{}, context.Cause(ctx)
}

func TestStopWord_CancelsARunningTurn(t *testing.T) {
	withFixture(t, newStub(holding), nil, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "deploy to production"))
		w.sleep(5 * time.Second)
		w.stub.mu.Lock()
		w.stub.turn = answering("stopped")
		w.stub.mu.Unlock()
		w.say(dm("e2", "stop"))
		w.sleep(time.Second)
		w.wantDispositions("e1 superseded", "e2 responded")
		w.wantTexts("stopped")
		equal(t, "turns", w.turnStates(), []string{"e1 1 started", "e1 1 cancelled", "e2 1 started", "e2 1 finished"})
	})
}

func TestFragment_RestartsATurnThatHasSentNothing(t *testing.T) {
	withFixture(t, newStub(holding), nil, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "please look at"))
		w.sleep(5 * time.Second)
		w.stub.mu.Lock()
		w.stub.turn = answering("looked")
		w.stub.mu.Unlock()
		w.say(dm("e2", "the deploy"))
		w.sleep(time.Second)
		if n := len(w.stub.seen()); n != 1 {
			t.Fatalf("%d turns before the window passed", n)
		}
		w.sleep(2 * time.Second)
		turns := w.stub.seen()
		if len(turns) != 2 {
			t.Fatalf("%d turns; want a second one", len(turns))
		}
		equal(t, "parts", partsOf(&turns[1]), []string{"please look at", "the deploy"})
		if turns[1].Attempt != 2 || turns[1].ID != turns[0].ID {
			t.Errorf("attempt %d of %s; want the second of %s", turns[1].Attempt, turns[1].ID, turns[0].ID)
		}
		w.sleep(time.Second)
		w.wantTexts("looked")
		w.wantDispositions("e1 superseded", "e2 responded")
	})
}

func TestTurns_OfOneThreadRunInOrder(t *testing.T) {
	busy, most := 0, 0
	s := newStub(nil)
	s.turn = func(ctx context.Context, _ *harness.Turn, _ harness.Tools) (harness.Outcome, error) {
		s.mu.Lock()
		busy++
		most = max(most, busy)
		s.mu.Unlock()
		pause(3 * time.Second)
		s.mu.Lock()
		busy--
		s.mu.Unlock()
		return harness.Outcome{State: harness.Finished, FinalText: "done with it"}, nil
	}
	withFixture(t, s, &agent.Options{ComposeCap: 3 * time.Second}, func(t *testing.T, w *fixture) {
		for i := range 4 {
			w.say(by(dm(fmt.Sprint("e", i), "go"), fmt.Sprint("author", i), "human"))
		}
		w.sleep(20 * time.Second)
		if most != 1 || len(s.seen()) != 4 {
			t.Errorf("%d turns, at most %d at once; want 4, one at a time", len(s.seen()), most)
		}
		for i := range 4 {
			m := dm(fmt.Sprint("f", i), "go")
			m.Chat.ID = fmt.Sprint("place", i)
			w.say(m)
		}
		w.sleep(8 * time.Second)
		if most != 4 {
			t.Errorf("at most %d turns at once in four places; want 4", most)
		}
	})
}

// TestCompose_WaitsWhileTheAuthorTypes checks that fragments wait while their author continues to
// type, at most until the limit. A sign of typing is not an event, and other authors' messages do
// not wait for it.
func TestCompose_WaitsWhileTheAuthorTypes(t *testing.T) {
	typing := func(author string) protocol.ChatMessage {
		m := by(dm("", ""), author, "human")
		m.Event = protocol.EventTyping
		return m
	}
	withFixture(t, newStub(answering("here")), nil, func(t *testing.T, w *fixture) {
		w.say(typing("77"))
		w.say(dm("e1", "one moment"))
		w.sleep(time.Second)
		for range 2 {
			w.say(typing("77"))
			w.sleep(8 * time.Second)
		}
		w.say(dm("e2", "now this"))
		w.say(typing("78"))
		if len(w.stub.seen()) != 0 {
			t.Fatal("a turn began while its author typed")
		}
		w.sleep(3 * time.Second)
		turns := w.stub.seen()
		if len(turns) != 1 {
			t.Fatalf("%d turns; want 1", len(turns))
		}
		equal(t, "parts", partsOf(&turns[0]), []string{"one moment", "now this"})

		w.say(dm("e3", "and then"))
		for range 8 {
			w.say(typing("77"))
			w.sleep(5 * time.Second)
		}
		if turns = w.stub.seen(); len(turns) != 2 {
			t.Errorf("%d turns after the cap; want 2", len(turns))
		}
		w.wantDispositions("e1 superseded", "e2 responded", "e3 responded")
	})
}
