package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"hubbub/peers/agent"
	"hubbub/peers/agent/harness"
	"hubbub/peers/attention"
	"hubbub/protocol"
	"hubbub/protocol/timetest"
)

// with0811 are the options of an agent of draft 2026-08-11 with an escalation policy.
func with0811(policy attention.EscalationPolicy) *agent.Options {
	return &agent.Options{Version: attention.Version0811, Escalation: policy}
}

// waiting makes an obligating event of a message: its author waits for agent:lead.
func waiting(m protocol.ChatMessage) protocol.ChatMessage {
	m.Recipients = []protocol.Party{{ID: "lead", Kind: "agent"}}
	m.Obligation = &protocol.Obligation{Blocks: "halted", DefaultAction: "Keep the deployment\npaused"}
	m.CreatedAt = protocol.FormatTime(time.Now())
	return m
}

// reaction is one of draft 2026-08-11 to an event.
func reaction(id, target, actor, signal, recipient string) protocol.ChatMessage {
	kind := "human"
	if strings.HasPrefix(actor, "agent:") {
		kind = "agent"
	}
	m := protocol.ChatMessage{
		Event: "reaction", ReactionID: id, TargetEventID: target, Signal: signal, Actor: &protocol.Party{ID: actor, Kind: kind},
		Chat: &protocol.Chat{ID: "42", Kind: "dm"},
	}
	if recipient != "" {
		m.Recipient = &protocol.Party{ID: recipient, Kind: "agent"}
	}
	return m
}

// returns lists the ages at which an open obligation came back as a turn of the model.
func (s *stub) returns() (list []string) {
	for _, t := range s.seen() {
		if strings.HasPrefix(t.Event.EventID, "return:") {
			list = append(list, t.Event.Knock.Age)
		}
	}
	return list
}

// obligations lists "state reason" of the records of obligations.
func (w *fixture) obligations() []string { return w.obligationsOf("") }

// obligationsOf lists them for one agent. The records of two agents have no order.
func (w *fixture) obligationsOf(agent protocol.PeerID) (list []string) {
	for _, r := range w.records {
		if r.is("obligation") && (agent == "" || r["agent"] == string(agent)) {
			id, _, _ := strings.Cut(fmt.Sprint(r["obligationId"]), "_")
			said := fmt.Sprintf("%s %s", r["state"], id)
			if r["to"] != nil {
				said = fmt.Sprintf("%s to %s", r["state"], r["to"])
			}
			list = append(list, said)
		}
	}
	return list
}

// evading sends one text that is not an answer, and reacts with done and seen, as arm A
// describes.
func evading(_ context.Context, tn *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
	if !strings.HasPrefix(tn.Event.EventID, "return:") {
		call(tools, "chat.send_message", map[string]any{"text": "nice weather today"})
		call(tools, "chat.react", map[string]any{"signal": "done"})
		call(tools, "chat.react", map[string]any{"signal": "seen"})
	}
	return harness.Outcome{State: harness.Finished}, nil
}

var halfAnHour = []string{"10m0s", "20m0s", "30m0s"}

// runArm makes the author wait for agent:lead, whose lead is agent:boss.
func runArm(t *testing.T, s *stub, opts *agent.Options, test func(t *testing.T, w *fixture)) {
	withQuestions(t, s, opts, func(t *testing.T, w *fixture) {
		boss := newStub(silent)
		defer joinAgent(w, "agent:boss", boss, &agent.Options{Version: attention.Version0811})()
		w.sleep(35 * time.Second)
		w.say(waiting(dm("e1", "Can you check whether the deploy is blocked?")))
		test(t, w)
	})
}

// TestEvalArms_AAndD checks that reading, an unrelated reply, and done and seen of the recipient
// do not close an obligation: it comes back, each time in a turn and with the same bytes.
func TestEvalArms_AAndD(t *testing.T) {
	var seen [2]string
	for i, read := range []bool{true, false} {
		s := newStub(func(ctx context.Context, tn *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
			if read {
				call(tools, "chat.read_thread", map[string]any{"conversation": "42"})
			}
			return evading(ctx, tn, tools)
		})
		runArm(t, s, with0811(attention.EscalationPolicy{Lead: "boss"}), func(t *testing.T, w *fixture) {
			w.sleep(41 * time.Minute)
			equal(t, "returns", s.returns(), halfAnHour)
			equal(t, "obligations", w.obligationsOf("agent:lead"), []string{
				"opened e1", "none e1", "returned e1", "returned e1", "returned e1", "escalated to agent:boss",
			})
			equal(t, "obligations of the lead", w.obligationsOf("agent:boss"), []string{"opened rung"})
			if d := w.dispositions(); d[0] != "e1 responded" {
				t.Errorf("the event itself ended as %q", d)
			}
			prompts := []string{}
			for _, turn := range s.seen() {
				prompts = append(prompts, turn.Prompt)
			}
			seen[i] = strings.Join(prompts[1:], "\n\n")
			for _, want := range []string{"C2A KNOCK", "from: human:77", "open_for: 10m0s", "author_is: halted", `default_action: Keep the deployment paused`, "pull_with: chat.read_thread", "response_policy: must_respond"} {
				if !strings.Contains(seen[i], want) {
					t.Errorf("the return lacks %q:\n%s", want, seen[i])
				}
			}
			if strings.Contains(seen[i], "deploy is blocked") {
				t.Errorf("a return shows the content:\n%s", seen[i])
			}
		})
	}
	if seen[0] != seen[1] {
		t.Errorf("read it is\n%s\nunread\n%s", seen[0], seen[1])
	}
}

// TestEvalArm_B checks that the author's or delegate's "done" for the recipient closes it
// permanently, even if the reaction is removed.
func TestEvalArm_B(t *testing.T) {
	s := newStub(evading)
	withFixture(t, s, with0811(attention.EscalationPolicy{}), func(t *testing.T, w *fixture) {
		answer := func(id string) protocol.ChatMessage {
			w.shown(w.replies[len(w.replies)-3], "shown "+id) // two signals came after it
			return inReply(dm("close "+id, ""), "shown "+id)
		}
		for id, closing := range map[string]func(id string){
			"author":   func(id string) { w.say(reaction("r1", id, "tg:77", "done", "agent:lead")) },
			"bare":     func(id string) { w.say(reaction("r2", id, "77", "done", "lead")) },
			"delegate": func(id string) { w.say(reaction("r3", id, "tg:88", "done", "agent:lead")) },
			"thumb": func(id string) {
				m := answer(id)
				m.Event, m.Signal = "reaction", "agree"
				w.say(m)
			},
			"word":      func(id string) { m := answer(id); m.Text = "/close@some_bot"; w.say(m) },
			"bare word": func(id string) { w.say(dm("close "+id, "/close")) },
			"named":     func(id string) { w.say(dm("close "+id, "/close "+id)) },
			"deletion":  func(id string) { m := dm(id, ""); m.Event = "delete"; w.say(m) },
		} {
			m := waiting(dm(id, fresh(len(id))+"?"))
			m.Obligation.DischargeDelegate = &protocol.Party{ID: "88", Kind: "human"}
			w.say(m)
			w.sleep(10 * time.Second)
			closing(id)
			w.sleep(time.Second)
			w.say(reaction("away "+id, id, "tg:77", "", "agent:lead"))
		}
		w.sleep(45 * time.Minute)
		equal(t, "returns", s.returns(), nil)
		if got := w.obligations(); len(got) != 16+8 { // opened, evidence of the recipient, discharged
			t.Errorf("obligations are %q", got)
		}
	})
}

// TestObligation_IsDischargedByNothingElse checks that it comes back whatever others do.
func TestObligation_IsDischargedByNothingElse(t *testing.T) {
	s := newStub(evading)
	withFixture(t, s, with0811(attention.EscalationPolicy{}), func(t *testing.T, w *fixture) {
		w.say(waiting(dm("e1", "Can you check whether the deploy is blocked?")))
		w.sleep(time.Minute)
		deleted := by(dm("e1", ""), "99", "human")
		deleted.Event = "delete"
		for _, m := range []protocol.ChatMessage{
			reaction("r1", "e1", "tg:77", "done", ""), reaction("r2", "e1", "tg:77", "done", "agent:w3"), reaction("r3", "e1", "tg:99", "done", "agent:lead"),
			reaction("r4", "e1", "agent:lead", "declined", "agent:lead"), reaction("r5", "e1", "tg:77", "seen", "agent:lead"),
			by(dm("r6", "/close"), "99", "human"), by(dm("r7", "/close e1"), "99", "human"), deleted,
		} {
			w.say(m)
		}
		w.sleep(31 * time.Minute)
		equal(t, "returns", s.returns(), halfAnHour)
		w.wantTexts("nice weather today", "signal done", "signal seen", "You are not waiting for anything from lead here.", "Only the person who is waiting can close that.")
	})
}

// TestEvalArm_C checks that, without any signal, it comes back three times at equal intervals and
// then escalates to another recipient.
func TestEvalArm_C(t *testing.T) {
	s := newStub(silent)
	runArm(t, s, with0811(attention.EscalationPolicy{Lead: "boss"}), func(t *testing.T, w *fixture) {
		w.sleep(39 * time.Minute)
		equal(t, "returns", s.returns(), halfAnHour)
		if got := w.obligations(); strings.Contains(strings.Join(got, " "), "escalated") {
			t.Errorf("before its time: %q", got)
		}
		w.sleep(2 * time.Minute)
		if got := w.obligationsOf("agent:lead"); got[len(got)-1] != "escalated to agent:boss" {
			t.Errorf("obligations are %q", got)
		}
		equal(t, "obligations of the lead", w.obligationsOf("agent:boss"), []string{"opened rung"})
		w.sleep(33 * time.Minute)
		equal(t, "returns", s.returns(), halfAnHour)
		owed := 0
		for _, r := range w.records {
			if r.is("obligation") && r["agent"] == "agent:boss" && r["state"] == "returned" {
				owed++
			}
		}
		if owed != 3 {
			t.Errorf("the lead was reminded %d times: %q", owed, w.obligations())
		}
	})
}

// TestEvalArms_FailWithoutReturns is the control: without returns, nothing comes back and nothing
// escalates, in arms A and C.
func TestEvalArms_FailWithoutReturns(t *testing.T) {
	for name, turn := range map[string]func(context.Context, *harness.Turn, harness.Tools) (harness.Outcome, error){"A": evading, "C": silent} {
		t.Run(name, func(t *testing.T) {
			s := newStub(turn)
			opts := with0811(attention.EscalationPolicy{Person: "tg:88"})
			opts.Returns = &attention.ReturnIntervals{}
			withFixture(t, s, opts, func(t *testing.T, w *fixture) {
				w.say(by(post("0", "morning"), "88", "human"))
				w.say(waiting(dm("e1", "Can you check whether the deploy is blocked?")))
				w.sleep(50 * time.Minute)
				if got := s.returns(); len(got) > 0 || strings.Contains(strings.Join(w.obligations(), " "), "escalated") {
					t.Errorf("it comes back at %q: %q", got, w.obligations())
				}
			})
		})
	}
}

// TestObligation_SignalsOfTheRecipient checks each signal of the draft, sent with the model's
// tools.
func TestObligation_SignalsOfTheRecipient(t *testing.T) {
	s := newStub(func(_ context.Context, tn *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
		if !strings.HasPrefix(tn.Event.EventID, "return:") {
			call(tools, "chat.react", map[string]any{"signal": tn.Event.EventID})
		}
		return harness.Outcome{State: harness.Finished}, nil
	})
	withFixture(t, s, with0811(attention.EscalationPolicy{Person: "tg:88"}), func(t *testing.T, w *fixture) {
		w.say(by(post("0", "morning"), "88", "human"))
		longer := []string{"20m0s", "30m0s", "40m0s"}
		for signal, c := range map[string]struct {
			returns []string
			tail    string
		}{
			"working": {longer, ""}, "queued": {longer, ""}, "claimed": {halfAnHour, ""}, "agree": {halfAnHour, ""},
			"declined": {nil, "escalated"}, "blocked": {nil, "escalated"}, "unclear": {nil, "paused"},
		} {
			from := len(s.returns())
			w.say(waiting(dm(signal, fresh(len(signal))+"?")))
			w.sleep(41 * time.Minute)
			equal(t, signal, s.returns()[from:], c.returns)
			if all := strings.Join(w.obligations(), "\n"); c.tail != "" && !strings.Contains(all, c.tail+" "+signal) {
				t.Errorf("after %s obligations are %s", signal, all)
			}
			w.say(reaction("closed "+signal, signal, "tg:77", "done", "agent:lead"))
		}
	})
}

// TestObligation_UnclearObligesTheAuthor checks that an author owes a clarification until they give it.
// Then the event continues, and the author's obligation is closed. The event may become unclear
// again.
func TestObligation_UnclearObligesTheAuthor(t *testing.T) {
	unclear := true
	s := newStub(func(_ context.Context, tn *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
		if unclear {
			call(tools, "chat.react", map[string]any{"inReplyTo": tn.Event.EventID, "signal": "unclear"})
		}
		return harness.Outcome{State: harness.Finished}, nil
	})
	withQuestions(t, s, with0811(attention.EscalationPolicy{}), func(t *testing.T, w *fixture) {
		w.say(waiting(dm("e1", "Is it blocked?")))
		w.sleep(15 * time.Minute)
		asked := func() (list []string) {
			for _, r := range w.replies {
				if strings.Contains(r.Text, "I do not understand this") && r.Obligation != nil && r.Recipients[0].ID == "tg:77" {
					list = append(list, r.IdempotencyKey)
				} else if r.Text != "" && !strings.Contains(r.Text, "closed") {
					t.Errorf("it says %q", r.Text)
				}
			}
			return list
		}
		if open := w.owed("tg:77", "") + "|" + w.owed("agent:lead", ""); len(asked()) != 1 || open != "77: obligation open|lead: obligation paused" {
			t.Fatalf("asked %q, open is %q", asked(), open)
		}
		w.say(edit(dm("e1", ""), "Is step 3 of the deploy blocked?", 2))
		w.sleep(6 * time.Minute)
		if open := w.owed("tg:77", "") + "|" + w.owed("agent:lead", ""); len(asked()) != 2 || open != "77: obligation open|lead: obligation paused" {
			t.Fatalf("asked again %q, open is %q", asked(), open)
		}
		unclear = false
		w.say(waiting(dm("e2", "I mean the database step.")))
		w.sleep(6 * time.Minute)
		if open := w.owed("tg:77", "") + "|" + w.owed("agent:lead", ""); open != "|lead: obligation open, lead: obligation open" {
			t.Errorf("in the end, open is %q", open)
		}
		w.sleep(20 * time.Minute)
		if n := len(s.returns()); n < 3 {
			t.Errorf("it came back %d times: %q", n, w.obligations())
		}
	})
}

// owed lists "recipient: id" from the results of the agent's tools.
func (w *fixture) owed(who, tool string) string {
	w.t.Helper()
	if tool == "" {
		tool = "owe"
	}
	_, r := call(w.tools(), tool, map[string]any{"who": who})
	var got struct {
		Obligations []struct{ ID, State, OwedByID, Kind string }
	}
	if err := json.Unmarshal(r.StructuredContent, &got); err != nil {
		w.t.Fatalf("%s gives %s", tool, r.Text())
	}
	list := []string{}
	for _, o := range got.Obligations {
		list = append(list, o.OwedByID+": "+o.Kind+" "+o.State)
	}
	return strings.Join(list, ", ")
}

// TestObligation_AgeAndTierOutliveARestart checks that the age remains that of the event, and that missed
// returns are not made up for.
func TestObligation_AgeAndTierOutliveARestart(t *testing.T) {
	s := newStub(silent)
	withFixture(t, s, with0811(attention.EscalationPolicy{}), func(t *testing.T, w *fixture) {
		w.say(waiting(dm("e1", "Is the deploy blocked?")))
		w.sleep(11 * time.Minute)
		w.stop()
		timetest.Advance(14 * time.Minute) // over the return at 20
		w.start()
		w.sleep(4 * time.Minute)
		equal(t, "returns", s.returns(), halfAnHour[:1])
		w.sleep(2 * time.Minute)
		equal(t, "returns", s.returns(), []string{"10m0s", "30m0s"})
		if got := strings.Join(w.obligations(), ","); !strings.Contains(got, "missed e1") {
			t.Errorf("obligations are %s", got)
		}
	})
}

// TestReaction_ToAnUnknownEventIsHeld checks that the reaction closes the event when it arrives.
func TestReaction_ToAnUnknownEventIsHeld(t *testing.T) {
	s := newStub(silent)
	withFixture(t, s, with0811(attention.EscalationPolicy{}), func(t *testing.T, w *fixture) {
		w.say(reaction("r1", "e1", "tg:77", "done", "agent:lead"))
		w.sleep(time.Minute)
		w.say(waiting(dm("e1", "Is the deploy blocked?")))
		w.sleep(31 * time.Minute)
		equal(t, "returns", s.returns(), nil)
		equal(t, "obligations", w.obligations(), []string{"opened e1", "discharged e1"})
	})
}

// TestEscalation_EndsAtAPerson checks that nothing returns to the person, who sees the obligation
// and may close it.
func TestEscalation_EndsAtAPerson(t *testing.T) {
	s := newStub(silent)
	withQuestions(t, s, with0811(attention.EscalationPolicy{}), func(t *testing.T, w *fixture) {
		w.say(by(post("0", "morning"), "88", "human"))
		w.say(waiting(mention(post("e1", "@lead is the deploy blocked?"))))
		w.sleep(41 * time.Minute)
		shown := w.replies[len(w.replies)-1]
		if !strings.Contains(shown.Text, "lead has not answered 1 obligation") || !strings.Contains(shown.Text, "- tg:77 waits for 40m0s (halted): @lead is the deploy blocked? — otherwise: Keep the deployment paused") || shown.InReplyTo != "0" {
			t.Fatalf("the person is shown %+v", shown)
		}
		n := len(w.replies)
		w.sleep(2 * time.Hour)
		if len(w.replies) != n {
			t.Errorf("the person is told again: %+v", w.replies[n:])
		}
		if open := w.owed("tg:88", ""); open != "88: obligation open" {
			t.Errorf("in sight is %q", open)
		}
		w.shown(shown, "rung")
		m := by(inReply(post("r1", ""), "rung"), "77", "human") // a person who was not asked closes nothing
		m.Event, m.Signal = "reaction", "seen"
		w.say(m)
		m = by(inReply(post("r2", ""), "rung"), "88", "human")
		m.Event, m.Signal, m.Recipient = "reaction", "agree", &protocol.Party{ID: "agent:lead", Kind: "agent"} // the author of the message, as bridges report it
		w.say(m)
		w.sleep(time.Minute)
		if open := w.owed("tg:88", "") + "|" + w.owed("agent:lead", ""); open != "|lead: obligation escalated" && open != "|lead: obligation open" {
			t.Errorf("after the person closed the list, open is %q", open)
		}
		w.say(reaction("r3", "e1", "tg:77", "done", "agent:lead"))
		w.sleep(time.Minute)
		if open := w.owed("agent:lead", ""); open != "" {
			t.Errorf("in the end, open is %q", open)
		}
	})
}

// TestEscalations_ToOneLevelCoalesce checks that the escalations to one level are one event that lists them,
// including later ones. It ends once all listed obligations are closed, and closing it closes none
// of them.
func TestEscalations_ToOneLevelCoalesce(t *testing.T) {
	s := newStub(silent)
	boss := newStub(silent)
	withQuestions(t, s, with0811(attention.EscalationPolicy{Lead: "boss"}), func(t *testing.T, w *fixture) {
		defer joinAgent(w, "agent:boss", boss, &agent.Options{Version: attention.Version0811, Returns: &attention.ReturnIntervals{}})()
		w.sleep(35 * time.Second)
		one, two := waiting(dm("e1", "one")), waiting(by(post("e2", "two"), "78", "human")) // due at the same time
		w.say(one)
		w.say(two)
		w.sleep(5 * time.Minute)
		w.say(waiting(by(post("e3", "three"), "79", "human")))
		w.sleep(36 * time.Minute)
		turns := boss.seen()
		if len(turns) != 1 || !strings.Contains(turns[0].Prompt, "2 obligations") || !strings.Contains(turns[0].Prompt, "tg:77 waits") || !strings.Contains(turns[0].Prompt, "tg:78 waits") {
			t.Fatalf("the lead had %d turns: %+v", len(turns), turns)
		}
		w.sleep(10 * time.Minute)
		if n := len(boss.seen()); n != 1 {
			t.Errorf("the third made a turn of its own: %d", n)
		}
		if open := w.owed("agent:boss", ""); open != "boss: obligation open" {
			t.Errorf("the lead owes %q", open)
		}
		for i, who := range []string{"tg:77", "tg:78", "tg:79"} {
			w.say(reaction(fmt.Sprint("r", i), fmt.Sprint("e", i+1), who, "done", "agent:lead"))
			w.sleep(time.Minute)
			if open := w.owed("agent:boss", ""); (open == "") != (i == 2) {
				t.Errorf("after %d are closed the lead owes %q", i+1, open)
			}
		}
	})
}
