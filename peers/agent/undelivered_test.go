package agent_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/protocol"
)

// reportStatus sends the agent the delivery_status of a reply.
func (w *fixture) reportStatus(r protocol.ChatReply, status, reason string) {
	w.tg.SendAs(w.t, "tg:42", "agent:lead", protocol.TypeDeliveryStatus, protocol.DeliveryStatus{Status: status, IdempotencyKey: r.IdempotencyKey, Reason: reason})
	w.sleep(10 * time.Second)
}

const blocked = "Forbidden: bot was blocked by the user"

// TestUndelivered_BecomesAnEvent checks that an undelivered message becomes an event once,
// after its turn has ended, so that the model can say something else. If that is not delivered
// either, no further event follows.
func TestUndelivered_BecomesAnEvent(t *testing.T) {
	s := newStub(answering("a very long answer?"))
	withFixture(t, s, nil, func(t *testing.T, w *fixture) {
		w.say(dm("1", "what is it?"))
		w.sleep(10 * time.Second)
		w.reportStatus(w.replies[0], protocol.StatusUnknown, "the connection broke")
		if n := len(s.seen()); n != 1 {
			t.Fatalf("%d turns, before it is certain", n)
		}
		s.mu.Lock()
		s.turn = func(_ context.Context, tn *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
			call(tools, "chat.send_message", map[string]any{"inReplyTo": tn.Event.EventID, "text": "in short: no"})
			return harness.Outcome{State: harness.Finished}, nil
		}
		s.mu.Unlock()
		w.reportStatus(w.replies[0], protocol.StatusFailed, "Bad Request: message is too long")
		w.reportStatus(w.replies[0], protocol.StatusFailed, "Bad Request: message is too long")
		turns := s.seen()
		if len(turns) != 2 {
			t.Fatalf("%d turns", len(turns))
		}
		if e := turns[1].Event; e.Policy != "may_respond" || e.Reason != "undelivered" || !strings.Contains(turns[1].Prompt,
			"was not delivered; nobody there has seen it: Bad Request: message is too long. It began: a very long answer?") {
			t.Errorf("the agent hears %+v\n%s", e, turns[1].Prompt)
		}
		w.wantTexts("a very long answer?", "in short: no")
		if r := w.replies[1]; r.InReplyTo != "1" {
			t.Errorf("the second answer is %+v", r)
		}
		w.reportStatus(w.replies[1], protocol.StatusFailed, blocked)
		w.sleep(time.Hour)
		if n := len(s.seen()); n != 2 {
			t.Errorf("%d turns for what was lost", n)
		}
	})
}

// TestUndelivered_IsReportedToItsTurn checks that a running turn is notified by its next tool
// result, and may answer the event once more, not twice.
func TestUndelivered_IsReportedToItsTurn(t *testing.T) {
	var lost chan bool // of the clock's bubble
	var results []string
	s := newStub(nil)
	s.turn = func(_ context.Context, tn *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
		for i, text := range []string{"long", "short", "shorter"} {
			m, r := call(tools, "chat.send_message", map[string]any{"text": text})
			results = append(results, fmt.Sprint(m["status"], " ", m["reason"]))
			if !r.IsError {
				<-lost
			}
			_, r = call(tools, "chat.list_events", map[string]any{"limit": 1})
			if reports := r.Content[1:]; len(reports) == 1 && strings.Contains(reports[0].Text, "was not delivered; nobody there has seen it: "+fmt.Sprint("too long ", i)) {
				results = append(results, "told")
			}
			if _, r = call(tools, "chat.list_events", map[string]any{"limit": 1}); len(r.Content) > 1 {
				results = append(results, "told again")
			}
		}
		return harness.Outcome{State: harness.Finished}, nil
	}
	withFixture(t, s, nil, func(t *testing.T, w *fixture) {
		lost = make(chan bool)
		w.say(dm("1", "what is it?"))
		for i := range 2 {
			w.sleep(10 * time.Second)
			w.reportStatus(w.replies[i], protocol.StatusFailed, fmt.Sprint("too long ", i))
			lost <- true
		}
		w.sleep(time.Hour)
		equal(t, "the turn saw", results, []string{"sent <nil>", "told", "sent <nil>", "told", "refused already_answered"})
		w.wantTexts("long", "short")
		if n := len(s.seen()); n != 1 {
			t.Errorf("%d turns", n)
		}
	})
}

// TestUndelivered_AfterTheTurnBecomesAnEvent covers a turn that ends without calling a tool after the
// loss, and a message that the agent sent first. Lost signs and notices are not reported.
func TestUndelivered_AfterTheTurnBecomesAnEvent(t *testing.T) {
	var lost chan bool // of the clock's bubble
	s := newStub(nil)
	s.turn = func(_ context.Context, tn *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
		if tn.Event.EventID == "1" {
			call(tools, "chat.react", map[string]any{"signal": "working"})
			call(tools, "chat.post", map[string]any{"target": "tg:42", "text": "news", "reason": "a test"})
			call(tools, "chat.send_message", map[string]any{"text": "yes"})
			<-lost
		}
		return harness.Outcome{State: harness.Finished}, nil
	}
	withFixture(t, s, nil, func(t *testing.T, w *fixture) {
		lost = make(chan bool)
		w.say(dm("1", "what is it?"))
		w.sleep(10 * time.Second)
		for _, r := range w.replies {
			w.reportStatus(r, protocol.StatusFailed, blocked)
		}
		if n := len(s.seen()); n != 1 {
			t.Fatalf("%d turns while the first runs", n)
		}
		close(lost)
		w.sleep(time.Minute)
		var reports []string
		for _, tn := range s.seen()[1:] {
			for _, p := range tn.Event.Content {
				reports = append(reports, p.Text[strings.Index(p.Text, "It began"):])
			}
		}
		equal(t, "told", reports, []string{"It began: news", "It began: yes"})
	})
}

// TestUndelivered_PartlyShownCountsAsAnswered checks that the agent is notified, and that the
// event gets no other answer.
func TestUndelivered_PartlyShownCountsAsAnswered(t *testing.T) {
	s := newStub(answering("a very long answer"))
	withFixture(t, s, nil, func(t *testing.T, w *fixture) {
		w.say(dm("1", "what is it?"))
		w.sleep(10 * time.Second)
		w.tg.SendAs(w.t, "tg:42", "agent:lead", protocol.TypeDeliveryStatus, protocol.DeliveryStatus{
			Status: protocol.StatusFailed, IdempotencyKey: w.replies[0].IdempotencyKey, SourceID: "shown", Reason: blocked,
		})
		w.sleep(10 * time.Second)
		if turns := s.seen(); len(turns) != 2 || !strings.Contains(turns[1].Prompt, "Only the beginning of your message was delivered") {
			t.Errorf("%d turns", len(turns))
		}
		if m, _ := call(w.tools(), "chat.send_message", map[string]any{"inReplyTo": "1", "text": "in short"}); m["status"] != "refused" {
			t.Errorf("another answer is %v", m)
		}
	})
}
