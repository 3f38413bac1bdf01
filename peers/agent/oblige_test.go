package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/agent"
	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/harnesstest"
	"hubbub/peers/attention"
	"hubbub/peers/store/storetest"
	"hubbub/protocol"
)

// TestObligation_IsIgnoredByOlderDrafts checks that an agent of an older draft behaves the same with
// and without obligations in its messages.
func TestObligation_IsIgnoredByOlderDrafts(t *testing.T) {
	for _, version := range []attention.Version{attention.Version0602, attention.Version0624} {
		var said [2]string
		for i, oblige := range []bool{true, false} {
			s := newStub(evading)
			withFixture(t, s, &agent.Options{Version: version, Escalation: attention.EscalationPolicy{}, Fence: func() string { return "fence" }}, func(t *testing.T, w *fixture) {
				m := waiting(dm("e1", "Is the deploy blocked?"))
				if !oblige {
					m.Obligation, m.Recipients = nil, nil
				}
				w.say(m)
				w.sleep(45 * time.Minute)
				turns := s.seen()
				if len(turns) != 1 {
					t.Fatalf("%d turns", len(turns))
				}
				event, _ := json.Marshal(turns[0].Event)
				tools, _ := json.Marshal(w.tools().List())
				replies, _ := json.Marshal(w.replies)
				said[i] = turns[0].System + turns[0].Prompt + string(tools) + string(replies) + fmt.Sprint(len(event), len(w.records))
			})
		}
		if said[0] != said[1] || strings.Contains(said[0], "bligation") {
			t.Errorf("%s: with an obligation\n%s\nwithout\n%s", version, said[0], said[1])
		}
	}
}

// TestObligation_BetweenAgents checks that an agent can wait for another by a message, and that
// it or its lead may close the obligation, but never the recipient.
func TestObligation_BetweenAgents(t *testing.T) {
	s := newStub(func(_ context.Context, tn *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
		if tn.Event.EventID == "e1" {
			_, r := call(tools, "chat.send_message", map[string]any{
				"text": "@worker is step 3 safe?", "recipients": []string{"worker"}, "obligation": map[string]any{"blocks": "degraded", "defaultAction": "I skip it"},
			})
			if r.IsError {
				return harness.Outcome{State: harness.Finished, FinalText: r.Text()}, nil
			}
		}
		return harness.Outcome{State: harness.Finished}, nil
	})
	worker := newStub(silent)
	withQuestions(t, s, with0811(attention.EscalationPolicy{Lead: "boss"}), func(t *testing.T, w *fixture) {
		defer joinAgent(w, "agent:worker", worker, &agent.Options{Version: attention.Version0811})()
		w.sleep(35 * time.Second)
		w.say(mention(post("e1", "@lead ask the worker")))
		w.sleep(time.Minute)
		said := w.replies[len(w.replies)-1]
		if said.Obligation == nil || said.Obligation.Blocks != "degraded" || said.Obligation.DischargeDelegate == nil || said.Obligation.DischargeDelegate.ID != "agent:boss" || said.Recipients[0].ID != "agent:worker" || said.Directedness != "to_me" {
			t.Fatalf("it said %+v", said)
		}
		w.shown(said, "tg:1:5")
		m := by(post("tg:1:5", said.Text), "agent:lead", "agent") // as its bridge passes it on
		m.Obligation, m.Recipients, m.Directedness = said.Obligation, said.Recipients, said.Directedness
		if r := w.tg.SendAs(t, "tg:42", "agent:worker", protocol.TypeTGMessage, m); r.DeliveredTo != 1 {
			t.Fatalf("the worker: %+v", r)
		}
		w.sleep(12 * time.Minute)
		if n := len(worker.returns()); n != 1 {
			t.Errorf("it came back to the worker %d times", n)
		}
		if open := w.owed("agent:worker", "") + "|" + w.owed("agent:lead", "blocking") + "|" + w.owed("agent:boss", "blocking"); open != "worker: obligation open|worker: obligation open|worker: obligation open" {
			t.Errorf("open is %q", open)
		}
		if _, r := call(w.tools(), "chat.discharge", map[string]any{"eventId": "nothing", "recipient": "agent:worker"}); !r.IsError || !strings.Contains(r.Text(), "nobody waits") {
			t.Errorf("an unknown one: %s", r.Text())
		}
		if _, r := call(w.tools(), "chat.discharge", map[string]any{"eventId": "tg:1:5", "recipient": "worker"}); r.IsError {
			t.Errorf("to close it: %s", r.Text())
		}
		if _, r := call(w.tools(), "chat.discharge", map[string]any{"eventId": "tg:1:5", "recipient": "worker"}); !r.IsError || !strings.Contains(r.Text(), "already") {
			t.Errorf("to close it again: %s", r.Text())
		}
		w.sleep(25 * time.Minute)
		if n := len(worker.returns()); n != 1 {
			t.Errorf("closed, it came back %d times", n)
		}
		if open := w.owed("agent:worker", ""); open != "" {
			t.Errorf("open is %q", open)
		}
	})
}

// TestObligation_BetweenTwoAgentsEnds checks that a waiting agent is answered. After as many
// messages as agents may exchange without a person, the answer obliges no agent, until a person
// writes.
func TestObligation_BetweenTwoAgentsEnds(t *testing.T) {
	n, refused := 0, ""
	s := newStub(func(_ context.Context, tn *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
		if tn.Event.Knock != nil { // what it came back with
			return harness.Outcome{State: harness.Finished}, nil
		}
		n++
		args := map[string]any{"text": fresh(n), "recipients": []string{"b"}, "obligation": map[string]any{"blocks": "degraded"}}
		if _, r := call(tools, "chat.send_message", args); r.IsError {
			refused = r.Text()
			call(tools, "chat.send_message", map[string]any{"text": fresh(n)})
		}
		return harness.Outcome{State: harness.Finished}, nil
	})
	withFixture(t, s, with0811(attention.EscalationPolicy{}), func(t *testing.T, w *fixture) {
		obliging := func(from int) (answers, obliging int) {
			for _, r := range w.replies[from:] {
				answers++
				if r.Obligation != nil {
					obliging++
				}
			}
			return answers, obliging
		}
		for i := range 20 {
			w.say(waiting(mention(by(post(fmt.Sprint("b", i), fresh(1000+i)), "b", "agent"))))
			w.sleep(20 * time.Second)
		}
		if answers, bound := obliging(0); answers != 20 || bound < 2 || bound > attention.ExchangeTotal/2 || !strings.Contains(refused, "until a person writes") {
			t.Errorf("of %d answers %d oblige; then it is told %q", answers, bound, refused)
		}
		from := len(w.replies)
		w.say(post("p", "go on"))
		w.say(waiting(mention(by(post("b99", fresh(1099)), "b", "agent"))))
		w.sleep(20 * time.Second)
		if answers, bound := obliging(from); answers != 1 || bound != 1 {
			t.Errorf("after a person spoke, %d of %d answers oblige", bound, answers)
		}
	})
}

// TestRetention_KeepsOpenEvents checks that an event whose author waits, and the messages about it,
// are kept longer than others.
func TestRetention_KeepsOpenEvents(t *testing.T) {
	s := newStub(answering("yes"))
	opts := with0811(attention.EscalationPolicy{})
	opts.Retention, opts.Returns = time.Hour, &attention.ReturnIntervals{}
	withFixture(t, s, opts, func(t *testing.T, w *fixture) {
		w.say(waiting(dm("e1", "Is the deploy blocked?")))
		w.sleep(time.Minute)
		w.say(dm("e2", "and the other one?"))
		w.say(reaction("r1", "e1", "tg:99", "done", "agent:lead"))
		w.sleep(5 * time.Hour)
		_, r := call(w.tools(), "chat.list_events", map[string]any{})
		if !strings.Contains(r.Text(), `"e1"`) || strings.Contains(r.Text(), `"e2"`) {
			t.Errorf("kept is %s", r.Text())
		}
		var acts int
		if err := storetest.Scan(w.db, []any{&acts}, `SELECT count(*) FROM acts`); err != nil || acts != 1 {
			t.Errorf("%d reactions are kept, %v", acts, err)
		}
		answers := func() (n int) {
			if err := storetest.Scan(w.db, []any{&n}, `SELECT count(*) FROM sent WHERE event_id IN ('e1', 'e2')`); err != nil {
				t.Error(err)
			}
			return n
		}
		if n := answers(); n != 1 { // a reaction to it may close the obligation
			t.Errorf("%d answers are kept, want that to e1", n)
		}
		w.say(reaction("r2", "e1", "tg:77", "done", "agent:lead"))
		w.sleep(3 * time.Hour)
		if err := storetest.Scan(w.db, []any{&acts}, `SELECT count(*) FROM acts`); err != nil || acts != 0 {
			t.Errorf("closed, %d reactions are kept, %v", acts, err)
		}
		if n := answers(); n != 0 {
			t.Errorf("closed, %d answers are kept", n)
		}
	})
}

// TestObligation_InvalidIsRefusedWithItsMistake checks that the refusal of an invalid obligation names the
// mistake.
func TestObligation_InvalidIsRefusedWithItsMistake(t *testing.T) {
	withFixture(t, newStub(silent), with0811(attention.EscalationPolicy{}), func(t *testing.T, w *fixture) {
		for want, change := range map[string]func(m *protocol.ChatMessage){
			`obligation.blocks is "quite": use halted, degraded or none`: func(m *protocol.ChatMessage) { m.Obligation.Blocks = "quite" },
			"at most 16 recipients":  func(m *protocol.ChatMessage) { m.Recipients = make([]protocol.Party, 17) },
			"an id that is empty":    func(m *protocol.ChatMessage) { m.Recipients = []protocol.Party{{Kind: "agent"}} },
			"defaultAction has 5000": func(m *protocol.ChatMessage) { m.Obligation.DefaultAction = strings.Repeat("x", 5000) },
			"the author 77 and the actor 99": func(m *protocol.ChatMessage) {
				*m = by(reaction("r", "e", "99", "done", "agent:lead"), "77", "human")
			},
		} {
			m := waiting(dm("bad", "hi"))
			change(&m)
			if r := w.tg.SendAs(t, "tg:42", "agent:lead", protocol.TypeTGMessage, m); r.DeliveredTo != 0 || len(r.Failures) != 1 || !strings.Contains(r.Failures[0].Error, want) {
				t.Errorf("want %q: %+v", want, r)
			}
		}
		forged := protocol.Reaction{Event: "reaction", ReactionID: "r", TargetEventID: "e1", Signal: "done", Actor: protocol.Party{ID: "agent:boss"}}
		other := w.bus.Join(t, "agent:other")
		if r := other.SendAs(t, "agent:other", "agent:lead", protocol.TypeAgentEvent, forged); len(r.Failures) != 1 || !strings.Contains(r.Failures[0].Error, "agent:other may react for itself only, not for agent:boss") {
			t.Errorf("forged: %+v", r)
		}
	})
}

// TestSIGKILL_KeepsObligations kills an agent at every step. An obligation is opened once,
// returns once per interval, escalates once, and stays closed once it is closed.
func TestSIGKILL_KeepsObligations(t *testing.T) {
	for _, step := range []string{"stored#2", "started", "reminded of an obligation", "reminded of an obligation#2", "escalated", "stored#3"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			b := bustest.Start(t, nil)
			system, tg := b.Join(t, "agent:system", "system:attention"), b.Join(t, "tg:bot", "tg:*")
			data := filepath.Join(t.TempDir(), "agent.db")
			at := step
			if step == "stored#3" { // the reaction that closes it
				at = ""
			}
			child := startChild(t, b, data, at, "oblige")
			say := func(m protocol.ChatMessage) { // as a bridge does, until it is taken
				for tg.SendAs(t, "tg:42", "agent:lead", protocol.TypeTGMessage, m).DeliveredTo != 1 {
					select {
					case <-child.died:
						child = startChild(t, b, data, "", "oblige")
					default:
					}
				}
			}
			say(by(post("0", "morning"), "88", "human"))
			m := waiting(dm("e1", "is it blocked?"))
			say(m)
			say(m)
			times := map[string]int{}
			seen := map[protocol.MessageID]bool{}
			for times["opened rung"] == 0 {
				harnesstest.Until(t, "the next record", func() bool {
					if at != "" {
						select {
						case <-child.died:
							child, at = startChild(t, b, data, "", "oblige"), ""
						default:
						}
					}
					return system.Pending() > 0
				})
				d := system.Next(t)
				if r := content[record](t, d); r.is("obligation") && !seen[d.Message.MessageID] {
					seen[d.Message.MessageID] = true
					times[fmt.Sprint(r["state"], " ", r["returnId"])]++
					if r["state"] == "escalated" {
						times["opened rung"]++
					}
				}
			}
			if step == "stored#3" {
				child.kill()
				child = startChild(t, b, data, "stored", "oblige")
			}
			say(reaction("r1", "e1", "tg:77", "done", "agent:lead"))
			say(reaction("r1", "e1", "tg:77", "done", "agent:lead"))
			child.kill()
			child = startChild(t, b, data, "", "oblige")
			say(dm("/close", "/close e1"))
			for shown := map[string]bool{}; ; {
				r := content[protocol.ChatReply](t, tg.NextOf(t, protocol.TypeTGReply))
				if strings.HasPrefix(r.IdempotencyKey, "obligation:") && r.Edits == "" {
					if shown[r.IdempotencyKey] = true; len(shown) > 1 {
						t.Errorf("two escalations are shown: %v", shown)
					}
				}
				if r.Text == "That is already closed." {
					break
				}
			}
			for what, n := range times {
				if n != 1 && !strings.HasPrefix(what, "missed") && !strings.HasPrefix(what, "waits") {
					t.Errorf("%s %d times: %v", what, n, times)
				}
			}
		})
	}
}

// TestObligation_OfAPersonIsListed checks that it is listed when the chat reports the message's
// id, or under the message's own id while its delivery is unknown, and not if the message is
// lost.
func TestObligation_OfAPersonIsListed(t *testing.T) {
	for _, c := range []struct {
		name     string
		statuses []protocol.DeliveryStatus
		listed   string
	}{
		{"on its way", nil, "[]"},
		{"delivered", []protocol.DeliveryStatus{{Status: protocol.StatusDelivered, SourceID: "tg:1:5"}}, "[tg:1:5]"},
		{"unknown", []protocol.DeliveryStatus{{Status: protocol.StatusUnknown}}, "[msg]"},
		{"sent again", []protocol.DeliveryStatus{{Status: protocol.StatusUnknown}, {Status: protocol.StatusDelivered, SourceID: "tg:1:5"}}, "[tg:1:5]"},
		{"never", []protocol.DeliveryStatus{{Status: protocol.StatusUnknown}, {Status: protocol.StatusFailed, Reason: "the chat is gone"}}, "[]"},
	} {
		s := newStub(func(_ context.Context, tn *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
			if tn.Event.EventID == "e1" {
				call(tools, "chat.send_message", map[string]any{"text": "Which region?", "obligation": map[string]any{"blocks": "halted"}})
			}
			return harness.Outcome{State: harness.Finished}, nil
		})
		withQuestions(t, s, with0811(attention.EscalationPolicy{}), func(t *testing.T, w *fixture) {
			w.say(dm("e1", "Deploy it, please"))
			w.sleep(10 * time.Second)
			for _, status := range c.statuses {
				status.IdempotencyKey = w.replies[len(w.replies)-1].IdempotencyKey
				w.tg.SendAs(t, "tg:42", "agent:lead", protocol.TypeDeliveryStatus, status)
				w.sleep(2 * time.Second)
			}
			_, r := call(w.tools(), "owe", map[string]any{"who": "tg:77"})
			var got struct{ Obligations []struct{ ID string } }
			if err := json.Unmarshal(r.StructuredContent, &got); err != nil {
				t.Fatal(err)
			}
			ids := []string{}
			for _, o := range got.Obligations {
				kind, _, _ := strings.Cut(o.ID, "_") // its own id is "msg_..."
				ids = append(ids, kind)
			}
			if listed := fmt.Sprint(ids); listed != c.listed {
				t.Errorf("%s: listed is %s, not %s", c.name, listed, c.listed)
			}
		})
	}
}
