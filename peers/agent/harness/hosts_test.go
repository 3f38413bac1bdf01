package harness_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/acp"
	"hubbub/peers/agent/harness/c2a"
	"hubbub/peers/agent/harness/chorus"
	"hubbub/peers/agent/harness/harnesstest"
	"hubbub/peers/agent/harness/mcptools"
	"hubbub/peers/agent/harness/model"
	"hubbub/peers/agent/harness/scripted"
	posts "hubbub/protocol/chorus"
	"hubbub/protocol/http1"
	"hubbub/protocol/retry"
)

// TestMain lets the test binary play a C2A or an ACP program.
func TestMain(m *testing.M) {
	harnesstest.RunReferenceIfAsked()
	if os.Getenv(harnesstest.ACPRoleEnv) != "" {
		harnesstest.ServeACP()
		return
	}
	os.Exit(m.Run())
}

// harnesses are put through hostCases. The program or model behind each harness handles an event
// as a scripted agent does; a failing one fails at its first turn, before it acts.
var harnesses = map[string]func(t *testing.T, failing bool) harness.Harness{
	"scripted": func(t *testing.T, failing bool) harness.Harness {
		if failing {
			t.Skip("nothing in it can fail")
		}
		return scripted.New(nil)
	},
	"openai": func(t *testing.T, failing bool) harness.Harness {
		return model.OpenAI(modelOptions(t, openaiWords, failing))
	},
	"anthropic": func(t *testing.T, failing bool) harness.Harness {
		return model.Anthropic(modelOptions(t, anthropicWords, failing))
	},
	"acp": func(t *testing.T, failing bool) harness.Harness {
		role := "fake"
		if failing {
			role = "crash-once " + filepath.Join(t.TempDir(), "crashed")
		}
		return acp.New([]string{os.Args[0]}, &acp.Options{
			Env: map[string]string{harnesstest.ACPRoleEnv: role, "GORACE": "atexit_sleep_ms=0"}, Backoff: retry.Backoff{Min: 1, Max: 1},
		})
	},
	"chorus": newElsewhere,
	"c2a": func(t *testing.T, failing bool) harness.Harness {
		faults := []string{"scripted"}
		if failing {
			faults = append(faults, "crash:1")
		}
		state := filepath.Join(t.TempDir(), "state.json")
		return reference{state, c2a.New([]string{os.Args[0]}, &c2a.Options{
			Env: harnesstest.Environ(state, faults...), Grace: 500 * time.Millisecond, Backoff: retry.Backoff{Min: 1, Max: 1},
		})}
	},
}

// elsewhere is the harness of a remote agent, which gets each turn's policy outside the protocol.
type elsewhere struct {
	*chorus.Harness
	turns sync.Map // by id: func(), which plays one
}

func newElsewhere(t *testing.T, failing bool) harness.Harness {
	if failing {
		t.Skip("whoever POSTs tries again")
	}
	e := &elsewhere{}
	var playing sync.WaitGroup
	t.Cleanup(playing.Wait)
	e.Harness = chorus.New(func(_ context.Context, turn, _, _ string, p *posts.Post) error {
		if _, err := json.Marshal(p); err != nil {
			t.Errorf("POSTed %v, %v", p, err)
		}
		play, _ := e.turns.Load(turn)
		playing.Go(play.(func()))
		return nil
	}, true)
	return e
}

func (e *elsewhere) Turn(ctx context.Context, t *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
	e.turns.Store(t.ID, func() {
		scripted.New(nil).Turn(context.WithoutCancel(ctx), &harness.Turn{Event: t.Event}, tools) //nolint:errcheck // the calls show it
	})
	return e.Harness.Turn(ctx, t, nil)
}

// reference is the harness of a program whose state can be read.
type reference struct {
	state string
	*c2a.Harness
}

// awaitCancel waits until an asynchronous program was asked to stop.
func (r reference) awaitCancel(t *testing.T) {
	harnesstest.Until(t, "the program is told", func() bool {
		received, _ := harnesstest.ReadState(r.state) // none before the first run
		return slices.ContainsFunc(received, func(x harnesstest.Received) bool { return x.Method == "notifications/cancelled" })
	})
}

// words read the requests and write the answers of a model's API.
type words struct {
	read  func(body []byte) (prompt string, results []string) // the last prompt, and the results of the calls since
	write func(text string, call *harnesstest.Call, n int) any
}

// modelOptions starts a server whose model acts like a scripted agent: it replays the turn with
// each request, up to the first call that has no result yet.
func modelOptions(t *testing.T, w words, failing bool) *model.Options {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 && failing {
			panic(http.ErrAbortHandler)
		}
		var body json.RawMessage
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Errorf("a request is not JSON: %v", err)
		}
		prompt, results := w.read(body)
		var turn harness.Turn
		if err := json.Unmarshal([]byte(strings.TrimPrefix(prompt, playPrefix)), &turn.Event); err != nil {
			t.Errorf("the prompt is %q: %v", prompt, err)
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		var next *harnesstest.Call
		played := &harnesstest.Tools{Answer: func(_ context.Context, c harnesstest.Call) (harness.Result, bool) {
			if len(results) == 0 {
				next = &c
				cancel()
				return harness.ErrorResult("not called yet", nil), true
			}
			result := harness.Result{StructuredContent: json.RawMessage(results[0]), IsError: !json.Valid([]byte(results[0]))}
			results = results[1:]
			return result, true
		}}
		outcome, err := scripted.New(nil).Turn(ctx, &turn, played)
		if err != nil && next == nil {
			t.Errorf("playing %s: %v", prompt, err)
		}
		rw.Header().Set("Content-Type", "application/json")
		json.NewEncoder(rw).Encode(w.write(outcome.FinalText, next, len(played.Calls()))) //nolint:errcheck // the client may be gone
	}))
	t.Cleanup(server.Close)
	return &model.Options{BaseURL: server.URL, Key: func() (string, error) { return "", nil }}
}

type object = map[string]any

var openaiWords = words{
	read: func(body []byte) (prompt string, results []string) {
		var b struct {
			Messages []struct{ Role, Content string }
		}
		json.Unmarshal(body, &b) //nolint:errcheck // the test shows it
		for _, m := range b.Messages {
			switch m.Role {
			case "user":
				prompt, results = m.Content, nil
			case "tool":
				results = append(results, m.Content)
			}
		}
		return prompt, results
	},
	write: func(text string, call *harnesstest.Call, n int) any {
		message := object{"content": text}
		if call != nil {
			arguments, _ := json.Marshal(call.Arguments)
			message["tool_calls"] = []any{object{"id": fmt.Sprint("c", n), "function": object{"name": strings.ReplaceAll(call.Name, ".", "_"), "arguments": string(arguments)}}}
		}
		return object{"choices": []any{object{"message": message, "finish_reason": "stop"}}}
	},
}

var anthropicWords = words{
	read: func(body []byte) (prompt string, results []string) {
		var b struct {
			Messages []struct {
				Role    string
				Content []struct{ Type, Text, Content string }
			}
		}
		json.Unmarshal(body, &b) //nolint:errcheck // the test shows it
		for _, m := range b.Messages {
			for _, c := range m.Content {
				switch m.Role + " " + c.Type {
				case "user text":
					prompt, results = c.Text, nil
				case "user tool_result":
					results = append(results, c.Content)
				}
			}
		}
		return prompt, results
	},
	write: func(text string, call *harnesstest.Call, n int) any {
		content := []any{object{"type": "text", "text": text}}
		if call != nil {
			content = append(content, object{"type": "tool_use", "id": fmt.Sprint("c", n), "name": strings.ReplaceAll(call.Name, ".", "_"), "input": call.Arguments})
		}
		return object{"content": content, "stop_reason": "end_turn"}
	},
}

// playPrefix precedes the event in a prompt: a command of the ACP program.
const playPrefix = "play "

// A host is a running harness with the services of an agent.
type host struct {
	*testing.T
	harness.Harness
	caps  harness.Capabilities
	tools *harnesstest.Tools
	calls chan string // every call as "event tool"
	tries int         // of the last turn
	own   *harness.MCPServer

	answer func(ctx context.Context, c harnesstest.Call) (harness.Result, bool)
}

// start runs a harness until the test ends.
func start(t *testing.T, h harness.Harness) *host {
	o := &host{T: t, Harness: h, calls: make(chan string, 100)}
	o.tools = &harnesstest.Tools{Answer: func(ctx context.Context, c harnesstest.Call) (result harness.Result, answered bool) {
		if o.answer != nil {
			result, answered = o.answer(ctx, c)
		}
		o.calls <- strings.TrimPrefix(fmt.Sprint(cmp.Or(c.Arguments["inReplyTo"], c.Arguments["eventId"], c.Arguments["conversation"])), "evt_") + " " + strings.TrimPrefix(c.Name, "chat.") + signal(c)
		return result, answered
	}}
	listener, url, err := mcptools.Listen()
	if err != nil {
		t.Fatal(err)
	}
	address := mcptools.Address{URL: url, Token: mcptools.NewToken()}
	o.own = address.AsServer()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() {
		ended <- http1.Serve(ctx, listener, http1.NewServer(mcptools.NewToolServer(func(string) harness.Tools { return o.tools }, address.Token, nil)), 2*time.Second)
	}()
	go func() { ended <- h.Run(ctx, harness.Host{Tools: o.tools}) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, <-ended); err != nil {
			t.Errorf("the harness ended: %v", err)
		}
	})
	if o.caps, err = h.Capabilities(t.Context()); err != nil {
		t.Fatal(err)
	}
	return o
}

func signal(c harnesstest.Call) string {
	if s, ok := c.Arguments["signal"].(string); ok {
		return " " + s
	}
	return ""
}

// turn makes the turn of an event that is named after its conversation.
func (o *host) turn(conversation, policy, text string) *harness.Turn {
	e := harness.Event{
		EventID: "evt_" + conversation, IdempotencyKey: conversation + ":agent",
		ChatEvent: harness.ChatEvent{Conversation: harness.Conversation{ID: conversation, Kind: "dm"}},
		Decision:  harness.Decision{Policy: policy, Directedness: "to_me", Mode: "buffered", Reason: "direct_message"},
	}
	if text != "" {
		e.Content = []harness.Part{{Type: "text", Text: text}}
	} else {
		e.Mode, e.Reason = "notify", "role_mention"
		e.Knock = &harness.Knock{From: "will", Where: conversation, PullWith: "chat.read_thread"}
	}
	raw, err := json.Marshal(e)
	if err != nil {
		o.Fatal(err)
	}
	return &harness.Turn{ID: "turn_" + conversation, Attempt: 1, Chat: "tg:" + conversation, Event: e, System: "rules", Prompt: playPrefix + string(raw), Workspace: o.TempDir(), ChatServer: o.own}
}

// run runs a turn to its end, repeating it after a temporary failure as an agent does. It returns
// the resulting calls, at least n.
func (o *host) run(t *harness.Turn, n int) []string {
	o.Helper()
	for {
		outcome, err := o.Turn(o.Context(), t, o.tools)
		if errors.Is(err, harness.ErrTemporary) {
			t.Attempt++
			continue
		}
		o.tries = outcome.Attempt
		want := harness.Finished
		if o.caps.Asynchronous {
			want = harness.Accepted
		}
		if err != nil || outcome.State != want || outcome.FinalText != "" {
			o.Fatalf("%+v, %v", outcome, err)
		}
		return o.heard(n)
	}
}

// heard returns the calls so far, once there are at least n.
func (o *host) heard(n int) (calls []string) {
	for len(calls) < n || len(o.calls) > 0 {
		calls = append(calls, <-o.calls)
	}
	return calls
}

// hostCases are the properties that an agent needs from every harness.
var hostCases = map[string]struct {
	failing bool // the harness fails at its first turn
	run     func(o *host)
}{
	"a message is answered": {run: simple("must_respond", "is the deploy blocked?", "C1 send_message")},
	"nobody asked":          {run: simple("may_respond", "the build is green")},
	"no reply is allowed":   {run: simple("must_not_respond", "is the deploy blocked?")},
	"a receipt":             {run: simple("ack_only", "thanks!", "C1 react seen")},
	"a knock is claimed":    {run: simple("may_respond", "", "C1 read_thread", "C1 claim")},
	"work":                  {run: simple("must_respond", "work on the rollback", "C1 react working", "C1 react done")},
	"later":                 {run: simple("must_respond", "look at the logs later", "C1 defer")},
	"a crash before it acts": {failing: true, run: func(o *host) {
		o.same(o.run(o.turn("C1", "must_respond", "is the deploy blocked?"), 1), "C1 send_message")
		if asksAgain := strings.Contains(o.Name(), "/openai/") || strings.Contains(o.Name(), "/anthropic/"); o.tries < 2 && !asksAgain {
			o.Errorf("it took %d tries, want one that failed before", o.tries)
		}
	}},

	"a refusal is final": {run: func(o *host) {
		o.answer = func(context.Context, harnesstest.Call) (harness.Result, bool) {
			return harness.ErrorResult("the event was answered already", object{"status": "refused"}), true
		}
		o.same(o.run(o.turn("C1", "must_respond", "is the deploy blocked?"), 1), "C1 send_message")
	}},
	"two chats at once": {run: func(o *host) {
		done := make(chan error, 2)
		for _, chat := range []string{"C1", "C2"} {
			t := o.turn(chat, "must_respond", "is the deploy blocked?")
			go func() {
				_, err := o.Turn(o.Context(), t, o.tools)
				done <- err
			}()
		}
		if err := errors.Join(<-done, <-done); err != nil {
			o.Fatal(err)
		}
		calls := o.heard(2)
		slices.Sort(calls)
		o.same(calls, "C1 send_message", "C2 send_message")
	}},
	"a turn is withdrawn": {run: func(o *host) {
		if _, posted := o.Harness.(*elsewhere); posted {
			o.Skip("it has no word for it")
		}
		cause := errors.New("the message was deleted")
		ctx, cancel := context.WithCancelCause(o.Context())
		defer cancel(nil)
		called, withdrawn := make(chan struct{}), make(chan struct{})
		o.answer = func(ctx context.Context, _ harnesstest.Call) (harness.Result, bool) {
			close(called)
			select {
			case <-ctx.Done():
			case <-withdrawn:
			}
			return harness.Result{}, false
		}
		t := o.turn("C1", "must_respond", "work on the rollback")
		ended := make(chan error, 1)
		go func() {
			_, err := o.Turn(ctx, t, o.tools)
			ended <- err
		}()
		<-called
		if program, ownTime := o.Harness.(reference); ownTime {
			if err := <-ended; err != nil {
				o.Errorf("an accepted turn ended with %v", err)
			}
			o.Cancel(t.ID, cause.Error())
			program.awaitCancel(o.T)
			close(withdrawn)
		} else {
			cancel(cause)
			if err := <-ended; !errors.Is(err, cause) {
				o.Errorf("it ended with %v", err)
			}
			close(withdrawn) // a call over MCP does not end with its connection
		}
		o.answer = nil
		o.same(o.run(o.turn("C2", "ack_only", "thanks!"), 2), "C1 react working", "C2 react seen")
	}},
}

func simple(policy, text string, calls ...string) func(o *host) {
	return func(o *host) { o.same(o.run(o.turn("C1", policy, text), len(calls)), calls...) }
}

func (o *host) same(got []string, want ...string) {
	o.Helper()
	if !slices.Equal(got, want) {
		o.Errorf("calls %q, want %q", got, want)
	}
}

// TestHarness_KeepsItsGuarantees puts each harness through hostCases.
func TestHarness_KeepsItsGuarantees(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(harnesses)) {
		for _, title := range slices.Sorted(maps.Keys(hostCases)) {
			t.Run(name+"/"+title, func(t *testing.T) {
				c := hostCases[title]
				c.run(start(t, harnesses[name](t, c.failing)))
			})
		}
	}
}
