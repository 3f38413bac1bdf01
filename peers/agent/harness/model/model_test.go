package model_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/harnesstest"
	"hubbub/peers/agent/harness/model"
)

const secret = "test0123456789abcdef" // looks like no key

// A rig is one API with the requests that a test received. Every test of a behaviour runs for
// each of them, on a clock of its own.
type rig struct {
	*testing.T
	dialect
	new     func(*model.Options) *model.Harness
	keyName string
	header  string // of the key
	shown   string // the key as that header shows it
}

var rigs = []rig{
	{dialect: openAI, new: model.OpenAI, keyName: model.OpenAIKey, header: "Authorization", shown: "Bearer " + secret},
	{dialect: anthropicAPI, new: model.Anthropic, keyName: model.AnthropicKey, header: "X-Api-Key", shown: secret},
}

func each(t *testing.T, test func(r rig)) {
	for _, r := range rigs {
		t.Run(r.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r.T = t
				test(r)
			})
		})
	}
}

// start makes a harness that asks an API with these answers.
func (r rig) start(change func(*model.Options), answers ...http.HandlerFunc) (*API, *model.Harness) {
	r.Helper()
	api := startAPI(r.T, answers...)
	o := &model.Options{BaseURL: api.URL + "/v1", Model: "test-model", Key: func() (string, error) { return secret, nil }, Client: api.Client}
	if change != nil {
		change(o)
	}
	return api, r.new(o)
}

func (r rig) say(pieces ...string) http.HandlerFunc { return Events(r.Say(pieces...)...) }

func (r rig) call(id, name, arguments string) http.HandlerFunc {
	return Events(r.Call(id, name, arguments)...)
}

func (r rig) said(s said) http.HandlerFunc { return Events(r.Events(s)...) }

// last is what the model was shown in the last request.
func (r rig) last(api *API) []said {
	requests := api.Requests()
	return r.Dialogue(requests[len(requests)-1])
}

func (r rig) history(n int) *model.History {
	r.Helper()
	h, err := model.OpenHistory(filepath.Join(r.TempDir(), "history.db"), n)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { h.Close() })
	return h
}

func turn(prompt string) *harness.Turn {
	return &harness.Turn{ID: "t1", Attempt: 1, System: "obey response_policy", Prompt: prompt,
		Event: harness.Event{EventID: "evt_1", ChatEvent: harness.ChatEvent{Conversation: harness.Conversation{ID: "C1", Kind: "dm"}}}}
}

func TestTurn_ReturnsTheFinalText(t *testing.T) {
	each(t, func(r rig) {
		api, h := r.start(nil, r.say("  The deploy ", "is green.\n"))
		out, err := h.Turn(r.Context(), turn("C2A EVENT"), &harnesstest.Tools{})
		if err != nil || out.FinalText != "The deploy is green." || out.State != harness.Finished {
			r.Fatalf("%+v, %v", out, err)
		}
		want := harness.Usage{Model: "test-model", InputTokens: 100, CachedTokens: 60, OutputTokens: 7, Iterations: 1}
		if r.Name == "openai" {
			want.USD = usd
		}
		if out.Usage != want {
			r.Errorf("usage %+v", out.Usage)
		}
		q := api.Requests()[0]
		if q.Path != "/v1"+r.Path || q.Header.Get(r.header) != r.shown || q.Body["stream"] != true || q.Body["model"] != "test-model" {
			r.Errorf("request %s %v %v", q.Path, q.Header, q.Body)
		}
		if system := r.System(q); !strings.HasPrefix(system, "obey response_policy\n") || !strings.Contains(system, "chat.list_events is the tool chat_list_events") {
			r.Errorf("system prompt %q", system)
		}
		if shown := r.Dialogue(q); len(shown) != 1 || shown[0].Role != "user" || shown[0].Words() != "C2A EVENT" {
			r.Errorf("shown %v", shown)
		}
	})
}

func TestTurn_RunsTools(t *testing.T) {
	each(t, func(r rig) {
		api, h := r.start(nil, r.said(said{Text: []string{"Let me ", "look."}, Calls: []modelCall{
			{ID: "call_a", Name: "chat_send_message", Arguments: `{"text":"hi"}`}, {ID: "call_b", Name: "chat_list_events"},
		}}), r.say("done"))
		tools := &harnesstest.Tools{Answer: func(_ context.Context, c harnesstest.Call) (harness.Result, bool) {
			return harness.ErrorResult("you are not in that chat", nil), c.Name == "chat.list_events"
		}}
		out, err := h.Turn(r.Context(), turn("x"), tools)
		if err != nil || out.FinalText != "done" || out.Usage.ToolCalls != 2 || out.Usage.Iterations != 2 || out.Usage.InputTokens != 200 {
			r.Fatalf("%+v, %v", out, err)
		}
		if got := tools.Called(); !slices.Equal(got, []string{"chat.send_message", "chat.list_events"}) || tools.Calls()[0].Arguments["text"] != "hi" {
			r.Errorf("calls %v", tools.Calls())
		}
		if raw, _ := json.Marshal(api.Requests()[0].Body["tools"]); strings.Contains(string(raw), `"name":"chat.`) {
			r.Errorf("a tool's name has a dot, which the APIs refuse: %s", raw)
		}
		shown := r.last(api)
		if len(shown) != 4 || shown[1].Words() != "Let me look." || len(shown[1].Calls) != 2 || shown[1].Calls[0] != (modelCall{ID: "call_a", Name: "chat_send_message", Arguments: `{"text":"hi"}`}) {
			r.Fatalf("shown %+v", shown)
		}
		if shown[2].Role != "tool" || shown[2].Answers != "call_a" || shown[3].Answers != "call_b" || !strings.Contains(shown[3].Words(), "not in that chat") {
			r.Errorf("shown %+v", shown)
		}
	})
}

func TestRetry_ObeysRetryAfter(t *testing.T) {
	each(t, func(r rig) {
		api, h := r.start(nil,
			Status(429, `{"error":{"message":"slow down","type":"rate_limit_error","code":"rate_limit_exceeded"}}`, "Retry-After", "7"),
			Status(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`),
			r.say("hello"))
		began := time.Now()
		out, err := h.Turn(r.Context(), turn("x"), &harnesstest.Tools{})
		if err != nil || out.FinalText != "hello" || len(api.Requests()) != 3 {
			r.Fatalf("%+v, %v", out, err)
		}
		if took := time.Since(began); took < 8*time.Second || took > 9*time.Second {
			r.Errorf("it took %s, want 7 s and 1 to 2", took)
		}
	})
}

func TestRetry_Ends(t *testing.T) {
	for retries, bounds := range map[int][2]time.Duration{
		3: {3500 * time.Millisecond, 7 * time.Second}, // 1+2+4 seconds, less at most half of each
		6: {30 * time.Second, 61 * time.Second},       // and 8+16+30
	} {
		each(t, func(r rig) {
			api, h := r.start(func(o *model.Options) { o.Retries = retries }, Status(500, `{"error":{"message":"The server had an error"}}`))
			began := time.Now()
			_, err := h.Turn(r.Context(), turn("x"), &harnesstest.Tools{})
			took := time.Since(began)
			if !errors.Is(err, harness.ErrTemporary) || len(api.Requests()) != retries+1 || took < bounds[0] || took > bounds[1] {
				r.Errorf("%v after %d requests in %s", err, len(api.Requests()), took)
			}
		})
	}
}

// TestRetry_StaysWithinTheTimeout checks that a turn fails at once if the API asks for an hour, and
// that the agent learns when to try again.
func TestRetry_StaysWithinTheTimeout(t *testing.T) {
	each(t, func(r rig) {
		_, h := r.start(nil, Status(503, ``, "Retry-After", "3600"))
		began := time.Now()
		_, err := h.Turn(r.Context(), turn("x"), &harnesstest.Tools{})
		var later *harness.RetryLaterError
		if !errors.As(err, &later) || later.After != 10*time.Minute || time.Since(began) != 0 {
			r.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

func TestTurn_EndsAtTheTimeout(t *testing.T) {
	each(t, func(r rig) {
		_, h := r.start(func(o *model.Options) { o.Timeout = time.Minute }, Silent(r.Say("thinking")[:1]...))
		began := time.Now()
		_, err := h.Turn(r.Context(), turn("x"), nil)
		if !errors.Is(err, harness.ErrBudget) || time.Since(began) != time.Minute {
			r.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

func TestErrors_SayWhatToCheckAndHideTheKey(t *testing.T) {
	each(t, func(r rig) {
		for name, c := range map[string]struct {
			answer http.HandlerFunc
			want   string
		}{
			"wrong key":                         {Status(401, `{"error":{"message":"Incorrect API key provided: `+secret+`, or sk-pro*****wxyz.","type":"invalid_request_error"}}`), r.keyName},
			"no credit":                         {Status(429, `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}`), "credit"},
			"a key at the end of what is shown": {Status(401, `{"error":"`+strings.Repeat("x", 390)+" "+secret+`"}`), r.keyName},
			"wrong model":                       {Status(404, `{"error":{"message":"The model does not exist","code":"model_not_found"}}`), "--model"},
			"bad request":                       {Status(400, `{"detail":"no tools here"}`), "no tools here"},
			"in a stream":                       {Events(`{"error":{"message":"no tools with ` + secret + `","type":"invalid_request_error"}}`), "no tools"},
		} {
			api, h := r.start(nil, c.answer)
			_, err := h.Turn(r.Context(), turn("x"), &harnesstest.Tools{})
			if !errors.Is(err, harness.ErrPermanent) || !strings.Contains(err.Error(), c.want) || len(api.Requests()) != 1 {
				r.Errorf("%s: err = %v after %d requests, want permanent with %q", name, err, len(api.Requests()), c.want)
			}
			if userErr, ok := errors.AsType[*harness.UserError](err); !ok || strings.Contains(userErr.Message, api.URL) || strings.Contains(userErr.Message, r.keyName) {
				r.Errorf("%s: the chat is told %+v", name, userErr)
			}
			if strings.Contains(err.Error(), secret[:7]) || strings.Contains(err.Error(), "wxyz") {
				r.Errorf("%s: the key is in the error: %v", name, err)
			}
		}
	})
}

func TestErrorBodies(t *testing.T) {
	for body, want := range map[string]string{
		`{"error":{"message":"no","code":400}}`: "no",
		`{"error":"plain"}`:                     "plain",
		`[{"error":{"message":"listed"}}]`:      "listed",
		`{"message":"top"}`:                     "top",
		`{"detail":"detailed"}`:                 "detailed",
		`<html>oops</html>`:                     "oops",
		``:                                      "Bad Request",
	} {
		each(t, func(r rig) {
			_, h := r.start(nil, Status(400, body))
			if _, err := h.Turn(r.Context(), turn("x"), nil); err == nil || !strings.Contains(err.Error(), want) {
				r.Errorf("%s: %v", body, err)
			}
		})
	}
}

func TestTurn_LastIterationHasNoTools(t *testing.T) {
	each(t, func(r rig) {
		api, h := r.start(func(o *model.Options) { o.MaxIterations = 3 }, r.call("a", "chat_list_events", `{}`), r.call("b", "chat_list_events", `{}`), r.say("enough"))
		tools := &harnesstest.Tools{}
		out, err := h.Turn(r.Context(), turn("x"), tools)
		if err != nil || out.FinalText != "enough" || len(tools.Calls()) != 2 {
			r.Fatalf("%+v, %v, %v", out, err, tools.Called())
		}
		requests := api.Requests()
		if choice := fmt.Sprint(requests[2].Body["tool_choice"]); requests[1].Body["tool_choice"] != nil || !strings.Contains(choice, "none") || requests[2].Body["tools"] == nil {
			r.Errorf("tool_choice %v then %v", requests[1].Body["tool_choice"], choice)
		}
	})
}

func TestTurn_EndsAtTheTokenBudget(t *testing.T) {
	each(t, func(r rig) {
		api, h := r.start(func(o *model.Options) { o.TokenBudget = 300 }, r.call("a", "chat_list_events", `{}`))
		_, err := h.Turn(r.Context(), turn("x"), &harnesstest.Tools{})
		if !errors.Is(err, harness.ErrBudget) || len(api.Requests()) != 3 {
			r.Errorf("err = %v after %d requests, want the budget after 3", err, len(api.Requests()))
		}
	})
}

// TestTruncation checks that the calls of an answer that the token limit cut are not run.
func TestTruncation(t *testing.T) {
	each(t, func(r rig) {
		half := []modelCall{{ID: "a", Name: "chat_send_message", Arguments: `{"te`}}
		_, h := r.start(nil,
			r.said(said{Text: []string{"first half"}, Calls: half, Stop: stopCut}),
			r.said(said{Calls: half, Stop: stopCut}))
		tools := &harnesstest.Tools{}
		out, err := h.Turn(r.Context(), turn("x"), tools)
		if err != nil || out.FinalText != "first half" || !out.Truncated || len(tools.Calls()) != 0 {
			r.Errorf("%+v, %v, %v", out, err, tools.Called())
		}
		if _, err := h.Turn(r.Context(), turn("x"), tools); !errors.Is(err, harness.ErrBudget) || len(tools.Calls()) != 0 {
			r.Errorf("cut before it said anything: %v", err)
		}
	})
}

func TestTools_InvalidCallsReturnErrors(t *testing.T) {
	each(t, func(r rig) {
		api, h := r.start(nil, r.call("a", "chat_send_message", `{"text": "unterminated`), r.call("b", "no_such_tool", `{}`),
			r.call("c", "no_such_tool", `{"text": "unterminated`), r.say("sorry"))
		tools := &harnesstest.Tools{}
		if _, err := h.Turn(r.Context(), turn("x"), tools); err != nil || len(tools.Calls()) != 0 {
			r.Fatalf("%v, calls %v", err, tools.Calls())
		}
		for i, want := range []string{"not a JSON object", "no tool", "no tool"} {
			shown := r.Dialogue(api.Requests()[i+1])
			if last := shown[len(shown)-1].Words(); !strings.Contains(last, want) {
				r.Errorf("the model was told %q, want %q", last, want)
			}
		}
	})
}

// TestHistory_HoldsOnlyValidToolNames also checks arguments that are not JSON. Endpoints refuse a
// history with either.
func TestHistory_HoldsOnlyValidToolNames(t *testing.T) {
	each(t, func(r rig) {
		api, h := r.start(nil,
			r.call("a", "chat.send_message", `{"text": "unterminated`), r.call("b", "functions.no such tool", `{}`),
			r.call("c", "", `[]`), r.call("d", "chat.send_message", `{"text":"hello"}`), r.say(""))
		tools := &harnesstest.Tools{Names: []string{"chat.send_message"}}
		if _, err := h.Turn(r.Context(), turn("x"), tools); err != nil || len(tools.Calls()) != 1 {
			r.Fatalf("%v, calls %v", err, tools.Calls())
		}
		var got []string
		for _, s := range r.last(api) {
			for _, c := range s.Calls {
				got = append(got, c.Name+c.Arguments)
			}
		}
		want := []string{"chat_send_message{}", "functions_no_such_tool{}", "unnamed{}", `chat_send_message{"text":"hello"}`}
		if !slices.Equal(got, want) {
			r.Errorf("sent back %q, want %q", got, want)
		}
	})
}

// TestCall_WithDecoratedNameRuns has names around which models, or the servers that parse their calls,
// leave something.
func TestCall_WithDecoratedNameRuns(t *testing.T) {
	names := []string{"functions.chat_react", "functions.chat.react:0", "default_api:chat_react", "Chat_React", "chat-react",
		"chat_react<|channel|>commentary", " \"chat_react\" ", "chat_react()", "mcp__hubbub__chat_react"}
	each(t, func(r rig) {
		for _, name := range names {
			api, h := r.start(nil, r.call("a", name, `{"signal":"done"}`), r.say(""))
			tools := &harnesstest.Tools{Names: []string{"chat.react", "chat.send_message"}}
			if _, err := h.Turn(r.Context(), turn("x"), tools); err != nil || len(tools.Calls()) != 1 {
				r.Errorf("%q: %v, calls %v", name, err, tools.Calls())
			}
			for _, s := range r.last(api) {
				for _, c := range s.Calls {
					if c.Name != "chat_react" {
						r.Errorf("%q is sent back as %q", name, c.Name)
					}
				}
			}
		}
	})
}

// TestHistory_IsDroppedIfRefused checks that a conversation continues although an API refuses its
// history, or it has become too long.
func TestHistory_IsDroppedIfRefused(t *testing.T) {
	for _, refusal := range []string{
		`{"error":{"message":"Invalid 'messages[1]': bad history","type":"invalid_request_error"}}`,
		`{"error":{"message":"This model's maximum context length is 8 tokens","code":"context_length_exceeded"}}`,
		`{"error":{"message":"prompt is too long: 9 tokens > 8 maximum","type":"invalid_request_error"}}`,
	} {
		each(t, func(r rig) {
			history := r.history(9)
			api, h := r.start(func(o *model.Options) { o.History = history }, r.say("one"), Status(400, refusal), r.say("two"), r.say("three"))
			for _, prompt := range []string{"first", "second", "third"} {
				if _, err := h.Turn(r.Context(), turn(prompt), &harnesstest.Tools{}); err != nil {
					r.Fatal(err)
				}
			}
			for i, want := range []int{1, 3, 1, 3} {
				if got := len(r.Dialogue(api.Requests()[i])); got != want {
					r.Errorf("request %d has %d messages, want %d", i+1, got, want)
				}
			}
		})
	}
}

// TestStream_BrokenOneRunsNoTool checks that an interrupted answer is dropped and the request is
// sent again.
func TestStream_BrokenOneRunsNoTool(t *testing.T) {
	each(t, func(r rig) {
		half := r.Events(said{
			Text: []string{"I will"}, Stop: stopNever,
			Calls: []modelCall{{ID: "a", Name: "chat_send_message", Arguments: `{"text":"half"}`}},
		})
		with := func(more ...string) http.HandlerFunc {
			return Events(append(slices.Clone(half), more...)...)
		}
		for name, broken := range map[string]http.HandlerFunc{
			"connection cut":       Cut(half...),
			"end without finish":   with(),
			"error event":          with(`{"error":{"message":"The server is overloaded","type":"server_error"}}`),
			"error of another API": with("event: error\ndata: " + `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`),
			"error in words":       with(`{"error":"CUDA out of memory"}`),
			"not JSON":             with(`{"choices":[{"index":0,`),
			"silence":              Silent(half...),
			"no answer":            Cut(),
		} {
			api, h := r.start(nil, broken, r.say("whole"))
			tools := &harnesstest.Tools{}
			out, err := h.Turn(r.Context(), turn("x"), tools)
			if err != nil || out.FinalText != "whole" || len(tools.Calls()) != 0 || len(api.Requests()) != 2 {
				r.Errorf("%s: %+v, %v, calls %v, %d requests", name, out, err, tools.Called(), len(api.Requests()))
			}
		}
	})
}

func TestStream_SilentOneIsCanceled(t *testing.T) {
	each(t, func(r rig) {
		_, h := r.start(func(o *model.Options) { o.IdleTimeout = 20 * time.Second }, Silent(r.Say("wait")[:1]...), r.say("back"))
		began := time.Now()
		out, err := h.Turn(r.Context(), turn("x"), &harnesstest.Tools{})
		if took := time.Since(began); err != nil || out.FinalText != "back" || took < 20*time.Second || took > 21*time.Second {
			r.Errorf("%+v, %v after %s", out, err, took)
		}
	})
}

func TestStream_CancelReturnsItsCause(t *testing.T) {
	each(t, func(r rig) {
		cause := errors.New("message was edited before response")
		ctx, cancel := context.WithCancelCause(r.Context())
		gone := make(chan struct{})
		_, h := r.start(nil, func(w http.ResponseWriter, q *http.Request) {
			defer close(gone)
			Events(r.Say("thinking")[:1]...)(w, q)
			cancel(cause)
			<-q.Context().Done() // until the client has closed its side
		})
		if _, err := h.Turn(ctx, turn("x"), &harnesstest.Tools{}); !errors.Is(err, cause) {
			r.Errorf("err = %v", err)
		}
		<-gone
	})
}

func TestTools_CancelSkipsRemainingCalls(t *testing.T) {
	each(t, func(r rig) {
		cause := errors.New("the message was deleted")
		ctx, cancel := context.WithCancelCause(r.Context())
		tools := &harnesstest.Tools{Answer: func(context.Context, harnesstest.Call) (harness.Result, bool) {
			cancel(cause)
			return harness.Result{}, false
		}}
		history := r.history(1)
		api, h := r.start(func(o *model.Options) { o.History = history },
			r.said(said{Calls: []modelCall{{ID: "a", Name: "chat_react"}, {ID: "b", Name: "chat_send_message"}}}), r.say("never"))
		_, err := h.Turn(ctx, turn("x"), tools)
		if !errors.Is(err, cause) || len(tools.Calls()) != 1 || len(api.Requests()) != 1 {
			r.Errorf("%v, calls %v, %d requests", err, tools.Called(), len(api.Requests()))
		}
		if document, err := history.Load(r.Context(), "C1\x1f"); err != nil || !strings.Contains(string(document), "canceled before this tool") {
			r.Errorf("the model remembers %s, %v", document, err)
		}
	})
}

func TestAnswer_InOnePiece(t *testing.T) {
	each(t, func(r rig) {
		_, h := r.start(nil, Status(200, r.Whole("in one piece")))
		out, err := h.Turn(r.Context(), turn("x"), &harnesstest.Tools{})
		if err != nil || out.FinalText != "in one piece" || out.Usage.OutputTokens != outputTokens || out.Usage.InputTokens != inputTokens {
			r.Errorf("%+v, %v", out, err)
		}
	})
}

func TestTools_LimitCallsInOneAnswer(t *testing.T) {
	each(t, func(r rig) {
		var calls []modelCall
		for i := range 100 {
			calls = append(calls, modelCall{ID: fmt.Sprint("c", i), Name: "chat_react", Arguments: "{}"})
		}
		api, h := r.start(nil, r.said(said{Calls: calls}), r.say(""))
		tools := &harnesstest.Tools{}
		if _, err := h.Turn(r.Context(), turn("x"), tools); err != nil {
			r.Fatal(err)
		}
		shown := r.last(api)
		if len(tools.Calls()) != 32 || len(shown) != 102 || !strings.Contains(shown[101].Words(), "at most 32") {
			r.Errorf("%d calls, %d messages", len(tools.Calls()), len(shown))
		}
	})
}

func TestProgress_ReportsTextAndTools(t *testing.T) {
	each(t, func(r rig) {
		_, h := r.start(nil, r.call("a", "chat_react", `{"signal":"seen"}`), r.say("o", "k"))
		var progress []string
		ctx, cancel := context.WithCancel(r.Context())
		done := make(chan error, 1)
		go func() {
			done <- h.Run(ctx, harness.Host{Progress: func(p harness.Progress) { progress = append(progress, string(p.Kind)+":"+p.Tool+p.Message) }})
		}()
		synctest.Wait()
		if _, err := h.Turn(ctx, turn("x"), &harnesstest.Tools{}); err != nil {
			r.Fatal(err)
		}
		cancel()
		if err := <-done; err != nil {
			r.Fatal(err)
		}
		if want := []string{"tool_call:chat.react", "tool_result:chat.react", "text:o", "text:k"}; !slices.Equal(progress, want) {
			r.Errorf("progress %q, want %q", progress, want)
		}
	})
}

func TestValidate_RequiresAKeyForProviders(t *testing.T) {
	each(t, func(r rig) {
		none := func() (string, error) { return "", nil }
		err := r.new(&model.Options{Key: none}).Run(r.Context(), harness.Host{})
		if !errors.Is(err, harness.ErrPermanent) || !strings.Contains(err.Error(), r.keyName) {
			r.Errorf("err = %v", err)
		}
		api, h := r.start(func(o *model.Options) { o.Key = none }, r.say("local"))
		out, err := h.Turn(r.Context(), turn("x"), &harnesstest.Tools{})
		if header := api.Requests()[0].Header.Get(r.header); err != nil || out.FinalText != "local" || header != "" {
			r.Errorf("%+v, %v, header %q", out, err, header)
		}
	})
}

func TestValidate_RefusesInvalidAddresses(t *testing.T) {
	each(t, func(r rig) {
		for _, bad := range []string{"api.openai.com/v1", "ftp://x/v1", "https://user:pw@x/v1", "https://x/v1?key=1"} {
			_, err := r.new(&model.Options{BaseURL: bad, Key: func() (string, error) { return secret, nil }}).Capabilities(r.Context())
			if !errors.Is(err, harness.ErrPermanent) {
				r.Errorf("%q was taken", bad)
			}
		}
	})
}
