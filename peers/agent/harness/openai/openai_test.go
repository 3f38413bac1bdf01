package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/harnesstest"
	"hubbub/peers/agent/harness/modelapi"
	"hubbub/peers/agent/harness/openai"
	"hubbub/peers/agent/harness/turnloop"
)

const secret = "sk-test-0123456789abcdef"

func text(piece string) string {
	raw, _ := json.Marshal(piece)
	return `{"choices":[{"index":0,"delta":{"content":` + string(raw) + `},"finish_reason":null}]}`
}

func finish(reason string) string {
	return `{"choices":[{"index":0,"delta":{},"finish_reason":"` + reason + `"}]}`
}

const spent = `{"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":7}}`

func say(words string) harnesstest.Answer {
	return harnesstest.Events(text(words), finish("stop"), spent, "[DONE]")
}

// callTool streams one tool call in pieces, as OpenAI does.
func callTool(id, name, arguments string) harnesstest.Answer {
	half := len(arguments) / 2
	first, _ := json.Marshal(arguments[:half])
	second, _ := json.Marshal(arguments[half:])
	return harnesstest.Events(
		fmt.Sprintf(`{"choices":[{"index":0,"delta":{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":%q,"type":"function","function":{"name":%q,"arguments":""}}]},"finish_reason":null}]}`, id, name),
		fmt.Sprintf(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":%s}}]}}]}`, first),
		": keep-alive",
		fmt.Sprintf(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":%s}}]}}]}`, second),
		finish("tool_calls"), spent, "[DONE]")
}

// waits records how long a harness would have slept.
type waits struct {
	mu    sync.Mutex
	slept []time.Duration
}

func (w *waits) clock() harness.Clock {
	return harness.Clock{SleepFunc: func(ctx context.Context, d time.Duration) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.slept = append(w.slept, d)
		return context.Cause(ctx)
	}}
}

func newHarness(api *harnesstest.API, w *waits, change ...func(*modelapi.Options)) *turnloop.Loop {
	o := &modelapi.Options{
		BaseURL: api.URL + "/v1", Model: "test-model",
		Key:  func() (string, error) { return secret, nil },
		Loop: turnloop.Options{Clock: w.clock()},
	}
	for _, c := range change {
		c(o)
	}
	return openai.New(o)
}

func turn(prompt string) *harness.Turn {
	return &harness.Turn{ID: "t1", Attempt: 1, System: "obey response_policy", Prompt: prompt,
		Event: harness.Event{EventID: "evt_1", Conversation: harness.Conversation{ID: "C1", Kind: "dm"}}}
}

func TestTextThatEndsTheTurnIsReturned(t *testing.T) {
	api := harnesstest.StartAPI(t, harnesstest.Events(text("  The deploy "), text("is green.\n"), finish("stop"), spent, "[DONE]"))
	out, err := newHarness(api, &waits{}).Turn(t.Context(), turn("C2A EVENT"), &harnesstest.Tools{})
	if err != nil {
		t.Fatal(err)
	}
	if out.FinalText != "The deploy is green." || out.State != harness.Finished {
		t.Errorf("%+v", out)
	}
	if out.Usage.InputTokens != 100 || out.Usage.OutputTokens != 7 || out.Usage.Model != "test-model" || out.Usage.Rounds != 1 {
		t.Errorf("usage %+v", out.Usage)
	}
	r := api.Requests()[0]
	if r.Path != "/v1/chat/completions" || r.Header.Get("Authorization") != "Bearer "+secret || r.Body["stream"] != true || r.Body["model"] != "test-model" {
		t.Errorf("request %s %v", r.Path, r.Body)
	}
	messages := r.Body["messages"].([]any)
	system := messages[0].(map[string]any)
	if !strings.HasPrefix(system["content"].(string), "obey response_policy\n") || !strings.Contains(system["content"].(string), "chat.list_events is the tool chat_list_events") {
		t.Errorf("system prompt %q", system["content"])
	}
	if len(messages) != 2 || system["role"] != "system" || messages[1].(map[string]any)["content"] != "C2A EVENT" {
		t.Errorf("messages %v", messages)
	}
}

func TestToolCallInPiecesIsRunAndAnswered(t *testing.T) {
	api := harnesstest.StartAPI(t, callTool("call_a", "chat_send_message", `{"text":"hi","inReplyTo":"evt_1"}`), say("done"))
	tools := &harnesstest.Tools{}
	out, err := newHarness(api, &waits{}).Turn(t.Context(), turn("x"), tools)
	if err != nil {
		t.Fatal(err)
	}
	calls := tools.Calls()
	if len(calls) != 1 || calls[0].Name != "chat.send_message" || calls[0].Arguments["text"] != "hi" {
		t.Fatalf("calls %v", calls)
	}
	if out.Usage.ToolCalls != 1 || out.Usage.Rounds != 2 {
		t.Errorf("usage %+v", out.Usage)
	}
	requests := api.Requests()
	for _, tool := range requests[0].Body["tools"].([]any) {
		name := tool.(map[string]any)["function"].(map[string]any)["name"].(string)
		if strings.Contains(name, ".") {
			t.Errorf("tool name %q has a dot, which the API refuses", name)
		}
	}
	messages := requests[1].Body["messages"].([]any)
	assistant, result := messages[2].(map[string]any), messages[3].(map[string]any)
	call := assistant["tool_calls"].([]any)[0].(map[string]any)
	if call["id"] != "call_a" || result["tool_call_id"] != "call_a" || result["role"] != "tool" {
		t.Errorf("assistant %v, result %v", assistant, result)
	}
	if got := call["function"].(map[string]any)["arguments"]; got != `{"text":"hi","inReplyTo":"evt_1"}` {
		t.Errorf("arguments %v", got)
	}
}

// TestParallelCalls covers several calls in one answer, and endpoints that
// leave the index out or give every call index 0.
func TestParallelCalls(t *testing.T) {
	for name, pieces := range map[string][]string{
		"indexed": {
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"chat_react","arguments":"{\"signal\":"}},{"index":1,"id":"b","function":{"name":"chat_resolve","arguments":""}}]}}]}`,
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"function":{"arguments":"{}"}},{"index":0,"function":{"arguments":"\"done\"}"}}]}}]}`,
		},
		"no index": {
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"id":"a","function":{"name":"chat_react","arguments":"{\"signal\":\"done\"}"}}]}}]}`,
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"id":"b","function":{"name":"chat_resolve","arguments":"{}"}}]}}]}`,
		},
		"same index": {
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"chat_react","arguments":"{\"signal\":\"done\"}"}}]}}]}`,
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"b","function":{"name":"chat_resolve","arguments":"{}"}}]}}]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			api := harnesstest.StartAPI(t, harnesstest.Events(append(pieces, finish("tool_calls"), "[DONE]")...), say(""))
			tools := &harnesstest.Tools{}
			if _, err := newHarness(api, &waits{}).Turn(t.Context(), turn("x"), tools); err != nil {
				t.Fatal(err)
			}
			if got := tools.Called(); !slices.Equal(got, []string{"chat.react", "chat.resolve"}) || tools.Calls()[0].Arguments["signal"] != "done" {
				t.Errorf("calls %v", tools.Calls())
			}
		})
	}
}

func TestRetriesObeyRetryAfter(t *testing.T) {
	api := harnesstest.StartAPI(t,
		harnesstest.Status(429, `{"error":{"message":"slow down","type":"rate_limit_error","code":"rate_limit_exceeded"}}`, "Retry-After", "7"),
		harnesstest.Status(503, `overloaded`),
		say("hello"))
	w := &waits{}
	out, err := newHarness(api, w).Turn(t.Context(), turn("x"), &harnesstest.Tools{})
	if err != nil || out.FinalText != "hello" {
		t.Fatalf("%+v, %v", out, err)
	}
	if len(w.slept) != 2 || w.slept[0] != 7*time.Second || w.slept[1] < time.Second || w.slept[1] > 2*time.Second {
		t.Errorf("slept %v, want 7s and 1s to 2s", w.slept)
	}
}

func TestRetriesEnd(t *testing.T) {
	api := harnesstest.StartAPI(t, harnesstest.Status(500, `{"error":{"message":"The server had an error"}}`))
	w := &waits{}
	_, err := newHarness(api, w, func(o *modelapi.Options) { o.Loop.Retries = 3 }).Turn(t.Context(), turn("x"), &harnesstest.Tools{})
	if !errors.Is(err, harness.ErrTemporary) || len(w.slept) != 3 || len(api.Requests()) != 4 {
		t.Errorf("err %v, slept %v, %d requests", err, w.slept, len(api.Requests()))
	}
}

func TestPermanentErrorsSayWhatToCheckAndHideTheKey(t *testing.T) {
	for name, c := range map[string]struct {
		answer harnesstest.Answer
		want   string
	}{
		"wrong key":   {harnesstest.Status(401, `{"error":{"message":"Incorrect API key provided: `+secret+`, or sk-pro*****wxyz.","type":"invalid_request_error"}}`), "OPENAI_API_KEY"},
		"no credit":   {harnesstest.Status(429, `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}`), "credit"},
		"wrong model": {harnesstest.Status(404, `{"error":{"message":"The model does not exist","code":"model_not_found"}}`), "--model"},
		"redirect":    {harnesstest.Status(302, ``, "Location", "https://elsewhere.example/v1"), "--base-url"},
		"bad request": {harnesstest.Status(400, `{"detail":"no tools here"}`), "no tools here"},
	} {
		t.Run(name, func(t *testing.T) {
			api := harnesstest.StartAPI(t, c.answer)
			_, err := newHarness(api, &waits{}).Turn(t.Context(), turn("x"), &harnesstest.Tools{})
			if !errors.Is(err, harness.ErrPermanent) || !strings.Contains(err.Error(), c.want) || len(api.Requests()) != 1 {
				t.Errorf("err = %v after %d requests, want permanent with %q", err, len(api.Requests()), c.want)
			}
			if strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "wxyz") {
				t.Errorf("the key is in the error: %v", err)
			}
		})
	}
}

func TestRoundsEndWithoutTools(t *testing.T) {
	api := harnesstest.StartAPI(t, callTool("a", "chat_list_events", `{}`), callTool("b", "chat_list_events", `{}`), say("enough"))
	tools := &harnesstest.Tools{}
	out, err := newHarness(api, &waits{}, func(o *modelapi.Options) { o.Loop.MaxRounds = 3 }).Turn(t.Context(), turn("x"), tools)
	if err != nil || out.FinalText != "enough" || len(tools.Calls()) != 2 {
		t.Fatalf("%+v, %v, %v", out, err, tools.Called())
	}
	requests := api.Requests()
	if requests[1].Body["tool_choice"] != nil || requests[2].Body["tool_choice"] != "none" {
		t.Errorf("tool_choice %v then %v", requests[1].Body["tool_choice"], requests[2].Body["tool_choice"])
	}
}

func TestTokenBudgetEndsTheTurn(t *testing.T) {
	api := harnesstest.StartAPI(t, callTool("a", "chat_list_events", `{}`))
	_, err := newHarness(api, &waits{}, func(o *modelapi.Options) { o.Loop.TokenBudget = 300 }).Turn(t.Context(), turn("x"), &harnesstest.Tools{})
	if !errors.Is(err, harness.ErrBudget) || len(api.Requests()) != 3 {
		t.Errorf("err = %v after %d requests, want the budget after 3", err, len(api.Requests()))
	}
}

func TestUnusableToolCallsComeBackAsErrors(t *testing.T) {
	api := harnesstest.StartAPI(t, callTool("a", "chat_send_message", `{"text": "unterminated`), callTool("b", "no_such_tool", `{}`), say("sorry"))
	tools := &harnesstest.Tools{}
	if _, err := newHarness(api, &waits{}).Turn(t.Context(), turn("x"), tools); err != nil || len(tools.Calls()) != 0 {
		t.Fatalf("%v, calls %v", err, tools.Calls())
	}
	for i, want := range []string{"not a JSON object", "no tool"} {
		messages := api.Requests()[i+1].Body["messages"].([]any)
		if last := messages[len(messages)-1].(map[string]any)["content"].(string); !strings.Contains(last, want) {
			t.Errorf("the model was told %q, want %q", last, want)
		}
	}
}

// TestWhatAModelMadeUpIsNotSentBack: endpoints refuse a history with arguments
// that are not JSON, or with a name that no tool can have.
func TestWhatAModelMadeUpIsNotSentBack(t *testing.T) {
	api := harnesstest.StartAPI(t,
		callTool("a", "chat.send_message", `{"text": "unterminated`), callTool("b", "functions.no such tool", `{}`),
		callTool("c", "", `[]`), callTool("d", "chat.send_message", `{"text":"hello"}`), say(""))
	tools := &harnesstest.Tools{Names: []string{"chat.send_message"}}
	if _, err := newHarness(api, &waits{}).Turn(t.Context(), turn("x"), tools); err != nil || len(tools.Calls()) != 1 {
		t.Fatalf("%v, calls %v", err, tools.Calls())
	}
	var got []string
	for _, m := range api.Requests()[4].Body["messages"].([]any) {
		calls, _ := m.(map[string]any)["tool_calls"].([]any)
		for _, c := range calls {
			f := c.(map[string]any)["function"].(map[string]any)
			got = append(got, fmt.Sprint(f["name"], f["arguments"]))
		}
	}
	want := []string{"chat_send_message{}", "functions_no_such_tool{}", "unnamed{}", `chat_send_message{"text":"hello"}`}
	if !slices.Equal(got, want) {
		t.Errorf("sent back %q, want %q", got, want)
	}
}

// TestAPastThatIsRefusedIsForgotten: a conversation whose history an API does
// not take is not lost for good.
func TestAPastThatIsRefusedIsForgotten(t *testing.T) {
	api := harnesstest.StartAPI(t, say("one"),
		harnesstest.Status(400, `{"error":{"message":"Invalid 'messages[1]': bad history","type":"invalid_request_error"}}`),
		say("two"), say("three"))
	h := newHarness(api, &waits{})
	for _, prompt := range []string{"first", "second", "third"} {
		if _, err := h.Turn(t.Context(), turn(prompt), &harnesstest.Tools{}); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []int{2, 4, 2, 4} { // the system prompt, the past, and the new one
		if got := len(api.Requests()[i].Body["messages"].([]any)); got != want {
			t.Errorf("request %d has %d messages, want %d", i+1, got, want)
		}
	}
}

func TestConversationIsRememberedWithinBoundsAndAcrossRestarts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.db")
	api := harnesstest.StartAPI(t, say("one"), say("two"), say("three"), say("four"), say("five"))
	ask := func(prompt, conversation string) []any {
		history, err := turnloop.OpenHistory(path, 10)
		if err != nil {
			t.Fatal(err)
		}
		defer history.Close()
		h := newHarness(api, &waits{}, func(o *modelapi.Options) { o.Loop.History, o.Loop.HistoryTurns = history, 2 })
		tn := turn(prompt)
		tn.Event.Conversation.ID = conversation
		if _, err := h.Turn(t.Context(), tn, &harnesstest.Tools{}); err != nil {
			t.Fatal(err)
		}
		requests := api.Requests()
		return requests[len(requests)-1].Body["messages"].([]any)
	}
	ask("first", "C1")
	ask("second", "C1")
	ask("third", "C1")
	fourth := ask("fourth", "C1")
	var words []string
	for _, m := range fourth[1:] {
		words = append(words, m.(map[string]any)["content"].(string))
	}
	if want := []string{"second", "two", "third", "three", "fourth"}; !slices.Equal(words, want) {
		t.Errorf("the model saw %v, want %v", words, want)
	}
	if other := ask("elsewhere", "C2"); len(other) != 2 {
		t.Errorf("another conversation saw %v", other)
	}
}

func TestTooLongConversationForgetsItsPast(t *testing.T) {
	api := harnesstest.StartAPI(t, say("one"),
		harnesstest.Status(400, `{"error":{"message":"This model's maximum context length is 8 tokens","code":"context_length_exceeded"}}`),
		say("two"))
	h := newHarness(api, &waits{})
	for _, prompt := range []string{"first", "second"} {
		if _, err := h.Turn(t.Context(), turn(prompt), &harnesstest.Tools{}); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(api.Requests()[2].Body["messages"].([]any)); got != 2 {
		t.Errorf("%d messages, want the system prompt and the new one", got)
	}
}

// TestEndpointsAreMetHalfway: no streaming, another name for the limit, no
// stream_options.
func TestEndpointsAreMetHalfway(t *testing.T) {
	api := harnesstest.StartAPI(t,
		harnesstest.Status(400, `{"error":{"message":"unknown field stream_options"}}`),
		harnesstest.Status(400, `{"error":{"message":"Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."}}`),
		harnesstest.Status(200, `{"choices":[{"index":0,"message":{"role":"assistant","content":"whole"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`))
	h := newHarness(api, &waits{})
	for range 2 {
		out, err := h.Turn(t.Context(), turn("x"), &harnesstest.Tools{})
		if err != nil || out.FinalText != "whole" || out.Usage.InputTokens != 3 {
			t.Fatalf("%+v, %v", out, err)
		}
	}
	requests := api.Requests()
	last := requests[len(requests)-1].Body
	if len(requests) != 4 || last["stream_options"] != nil || last["max_tokens"] != nil || last["max_completion_tokens"] == nil {
		t.Errorf("%d requests, the last %v", len(requests), last)
	}
}

func TestProgressTellsOfTextAndTools(t *testing.T) {
	api := harnesstest.StartAPI(t, callTool("a", "chat_react", `{"signal":"seen"}`), say("ok"))
	h := newHarness(api, &waits{})
	var mu sync.Mutex
	var kinds []string
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	started := make(chan struct{}, 1)
	go func() {
		done <- h.Run(ctx, harness.Host{Progress: func(p harness.Progress) {
			mu.Lock()
			defer mu.Unlock()
			kinds = append(kinds, string(p.Kind)+":"+p.Tool)
			select {
			case started <- struct{}{}:
			default:
			}
		}})
	}()
	for len(started) == 0 { // Run sets the host before it waits
		if _, err := h.Turn(ctx, turn("x"), &harnesstest.Tools{}); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(kinds, "text:") {
		t.Errorf("progress %v", kinds)
	}
}

func TestWithoutAKeyOpenAIIsRefusedBeforeAnyRequest(t *testing.T) {
	none := func() (string, error) { return "", nil }
	err := openai.New(&modelapi.Options{Key: none}).Run(t.Context(), harness.Host{})
	if !errors.Is(err, harness.ErrPermanent) || !strings.Contains(err.Error(), "OPENAI_API_KEY") {
		t.Errorf("err = %v", err)
	}
	api := harnesstest.StartAPI(t, say("local"))
	out, err := newHarness(api, &waits{}, func(o *modelapi.Options) { o.Key = none }).Turn(t.Context(), turn("x"), &harnesstest.Tools{})
	if err != nil || out.FinalText != "local" || api.Requests()[0].Header.Get("Authorization") != "" {
		t.Errorf("%+v, %v, header %q", out, err, api.Requests()[0].Header.Get("Authorization"))
	}
}
