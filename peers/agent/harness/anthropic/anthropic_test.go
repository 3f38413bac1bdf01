package anthropic_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/anthropic"
	"hubbub/peers/agent/harness/harnesstest"
	"hubbub/peers/agent/harness/modelapi"
	"hubbub/peers/agent/harness/turnloop"
)

const secret = "sk-ant-REDACTED"

func named(name, data string) string { return "event: " + name + "\ndata: " + data }

var (
	begin = named("message_start", `{"type":"message_start","message":{"id":"msg_1","role":"assistant","content":[],"usage":{"input_tokens":20,"cache_read_input_tokens":80,"output_tokens":1}}}`)
	ping  = named("ping", `{"type":"ping"}`)
)

func end(reason string) []string {
	return []string{
		named("message_delta", `{"type":"message_delta","delta":{"stop_reason":"`+reason+`"},"usage":{"output_tokens":9}}`),
		named("message_stop", `{"type":"message_stop"}`),
	}
}

func text(index int, pieces ...string) []string {
	events := []string{named("content_block_start", fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":{"type":"text","text":""}}`, index))}
	for _, p := range pieces {
		raw, _ := json.Marshal(p)
		events = append(events, named("content_block_delta", fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":{"type":"text_delta","text":%s}}`, index, raw)))
	}
	return append(events, named("content_block_stop", fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, index)))
}

func call(index int, id, name string, pieces ...string) []string {
	events := []string{named("content_block_start", fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":{"type":"tool_use","id":%q,"name":%q,"input":{}}}`, index, id, name))}
	for _, p := range pieces {
		raw, _ := json.Marshal(p)
		events = append(events, named("content_block_delta", fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":{"type":"input_json_delta","partial_json":%s}}`, index, raw)))
	}
	return append(events, named("content_block_stop", fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, index)))
}

func stream(parts ...[]string) harnesstest.Answer {
	return harnesstest.Events(append([]string{begin, ping}, slices.Concat(parts...)...)...)
}

func newHarness(api *harnesstest.API) *turnloop.Loop {
	return anthropic.New(&modelapi.Options{
		BaseURL: api.URL + "/v1", Key: func() (string, error) { return secret, nil },
		Loop: turnloop.Options{Clock: harness.Clock{SleepFunc: func(ctx context.Context, _ time.Duration) error { return context.Cause(ctx) }}},
	})
}

func turn(prompt string) *harness.Turn {
	return &harness.Turn{ID: "t1", Attempt: 1, System: "rules", Prompt: prompt, Event: harness.Event{EventID: "evt_1", Conversation: harness.Conversation{ID: "C1"}}}
}

func TestTextToolsAndText(t *testing.T) {
	api := harnesstest.StartAPI(t,
		stream(text(0, "Let me ", "look."), call(1, "toolu_1", "chat_read_thread", `{"conver`, `sation":"C1"}`), call(2, "toolu_2", "chat_list_events"), end("tool_use")),
		stream(text(0, "All", " good.\n"), end("end_turn")))
	tools := &harnesstest.Tools{Answer: func(_ context.Context, c harnesstest.Call) (harness.Result, bool) {
		return harness.Refused("you are not in that chat", nil), c.Name == "chat.list_events"
	}}
	out, err := newHarness(api).Turn(t.Context(), turn("C2A EVENT"), tools)
	if err != nil || out.FinalText != "All good." {
		t.Fatalf("%+v, %v", out, err)
	}
	if out.Usage.InputTokens != 200 || out.Usage.OutputTokens != 18 || out.Usage.ToolCalls != 2 {
		t.Errorf("usage %+v", out.Usage)
	}
	if got := tools.Calls(); len(got) != 2 || got[0].Name != "chat.read_thread" || got[0].Arguments["conversation"] != "C1" {
		t.Errorf("calls %v", got)
	}
	requests := api.Requests()
	if r := requests[0]; r.Path != "/v1/messages" || r.Header.Get("X-Api-Key") != secret || r.Header.Get("Anthropic-Version") == "" || r.Body["max_tokens"] == nil {
		t.Errorf("request %s %v %v", r.Path, r.Header, r.Body)
	}
	messages := requests[1].Body["messages"].([]any)
	if len(messages) != 3 {
		t.Fatalf("messages %v", messages)
	}
	said := messages[1].(map[string]any)["content"].([]any)
	answered := messages[2].(map[string]any)["content"].([]any)
	if len(said) != 3 || said[1].(map[string]any)["id"] != "toolu_1" || answered[0].(map[string]any)["tool_use_id"] != "toolu_1" {
		t.Errorf("said %v, answered %v", said, answered)
	}
	if refused := answered[1].(map[string]any); refused["is_error"] != true || !strings.Contains(refused["content"].(string), "not in that chat") {
		t.Errorf("the refusal came back as %v", refused)
	}
}

func TestOverloadAndBrokenStreamsAreAskedAgain(t *testing.T) {
	half := append([]string{begin}, call(0, "toolu_1", "chat_send_message", `{"text":"x"}`)...)
	api := harnesstest.StartAPI(t,
		harnesstest.Status(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`),
		harnesstest.Events(append(half, named("error", `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`))...),
		harnesstest.Cut(half...),
		harnesstest.Events(half...),
		stream(text(0, "there"), end("end_turn")))
	tools := &harnesstest.Tools{}
	out, err := newHarness(api).Turn(t.Context(), turn("x"), tools)
	if err != nil || out.FinalText != "there" || len(tools.Calls()) != 0 || len(api.Requests()) != 5 {
		t.Errorf("%+v, %v, calls %v, %d requests", out, err, tools.Called(), len(api.Requests()))
	}
}

func TestPermanentErrorHidesTheKey(t *testing.T) {
	api := harnesstest.StartAPI(t, harnesstest.Status(401, `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key `+secret+`"}}`))
	_, err := newHarness(api).Turn(t.Context(), turn("x"), &harnesstest.Tools{})
	if !errors.Is(err, harness.ErrPermanent) || !strings.Contains(err.Error(), "ANTHROPIC_API_KEY") || strings.Contains(err.Error(), secret) {
		t.Errorf("err = %v", err)
	}
}

func TestTruncationAndPause(t *testing.T) {
	api := harnesstest.StartAPI(t,
		stream(text(0, "first half, "), end("pause_turn")),
		stream(text(0, "second half"), call(1, "toolu_1", "chat_send_message", `{"te`), end("max_tokens")))
	tools := &harnesstest.Tools{}
	out, err := newHarness(api).Turn(t.Context(), turn("x"), tools)
	if err != nil || out.FinalText != "first half, second half" || !out.Truncated || len(tools.Calls()) != 0 {
		t.Errorf("%+v, %v, %v", out, err, tools.Called())
	}
	messages := api.Requests()[1].Body["messages"].([]any)
	if last := messages[len(messages)-1].(map[string]any); last["role"] != "assistant" {
		t.Errorf("a paused answer was continued with %v", last)
	}
}

func TestRememberedTurnsAlternate(t *testing.T) {
	api := harnesstest.StartAPI(t, stream(end("end_turn")), stream(text(0, "second"), end("end_turn")))
	h := newHarness(api)
	for _, prompt := range []string{"one", "two"} {
		if _, err := h.Turn(t.Context(), turn(prompt), &harnesstest.Tools{}); err != nil {
			t.Fatal(err)
		}
	}
	messages := api.Requests()[1].Body["messages"].([]any)
	if len(messages) != 1 || len(messages[0].(map[string]any)["content"].([]any)) != 2 {
		t.Errorf("after a silent turn the model saw %v", messages)
	}
}

func TestWholeAnswer(t *testing.T) {
	api := harnesstest.StartAPI(t, harnesstest.Status(200, `{"content":[{"type":"text","text":"in one piece"}],"stop_reason":"end_turn","usage":{"input_tokens":4,"output_tokens":3}}`))
	out, err := newHarness(api).Turn(t.Context(), turn("x"), &harnesstest.Tools{})
	if err != nil || out.FinalText != "in one piece" || out.Usage.OutputTokens != 3 {
		t.Errorf("%+v, %v", out, err)
	}
}
