package turnloop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/harnesstest"
	"hubbub/peers/agent/harness/mcptools"
	"hubbub/peers/agent/harness/turnloop"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"pgregory.net/rapid"
)

// script is a model that answers as told, one function a request.
type script struct {
	mu       sync.Mutex
	answers  []func(ctx context.Context, r *turnloop.Request) (*turnloop.Reply, error)
	requests []*turnloop.Request
}

func (s *script) Name() string { return "script" }
func (s *script) Check() error { return nil }

func (s *script) Stream(ctx context.Context, r *turnloop.Request, onText func(string)) (*turnloop.Reply, error) {
	s.mu.Lock()
	s.requests = append(s.requests, r)
	answer := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	s.mu.Unlock()
	reply, err := answer(ctx, r)
	if reply != nil && reply.Text != "" {
		onText(reply.Text)
	}
	return reply, err
}

type answer = func(context.Context, *turnloop.Request) (*turnloop.Reply, error)

func say(text string) answer {
	return func(context.Context, *turnloop.Request) (*turnloop.Reply, error) {
		return &turnloop.Reply{Text: text}, nil
	}
}

func call(names ...string) answer {
	return func(context.Context, *turnloop.Request) (*turnloop.Reply, error) {
		r := &turnloop.Reply{}
		for i, name := range names {
			r.Calls = append(r.Calls, turnloop.Call{ID: fmt.Sprintf("c%d", i), Name: name, Arguments: `{"text":"x"}`})
		}
		return r, nil
	}
}

func fail(err error) answer {
	return func(context.Context, *turnloop.Request) (*turnloop.Reply, error) { return nil, err }
}

func turn(prompt string) *harness.Turn {
	return &harness.Turn{ID: "t1", Attempt: 1, Prompt: prompt, Event: harness.Event{Conversation: harness.Conversation{ID: "C1"}}}
}

func wireNames(r *turnloop.Request) []string {
	var names []string
	for _, t := range r.Tools {
		names = append(names, t.Name)
	}
	return names
}

func TestToolNamesFitEveryAPI(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfN(rapid.StringN(1, 80, -1), 1, 12).Draw(t, "names")
		model := &script{answers: []answer{say("")}}
		tools := &harnesstest.Tools{Names: names}
		if _, err := turnloop.New(model, nil, nil).Turn(context.Background(), turn("x"), tools); err != nil {
			t.Fatal(err)
		}
		got := wireNames(model.requests[0])
		if len(got) != len(names) {
			t.Fatalf("%d tools of %d", len(got), len(names))
		}
		seen := map[string]bool{}
		for _, name := range got {
			if name == "" || len(name) > 64 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" || seen[name] {
				t.Fatalf("%q of %q", name, got)
			}
			seen[name] = true
		}
	})
}

func TestMCPServersAreToolsAndAFailingOneStopsNothing(t *testing.T) {
	server := mcp.NewServer(&mcp.Implementation{Name: "docs", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "search", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "found " + string(r.Params.Arguments)}}}, nil
	})
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	defer web.Close()

	model := &script{answers: []answer{call("docs__search", "chat_react"), say("done")}}
	loop := turnloop.New(model, mcptools.NewPool(nil), nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	told := make(chan string, 100)
	go func() {
		ended <- loop.Run(ctx, harness.Host{Progress: func(p harness.Progress) {
			if p.Kind == harness.ProgressStatus {
				told <- p.Message
			}
		}})
	}()
	tn := turn("x")
	tn.MCP = []harness.MCPServer{{Name: "docs", URL: web.URL}, {Name: "gone", URL: "http://127.0.0.1:1/"}}
	tools := &harnesstest.Tools{}
	out, err := loop.Turn(ctx, tn, tools)
	if err != nil || out.FinalText != "done" || out.Usage.ToolCalls != 2 {
		t.Fatalf("%+v, %v", out, err)
	}
	last := model.requests[len(model.requests)-1].Messages
	results := last[len(last)-1].Results
	if len(results) != 2 || results[0].Text != `found {"text":"x"}` || results[0].IsError {
		t.Errorf("results %+v", results)
	}
	if got := tools.Called(); !slices.Equal(got, []string{"chat.react"}) {
		t.Errorf("the agent's tools were called: %v", got)
	}
	if !slices.ContainsFunc(drain(told), func(s string) bool { return strings.Contains(s, `"gone"`) }) {
		t.Error("nobody was told of the server that is gone")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func drain(c chan string) []string {
	var all []string
	for len(c) > 0 {
		all = append(all, <-c)
	}
	return all
}

func TestTimeBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(ctx context.Context, _ *turnloop.Request) (*turnloop.Reply, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		began := time.Now()
		_, err := turnloop.New(&script{answers: []answer{slow}}, nil, &turnloop.Options{Time: time.Minute}).Turn(t.Context(), turn("x"), nil)
		if !errors.Is(err, harness.ErrBudget) || time.Since(began) != time.Minute {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

// TestWaitsNeverOutlastTheBudget: an API that asks for an hour is given up.
func TestWaitsNeverOutlastTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := &turnloop.RequestError{Retry: true, After: time.Hour, Err: errors.New("busy")}
		began := time.Now()
		_, err := turnloop.New(&script{answers: []answer{fail(busy)}}, nil, nil).Turn(t.Context(), turn("x"), nil)
		if !errors.Is(err, harness.ErrTemporary) || time.Since(began) != 0 {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

func TestBackoffGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := &turnloop.RequestError{Retry: true, Err: errors.New("busy")}
		began := time.Now()
		_, err := turnloop.New(&script{answers: []answer{fail(busy)}}, nil, &turnloop.Options{Retries: 6}).Turn(t.Context(), turn("x"), nil)
		// 1+2+4+8+16+30 seconds, less at most half of each.
		if took := time.Since(began); !errors.Is(err, harness.ErrTemporary) || took < 30*time.Second || took > 61*time.Second {
			t.Errorf("%v after %s", err, took)
		}
	})
}

func TestCancelledBetweenToolsCallsNoMore(t *testing.T) {
	cause := errors.New("the message was deleted")
	ctx, cancel := context.WithCancelCause(t.Context())
	tools := &harnesstest.Tools{Answer: func(context.Context, harnesstest.Call) (harness.Result, bool) {
		cancel(cause)
		return harness.Result{}, false
	}}
	history := turnloop.NewMemoryHistory(1)
	model := &script{answers: []answer{call("chat_react", "chat_send_message"), say("never")}}
	_, err := turnloop.New(model, nil, &turnloop.Options{History: history}).Turn(ctx, turn("x"), tools)
	if !errors.Is(err, cause) || len(tools.Calls()) != 1 || len(model.requests) != 1 {
		t.Errorf("%v, calls %v, %d requests", err, tools.Called(), len(model.requests))
	}
	document, _ := history.Load(t.Context(), "C1\x1f")
	if !strings.Contains(string(document), "cancelled before this tool") {
		t.Errorf("the model remembers %s", document)
	}
}

func TestAFailedTurnWithoutActionIsForgotten(t *testing.T) {
	history := turnloop.NewMemoryHistory(1)
	broken := &turnloop.RequestError{Err: errors.New("no such model")}
	_, err := turnloop.New(&script{answers: []answer{fail(broken)}}, nil, &turnloop.Options{History: history}).Turn(t.Context(), turn("x"), nil)
	document, _ := history.Load(t.Context(), "C1\x1f")
	if !errors.Is(err, harness.ErrPermanent) || document != nil {
		t.Errorf("%v, remembered %s", err, document)
	}
}

func TestHistoriesForgetTheOldest(t *testing.T) {
	file, err := turnloop.OpenHistory(filepath.Join(t.TempDir(), "history.db"), 2)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for name, h := range map[string]turnloop.History{"memory": turnloop.NewMemoryHistory(2), "file": file} {
		for _, c := range []string{"a", "b", "a", "c"} {
			if err := h.Save(t.Context(), c, []byte(c+c)); err != nil {
				t.Fatal(err)
			}
		}
		for c, want := range map[string]string{"a": "aa", "b": "", "c": "cc"} {
			if got, err := h.Load(t.Context(), c); err != nil || string(got) != want {
				t.Errorf("%s %s: %q, %v", name, c, got, err)
			}
		}
	}
}

// TestHistoryIsBounded: however much is said, what is sent along stays small,
// and calls keep their results.
func TestHistoryIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		model := &script{answers: []answer{say("")}}
		loop := turnloop.New(model, nil, &turnloop.Options{HistoryTurns: 4, HistoryBytes: 6000})
		long := &harnesstest.Tools{Answer: func(context.Context, harnesstest.Call) (harness.Result, bool) {
			return harness.Result{Content: []harness.Content{{Type: "text", Text: strings.Repeat("é", 40_000)}}}, true
		}}
		for range rapid.IntRange(1, 8).Draw(t, "turns") {
			model.answers = []answer{say(strings.Repeat("y", rapid.IntRange(0, 3000).Draw(t, "reply")))}
			if rapid.Bool().Draw(t, "with a tool") {
				model.answers = append([]answer{call("chat_read_thread")}, model.answers...)
			}
			if _, err := loop.Turn(context.Background(), turn(strings.Repeat("x", rapid.IntRange(0, 3000).Draw(t, "prompt"))), long); err != nil {
				t.Fatal(err)
			}
		}
		model.answers = []answer{say("")}
		if _, err := loop.Turn(context.Background(), turn("last"), long); err != nil {
			t.Fatal(err)
		}
		sent := model.requests[len(model.requests)-1].Messages
		raw, _ := json.Marshal(sent[:len(sent)-1])
		if len(raw) > 6000 {
			t.Fatalf("%d bytes of history were sent", len(raw))
		}
		open := 0
		for _, m := range sent {
			open += len(m.Calls) - len(m.Results)
			if open < 0 || m.Role == turnloop.RoleUser && open != 0 {
				t.Fatalf("a call without a result, or the other way round, in %s", raw)
			}
		}
	})
}

func TestAHundredCallsAtOnceAreCutOff(t *testing.T) {
	names := slices.Repeat([]string{"chat_react"}, 100)
	model := &script{answers: []answer{call(names...), say("")}}
	tools := &harnesstest.Tools{}
	if _, err := turnloop.New(model, nil, nil).Turn(t.Context(), turn("x"), tools); err != nil {
		t.Fatal(err)
	}
	last := model.requests[1].Messages[2].Results
	if len(tools.Calls()) != 32 || len(last) != 100 || !last[99].IsError {
		t.Errorf("%d calls, %d results", len(tools.Calls()), len(last))
	}
}
