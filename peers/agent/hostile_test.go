package agent_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"hubbub/peers/agent"
	"hubbub/peers/agent/harness"
	"hubbub/protocol"
)

// TestModel_CannotUseReservedKeys checks that a model cannot take a key that the agent needs for
// another event, which would keep that event from ending.
func TestModel_CannotUseReservedKeys(t *testing.T) {
	for _, key := range []string{"failed:e2", "e2:reply", "escalation:e2", "react:e2:seen"} {
		t.Run(key, func(t *testing.T) {
			s := newStub(func(_ context.Context, turn *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
				final := "done"
				if turn.Event.EventID == "e1" {
					if m, r := call(tools, "chat.send_message", map[string]any{"text": "hello", "idempotencyKey": key}); !r.IsError || m["reason"] != "key_reused" {
						t.Errorf("the key %s gave %v", key, m)
					}
					call(tools, "chat.send_message", map[string]any{"text": "hello", "idempotencyKey": "e1:reply"})
				} else if key == "failed:e2" {
					final = ""
				}
				return harness.Outcome{State: harness.Finished, FinalText: final}, nil
			})
			withFixture(t, s, nil, func(t *testing.T, w *fixture) {
				w.say(dm("e1", "first"))
				w.sleep(10 * time.Second)
				w.say(dm("e2", "second"))
				w.sleep(100 * time.Second)
				if key == "failed:e2" {
					w.wantDispositions("e1 responded", "e2 failed")
				} else {
					w.wantDispositions("e1 responded", "e2 responded")
				}
			})
		})
	}
}

func TestEventID_IsValidated(t *testing.T) {
	named := newStub(func(_ context.Context, turn *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
		id := turn.Event.EventID
		_, r := call(tools, "chat.send_message", map[string]any{"inReplyTo": id, "text": "hi", "idempotencyKey": id + ":reply"})
		if r.IsError {
			t.Errorf("the answer: %s", r.StructuredContent)
		}
		return harness.Outcome{State: harness.Finished}, nil
	})
	withFixture(t, named, nil, func(t *testing.T, w *fixture) {
		for _, id := range []string{strings.Repeat("i", 401), "e1\x1b[2J"} {
			r := w.tg.SendAs(t, "tg:42", "agent:lead", protocol.TypeTGMessage, dm(id, "a bad name"))
			if len(r.Failures) != 1 || r.Failures[0].Status != protocol.OutcomeRejected {
				t.Errorf("the id %.9q gave %+v", id, r)
			}
		}
		id := strings.Repeat("i", 400)
		w.say(dm(id, "hello"))
		w.sleep(10 * time.Second)
		w.wantDispositions(id + " responded")
	})
}

func TestFinalText_IsCutAtItsLimit(t *testing.T) {
	withFixture(t, newStub(answering(strings.Repeat("ü", 1<<20))), nil, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "tell me everything"))
		w.sleep(10 * time.Second)
		w.wantDispositions("e1 responded")
		if len(w.replies) != 1 || len(w.replies[0].Text) > 64<<10 || !strings.HasPrefix(w.replies[0].Text, "üü") ||
			!strings.HasSuffix(w.replies[0].Text, "ü\n\n[The rest was too long for a message.]") {
			t.Errorf("%d replies", len(w.replies))
		}
	})
}

func remove(id string, sequence int64) protocol.ChatMessage {
	m := dm(id, "")
	m.Event, m.Sequence = "delete", sequence
	return m
}

func TestDeletion_RemovesTheTextOfEveryEdit(t *testing.T) {
	withFixture(t, newStub(answering("hi")), nil, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "secret one"))
		w.sleep(10 * time.Second)
		w.say(edit(dm("e1", ""), "secret two", 2))
		w.sleep(10 * time.Second)
		w.say(remove("e1", 3))
		w.sleep(10 * time.Second)
		if _, r := call(w.tools(), "chat.list_events", map[string]any{}); strings.Contains(string(r.StructuredContent), "secret") {
			t.Errorf("the mailbox has %s", r.StructuredContent)
		}
	})
}

func TestDeletion_LeavesNothingToAnswer(t *testing.T) {
	withFixture(t, newStub(answering("hi")), nil, func(t *testing.T, w *fixture) {
		w.say(remove("e1", 3)) // overtook its message
		w.say(dm("e1", "hello"))
		w.say(edit(dm("e1", ""), "hello there", 2))
		w.say(dm("e2", "hello"))
		w.say(remove("e2", 3))
		w.say(edit(dm("e2", ""), "a late edit", 2))
		w.sleep(10 * time.Second)
		w.wantTexts()
		w.wantDispositions("e2 superseded")
	})
}

// TestEdit_ThatNamesAnotherEndsTheTurn checks that an agent does not answer a message that an edit
// has addressed to another.
func TestEdit_ThatNamesAnotherEndsTheTurn(t *testing.T) {
	withFixture(t, newStub(holding), nil, func(t *testing.T, w *fixture) {
		first := post("e1", "@lead deploy it")
		first.Mentions = []string{"agent:lead"}
		w.say(first)
		w.sleep(5 * time.Second)
		w.stub.mu.Lock()
		w.stub.turn = answering("deployed")
		w.stub.mu.Unlock()
		second := edit(post("e1", ""), "@w3 deploy it", 2)
		second.Mentions = []string{"agent:w3"}
		w.say(second)
		w.sleep(5 * time.Second)
		w.wantTexts()
		w.wantDispositions("e1 ignored")
		equal(t, "turns", w.turnStates(), []string{"e1 1 started", "e1 1 cancelled"})
	})
}

func TestEdit_GetsAnUnusedEventID(t *testing.T) {
	withFixture(t, newStub(answering("hi")), nil, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "hello"))
		w.sleep(5 * time.Second)
		w.say(dm("e1#edit-1", "named like an edit"))
		w.sleep(5 * time.Second)
		w.say(edit(dm("e1", ""), "hello again", 2))
		w.sleep(5 * time.Second)
		w.wantDispositions("e1 responded", "e1#edit-1 responded", "e1#edit-2 ignored")
	})
}

// TestMailbox_CountsWaitingEventsAsOpen checks that a chat cannot fill the mailbox while a model is
// stuck, and that nothing is lost. Messages without room are not rejected, which a chat would take
// as final.
func TestMailbox_CountsWaitingEventsAsOpen(t *testing.T) {
	withFixture(t, newStub(holding), &agent.Options{MaxOpen: 5, Deadline: time.Hour}, func(t *testing.T, w *fixture) {
		said := func(n int) protocol.ChatMessage {
			return by(dm(fmt.Sprint("e", n), "hello"), fmt.Sprint("person-", n), "human")
		}
		for n := range 5 {
			w.say(said(n))
			w.sleep(5 * time.Second)
		}
		r := w.tg.SendAs(t, "tg:42", "agent:lead", protocol.TypeTGMessage, said(5))
		if len(r.Failures) != 1 || r.Failures[0].Status != protocol.OutcomeError {
			t.Errorf("the sixth gave %+v", r)
		}
		other := dm("f1", "hello")
		other.Chat = &protocol.Chat{ID: "43", Kind: "dm"}
		if r := w.tg.SendAs(t, "tg:43", "agent:lead", protocol.TypeTGMessage, other); r.DeliveredTo != 1 {
			t.Errorf("another chat gave %+v", r)
		}
		w.say(remove("e0", 2)) // makes room
		w.sleep(5 * time.Second)
		w.say(said(5))
	})
}
