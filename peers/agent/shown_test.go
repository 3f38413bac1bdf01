package agent_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/peers/agent"
	"hubbub/peers/agent/harness"
	"hubbub/protocol"

	"github.com/google/go-cmp/cmp"
)

func constantFence() string { return "FENCE" }

// turnOf returns the newest turn of an event.
func (w *fixture) turnOf(event string) harness.Turn {
	w.t.Helper()
	for _, turn := range slices.Backward(w.stub.seen()) {
		if turn.Event.EventID == event {
			return turn
		}
	}
	w.t.Fatalf("there was no turn of %s", event)
	return harness.Turn{}
}

// TestHarness_ReceivesTheWholeEvent checks everything that a model and a program receive about an event.
func TestHarness_ReceivesTheWholeEvent(t *testing.T) {
	opts := &agent.Options{Fence: constantFence, SystemPrompt: " Be brief. ", Workspace: "/work", Roles: []string{"role:sre"}}
	withFixture(t, newStub(answering("on it")), opts, func(t *testing.T, w *fixture) {
		m := dm("e1", "help me")
		m.CreatedAt, m.Author.Username = "2026-06-01T12:00:00Z", "will"
		m.Attachments = []protocol.Attachment{{Kind: "photo", Name: "a.png", MimeType: "image/png", Size: 1234, Ref: "file_1"}}
		w.say(m)
		w.sleep(5 * time.Second)
		shown := w.stub.seen()[0]
		if key, words, _ := strings.Cut(shown.Event.IdempotencyKey, "~"); key != "e1:agent:lead" || len(words) != 8 {
			t.Errorf("the key is %q", shown.Event.IdempotencyKey)
		}
		if diff := cmp.Diff(harness.Event{
			EventID: "e1", Sequence: 1, Recipient: "agent:lead", Role: "user", IdempotencyKey: shown.Event.IdempotencyKey, Revision: shown.Event.Revision, Now: shown.Event.Now,
			ChatEvent: harness.ChatEvent{
				CreatedAt: "2026-06-01T12:00:00Z", Source: harness.Source{Platform: "telegram"}, Conversation: harness.Conversation{ID: "42", Kind: "dm"},
				Author: harness.Author{ID: "77", Kind: "human", DisplayName: "Will", Username: "will"},
				Content: []harness.Part{
					{Type: "text", Text: "help me"},
					{Type: "file", Name: "a.png", MimeType: "image/png", Ref: "file_1", Size: 1234, Kind: "photo"},
				},
			},
			Decision: harness.Decision{
				Directedness: "to_me", Policy: "must_respond", Reason: "direct_message", Priority: "normal", DeadlineMS: 300_000,
				Mode: "buffered", Context: "thread_window",
			},
		}, shown.Event); diff != "" {
			t.Errorf("the event (-want +got):\n%s", diff)
		}
		const wantPrompt = "C2A EVENT\nevent_id: e1\nnow: Saturday 2000-01-01 00:00 +00:00 (UTC)\nsent: 00:00, just now\nconversation: dm 42\nauthor: human:Will\nauthor_id: 77\ndirectedness: to_me\n" +
			"response_policy: must_respond\npriority: normal\nreason: direct_message\nreply_target: dm:42\nfence: FENCE\n" +
			"\nMESSAGE\n<<FENCE\nhelp me\nFENCE>>\n\nATTACHMENTS\n<<FENCE\nphoto \"a.png\" image/png 1234 bytes: not shown to you: you do not accept images\nFENCE>>\n"
		if shown.Prompt != wantPrompt {
			t.Errorf("the prompt is\n%s\nwant\n%s", shown.Prompt, wantPrompt)
		}
		wantSystem := "Be brief.\n\nYou are the agent lead on a message bus. Others reach you as @lead. You speak for nobody else.\n" +
			"Your roles: role:sre.\nYour workspace is the folder /work.\n\nC2A RESPONSE RULES\n"
		if !strings.HasPrefix(shown.System, wantSystem) || shown.Contract != "" {
			t.Errorf("the system prompt is\n%s\nwant\n%s", shown.System, wantSystem)
		}
		if shown.Workspace != "/work" || shown.Chat != "tg:42" || shown.Attempt != 1 || shown.ChatServer != nil {
			t.Errorf("the turn is %+v", shown)
		}
	})
}

// TestMention_ShowsEarlierMessages checks that a mention comes with the last dozen messages of
// its thread. The agent's own are marked, and deleted messages and those of other threads are
// left out.
func TestMention_ShowsEarlierMessages(t *testing.T) {
	withFixture(t, newStub(answering("I am in")), &agent.Options{Fence: constantFence}, func(t *testing.T, w *fixture) {
		w.say(inThread(post("e0", "@lead join us"), "T1"))
		w.sleep(5 * time.Second)
		w.say(inThread(post("other", "of another thread"), "T2"))
		for i := range 12 {
			m := inThread(by(post(fmt.Sprint("n", i), fmt.Sprint("note ", i)), "78", "human"), "T1")
			m.Author.Username = "hidden"
			w.say(m)
		}
		gone := inThread(by(post("n11", ""), "78", "human"), "T1")
		gone.Event = "delete"
		w.say(gone)
		w.say(inThread(post("e1", "@lead what now?"), "T1"))
		w.sleep(5 * time.Second)
		prompt := w.turnOf("e1").Prompt
		_, around, _ := strings.Cut(prompt, "\nCONTEXT\n")
		around, message, _ := strings.Cut(around, "\nMESSAGE\n")
		want := ""
		for i := range 11 { // n11 is one of the twelve, and no longer says anything
			want += fmt.Sprintf("event_id: n%d\nauthor: human:78\nauthor_id: 78\nsent: 00:00, just now\n<<FENCE\nnote %d\nFENCE>>\n", i, i)
		}
		if _, around, _ = strings.Cut(around, "\n"); around != want {
			t.Errorf("around it is\n%s\nwant\n%s", around, want)
		}
		if message != "<<FENCE\n@lead what now?\nFENCE>>\n" || !strings.Contains(prompt, "\nreply_target: thread:T1\n") {
			t.Errorf("the prompt is\n%s", prompt)
		}
		w.say(inThread(post("e2", "@lead and you?"), "T1"))
		w.sleep(5 * time.Second)
		if prompt = w.turnOf("e2").Prompt; !strings.Contains(prompt, "author: agent:lead\nauthor_id: agent:lead\nsent: 00:00, just now\n<<FENCE\nI am in\nFENCE>>\n") {
			t.Errorf("its own answer is shown as\n%s", prompt)
		}
	})
}

// TestKnock_NamesNobody checks that a knock contains nothing chosen by others except the mentions
// of this agent and of its roles.
func TestKnock_NamesNobody(t *testing.T) {
	withFixture(t, newStub(accepting), holder, func(t *testing.T, w *fixture) {
		m := post("e1", "@backend-agents look")
		m.Mentions = []string{"role:backend-agents", "role:ops"}
		m.Author.Username, m.Chat.Service, m.Chat.Context = "named", "service", "context"
		w.say(m)
		w.sleep(time.Second)
		event := w.turnOf("e1").Event
		equal(t, "mentions", event.Mentions, []string{"role:backend-agents"})
		if c := event.Conversation; event.Author.Username+event.Author.DisplayName+c.Title+c.Service+c.Context != "" || event.Author.ID != "77" || c.ID != "C1" {
			t.Errorf("the knock shows %+v and %+v", event.Author, c)
		}
	})
}

// TestProgram_EndsItsTurnBySettlingTheEvent checks that an accepted turn ends when its event is
// answered, reacted to, resolved or deferred.
func TestProgram_EndsItsTurnBySettlingTheEvent(t *testing.T) {
	for _, c := range []struct {
		tool, turn, disposition string
		arguments               map[string]any
	}{
		{"chat.send_message", "finished", "responded", map[string]any{"inReplyTo": "e1", "text": "done"}},
		{"chat.react", "finished", "responded", map[string]any{"eventId": "e1", "signal": "done"}},
		{"chat.resolve", "finished", "responded", map[string]any{"eventId": "e1"}},
		{"chat.defer", "finished", "deferred", map[string]any{"eventId": "e1", "reason": "later"}},
	} {
		t.Run(c.tool, func(t *testing.T) {
			withFixture(t, newStub(accepting), &agent.Options{HarnessType: "c2a"}, func(t *testing.T, w *fixture) {
				w.say(dm("e1", "help me"))
				w.sleep(5 * time.Second)
				if _, r := call(w.tools(), c.tool, c.arguments); r.IsError {
					t.Fatal(r.Text())
				}
				w.sleep(time.Second)
				equal(t, "turns", w.turnStates(), []string{"e1 1 started", "e1 1 accepted", "e1 1 " + c.turn})
				w.wantDispositions("e1 " + c.disposition)
			})
		})
	}
}

// TestTyping_EndsWithinFiveMinutes checks that the start of typing is reported once, and its end if no answer
// comes within five minutes. Both are repeated to peers that saw the agent leave and come back.
// Nothing is reported where no answer is owed.
func TestTyping_EndsWithinFiveMinutes(t *testing.T) {
	withFixture(t, newStub(holding), &agent.Options{Deadline: time.Hour}, func(t *testing.T, w *fixture) {
		said := func(begins, ends int) {
			t.Helper()
			if w.typing != begins || w.typingEnds != ends {
				t.Errorf("typing: %d begins and %d ends; want %d and %d", w.typing, w.typingEnds, begins, ends)
			}
		}
		w.say(dm("e1", "help me"))
		w.sleep(2200 * time.Millisecond)
		said(0, 0) // a quick answer has its time
		w.sleep(time.Second)
		said(1, 0)
		w.sleep(4 * time.Minute)
		said(1, 0)
		w.bus.Restart(t)
		w.sleep(10 * time.Second)
		said(2, 0)
		w.sleep(time.Minute)
		said(2, 1)
		w.sleep(5 * time.Minute)
		said(2, 1)
	})
	withFixture(t, newStub(holding), nil, func(t *testing.T, w *fixture) {
		w.say(inThread(post("e1", "@lead join us"), "T1"))
		w.sleep(10 * time.Second)
		before := w.typing
		w.say(inThread(by(post("e2", "fine weather"), "78", "human"), "T2"))
		w.sleep(10 * time.Second)
		if before != 1 || w.typing != 1 {
			t.Errorf("typing is shown %d times, then %d", before, w.typing)
		}
	})
}

// TestTurn_ShowsTheTime checks the present time in the zone of the chat, or else of the settings,
// and the time at which each message was written, even if it waited for a bridge.
func TestTurn_ShowsTheTime(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		after time.Duration // since the first message
		zone  string        // of the chat
		wrote string
		want  []string
	}{
		"of the settings":  {60 * time.Hour, "", "", []string{"now: Monday 2000-01-03 13:00 +01:00 (Europe/Berlin)\n", "sent: 13:00, just now\n", "sent: Saturday 2000-01-01 01:00, 2 days ago\n"}},
		"of the chat":      {60 * time.Hour, "America/New_York", "", []string{"now: Monday 2000-01-03 07:00 -05:00 (America/New_York)\n", "sent: 07:00, just now\n", "sent: Friday 1999-12-31 19:00, 3 days ago\n"}},
		"of no zone":       {12 * time.Hour, "Mars/Olympus", "", []string{"now: Saturday 2000-01-01 13:00 +01:00 (Europe/Berlin)\n"}},
		"after a night":    {12 * time.Hour, "", "1999-12-31T21:15:00Z", []string{"sent: yesterday, 22:15\n"}},
		"this morning":     {12 * time.Hour, "", "2000-01-01T07:05:00+02:00", []string{"sent: 06:05, 6 hours ago\n"}},
		"minutes ago":      {12 * time.Hour, "", "2000-01-01T11:40:00Z", []string{"sent: 12:40, 20 minutes ago\n"}},
		"of the last year": {12 * time.Hour, "", "1999-06-01T12:00:00Z", []string{"sent: 1999-06-01 14:00\n"}},
		"ahead":            {12 * time.Hour, "", "2000-01-01T13:00:00Z", []string{"sent: 13:00, just now\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			shown := ""
			s := newStub(func(ctx context.Context, turn *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
				r, _ := call(tools, "chat.list_events", map[string]any{"since": "today 0:00"})
				shown, _ = r["now"].(string)
				return answering("hello")(ctx, turn, tools)
			})
			withFixture(t, s, &agent.Options{Zone: berlin}, func(t *testing.T, w *fixture) {
				first := dm("e1", "hi")
				first.Chat.TimeZone = c.zone
				w.say(first)
				w.sleep(c.after - time.Second) // the fixture took the first one to start
				m := dm("e2", "what is the time?")
				m.Chat.TimeZone, m.CreatedAt = c.zone, c.wrote
				w.say(m)
				w.sleep(5 * time.Second)
				turn := w.turnOf("e2")
				for _, want := range c.want {
					if !strings.Contains(turn.Prompt, want) {
						t.Errorf("the prompt lacks %q:\n%s", want, turn.Prompt)
					}
				}
				if turn.Event.Now.IsZero() {
					t.Error("programs are not told the time")
				}
				if now, found := strings.CutPrefix(c.want[0], "now: "); found && shown+"\n" != now {
					t.Errorf("the tools say that it is %s; want %s", shown, now)
				}
			})
		})
	}
}
