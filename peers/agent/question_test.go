package agent_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hubbub/peers/agent"
	"hubbub/peers/agent/harness"
	"hubbub/peers/broker"
	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/collab"
)

// runBroker runs the real broker until the returned function stops it.
func runBroker(t *testing.T, w *fixture, path string) (stop func()) {
	t.Helper()
	db, err := store.Open(path, broker.Schema)
	if err != nil {
		t.Fatal(err)
	}
	b := broker.New(db, peer.New(protocol.PeerBroker, &peer.Options{Dial: w.bus.Dial}), nil)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the broker ended: %v", err)
		}
		db.Close()
	}
}

// withQuestions is withFixture with a real broker, which knows the agent.
func withQuestions(t *testing.T, s *stub, opts *agent.Options, test func(t *testing.T, w *fixture)) {
	withFixture(t, s, opts, func(t *testing.T, w *fixture) {
		defer runBroker(t, w, filepath.Join(t.TempDir(), "broker.db"))()
		w.sleep(35 * time.Second)
		test(t, w)
	})
}

// shown tells the agent under which id its bridge showed a reply.
func (w *fixture) shown(r protocol.ChatReply, source string) {
	w.tg.SendAs(w.t, "tg:42", "agent:lead", protocol.TypeDeliveryStatus, protocol.DeliveryStatus{
		Status: protocol.StatusDelivered, IdempotencyKey: r.IdempotencyKey, SourceID: source,
	})
}

// inReply returns a message that answers the one with an id.
func inReply(m protocol.ChatMessage, source string) protocol.ChatMessage {
	m.ReplyTo = &protocol.ReplyTo{SourceID: source, Author: "agent:lead"}
	return m
}

// consulting asks Will for the region when it is told to deploy, and reports the answer.
func consulting(name string) func(context.Context, *harness.Turn, harness.Tools) (harness.Outcome, error) {
	return func(_ context.Context, tn *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
		switch {
		case strings.Contains(tn.Prompt, "Answer: eu-west"):
			call(tools, "chat.send_message", map[string]any{"inReplyTo": "1", "text": "deploying to eu-west"})
			return harness.Outcome{State: harness.Finished}, nil
		case tn.Event.EventID != "1":
			return harness.Outcome{State: harness.Finished}, nil
		}
		for range 2 { // asked twice, it is one question
			if _, r := call(tools, "ask", map[string]any{"title": " which region? ", "askedOfId": name}); r.IsError {
				return harness.Outcome{State: harness.Finished, FinalText: r.Text()}, nil
			}
		}
		call(tools, "chat.defer", map[string]any{"reason": "asked Will"})
		return harness.Outcome{State: harness.Finished}, nil
	}
}

// questions lists "key: text" of what the chat shows of questions to people.
func (w *fixture) questions() (list []string) {
	for _, r := range w.replies {
		if kind, _, _ := strings.Cut(r.IdempotencyKey, ":"); kind == "question" || kind == "replied" {
			list = append(list, kind+": "+r.Text)
		}
	}
	return list
}

// TestQuestion_ReachesAPersonInTheirChat checks that a person is asked once, however the agent
// names them, and that only their answer returns to the waiting turn, once.
func TestQuestion_ReachesAPersonInTheirChat(t *testing.T) {
	const shown, done = "question: which region?\n\nReply to this message to answer.", "replied: which region?\n\nAnswered by `Will`."
	for _, name := range []string{"tg:77", "human:77", "@Will_T", "will_t"} {
		t.Run(strings.ReplaceAll(name, ":", " "), func(t *testing.T) {
			withQuestions(t, newStub(consulting(name)), nil, func(t *testing.T, w *fixture) {
				order := dm("1", "deploy it")
				order.Author.Username = "will_t"
				w.say(order)
				w.sleep(10 * time.Second)
				equal(t, "asked", w.questions(), []string{shown})
				w.shown(w.replies[0], "shown")
				w.say(by(inReply(dm("2", "us-east"), "shown"), "66", "human"))
				forwarded := inReply(dm("3", "us-east"), "shown")
				forwarded.Forwarded = "Ann"
				w.say(forwarded)
				w.say(inReply(dm("4", "us-east"), "another"))
				w.say(inReply(dm("7", "one moment please"), "shown"))
				w.sleep(10 * time.Second)
				equal(t, "after what is no answer", w.questions(), []string{shown})
				w.say(inReply(dm("5", "eu-west"), "shown"))
				w.say(inReply(dm("6", "or eu-north"), "shown")) // words like any other, because it is answered
				w.sleep(time.Minute)
				equal(t, "after the answer", w.questions()[:2], []string{shown, done})
				w.wantTextsOnce("deploying to eu-west")
			})
		})
	}
}

// TestQuestion_OfAProgramIsAskedForEachEvent asks through the tools that programs reach over MCP, which
// name no turn. The question is the same in one turn, and another one in a later turn or outside of any.
func TestQuestion_OfAProgramIsAskedForEachEvent(t *testing.T) {
	const shown, done = "question: May I?\n\nReply to this message to answer.", "replied: May I?\n\nAnswered by `Will`."
	s := newStub(nil)
	withQuestions(t, s, nil, func(t *testing.T, w *fixture) {
		ask := func() {
			if _, r := call(w.agent.ToolsFor("tg:42"), "ask", map[string]any{"title": "May I?", "askedOfId": "human:77"}); r.IsError {
				t.Errorf("asking: %s", r.Text())
			}
		}
		var notes []string
		s.turn = func(_ context.Context, tn *harness.Turn, _ harness.Tools) (harness.Outcome, error) {
			if strings.HasPrefix(tn.Event.EventID, "deploy") {
				ask()
				ask()
			} else if _, note, ok := strings.Cut(tn.Prompt, "asked_by_you_for: "); ok {
				note, _, _ = strings.Cut(note, "\n")
				notes = append(notes, note)
			}
			return harness.Outcome{State: harness.Finished, FinalText: "ok"}, nil
		}
		for i, name := range []string{"deploy1", "deploy2"} {
			w.replies = nil
			w.say(dm(name, "deploy it"))
			w.sleep(time.Minute)
			equal(t, "asked in "+name, w.questions(), []string{shown})
			for _, r := range w.replies {
				if strings.HasPrefix(r.IdempotencyKey, "question:") {
					w.shown(r, "shown"+name)
				}
			}
			w.say(inReply(dm(fmt.Sprint("yes", i), "yes"), "shown"+name))
			w.sleep(time.Minute)
			equal(t, "answered in "+name, w.questions(), []string{shown, done})
		}
		equal(t, "asked for", notes, []string{"deploy1", "deploy2"})
		w.replies = nil
		ask()
		ask()
		w.sleep(time.Minute)
		equal(t, "outside of a turn", w.questions(), []string{shown, shown})
	})
}

// wantTextsOnce fails unless a text was said exactly once.
func (w *fixture) wantTextsOnce(text string) {
	w.t.Helper()
	n := 0
	for _, r := range w.replies {
		if r.Text == text {
			n++
		}
	}
	if n != 1 {
		w.t.Errorf("%q was said %d times: %+v", text, n, w.replies)
	}
}

func TestQuestion_AnsweredElsewhereEndsInTheChat(t *testing.T) {
	withQuestions(t, newStub(consulting("tg:77")), nil, func(t *testing.T, w *fixture) {
		w.say(dm("1", "deploy it"))
		w.sleep(10 * time.Second)
		w.shown(w.replies[0], "shown")
		_, id, _ := strings.Cut(w.replies[0].IdempotencyKey, ":")
		cli := w.bus.Join(t, "cli:will.1", "cli:will.1")
		cli.Send(t, protocol.TopicBroker, protocol.TypeCollabRequest, map[string]any{
			"requestId": "r1", "method": collab.QuestionAnswer.Name, "params": map[string]any{"id": id, "answer": "eu-west"},
		})
		w.sleep(time.Minute)
		equal(t, "shown", w.questions()[1:], []string{"replied: which region?\n\nAnswered by cli:will."})
		w.wantTextsOnce("deploying to eu-west")
	})
}

// TestQuestion_IsRefusedForAPersonWithoutAChat covers a person who never wrote to the agent, and
// a member of another group.
func TestQuestion_IsRefusedForAPersonWithoutAChat(t *testing.T) {
	for _, name := range []string{"tg:78", "tg:99", "chorus:77", "human:", "@", "w3"} {
		t.Run(strings.ReplaceAll(name, ":", " "), func(t *testing.T) {
			withQuestions(t, newStub(consulting(name)), nil, func(t *testing.T, w *fixture) {
				w.sayIn("tg:-8", by(in(dm("0", "hi"), "-8", "channel"), "78", "human"))
				w.say(dm("1", "deploy it"))
				w.sleep(10 * time.Second)
				equal(t, "asked", w.questions(), []string(nil))
			})
		})
	}
}

// TestQuestion_FromAGroupReachesTheDirectChat also checks that an agent that asks too much gets a
// refusal.
func TestQuestion_FromAGroupReachesTheDirectChat(t *testing.T) {
	s := newStub(nil)
	var refused []string
	s.turn = func(_ context.Context, tn *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
		if tn.Event.EventID == "1" {
			for _, title := range []string{"", "<think>x</think>", strings.Repeat("x", 1001), "q1", "q2", "q3", "q4", "q5", "q6"} {
				if _, r := call(tools, "ask", map[string]any{"title": title, "askedOfId": "tg:77"}); r.IsError {
					refused = append(refused, r.Text())
				}
			}
		}
		return harness.Outcome{State: harness.Finished}, nil
	}
	withQuestions(t, s, nil, func(t *testing.T, w *fixture) {
		w.say(dm("0", "hi"))
		m := by(in(dm("1", "lead, deploy it"), "-8", "channel"), "78", "human")
		m.Mentions = []string{"agent:lead"}
		w.sayIn("tg:-8", m)
		w.sleep(10 * time.Second)
		if got := w.questions(); len(got) != 5 || !strings.HasPrefix(got[4], "question: q5\n") || w.replies[0].InReplyTo != "0" {
			t.Errorf("asked %q: %+v", got, w.replies)
		}
		if got := fmt.Sprint(refused); len(refused) != 4 || !strings.Contains(got, "title is empty") || !strings.Contains(got, "1001 bytes; at most 1000") || !strings.HasPrefix(refused[3], "5 questions were asked") {
			t.Errorf("refused %q", refused)
		}
	})
}

// TestQuestion_WithoutRepliesTakesTheNextMessage covers a Chorus service, which cannot name the
// answered message.
func TestQuestion_WithoutRepliesTakesTheNextMessage(t *testing.T) {
	withQuestions(t, newStub(consulting("human:77")), nil, func(t *testing.T, w *fixture) {
		gateway := w.bus.Join(t, "chorus:-9", "chorus:*")
		say := func(m protocol.ChatMessage) {
			gateway.SendAs(t, "chorus:-9", "agent:lead", protocol.TypeChatMessage, m)
			w.sleep(10 * time.Second)
		}
		say(dm("1", "deploy it"))
		say(by(dm("2", "us-east"), "66", "human"))
		say(dm("3", "eu-west"))
		w.sleep(time.Minute)
		var got []string
		for gateway.Pending() > 0 {
			if d := gateway.Next(t); d.Message.Type == protocol.TypeChatReply {
				if r := content[protocol.ChatReply](t, d); strings.Contains(r.Text, "region") || strings.HasPrefix(r.Text, "deploying") {
					got = append(got, r.Text)
				}
			}
		}
		equal(t, "said", got, []string{"which region?\n\nYour next message here is the answer.", "which region?\n\nAnswered by `Will`.", "deploying to eu-west"})
	})
}

// TestAnswer_ToAnOpenQuestionIsDelivered checks that any word answers an open question. Without a
// question, or for thanks that the question does not offer, it is an acknowledgement.
func TestAnswer_ToAnOpenQuestionIsDelivered(t *testing.T) {
	for _, c := range []struct {
		question, answer string
		heard            bool
	}{
		{"Heat or cool?", "cool", true},
		{"Heat or cool?", "Cool!", true},
		{"How do you like it: great or nice?", "nice", true},
		{"Fahren wir mit Super oder Diesel?", "super", true},
		{"¿Vale o no?", "vale", true},
		{"Did you understand?", "got it", true},
		{"Понятно?", "понятно", true},
		{"Did it work?", "👍", true},
		{"Which is it, please or thanks?", "thanks", true},
		{"Wie sagt man das: bitte, danke oder gern?", "Danke.", true},
		{"Choose one: heat or cool.", "cool", true},
		{"Just say heat or cool.", "cool", true},
		{"Sag mir: super oder Diesel.", "Super!", true},
		{"It heats or cools.", "cool", false},
		{"It is free. Let me know if you'd like me to book it.", "ok", true},
		{"Just say the word and I book it.", "perfect", true},
		{"Sag Bescheid, wenn ich das buchen soll.", "Alles klar", true},
		{"Avísame si quieres que lo reserve.", "vale, gracias", true},
		{"Let me know if you'd like me to book it.", "👍", true},
		{"Let me know if you'd like me to book it.", "thanks", false},
		{"Let me know if you'd like me to book it.", "❤️", false},
		{"Let me know if you'd like me to change anything.", "perfect", false},
		{"Do you need anything else?", "thanks", false},
		{"Noch etwas?", "danke", false},
		{"It cools now.", "cool", false},
		{"Done.", "great", false},
	} {
		t.Run(c.question+" "+c.answer, func(t *testing.T) {
			s := newStub(answering(c.question))
			withFixture(t, s, nil, func(t *testing.T, w *fixture) {
				w.say(dm("1", "set it up"))
				w.sleep(5 * time.Second)
				w.say(dm("2", c.answer))
				w.sleep(5 * time.Second)
				if heard := len(s.seen()) == 2; heard != c.heard {
					t.Errorf("heard: %v; want %v", heard, c.heard)
				}
			})
		})
	}
}

// TestAnswer_InSeveralMessagesIsOne asks Will a question and plays his next messages. Words that are thanks
// elsewhere belong to an answer that another word or a pause began.
func TestAnswer_InSeveralMessagesIsOne(t *testing.T) {
	type said struct {
		text  string
		after time.Duration
	}
	const question = "Heat or cool?"
	for name, c := range map[string]struct {
		question string
		group    bool
		said     []said
		want     string // the parts of each turn
	}{
		"a pause, then the answer":    {question, false, []said{{text: "hmm"}, {"cool", time.Second}}, "hmm|cool"},
		"an ok, then the answer":      {question, false, []said{{text: "ok"}, {"cool", time.Second}}, "ok|cool"},
		"in three messages":           {question, false, []said{{text: "well"}, {"ok", time.Second}, {"cool", time.Second}}, "well|ok|cool"},
		"an answer to an offer":       {"Let me know if you'd like me to book it.", false, []said{{text: "hmm"}, {"ok", time.Second}}, "hmm|ok"},
		"in Turkish":                  {"Isıtayım mı?", false, []said{{text: "şey"}, {"tamam", time.Second}}, "şey|tamam"},
		"in a group":                  {question, true, []said{{text: "ok"}, {"cool", time.Second}}, "ok|cool"},
		"the answer, then thanks":     {question, false, []said{{text: "cool"}, {"thanks", time.Second}}, "cool"},
		"without a question":          {"It is on.", false, []said{{text: "hmm"}, {"cool", time.Second}}, "hmm"},
		"long after a pause":          {question, false, []said{{text: "hmm"}, {"cool", 10 * time.Minute}}, "hmm;cool"},
		"after a remark on the pause": {"Shall I book it?", false, []said{{text: "one sec"}, {"perfect", time.Minute}}, "one sec;perfect"},
		"after two pauses":            {"Shall I book it?", false, []said{{text: "brb"}, {"one sec", time.Minute}, {"ok", time.Minute}}, "brb;one sec;ok"},
		"thanks for the patience":     {"Shall I book it?", false, []said{{text: "one sec"}, {"thanks", time.Minute}}, "one sec"},
		"an hour later":               {"Shall I book it?", false, []said{{text: "one sec"}, {"ok", time.Hour}}, "one sec"},
		"praise for the answer":       {question, false, []said{{text: "cool"}, {"great", time.Minute}}, "cool"},
		"after another matter":        {question, false, []said{{text: "one sec"}, {"what is it like outside?", time.Minute}, {"ok", time.Minute}}, "one sec;what is it like outside?"},
	} {
		t.Run(name, func(t *testing.T) {
			texts := []string{c.question, "Sure, take your time!", "done", "done again"}
			s := newStub(func(ctx context.Context, turn *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
				text := texts[0]
				texts = texts[1:]
				return answering(text)(ctx, turn, tools)
			})
			withFixture(t, s, nil, func(t *testing.T, w *fixture) {
				message := func(id, text string) protocol.ChatMessage {
					if c.group {
						return post(id, text)
					}
					return dm(id, text)
				}
				w.say(message("1", "@lead set it up"))
				w.sleep(time.Minute)
				for i, said := range c.said {
					w.sleep(said.after)
					w.say(message(fmt.Sprint("m", i+1), said.text))
				}
				w.sleep(time.Minute)
				var got []string
				for _, turn := range s.seen()[1:] {
					got = append(got, strings.Join(partsOf(&turn), "|"))
				}
				if strings.Join(got, ";") != c.want {
					t.Errorf("turns %q; want %q", got, c.want)
				}
			})
		})
	}
}

// TestAnswer_InGroupNeedsNoName asks Will a question in a channel and plays the next messages
// there. The last message is accepted if it answers the question.
func TestAnswer_InGroupNeedsNoName(t *testing.T) {
	type said struct {
		text  string
		after time.Duration
		m     protocol.ChatMessage
	}
	mia, bot := by(post("", ""), "78", "human"), by(post("", ""), "agent:other", "agent")
	toMia := protocol.ChatMessage{ReplyTo: &protocol.ReplyTo{SourceID: "m1"}}
	const question = "Heat or cool?"
	for name, c := range map[string]struct {
		question string
		said     []said
		heard    bool
	}{
		"one word":                       {question, []said{{text: "cool"}}, true},
		"in another language":            {"¿Calor o frío?", []said{{text: "mejor frío"}}, true},
		"a counter-question":             {question, []said{{text: "which is cheaper?"}}, true},
		"a number":                       {"How many guests?", []said{{text: "7"}}, true},
		"an emoji":                       {question, []said{{text: "❄️"}}, true},
		"a file":                         {"Which oven is it?", []said{{m: protocol.ChatMessage{Attachments: []protocol.Attachment{{Kind: "photo"}}}}}, true},
		"a quarter of an hour later":     {question, []said{{text: "cool", after: 15 * time.Minute}}, true},
		"after another person":           {question, []said{{text: "haha", m: mia}, {text: "cool"}}, true},
		"thanks":                         {"Anything else?", []said{{text: "thanks"}}, false},
		"another person":                 {question, []said{{text: "lunch?", m: mia}}, false},
		"the second message":             {question, []said{{text: "cool"}, {text: "nice weather", after: time.Minute}}, false},
		"to somebody else":               {question, []said{{text: "@dave cool?"}}, false},
		"a reply to a person":            {question, []said{{text: "cool", m: toMia}}, false},
		"after another agent":            {question, []said{{text: "Shall I?", m: bot}, {text: "yes do"}}, false},
		"long after":                     {question, []said{{text: "good morning", after: time.Hour}}, false},
		"no question":                    {"It is on.", []said{{text: "cool"}}, false},
		"a request without a mark":       {"Please tell me which you want: heat or cool.", []said{{text: "cool"}}, true},
		"another request":                {"Antworte mit der Nummer.", []said{{text: "die 2"}}, true},
		"an offer is no request":         {"Let me know if you need more.", []said{{text: "cool"}}, false},
		"an offer to do something":       {"Let me know if you want me to book it.", []said{{text: "cool"}}, false},
		"a question with its reason":     {"Heat or cool? It is 21 °C now.", []said{{text: "heat please"}}, true},
		"a stop word, which ends a turn": {"Shall I go on?", []said{{text: "stop"}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			texts := []string{c.question, "done", "done again"}
			s := newStub(func(ctx context.Context, turn *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
				text := texts[0]
				texts = texts[1:]
				return answering(text)(ctx, turn, tools)
			})
			withFixture(t, s, nil, func(t *testing.T, w *fixture) {
				w.say(post("1", "@lead set it up"))
				w.sleep(time.Minute)
				before := 1
				for i, said := range c.said {
					w.sleep(said.after)
					m := said.m
					plain := post(fmt.Sprint("m", i+1), said.text)
					m.SourceID, m.Text, m.Chat = plain.SourceID, plain.Text, plain.Chat
					if m.Author == nil {
						m.Author = plain.Author
					}
					before = len(s.seen())
					w.say(m)
					w.sleep(10 * time.Second)
				}
				if heard := len(s.seen()) == before+1; heard != c.heard {
					t.Errorf("heard: %v; want %v", heard, c.heard)
				}
			})
		})
	}
}

// TestAnswer_ToAPostIsDelivered checks that in a group anybody may answer a question that the agent
// posted without an event.
func TestAnswer_ToAPostIsDelivered(t *testing.T) {
	s := newStub(answering("done"))
	withFixture(t, s, nil, func(t *testing.T, w *fixture) {
		w.say(post("1", "@lead set it up"))
		w.sleep(time.Minute)
		call(w.tools(), "chat.post", words("tg:42", "Shall I restart the server?"))
		w.sleep(time.Minute)
		for i, text := range []string{"yes", "nice weather"} {
			w.say(by(post(fmt.Sprint("m", i), text), "78", "human"))
			w.sleep(10 * time.Second)
			if turns := len(s.seen()); turns != 2 {
				t.Errorf("%d turns after %q; want 2", turns, text)
			}
		}
	})
}
