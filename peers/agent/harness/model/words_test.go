package model_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/harnesstest"
	"hubbub/peers/agent/harness/model"

	"github.com/rs/zerolog"
)

// alone runs a test of one API's words.
func alone(t *testing.T, name string, test func(r rig)) {
	for _, r := range rigs {
		if r.Name == name {
			r.T = t
			test(r)
		}
	}
}

func chunk(delta, finish string) string {
	return fmt.Sprintf(`{"choices":[{"index":0,"delta":%s,"finish_reason":%s}]}`, delta, finish)
}

// TestAnswer_ParallelCalls covers several calls in one answer, and endpoints that
// leave the index out or give every call index 0.
func TestAnswer_ParallelCalls(t *testing.T) {
	const react, resolve = `"id":"a","function":{"name":"chat_react","arguments":"{\"signal\":\"done\"}"}`, `"id":"b","function":{"name":"chat_resolve","arguments":"{}"}`
	for name, pieces := range map[string][]string{
		"indexed": {
			`[{"index":0,"id":"a","function":{"name":"chat_react","arguments":"{\"signal\":"}},{"index":1,"id":"b","function":{"name":"chat_resolve","arguments":""}}]`,
			`[{"index":1,"function":{"arguments":"{}"}},{"index":0,"function":{"arguments":"\"done\"}"}}]`,
		},
		"no index":        {`[{` + react + `}]`, `[{` + resolve + `}]`},
		"same index":      {`[{"index":0,` + react + `}]`, `[{"index":0,` + resolve + `}]`},
		"in pieces alone": {`[{"id":"a","function":{"name":"chat_react","arguments":"{\"signal\":"}}]`, `[{"function":{"arguments":"\"done\"}"}}]`, `[{` + resolve + `}]`},
	} {
		alone(t, "openai", func(r rig) {
			var events []string
			for _, piece := range pieces {
				events = append(events, chunk(`{"tool_calls":`+piece+`}`, "null"))
			}
			_, h := r.start(nil, Events(append(events, chunk("{}", `"tool_calls"`), "[DONE]")...), r.say(""))
			tools := &harnesstest.Tools{}
			if _, err := h.Turn(t.Context(), turn("x"), tools); err != nil {
				t.Fatal(err)
			}
			if got := tools.Called(); !slices.Equal(got, []string{"chat.react", "chat.resolve"}) || tools.Calls()[0].Arguments["signal"] != "done" {
				t.Errorf("%s: calls %v", name, tools.Calls())
			}
		})
	}
}

// TestAnswer_IgnoresUnknownMembers checks that reasoning is skipped, and that the members that
// Gemini requires back with a call are returned.
func TestAnswer_IgnoresUnknownMembers(t *testing.T) {
	alone(t, "openai", func(r rig) {
		api, h := r.start(nil, Events(
			chunk(`{"reasoning_content":"let me think","content":null}`, "null"),
			chunk(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"chat_resolve","arguments":"{}"},"extra_content":{"google":{"thought_signature":"sig"}}}]}`, `"tool_calls"`),
		), r.say("ok"))
		out, err := h.Turn(t.Context(), turn("x"), &harnesstest.Tools{})
		if err != nil || out.FinalText != "ok" {
			t.Fatalf("%+v, %v", out, err)
		}
		if sent := fmt.Sprint(api.Requests()[1].Body["messages"]); !strings.Contains(sent, "extra_content:map[google:map[thought_signature:sig]]") || strings.Contains(sent, "let me think") {
			t.Errorf("sent back %s", sent)
		}
	})
}

// TestOpenAI_AdaptsToEndpoints covers endpoints without streaming, with another name for the
// limit, and without stream_options.
func TestOpenAI_AdaptsToEndpoints(t *testing.T) {
	alone(t, "openai", func(r rig) {
		api, h := r.start(nil,
			Status(400, `{"error":{"message":"unknown field stream_options"}}`),
			Status(400, `{"error":{"message":"Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."}}`),
			Status(200, r.Whole("whole")))
		for range 2 {
			if out, err := h.Turn(t.Context(), turn("x"), &harnesstest.Tools{}); err != nil || out.FinalText != "whole" {
				t.Fatalf("%+v, %v", out, err)
			}
		}
		requests := api.Requests()
		last := requests[len(requests)-1].Body
		if len(requests) != 4 || last["stream_options"] != nil || last["max_tokens"] != nil || last["max_completion_tokens"] == nil {
			t.Errorf("%d requests, the last %v", len(requests), last)
		}
	})
}

// TestAnthropic_ContinuesAPausedAnswer checks that the API is asked again with the paused answer.
func TestAnthropic_ContinuesAPausedAnswer(t *testing.T) {
	alone(t, "anthropic", func(r rig) {
		api, h := r.start(nil, r.said(said{Text: []string{"first half, "}, Stop: stopPaused}), r.say("second half"))
		out, err := h.Turn(t.Context(), turn("x"), &harnesstest.Tools{})
		if err != nil || out.FinalText != "first half, second half" {
			t.Errorf("%+v, %v", out, err)
		}
		if shown := r.last(api); shown[len(shown)-1].Role != "assistant" {
			t.Errorf("a paused answer was continued with %v", shown)
		}
	})
}

// TestAnthropic_IgnoresUnknownBlocks also checks that a call whose arguments came at once
// runs.
func TestAnthropic_IgnoresUnknownBlocks(t *testing.T) {
	alone(t, "anthropic", func(r rig) {
		end := r.Events(said{Calls: []modelCall{{ID: "x"}}})
		events := []string{
			`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"let me think"}}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"server_tool_use","id":"s","name":"web_search","input":{}}}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{}"}}`,
			`{"type":"content_block_start","index":2,"content_block":{"type":"web_search_tool_result","content":[{"text":"found"}]}}`,
			`{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"a","name":"chat_react","input":{"signal":"done"}}}`,
		}
		_, h := r.start(nil, Events(append(events, end[len(end)-2:]...)...), r.say("ok"))
		tools := &harnesstest.Tools{}
		out, err := h.Turn(t.Context(), turn("x"), tools)
		if calls := tools.Calls(); err != nil || out.FinalText != "ok" || len(calls) != 1 || calls[0].Arguments["signal"] != "done" {
			t.Errorf("%+v, %v, calls %v", out, err, calls)
		}
	})
}

// TestAnswer_RefusesAnUnexpectedPiece checks that the missing parts of a call are not guessed.
func TestAnswer_RefusesAnUnexpectedPiece(t *testing.T) {
	pieces := map[string]string{
		"openai":    chunk(`{"tool_calls":[{"function":{"arguments":"{}"}}]}`, `"tool_calls"`),
		"anthropic": `{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{}"}}`,
	}
	each(t, func(r rig) {
		api, h := r.start(nil, Events(append([]string{pieces[r.Name]}, r.Say("never")...)...), r.say("whole"))
		if out, err := h.Turn(r.Context(), turn("x"), &harnesstest.Tools{}); err != nil || out.FinalText != "whole" || len(api.Requests()) != 2 {
			r.Errorf("%+v, %v", out, err)
		}
	})
}

func TestAnthropic_MarksThePromptCache(t *testing.T) {
	alone(t, "anthropic", func(r rig) {
		api, h := r.start(nil, r.say("ok"))
		if _, err := h.Turn(t.Context(), turn("x"), &harnesstest.Tools{}); err != nil {
			t.Fatal(err)
		}
		q := api.Requests()[0]
		if q.Header.Get("Anthropic-Version") != "2023-06-01" || q.Body["max_tokens"] == nil || strings.Count(fmt.Sprint(q.Body["system"], q.Body["tools"]), "cache_control") != 2 {
			t.Errorf("%v %v", q.Header, q.Body)
		}
	})
}

// TestAnthropic_MergesMessagesOfOneRole checks that roles alternate, as the Messages API
// requires.
func TestAnthropic_MergesMessagesOfOneRole(t *testing.T) {
	alone(t, "anthropic", func(r rig) {
		calls := []modelCall{{ID: "a", Name: "chat_react"}, {ID: "b", Name: "chat_react"}}
		api, h := r.start(nil, r.said(said{Calls: calls}), r.say("ok"))
		if _, err := h.Turn(t.Context(), turn("x"), &harnesstest.Tools{}); err != nil {
			t.Fatal(err)
		}
		messages := api.Requests()[1].Body["messages"].([]any)
		answered := messages[2].(map[string]any)
		if len(messages) != 3 || answered["role"] != "user" || len(answered["content"].([]any)) != 2 {
			t.Errorf("messages %v", messages)
		}
	})
}

// TestOpenAI_CompatibleEndpoints covers responses in which Ollama, vLLM, LM Studio, llama.cpp and
// OpenRouter differ from OpenAI. Each calls a tool once, and sends one text.
func TestOpenAI_CompatibleEndpoints(t *testing.T) {
	const end, done = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, "[DONE]"
	for name, events := range map[string][]string{
		"no finish_reason": {
			chunk(`{"content":"Hi."}`, "null"), chunk(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"chat_react","arguments":"{\"signal\":\"done\"}"}}]}`, "null"), done,
		},
		"content in parts": {
			chunk(`{"content":[{"type":"text","text":"H"},{"type":"thinking","thinking":[]},{"type":"reasoning","text":"hm"},{"type":"output_text","text":"i."}]}`, "null"),
			chunk(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"chat_react","arguments":"{\"signal\":\"done\"}"}}]}`, "null"), end, done,
		},
		"arguments as an object": {
			chunk(`{"content":"Hi.","tool_calls":[{"index":0,"id":"a","function":{"name":"chat_react","arguments":{"signal":"done"}}}]}`, "null"), end, done,
		},
		"names repeated, index": {
			chunk(`{"content":"Hi.","tool_calls":[{"index":0,"id":"a","function":{"name":"chat_react","arguments":"{\"signal\""}}]}`, "null"),
			chunk(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"chat_react","arguments":":\"done\"}"}}]}`, "null"), end, done,
		},
		"names repeated, no index and no id": {
			chunk(`{"content":"Hi.","tool_calls":[{"function":{"name":"chat_react","arguments":"{\"signal\""}}]}`, "null"),
			chunk(`{"tool_calls":[{"function":{"name":"chat_react","arguments":":\"done\"}"}}]}`, "null"), end, done,
		},
		"legacy function_call": {
			chunk(`{"role":"assistant","content":null,"function_call":{"name":"chat_react","arguments":"{\"signal\""}}`, "null"),
			chunk(`{"content":"Hi.","function_call":{"arguments":":\"done\"}"}}`, `"function_call"`), done,
		},
		"numbers as ids, arguments that are none": {
			chunk(`{"content":"Hi.","tool_calls":[{"index":0,"id":7,"function":{"name":"chat_react","arguments":"{\"signal\""}}]}`, "null"),
			chunk(`{"tool_calls":[{"index":0,"id":7,"function":{"name":null,"arguments":":\"done\"}"}}]}`, "null"), end, done,
		},
		"content as an object, and parts that are strings": {
			chunk(`{"content":{"type":"text","text":"H"}}`, "null"), chunk(`{"content":["i",{"type":"text","text":"."}]}`, "null"),
			chunk(`{"tool_calls":[{"id":"a","function":{"name":"chat_react","arguments":{"signal":"done"}}}]}`, "null"), end, done,
		},
		"arguments in a string in a string, tokens in fractions": {
			chunk(`{"content":"Hi.","tool_calls":[{"index":0,"id":"a","function":{"name":"chat_react","arguments":"\"{\\\"signal\\\":\\\"done\\\"}\""}}]}`, "null"),
			`{"choices":[],"usage":{"prompt_tokens":12.5,"completion_tokens":"many","cost":"0.1"}}`, end, done,
		},
		"a whole answer without finish_reason": {
			`{"choices":[{"message":{"role":"assistant","content":"Hi.","tool_calls":[{"function":{"name":"chat_react","arguments":{"signal":"done"}}}]}}]}`,
		},
	} {
		alone(t, "openai", func(r rig) {
			_, h := r.start(nil, Events(events...), r.say("ok"))
			tools := &harnesstest.Tools{}
			out, err := h.Turn(t.Context(), turn("x"), tools)
			if err != nil || out.FinalText != "ok" || out.Usage.Iterations != 2 {
				t.Errorf("%s: %+v, %v", name, out, err)
			} else if calls := tools.Calls(); len(calls) != 1 || calls[0].Name != "chat.react" || calls[0].Arguments["signal"] != "done" {
				t.Errorf("%s: calls %v", name, calls)
			}
		})
	}
}

// TestAnswer_EmptyOneIsRepeated checks that an empty answer with a normal end counts as cut off,
// and that any other answer is complete even without a reason for its end.
func TestAnswer_EmptyOneIsRepeated(t *testing.T) {
	for name, c := range map[string]struct {
		events []string
		text   string
		asked  int
	}{
		"nothing":       {[]string{"[DONE]"}, "ok", 2},
		"an empty word": {[]string{chunk(`{"content":""}`, "null"), "[DONE]"}, "ok", 2},
		"a text":        {[]string{chunk(`{"content":"Hi."}`, "null"), "[DONE]"}, "Hi.", 1},
		"no end":        {[]string{chunk(`{"content":"Hi."}`, "null")}, "ok", 2},
	} {
		alone(t, "openai", func(r rig) {
			api, h := r.start(nil, Events(c.events...), r.say("ok"))
			out, err := h.Turn(t.Context(), turn("x"), &harnesstest.Tools{})
			if err != nil || out.FinalText != c.text || len(api.Requests()) != c.asked {
				t.Errorf("%s: %q after %d requests, %v", name, out.FinalText, len(api.Requests()), err)
			}
		})
	}
}

// TestOpenAI_ModelWithoutTools checks that the model is asked without tools, that the log
// says so once, and that calls are left out of the conversation.
func TestOpenAI_ModelWithoutTools(t *testing.T) {
	for _, refusal := range []http.HandlerFunc{
		Status(400, `{"error":{"message":"registry.ollama.ai/library/gemma:2b does not support tools","type":"api_error"}}`),
		Status(400, `{"object":"error","message":"\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set","code":400}`),
		Status(500, `{"error":{"code":500,"message":"tools param requires --jinja flag","type":"server_error"}}`),
		Status(404, `{"error":{"message":"No endpoints found that support tool use.","code":404}}`),
	} {
		alone(t, "openai", func(r rig) {
			var logged strings.Builder
			api, h := r.start(func(o *model.Options) {
				log := zerolog.New(&logged)
				o.Log, o.History = &log, r.history(10)
			}, r.call("a", "chat_react", `{}`), r.say("before"), refusal, r.say("after"), r.say("again"))
			for _, want := range []string{"before", "after", "again"} {
				if out, err := h.Turn(t.Context(), turn("x"), &harnesstest.Tools{}); err != nil || out.FinalText != want {
					t.Fatalf("%+v, %v", out, err)
				}
			}
			last := api.Requests()[4].Body
			if sent := fmt.Sprint(last); last["tools"] != nil || strings.Contains(sent, "tool_call") || !strings.Contains(sent, "before") || strings.Count(logged.String(), "does not support tools") != 1 {
				t.Errorf("sent %s, told %s", sent, logged.String())
			}
		})
	}
}

// TestAnswer_RefusesAWebPage also checks that the request is not repeated.
func TestAnswer_RefusesAWebPage(t *testing.T) {
	each(t, func(r rig) {
		api, h := r.start(nil, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			fmt.Fprint(w, "<html><body>Open WebUI</body></html>")
		})
		if _, err := h.Turn(r.Context(), turn("x"), nil); !errors.Is(err, harness.ErrPermanent) || !strings.Contains(err.Error(), "check --base-url") || len(api.Requests()) != 1 {
			r.Errorf("%v", err)
		}
	})
}

// TestAnswer_RefusesAFailedOne checks that the beginning of a failed answer is not sent, and that
// the answer is asked for again.
func TestAnswer_RefusesAFailedOne(t *testing.T) {
	for _, end := range []string{
		`{"error":null,"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}`,
		`{"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error","error":{"code":502,"message":"upstream died"}}]}`,
		`{"error":{"code":"server_error","message":"upstream died"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}`,
		`{"choices":[{"index":0,"delta":{"content":""},"finish_reason":"insufficient_system_resource"}]}`,
		`{"choices":[{"index":0,"delta":{"content":" it"},"finish_reason":"insufficient_system_resource","logprobs":null}],"usage":{"prompt_tokens":7,"completion_tokens":2}}`,
		`{"choices":[{"index":0,"delta":{},"finish_reason":"abort"}]}`,
	} {
		alone(t, "openai", func(r rig) {
			api, h := r.start(nil, Events(chunk(`{"content":"Half of"}`, "null"), end, "[DONE]"), r.say("whole"))
			if out, err := h.Turn(t.Context(), turn("x"), &harnesstest.Tools{}); err != nil || out.FinalText != "whole" || len(api.Requests()) != 2 {
				t.Errorf("%s: %q after %d requests, %v", end, out.FinalText, len(api.Requests()), err)
			}
		})
	}
}

// TestDetect_GoesByTheFirstBytes checks that the content type does not matter.
func TestDetect_GoesByTheFirstBytes(t *testing.T) {
	const one = `{"choices":[{"message":{"content":"Hi."},"finish_reason":"stop"}]}`
	for name, c := range map[string]struct{ kind, body, want string }{
		"JSON as text":           {"text/plain", one, "Hi."},
		"JSON behind a mark":     {"", "\ufeff\n " + one, "Hi."},
		"events as JSON":         {"application/json", "data: " + chunk(`{"content":"Hi."}`, `"stop"`) + "\n\ndata: [DONE]\n\n", "Hi."},
		"events as nothing":      {"application/octet-stream", ": hello\n\ndata: " + chunk(`{"content":"Hi."}`, `"stop"`) + "\n\n", "Hi."},
		"a page as JSON":         {"application/json", "<!doctype html><p>Sign in</p>", "check --base-url"},
		"a page as text":         {"text/plain", "\n<html>", "check --base-url"},
		"a failure in a stream":  {"text/event-stream", `data: {"object":"error","message":"the engine died","type":"BadRequest","code":400}` + "\n\n", "the engine died"},
		"a failure in one piece": {"application/json", `{"object":"error","message":"no such engine","type":"NotFound","code":404}`, "no such engine"},
		"a failure of a choice":  {"application/json", `{"choices":[{"error":{"code":400,"message":"upstream died"},"finish_reason":"error","message":{"content":"Hi"}}]}`, "upstream died"},
		"plain completions":      {"application/json", `{"choices":[{"text":"Hi.","finish_reason":"stop"}]}`, "Hi."},
		"another API":            {"application/json", `{"model":"m","message":{"role":"assistant","content":"Hi."},"done":true}`, "check --base-url"},
		"no object":              {"application/json", `["Hi."]`, "check --base-url"},
		"not there":              {"application/json", `{"detail":"Not Found"}`, `not an answer of this API: {"detail":"Not Found"} (check --base-url`},
		"withheld":               {"application/json", `{"choices":[{"message":{"content":null},"finish_reason":"content_filter"}]}`, "withheld the answer"},
		"withheld in the middle": {"application/json", `{"choices":[{"message":{"content":"Hi."},"finish_reason":"content_filter"}]}`, "Hi."},
	} {
		alone(t, "openai", func(r rig) {
			api, h := r.start(nil, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", c.kind)
				w.Write([]byte(c.body))
			})
			out, err := h.Turn(t.Context(), turn("x"), &harnesstest.Tools{})
			if got := out.FinalText + fmt.Sprint(err); !strings.Contains(got, c.want) || len(api.Requests()) != 1 {
				t.Errorf("%s: %s after %d requests; want %s", name, got, len(api.Requests()), c.want)
			}
		})
	}
}
