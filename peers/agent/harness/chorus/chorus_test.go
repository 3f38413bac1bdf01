package chorus_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/chorus"
	words "hubbub/protocol/chorus"
)

// posted is the body of a POST, as a remote agent reads it.
type posted struct {
	Channel struct{ ID, Name, Service, Context string }
	Message struct {
		ID, Sender, Content string
		Knock               *harness.Knock
	}
}

// deliver runs one turn and returns what was POSTed.
func deliver(t *testing.T, turn *harness.Turn) posted {
	t.Helper()
	var body []byte
	h := chorus.New(func(_ context.Context, _, _, _ string, p *words.Post) (err error) {
		body, err = json.Marshal(p)
		return err
	}, false)
	if outcome, err := h.Turn(t.Context(), turn, nil); err != nil || outcome.State != harness.Accepted {
		t.Fatalf("%+v, %v", outcome, err)
	}
	var p posted
	if err := json.Unmarshal(body, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

func event(conversation harness.Conversation, parts ...harness.Part) harness.Event {
	return harness.Event{
		EventID: "e1", Recipient: "agent:ext", ChatEvent: harness.ChatEvent{
			Source: harness.Source{Platform: "telegram"}, Conversation: conversation,
			Author: harness.Author{ID: "77", Kind: "human", DisplayName: "Will"}, Content: parts,
		},
	}
}

// TestNewPost covers the channel, the messages, and what the prompt says about both.
func TestNewPost(t *testing.T) {
	text := func(s string) harness.Part { return harness.Part{Type: "text", Text: s} }
	file := func(kind string) harness.Part { return harness.Part{Type: "file", Kind: kind} }
	reaction := event(harness.Conversation{ID: "42", Kind: "dm"}, text(""))
	reaction.Signal = "agree"
	elsewhere := event(harness.Conversation{ID: "c", Kind: "dm", Service: "A studio", Context: "Ops."}, text("x"))
	elsewhere.Source.Platform, elsewhere.Author = "chorus", harness.Author{ID: "77", Username: "will"}
	for name, tt := range map[string]struct {
		turn                       harness.Turn
		id, name, service, content string
		context                    []string
	}{
		"a direct chat": {
			turn: harness.Turn{Chat: "tg:42", Event: event(harness.Conversation{ID: "42", Kind: "dm"}, text("hello"))},
			id:   "tg:42", name: "Will", service: "Telegram, through Hubbub", content: "hello", context: []string{"A direct chat"},
		},
		"a thread of a group, in fragments with files": {
			turn: harness.Turn{Chat: "tg:-100", Event: event(harness.Conversation{ID: "-100", Kind: "thread", ThreadID: "7", Title: "ops"},
				text("one"), file("photo"), text(""), file("voice"), file("document"), text("two"))},
			id: "tg:-100/7", name: "ops", service: "Telegram, through Hubbub", content: "one\n(attached: voice, document)\ntwo", context: []string{"mentioning @ext"},
		},
		"a reaction": {
			turn: harness.Turn{Chat: "tg:42", Event: reaction}, id: "tg:42", name: "Will", service: "Telegram, through Hubbub", content: "(reaction: agree)",
		},
		"a channel of a service": {
			turn: harness.Turn{Chat: "chorus:ops.c", Event: elsewhere, Contract: "# How you work"},
			id:   "chorus:ops.c", name: "will", service: "A studio, through Hubbub", content: "x", context: []string{"follows: Ops.", "# How you work"},
		},
		"work": {
			turn: harness.Turn{Chat: "collab:broker", Event: event(harness.Conversation{ID: "work:wi_1", Kind: "channel"}, text("do it"))},
			id:   "collab:broker/work:wi_1", service: "Telegram, through Hubbub", content: "do it", context: []string{"collaboration broker"},
		},
	} {
		p := deliver(t, &tt.turn)
		if p.Channel.ID != tt.id || p.Channel.Name != tt.name || p.Channel.Service != tt.service || p.Message.Content != tt.content || p.Message.ID != "e1" {
			t.Errorf("%s: posted %+v", name, p)
		}
		for _, part := range tt.context {
			if !strings.Contains(p.Channel.Context, part) {
				t.Errorf("%s: the context %q has no %q", name, p.Channel.Context, part)
			}
		}
	}
	knock := event(harness.Conversation{ID: "-100", Kind: "channel"})
	knock.Author.DisplayName, knock.Knock = "", &harness.Knock{From: "human:77", Where: "channel:-100", Topic: "a question", PullWith: "chat.read_thread"}
	if p := deliver(t, &harness.Turn{Chat: "tg:-100", Event: knock}); p.Message.Knock == nil || *p.Message.Knock != *knock.Knock ||
		p.Message.Sender != "77" || !strings.Contains(p.Message.Content, "a question from human:77") {
		t.Errorf("a knock: posted %+v", p)
	}
}

// TestNewPost_SaysWhetherToAnswer checks that the policy of an event reaches the agent.
func TestNewPost_SaysWhetherToAnswer(t *testing.T) {
	for policy, want := range map[string]string{"must_respond": "waits for an answer", "may_respond": "needs no answer"} {
		e := event(harness.Conversation{ID: "42", Kind: "dm"}, harness.Part{Type: "text", Text: "hello"})
		e.Policy = policy
		if p := deliver(t, &harness.Turn{Chat: "tg:42", Event: e}); !strings.Contains(p.Channel.Context, want) {
			t.Errorf("%s: the context is %q", policy, p.Channel.Context)
		}
	}
}

// TestHandle_ConvertsEvents checks that each event of a callback is an output of its turn, and
// that a turn that is not delivered or is withdrawn reports why.
func TestHandle_ConvertsEvents(t *testing.T) {
	broken := errors.New("it answered HTTP 404")
	h := chorus.New(func(ctx context.Context, turn, _, _ string, _ *words.Post) error {
		if turn == "waits" {
			<-ctx.Done()
			return ctx.Err()
		}
		return broken
	}, true)
	caps, err := h.Capabilities(t.Context())
	if err != nil || !caps.Asynchronous || !caps.Injection.Notify || caps.Injection.Digest {
		t.Errorf("capabilities %+v, %v", caps, err)
	}
	if _, err := h.Turn(t.Context(), &harness.Turn{ID: "fails"}, nil); !errors.Is(err, harness.ErrUnreachable) || !errors.Is(err, broken) {
		t.Errorf("a turn that was not delivered: %v", err)
	}
	withdrawn := errors.New("the message was edited")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(withdrawn)
	if _, err := h.Turn(ctx, &harness.Turn{ID: "waits"}, nil); !errors.Is(err, withdrawn) {
		t.Errorf("a turn that was withdrawn: %v", err)
	}
	early, end := context.WithTimeout(t.Context(), time.Millisecond)
	defer end()
	if err := h.Handle(early, "t1", "", "k", &words.Event{Type: words.EventStatus}); !errors.Is(err, harness.ErrStopped) {
		t.Errorf("before it runs: %v", err)
	}
	got := make(chan harness.Output, 1)
	running, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- h.Run(running, harness.Host{Output: func(_ context.Context, o harness.Output) error { got <- o; return nil }})
	}()
	for body, want := range map[string]string{
		`{"type":"message","content":"hi"}`:                            `hi`,
		`{"type":"status","status":"thinking"}`:                        `status thinking`,
		`{"type":"lifecycle","status":"idle"}`:                         `status idle`,
		`{"type":"error","message":"lost","code":"tool_error"}`:        `error lost tool_error`,
		`{"type":"tool_call","name":"search","id":"1","args":{"q":1}}`: `tool_call search 1 {"q":1}`,
		`{"type":"tool_result","id":"1","content":"3 degrees"}`:        `tool_result 1 "3 degrees"`,
	} {
		var e words.Event
		if err := json.Unmarshal([]byte(body), &e); err != nil {
			t.Fatal(err)
		}
		if err := h.Handle(t.Context(), "t1", "r1", "k", &e); err != nil {
			t.Fatal(err)
		}
		o := <-got
		text := o.Text
		if p := o.Report; p != nil {
			text = strings.Join(strings.Fields(fmt.Sprint(p.Kind, " ", p.Tool, " ", p.CallID, " ", p.Message, " ", p.Code, " ", string(p.Content))), " ")
		}
		if text != want || o.TurnID != "t1" || o.Key != "k" || o.Stale {
			t.Errorf("%s is %q of %+v; want %q", body, text, o, want)
		}
	}
	if err := h.RefuseStale(t.Context(), "t1"); err != nil {
		t.Error(err)
	}
	if o := <-got; !o.Stale || o.TurnID != "t1" {
		t.Errorf("what is for other words: %+v", o)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
