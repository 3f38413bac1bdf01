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
	"hubbub/peers/agent/mailbox/reminders"
	"hubbub/protocol"
	"hubbub/protocol/timetest"
)

// reminding sets a reminder in the turn of "e1", and answers reminders with their texts.
func reminding(arguments map[string]any) func(context.Context, *harness.Turn, harness.Tools) (harness.Outcome, error) {
	return func(_ context.Context, t *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
		switch {
		case t.Event.EventID == "e1":
			call(tools, "chat.remind", arguments)
		case strings.HasPrefix(t.Event.EventID, "reminder:"):
			_, text, _ := strings.Cut(t.Event.Content[0].Text, ":\n")
			call(tools, "chat.send_message", map[string]any{"text": text})
			return harness.Outcome{State: harness.Finished}, nil
		}
		return harness.Outcome{State: harness.Finished, FinalText: "noted"}, nil
	}
}

// said returns the texts of the replies since the test last asked.
func (w *fixture) said() (texts []string) {
	for _, r := range w.replies {
		texts = append(texts, r.Text)
	}
	w.replies = nil
	return texts
}

// reminders returns what chat.remind lists outside of a turn.
func (w *fixture) reminders() (list []reminders.Reminder) {
	w.t.Helper()
	m, _ := call(w.tools(), "chat.remind", map[string]any{})
	raw, err := json.Marshal(m["reminders"])
	if err == nil {
		err = json.Unmarshal(raw, &list)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

// TestReminder_FinalTextIsShown checks that a chat is shown the text that ends the turn of a reminder,
// unless the text means silence or the turn has written already.
func TestReminder_FinalTextIsShown(t *testing.T) {
	for name, c := range map[string]struct {
		tool  map[string]any // arguments of chat.send_message
		final string
		want  []string
	}{
		"a text alone":           {nil, "Tea time!", []string{"Tea time!"}},
		"in another language":    {nil, "Чай готов.", []string{"Чай готов."}},
		"silence":                {nil, "NO_REPLY", nil},
		"nothing":                {nil, "", nil},
		"only thoughts":          {nil, "<think>it is time</think>", nil},
		"a remark after writing": {map[string]any{"text": "Tea time!"}, "I have written it.", []string{"Tea time!"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStub(func(_ context.Context, t *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
				switch {
				case t.Event.EventID == "e1":
					call(tools, "chat.remind", map[string]any{"when": "2m", "text": "tea"})
					return harness.Outcome{State: harness.Finished, FinalText: "noted"}, nil
				case c.tool != nil:
					call(tools, "chat.send_message", c.tool)
				}
				return harness.Outcome{State: harness.Finished, FinalText: c.final}, nil
			})
			withFixture(t, s, nil, func(t *testing.T, w *fixture) {
				w.say(dm("e1", "remind me of tea"))
				w.sleep(time.Minute)
				w.said()
				w.sleep(2 * time.Minute)
				equal(t, "said", w.said(), c.want)
			})
		})
	}
}

// TestReminder_ComesOnce checks that it comes in the chat in which it was set, on time and across
// a restart, with a recorded reason.
func TestReminder_ComesOnce(t *testing.T) {
	s := newStub(reminding(map[string]any{"when": "10m", "text": "ask whether it is green"}))
	withFixture(t, s, nil, func(t *testing.T, w *fixture) {
		w.say(inThread(post("e1", "@lead ask again later"), "T1"))
		w.sleep(5 * time.Minute)
		equal(t, "before", w.said(), []string{"noted"})
		list := w.reminders()
		if len(list) != 1 || list[0].Text != "ask whether it is green" || list[0].SetFor != "e1" || list[0].Due.Sub(list[0].Set) != 10*time.Minute {
			t.Fatalf("listed %+v", list)
		}
		w.stop()
		w.start()
		w.sleep(6 * time.Minute)
		if len(w.replies) != 1 || w.replies[0].Text != "ask whether it is green" || w.replies[0].ThreadID != "T1" {
			t.Fatalf("replies: %+v", w.replies)
		}
		w.sleep(20 * time.Minute)
		event := fmt.Sprint("reminder:", list[0].ID, ":", list[0].Due.Unix())
		var notices []string
		for _, r := range w.records {
			switch {
			case r.is("reminder"):
				notices = append(notices, fmt.Sprint(r["eventId"], " ", r["state"], ": ", r["reason"]))
			case r["eventId"] == event && (r.is("attention_decision") || r.is("disposition")):
				notices = append(notices, fmt.Sprintf("%v %v: %v", r["policy"], r["disposition"], r["reason"]))
			}
		}
		equal(t, "records", notices, []string{
			"e1 set: ask whether it is green", event + " due: ask whether it is green", "may_respond <nil>: reminder", "<nil> responded: answered",
		})
		if len(w.replies) != 1 || len(w.reminders()) != 0 {
			t.Errorf("%d replies, %+v", len(w.replies), w.reminders())
		}
	})
}

// TestReminder_OfAProgramComesInItsThread sets a reminder through the tools that programs reach over
// MCP, which name no turn. It belongs to the thread of the running turn, and to its event.
func TestReminder_OfAProgramComesInItsThread(t *testing.T) {
	s := newStub(nil)
	withFixture(t, s, nil, func(t *testing.T, w *fixture) {
		s.turn = func(ctx context.Context, tn *harness.Turn, _ harness.Tools) (harness.Outcome, error) {
			return reminding(map[string]any{"when": "10m", "text": "rotate the keys"})(ctx, tn, w.agent.ToolsFor("tg:42"))
		}
		w.say(inThread(post("e1", "@lead remind us"), "T1"))
		w.sleep(5 * time.Minute)
		if list := w.reminders(); len(list) != 1 || list[0].SetFor != "e1" {
			t.Errorf("listed %+v", list)
		}
		w.replies = nil
		w.sleep(6 * time.Minute)
		if len(w.replies) != 1 || w.replies[0].Text != "rotate the keys" || w.replies[0].ThreadID != "T1" {
			t.Errorf("replies: %+v", w.replies)
		}
	})
}

// TestReminder_MissedTimesComeOnce checks that all times of a cron expression that passed while
// the agent was down cause one event, and that later times follow.
func TestReminder_MissedTimesComeOnce(t *testing.T) {
	s := newStub(reminding(map[string]any{"when": "*/10 * * * *", "text": "stand-up"}))
	withFixture(t, s, nil, func(t *testing.T, w *fixture) { // its clock begins on 2000-01-01
		w.say(dm("e1", "every ten minutes"))
		w.sleep(time.Minute)
		w.said()
		w.stop()
		timetest.Advance(34 * time.Minute)
		w.start()
		w.sleep(time.Minute)
		if said := w.said(); len(said) != 1 || !strings.HasPrefix(said[0], "stand-up\n\nIt repeats at Saturday 2000-01-01 00:40 +00:00 (UTC)") {
			t.Fatalf("after the gap: %q", said)
		}
		w.sleep(5 * time.Minute)
		if said := w.said(); len(said) != 1 {
			t.Errorf("the next: %q", said)
		}
	})
}

// TestReminder_SkipsTimesWhileOneIsOpen checks that no event is added while the previous one is
// open.
func TestReminder_SkipsTimesWhileOneIsOpen(t *testing.T) {
	s := newStub(reminding(map[string]any{"when": "*/10 * * * *", "text": "look"}))
	withFixture(t, s, &agent.Options{Deadline: 24 * time.Hour}, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "look every ten minutes"))
		w.sleep(time.Minute)
		w.said()
		s.setReady(false)
		w.sleep(35 * time.Minute)
		s.setReady(true)
		w.sleep(time.Minute)
		if said := w.said(); len(said) != 1 {
			t.Errorf("%d at once: %q", len(said), said)
		}
	})
}

// TestReminder_CanBeCancelledAndIsBounded checks that the agent may cancel one only in the chat
// of its turn, that a person may in any chat, that leaving cancels all, and that a chat has at
// most 20.
func TestReminder_CanBeCancelledAndIsBounded(t *testing.T) {
	s := newStub(answering("noted"))
	withFixture(t, s, nil, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "hello"))
		w.join("tg:43")
		w.sleep(time.Minute)
		remind := func(tools harness.Tools, want string, arguments map[string]any) map[string]any {
			t.Helper()
			m, _ := call(tools, "chat.remind", arguments)
			if got := strings.TrimSuffix(fmt.Sprint(m["status"], " ", m["reason"]), " <nil>"); got != want {
				t.Errorf("%v: %s; want %s", arguments, got, want)
			}
			return m
		}
		set := func(when string) map[string]any { return map[string]any{"when": when, "text": "x"} }
		in42, in43 := w.agent.ToolsFor("tg:42"), w.agent.ToolsFor("tg:43")
		for _, when := range []string{
			"", "soon", "-5m", "0s", "1999-12-31T00:00:00Z", "9000h", "* * * * *", "*/4 * * * *", "0 0 30 2 *", "0 0 9 * * *", "@everysecond", "1",
		} {
			remind(in42, "refused invalid", set(when))
		}
		remind(in42, "refused invalid", map[string]any{"when": "0 9 * * *", "text": "x", "zone": "Mars/Olympus"})
		remind(in42, "refused invalid", map[string]any{"when": "1h", "text": strings.Repeat("x", 2001)})
		remind(in42, "refused not_assigned", map[string]any{"when": "1h", "text": "x", "target": "tg:44"})
		remind(in42, "refused not_assigned", map[string]any{"when": "1h", "text": "x", "target": "tg:43"})
		remind(w.tools(), "refused invalid", set("1h"))
		for i := range 20 {
			remind(in42, "set", set(fmt.Sprint(i+1, "m")))
		}
		remind(in42, "refused invalid", set("30h"))
		remind(w.tools(), "set", map[string]any{"when": "@daily", "text": "y", "target": "43"})

		theirs := w.reminders()
		remind(in43, "refused invalid", map[string]any{"cancel": theirs[0].ID})
		remind(in42, "cancelled", map[string]any{"cancel": theirs[0].ID})
		remind(in42, "refused invalid", map[string]any{"cancel": theirs[0].ID})
		if n := len(w.reminders()); n != 20 {
			t.Errorf("%d are left", n)
		}
		w.sleep(time.Second) // the agent must not wait for the lock of the database: clocks would stand still
		found, err := reminders.RequestCancel(t.Context(), w.path, theirs[1].ID, "cli:will")
		if kept, err2 := reminders.Read(t.Context(), w.path); !found || err != nil || err2 != nil || len(kept) != 19 {
			t.Errorf("%v, %v; %v, %d kept", found, err, err2, len(kept))
		}
		w.say(post("p", "@lead go away")) // from the chat of the others, in another place
		w.say(dm("d", "@lead go away"))
		w.sleep(25 * time.Minute)
		var whys []string
		for _, r := range w.records {
			if r.is("reminder") && r["state"] == "cancelled" {
				whys = append(whys, fmt.Sprint(r["reason"]))
			}
		}
		if len(whys) != 20 || whys[0] != "the agent cancelled it" || whys[1] != "cancelled by cli:will" || whys[2] != "left" || whys[19] != "left" {
			t.Errorf("cancelled %d: %q", len(whys), whys)
		}
		turns := 0
		for _, tn := range s.seen() {
			if strings.HasPrefix(tn.Event.EventID, "reminder:") && tn.Event.Conversation.ID == "42" {
				turns++
			}
		}
		if turns != 0 {
			t.Errorf("%d turns where it was asked to leave", turns)
		}
	})
}

// TestReminder_RefusesMisnamedArguments gives chat.remind arguments whose names a model got wrong.
func TestReminder_RefusesMisnamedArguments(t *testing.T) {
	withFixture(t, newStub(answering("noted")), nil, func(t *testing.T, w *fixture) {
		_, r := call(w.agent.ToolsFor("tg:42"), "chat.remind", map[string]any{"time": "1h", "message": "tea"})
		if !r.IsError || !strings.Contains(r.Text(), "no argument has a name of the schema") {
			t.Errorf("it says %q", r.Text())
		}
	})
}

// TestSIGKILL_ReminderComesOnce kills the agent between each step of a reminder, and starts it again:
// once it is set, once its event is stored, in the turn for that, once that has answered, and at its end.
func TestSIGKILL_ReminderComesOnce(t *testing.T) {
	for _, step := range []string{"acted", "reminded", "started#2", "acted#2", "returned#2"} {
		t.Run(step, func(t *testing.T) {
			b := bustest.Start(t, nil)
			system, tg := b.Join(t, "agent:system", "system:attention"), b.Join(t, "tg:bot", "tg:*")
			data := filepath.Join(t.TempDir(), "agent.db")
			first := startChild(t, b, data, step, "remind")
			tg.SendAs(t, "tg:42", "agent:lead", protocol.TypeTGMessage, dm("e1", "later"))
			<-first.died
			startChild(t, b, data, "", "remind")
			set, due := map[string]bool{}, map[string]bool{}
			for ended := map[string]bool{}; len(ended) < 2; {
				r := content[record](t, system.Next(t))
				event := fmt.Sprint(r["eventId"])
				switch {
				case r.is("reminder") && r["state"] == "set":
					set[fmt.Sprint(r["reminderId"])] = true
				case r.is("reminder") && r["state"] == "due":
					due[event] = true
				case r.is("disposition") && r["disposition"] == "responded":
					ended[event] = true
				}
			}
			if len(set) != 1 || len(due) != 1 {
				t.Errorf("set %v, due %v; want one of each", set, due)
			}
			tg.SendAs(t, "tg:42", "agent:lead", protocol.TypeTGMessage, dm("e2", "and?"))
			texts := map[string]map[string]bool{} // by event
			for texts["e2"] == nil {
				r := content[protocol.ChatReply](t, tg.NextOf(t, protocol.TypeTGReply))
				if r.Text == "" {
					continue
				}
				if texts[r.InReplyTo] == nil {
					texts[r.InReplyTo] = map[string]bool{}
				}
				texts[r.InReplyTo][r.Text] = true
			}
			for event, said := range texts {
				if len(said) != 1 {
					t.Errorf("%s was answered %v", event, said)
				}
			}
			if len(texts) != 3 {
				t.Errorf("answered %v; want e1, the reminder and e2", texts)
			}
		})
	}
}

// TestReminder_IsSetOnceByARepeatedTurn also covers a reminder that has come in the meantime.
func TestReminder_IsSetOnceByARepeatedTurn(t *testing.T) {
	s := newStub(nil)
	s.turn = func(_ context.Context, tn *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
		if tn.Event.EventID == "e1" {
			call(tools, "chat.remind", map[string]any{"when": "1s", "text": "x"})
			if tn.Attempt < 3 {
				return harness.Outcome{}, harness.ErrTemporary
			}
		}
		return harness.Outcome{State: harness.Finished, FinalText: "noted"}, nil
	}
	withFixture(t, s, &agent.Options{FirstRetry: 5 * time.Second}, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "later"))
		w.sleep(time.Minute)
		reminded := 0
		for _, tn := range s.seen() {
			if strings.HasPrefix(tn.Event.EventID, "reminder:") {
				reminded++
			}
		}
		if len(s.seen()) != 4 || reminded != 1 {
			t.Errorf("%d turns, of which %d for reminders", len(s.seen()), reminded)
		}
	})
}
