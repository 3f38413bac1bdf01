package model_test

import (
	"encoding/json"
	"fmt"
	"strings"
)

// A dialect is the wire format of a model's API.
type dialect struct {
	Name string
	Path string // of requests, behind the base URL
	// Events are a model's answer as a stream.
	Events func(said) []string
	// Whole returns an answer in one piece that only contains text.
	Whole func(text string) string
	// Dialogue reads what a model was shown, without the system prompt.
	Dialogue func(Request) []said
	// System reads the system prompt that a model was shown.
	System func(Request) string
}

// said is one step of a conversation with a model. In a dialogue, results of tools
// have the role tool.
type said struct {
	Role    string
	Text    []string // the pieces of the stream
	Calls   []modelCall
	Answers string // the id of the call with this result
	Stop    stop   // of answers
}

// A modelCall is a tool call; its arguments come in two pieces.
type modelCall struct{ ID, Name, Arguments string }

// A stop is the reason why an answer ends: one of these, or an endpoint's own.
type stop string

// The ends of answers. The default ends the turn, or asks for tool calls.
const (
	stopCut    stop = "cut"    // by the token limit
	stopPaused stop = "paused" // the API wants to be asked again
	stopNever  stop = "never"  // the stream ends without an end of the answer
)

// The cost of every whole answer.
const (
	inputTokens  = 100
	outputTokens = 7
	cachedTokens = 60
	usd          = 0.0025 // OpenRouter tells it
)

// Words returns the text in one piece.
func (s said) Words() string { return strings.Join(s.Text, "") }

// Say is an answer of text alone.
func (d dialect) Say(pieces ...string) []string { return d.Events(said{Text: pieces}) }

// Call is an answer of one tool call.
func (d dialect) Call(id, name, arguments string) []string {
	return d.Events(said{Calls: []modelCall{{id, name, arguments}}})
}

// openAI is the chat completions API, anthropicAPI the Messages API.
var (
	openAI       = dialect{Name: "openai", Path: "/chat/completions", Events: openaiEvents, Whole: openaiWhole, Dialogue: openaiDialogue, System: openaiSystem}
	anthropicAPI = dialect{Name: "anthropic", Path: "/messages", Events: anthropicEvents, Whole: anthropicWhole, Dialogue: anthropicDialogue, System: anthropicSystem}
)

type object = map[string]any

func written(o object) string {
	raw, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func openaiEvents(s said) []string {
	var events []string
	chunk := func(finish any, delta object) {
		events = append(events, written(object{"choices": []any{object{"index": 0, "delta": delta, "finish_reason": finish}}}))
	}
	for _, piece := range s.Text {
		chunk(nil, object{"content": piece})
	}
	finish := "stop"
	for i, c := range s.Calls {
		half := len(c.Arguments) / 2
		chunk(nil, object{"content": nil, "tool_calls": []any{object{"index": i, "id": c.ID, "function": object{"name": c.Name, "arguments": ""}}}})
		chunk(nil, object{"tool_calls": []any{object{"index": i, "function": object{"arguments": c.Arguments[:half]}}}})
		events = append(events, ": keep-alive")
		chunk(nil, object{"tool_calls": []any{object{"index": i, "function": object{"arguments": c.Arguments[half:]}}}})
		finish = "tool_calls"
	}
	if s.Stop == stopNever {
		return events
	}
	switch s.Stop {
	case "", stopPaused:
	case stopCut:
		finish = "length"
	default:
		finish = string(s.Stop)
	}
	chunk(finish, object{})
	return append(events, written(object{"choices": []any{}, "usage": openaiUsage}), "[DONE]")
}

var openaiUsage = object{"prompt_tokens": inputTokens, "completion_tokens": outputTokens, "prompt_tokens_details": object{"cached_tokens": cachedTokens}, "cost": usd}

func openaiWhole(text string) string {
	return written(object{"choices": []any{object{"index": 0, "message": object{"content": text}, "finish_reason": "stop"}}, "usage": openaiUsage})
}

func openaiDialogue(r Request) (all []said) {
	for _, m := range list(r.Body["messages"]) {
		s := said{Role: text(m["role"]), Text: []string{text(m["content"])}, Answers: text(m["tool_call_id"])}
		for _, c := range list(m["tool_calls"]) {
			f := c["function"].(object)
			s.Calls = append(s.Calls, modelCall{text(c["id"]), text(f["name"]), text(f["arguments"])})
		}
		if s.Role != "system" {
			all = append(all, s)
		}
	}
	return all
}

func openaiSystem(r Request) string { return text(list(r.Body["messages"])[0]["content"]) }

func anthropicEvents(s said) []string {
	var events []string
	add := func(kind string, o object) {
		o["type"] = kind
		events = append(events, "event: "+kind+"\ndata: "+written(o))
	}
	index := 0
	block := func(begun object, deltas ...object) {
		add("content_block_start", object{"index": index, "content_block": begun})
		for _, d := range deltas {
			add("content_block_delta", object{"index": index, "delta": d})
		}
		add("content_block_stop", object{"index": index})
		index++
	}
	add("message_start", object{"message": object{"usage": object{"input_tokens": inputTokens - cachedTokens, "cache_read_input_tokens": cachedTokens, "output_tokens": 1}}})
	add("ping", object{})
	if len(s.Text) > 0 {
		var deltas []object
		for _, piece := range s.Text {
			deltas = append(deltas, object{"type": "text_delta", "text": piece})
		}
		block(object{"type": "text", "text": ""}, deltas...)
	}
	stop := "end_turn"
	for _, c := range s.Calls {
		half := len(c.Arguments) / 2
		block(object{"type": "tool_use", "id": c.ID, "name": c.Name, "input": object{}},
			object{"type": "input_json_delta", "partial_json": c.Arguments[:half]}, object{"type": "input_json_delta", "partial_json": c.Arguments[half:]})
		stop = "tool_use"
	}
	switch s.Stop {
	case stopNever:
		return events
	case stopCut:
		stop = "max_tokens"
	case stopPaused:
		stop = "pause_turn"
	case "":
	default:
		stop = string(s.Stop)
	}
	add("message_delta", object{"delta": object{"stop_reason": stop}, "usage": object{"output_tokens": outputTokens}})
	add("message_stop", object{})
	return events
}

func anthropicWhole(text string) string {
	return written(object{"content": []any{object{"type": "text", "text": text}}, "stop_reason": "end_turn", "usage": object{"input_tokens": inputTokens, "output_tokens": outputTokens}})
}

// anthropicDialogue has a step for each block, since the API joins neighbours of one role; calls
// appear with the text before them.
func anthropicDialogue(r Request) (all []said) {
	for _, m := range list(r.Body["messages"]) {
		for i, b := range list(m["content"]) {
			switch b["type"] {
			case "text":
				all = append(all, said{Role: text(m["role"]), Text: []string{text(b["text"])}})
			case "tool_result":
				all = append(all, said{Role: "tool", Answers: text(b["tool_use_id"]), Text: []string{text(b["content"])}})
			case "tool_use":
				if i == 0 {
					all = append(all, said{Role: text(m["role"])})
				}
				last := &all[len(all)-1]
				last.Calls = append(last.Calls, modelCall{text(b["id"]), text(b["name"]), written(b["input"].(object))})
			}
		}
	}
	return all
}

func anthropicSystem(r Request) string { return text(list(r.Body["system"])[0]["text"]) }

// list reads a list of objects, and text a string; a missing value is empty.
func list(value any) (objects []object) {
	all, _ := value.([]any) //nolint:errcheck // as above
	for _, o := range all {
		objects = append(objects, o.(object))
	}
	return objects
}

func text(value any) string {
	if value == nil {
		return ""
	}
	return fmt.Sprint(value)
}
