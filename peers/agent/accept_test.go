package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/agent"
	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/acp"
	"hubbub/peers/agent/harness/c2a"
	"hubbub/peers/agent/harness/harnesstest"
	"hubbub/peers/agent/harness/model"
	"hubbub/peers/agent/harness/scripted"
	"hubbub/protocol"
)

// A gate blocks a turn while its message is edited. The first to reach the moment continues once
// the edit is in the mailbox.
type gate struct {
	moment string
	unseen bool   // the turn continues before the agent handles the edit, instead of afterwards
	edit   func() // returns when the agent has the edit

	once     sync.Once
	stored   chan struct{} // closed when the edit is in the mailbox, before anyone is notified
	acted    chan struct{} // closed when the holder of the old text has acted
	anew     chan struct{} // closed when the turn restarts
	messages int
	starts   int
}

func newGate(moment string, unseen bool) *gate {
	return &gate{moment: moment, unseen: unseen, stored: make(chan struct{}), acted: make(chan struct{}), anew: make(chan struct{})}
}

// at is called at each moment. ctx ends when its caller is stopped.
func (g *gate) at(ctx context.Context, moment string) {
	if moment != g.moment {
		return
	}
	g.once.Do(func() {
		if g.unseen {
			go g.edit()
			<-g.stored
			return
		}
		g.edit()
		if moment == "started" || moment == "returned" { // the agent itself waits here
			return
		}
		select {
		case <-g.anew:
		case <-ctx.Done():
		}
	})
}

// step is called by the agent at its own steps, each in one goroutine.
func (g *gate) step(step string) {
	switch step {
	case "stored":
		if g.messages++; g.messages == 2 {
			close(g.stored)
			if g.unseen {
				<-g.acted
			}
		}
	case "started":
		if g.starts++; g.starts == 2 {
			close(g.anew)
		}
	}
	g.at(context.Background(), step)
	if step == "returned" && g.moment != "accepted" || step == "started" && g.moment == step {
		g.done()
	}
}

func (g *gate) done() {
	select {
	case <-g.acted:
	default:
		close(g.acted)
	}
}

// ServeHTTP lets other programs come to a moment: "sent" is that of an answer that the agent
// has taken or refused.
func (g *gate) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	moment := strings.TrimPrefix(r.URL.Path, "/")
	if moment == "accepted" && g.moment == "returned" { // the answer comes no sooner
		<-g.acted
	}
	g.at(r.Context(), moment)
	if moment == "sent" && g.moment == "accepted" {
		g.done()
	}
}

// gated is a harness that comes to the moment "given" when a turn is given to it.
type gated struct {
	harness.Harness
	gate *gate
}

func (h gated) Turn(ctx context.Context, t *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
	h.gate.at(ctx, "given")
	return h.Harness.Turn(ctx, t, tools)
}

// gatedModel answers as a model of either API that reads the words of the last message and
// then waits. With a tool, it answers by it first.
func gatedModel(t *testing.T, g *gate, withTool bool) string {
	type object = map[string]any
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		answer := harnesstest.HoldReply(string(raw))
		switch {
		case err != nil: // the edit has ended the request
			return
		case answer == "":
			t.Errorf("a request without words: %s", raw)
			return
		}
		g.at(r.Context(), "given")
		var body any = object{"content": []object{{"type": "text", "text": answer}}, "stop_reason": "end_turn"}
		if strings.HasSuffix(r.URL.Path, "/chat/completions") {
			message := object{"content": answer}
			if withTool && !strings.Contains(string(raw), `"role":"tool"`) {
				arguments, _ := json.Marshal(object{"text": answer}) //nolint:errcheck // a string
				message = object{"tool_calls": []object{{"id": "c1", "type": "function", "function": object{"name": "chat_send_message", "arguments": string(arguments)}}}}
			}
			body = object{"choices": []object{{"message": message, "finish_reason": "stop"}}}
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(body) //nolint:errcheck // the client may be gone
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestEdit_DuringAcceptanceIsAnsweredOnce edits a message before its answer, at each step of each
// harness. The new text is answered once, and the old text never.
func TestEdit_DuringAcceptanceIsAnsweredOnce(t *testing.T) {
	quiet := map[string]string{"GORACE": "atexit_sleep_ms=0"}
	key := func() (string, error) { return "", nil }
	for name, h := range map[string]struct {
		open    func(t *testing.T, g *gate, address string) harness.Harness
		moments []string
	}{
		"scripted": {func(_ *testing.T, g *gate, _ string) harness.Harness { return gated{scripted.New(nil), g} }, []string{"started", "given"}},
		"openai": {func(t *testing.T, g *gate, _ string) harness.Harness {
			return model.OpenAI(&model.Options{BaseURL: gatedModel(t, g, false) + "/v1", Model: "m", Key: key})
		}, []string{"started", "given", "returned"}},
		"openai with the tool": {func(t *testing.T, g *gate, _ string) harness.Harness {
			return model.OpenAI(&model.Options{BaseURL: gatedModel(t, g, true) + "/v1", Model: "m", Key: key})
		}, []string{"started", "given"}},
		"anthropic": {func(t *testing.T, g *gate, _ string) harness.Harness {
			return model.Anthropic(&model.Options{BaseURL: gatedModel(t, g, false), Model: "m", Key: key})
		}, []string{"started", "given", "returned"}},
		"acp": {func(*testing.T, *gate, string) harness.Harness {
			return acp.New([]string{os.Args[0]}, &acp.Options{Env: map[string]string{harnesstest.ACPRoleEnv: "fake", "GORACE": quiet["GORACE"]}})
		}, []string{"started", "given", "returned"}},
		"a2a": {func(t *testing.T, g *gate, _ string) harness.Harness {
			return newElsewhere(t, func(ctx context.Context, heard string) string {
				g.at(ctx, "given")
				return harnesstest.HoldReply(heard)
			})
		}, []string{"started", "given", "returned"}},
		"c2a": {func(_ *testing.T, _ *gate, address string) harness.Harness {
			return c2a.New([]string{os.Args[0], "-test.run=^$"}, &c2a.Options{Env: map[string]string{harnesstest.HoldEnv: address, "GORACE": quiet["GORACE"]}})
		}, []string{"started", "given", "returned", "accepted"}},
	} {
		for _, moment := range h.moments {
			for _, unseen := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/unseen=%v", name, moment, unseen), func(t *testing.T) {
					t.Parallel()
					g := newGate(moment, unseen)
					server := httptest.NewServer(g)
					t.Cleanup(server.Close)
					kind := map[string]string{"c2a": "c2a"}[name]
					editedMeanwhile(t, g, h.open(t, g, server.URL), kind, "hold "+server.URL+"/given")
				})
			}
		}
	}
}

func editedMeanwhile(t *testing.T, g *gate, h harness.Harness, kind, hold string) {
	b := bustest.StartInMemory(t, nil)
	system, chats := b.Join(t, "agent:system", "system:*"), b.Join(t, "tg:bot", "tg:*")
	opts := &agent.Options{HarnessType: kind, ComposeWindow: 1, ComposeCap: 1, FirstRetry: 1, Deadline: time.Hour}
	opts.CrashWith(g.step)
	g.edit = func() {
		chats.SendAs(t, "tg:42", "agent:lead", protocol.TypeTGMessage, edit(dm("e1", ""), hold+" new words", 2))
	}
	start(t, b, "agent:lead", h, opts)
	system.Next(t) // it is on the bus
	chats.SendAs(t, "tg:42", "agent:lead", protocol.TypeTGMessage, dm("e1", hold+" old words"))
	var answers, ends []string
	for _, event := range []string{"e1", "e2"} { // the second comes after every report about the first
		if event == "e2" {
			chats.SendAs(t, "tg:42", "agent:lead", protocol.TypeTGMessage, dm("e2", hold+" last words"))
		}
		for over := false; !over; {
			r := content[record](t, system.NextOf(t, protocol.TypeAgentEvent))
			if over = r.is("disposition") && r["eventId"] == event; over {
				ends = append(ends, fmt.Sprint(event, " ", r["disposition"]))
			}
		}
	}
	for chats.Pending() > 0 {
		if d := chats.Next(t); d.Message.Type == protocol.TypeTGReply {
			if r := content[protocol.ChatReply](t, d); r.Text != "" {
				answers = append(answers, r.InReplyTo+" "+r.Text)
			}
		}
	}
	equal(t, "ends", ends, []string{"e1 responded", "e2 responded"})
	if len(answers) != 2 || !strings.HasPrefix(answers[0], "e1 ") || !strings.Contains(answers[0], "new") || strings.Contains(fmt.Sprint(answers), "old words") || strings.Contains(fmt.Sprint(answers), "“old") || !strings.Contains(answers[1], "last") {
		t.Errorf("the chat got %q; want the new words answered, once", answers)
	}
}

// TestCall_MadeBeforeAnEditIsRefused checks a call that a program made before an edit and that
// runs after the program accepted the new text. A call that does not depend on the text is not
// refused.
func TestCall_MadeBeforeAnEditIsRefused(t *testing.T) {
	withFixture(t, newStub(accepting), &agent.Options{HarnessType: "c2a"}, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "is it safe?"))
		w.sleep(5 * time.Second)
		before := w.turnOf("e1")
		w.say(edit(dm("e1", ""), "is it safe, and cheap?", 2))
		w.sleep(5 * time.Second)
		after := w.turnOf("e1")
		if before.Event.Revision == after.Event.Revision || before.ID != after.ID {
			t.Fatalf("before the edit it is %q of %s, and then %q of %s", before.Event.Revision, before.ID, after.Event.Revision, after.ID)
		}
		say := func(words, text string) map[string]any {
			ctx := harness.WithRevision(context.Background(), before.ID, words)
			m := map[string]any{}
			_ = json.Unmarshal(w.tools().Call(ctx, "chat.send_message", json.RawMessage(`{"inReplyTo":"e1","text":"`+text+`"}`)).StructuredContent, &m) // empty then
			return m
		}
		if m := say(before.Event.Revision, "safe"); m["reason"] != "cancelled" {
			t.Errorf("the answer to the old words: %v", m)
		}
		if m := say(after.Event.Revision, "both"); m["status"] != "sent" {
			t.Errorf("the answer to the new words: %v", m)
		}
		w.sleep(time.Second)
		w.wantTexts("both")
	})
}
