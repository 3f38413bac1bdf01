package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// A modelServer is the endpoint of models that play a script: it speaks Anthropic messages,
// OpenAI responses, OpenAI chat completions, and Gemini, each streaming.
type modelServer struct {
	*httptest.Server
	play func(*request) move

	mu   sync.Mutex
	seen []string // bodies of all requests
}

// A request is the input of a model, independent of the API.
type request struct {
	tools   map[string]json.RawMessage // schemas by name
	prompt  string                     // the newest of an agent's prompts; "" in requests from the program's own
	results []string                   // of the tools that were called since
	gone    <-chan struct{}            // closed when the program has given up the request
}

// A move is what a model does: it calls a tool, or ends the turn with a text.
type move struct {
	text      string
	tool      string
	arguments map[string]any
}

func newModelServer(t *testing.T, play func(*request) move) *modelServer {
	s := &modelServer{play: play}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// dialects are the APIs by the end of their path.
var dialects = []struct {
	path  *regexp.Regexp
	read  func(body *modelBody, r *request)
	write func(w *events, m move)
}{
	{regexp.MustCompile(`/v1/messages$`), readAnthropic, writeAnthropic},
	{regexp.MustCompile(`/responses$`), readResponses, writeResponses},
	{regexp.MustCompile(`/chat/completions$`), readChat, writeChat},
	{regexp.MustCompile(`:(streamGenerate|generate)Content$`), readGemini, writeGemini},
}

func (s *modelServer) serve(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.seen = append(s.seen, string(raw))
	s.mu.Unlock()
	for _, d := range dialects {
		if !d.path.MatchString(r.URL.Path) {
			continue
		}
		var body modelBody
		if err := json.Unmarshal(raw, &body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		asked := &request{tools: map[string]json.RawMessage{}, gone: r.Context().Done()}
		d.read(&body, asked)
		m := move{text: "ok"}
		if asked.prompt != "" && len(asked.tools) > 0 {
			m = s.play(asked)
		}
		streams := body.Stream || strings.HasSuffix(r.URL.Path, ":streamGenerateContent")
		e := &events{w: w, whole: !streams}
		if streams {
			w.Header().Set("Content-Type", "text/event-stream")
		} else {
			w.Header().Set("Content-Type", "application/json")
		}
		d.write(e, m)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, "{}") //nolint:errcheck // counts of tokens, lists of models
}

// events writes an answer: events of a stream, or the last of them alone.
type events struct {
	w     http.ResponseWriter
	whole bool
}

func (e *events) event(name string, data any) {
	if e.whole {
		return
	}
	raw, _ := json.Marshal(data) //nolint:errcheck // maps of strings
	if name != "" {
		fmt.Fprintf(e.w, "event: %s\n", name)
	}
	fmt.Fprintf(e.w, "data: %s\n\n", raw)
	e.w.(http.Flusher).Flush()
}

func (e *events) complete(data any) {
	if e.whole {
		json.NewEncoder(e.w).Encode(data) //nolint:errcheck // the program may be gone
	}
}

type obj = map[string]any

// A modelBody has the members of all APIs.
type modelBody struct {
	Stream   bool            `json:"stream"`
	Tools    []modelTool     `json:"tools"`
	Messages []modelMessage  `json:"messages"`
	Input    json.RawMessage `json:"input"` // responses
	Contents []struct {      // gemini
		Role  string `json:"role"`
		Parts []struct {
			Text             string `json:"text"`
			FunctionResponse *struct {
				Response json.RawMessage `json:"response"`
			} `json:"functionResponse"`
		} `json:"parts"`
	} `json:"contents"`
}

type modelTool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	InputSchema json.RawMessage `json:"input_schema"`
	Parameters  json.RawMessage `json:"parameters"`
	Tools       []modelTool     `json:"tools"` // responses: a namespace
	Function    *modelTool      `json:"function"`
	Functions   []struct {
		Name   string          `json:"name"`
		Schema json.RawMessage `json:"parametersJsonSchema"`
	} `json:"functionDeclarations"`
}

type modelMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// said adds a user's text. An agent's prompt begins a turn; any other text is the program's own.
func (r *request) said(text string) {
	switch {
	case strings.Contains(text, "\nevent_id: "):
		r.prompt, r.results = text, nil
	case strings.Contains(text, "SUGGESTION MODE"): // claude asks what the user may say next
		r.prompt = ""
	}
}

func (r *request) result(raw json.RawMessage) { r.results = append(r.results, string(raw)) }

// add takes a tool, or those of a namespace.
func (r *request) add(within string, tools []modelTool) {
	for _, t := range tools {
		switch {
		case t.Function != nil:
			r.tools[t.Function.Name] = t.Function.Parameters
		case t.Functions != nil:
			for _, f := range t.Functions {
				r.tools[f.Name] = f.Schema
			}
		case t.Tools != nil:
			r.add(t.Name+"\x00", t.Tools)
		case t.Name != "":
			r.tools[within+t.Name] = json.RawMessage(cmp.Or(string(t.InputSchema), string(t.Parameters)))
		}
	}
}

// parts reads a content that is a string or a list of parts.
func parts(raw json.RawMessage) (list []struct {
	Type    string          `json:"type"`
	Text    string          `json:"text"`
	Content json.RawMessage `json:"content"`
},
) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		raw, _ = json.Marshal([]obj{{"type": "text", "text": text}}) //nolint:errcheck // a string
	}
	json.Unmarshal(raw, &list) //nolint:errcheck // then it is empty
	return list
}

func readAnthropic(b *modelBody, r *request) {
	r.add("", b.Tools)
	for _, m := range b.Messages {
		if m.Role != "user" {
			continue
		}
		for _, p := range parts(m.Content) {
			if p.Type == "tool_result" {
				if !strings.Contains(string(p.Content), `"tool_reference"`) { // of a search for tools
					r.result(p.Content)
				}
			} else {
				r.said(p.Text)
			}
		}
	}
}

func writeAnthropic(e *events, m move) {
	block, stop := obj{"type": "text", "text": m.text}, "end_turn"
	if m.tool != "" {
		block, stop = obj{"type": "tool_use", "id": callID(), "name": m.tool, "input": m.arguments}, "tool_use"
	}
	usage := obj{"input_tokens": 10, "output_tokens": 5}
	message := obj{"id": callID(), "type": "message", "role": "assistant", "model": "claude-test", "content": []obj{}, "usage": usage}
	e.event("message_start", obj{"type": "message_start", "message": message})
	empty, delta := obj{"type": "text", "text": ""}, obj{"type": "text_delta", "text": m.text}
	if m.tool != "" {
		empty = obj{"type": "tool_use", "id": block["id"], "name": m.tool, "input": obj{}}
		delta = obj{"type": "input_json_delta", "partial_json": textOf(m.arguments)}
	}
	e.event("content_block_start", obj{"type": "content_block_start", "index": 0, "content_block": empty})
	e.event("content_block_delta", obj{"type": "content_block_delta", "index": 0, "delta": delta})
	e.event("content_block_stop", obj{"type": "content_block_stop", "index": 0})
	e.event("message_delta", obj{"type": "message_delta", "delta": obj{"stop_reason": stop}, "usage": usage})
	e.event("message_stop", obj{"type": "message_stop"})
	message["content"], message["stop_reason"] = []obj{block}, stop
	e.complete(message)
}

func readResponses(b *modelBody, r *request) {
	r.add("", b.Tools)
	var input []struct {
		Type, Role      string
		Content, Output json.RawMessage
	}
	json.Unmarshal(b.Input, &input) //nolint:errcheck // then it is empty
	for _, item := range input {
		switch {
		case item.Type == "function_call_output" || item.Type == "custom_tool_call_output":
			r.result(item.Output)
		case item.Role == "user":
			var all []string
			for _, p := range parts(item.Content) {
				all = append(all, p.Text)
			}
			r.said(strings.Join(all, "\n"))
		}
	}
}

func writeResponses(e *events, m move) {
	item := obj{"type": "message", "role": "assistant", "id": callID(), "content": []obj{{"type": "output_text", "text": m.text}}}
	if m.tool != "" {
		item = obj{"type": "function_call", "id": callID(), "call_id": callID(), "name": m.tool, "arguments": textOf(m.arguments)}
		if space, name, found := strings.Cut(m.tool, "\x00"); found {
			item["namespace"], item["name"] = space, name
		}
	}
	response := obj{"id": "r1", "output": []obj{item}, "usage": obj{
		"input_tokens": 10, "output_tokens": 5, "total_tokens": 15, "input_tokens_details": obj{"cached_tokens": 0}, "output_tokens_details": obj{"reasoning_tokens": 0},
	}}
	e.event("response.created", obj{"type": "response.created", "response": obj{"id": "r1"}})
	e.event("response.output_item.done", obj{"type": "response.output_item.done", "output_index": 0, "item": item})
	e.event("response.completed", obj{"type": "response.completed", "response": response})
	e.complete(response)
}

func readChat(b *modelBody, r *request) {
	r.add("", b.Tools)
	for _, m := range b.Messages {
		switch m.Role {
		case "tool":
			r.result(m.Content)
		case "user":
			var all []string
			for _, p := range parts(m.Content) {
				all = append(all, p.Text)
			}
			r.said(strings.Join(all, "\n"))
		}
	}
}

func writeChat(e *events, m move) {
	message, reason := obj{"role": "assistant", "content": m.text}, "stop"
	if m.tool != "" {
		call := obj{"index": 0, "id": callID(), "type": "function", "function": obj{"name": m.tool, "arguments": textOf(m.arguments)}}
		message, reason = obj{"role": "assistant", "tool_calls": []obj{call}}, "tool_calls"
	}
	chunk := func(delta obj, reason any) obj {
		return obj{"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "test", "choices": []obj{{"index": 0, "delta": delta, "finish_reason": reason}}}
	}
	e.event("", chunk(message, nil))
	last := chunk(obj{}, reason)
	last["usage"] = obj{"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
	e.event("", last)
	if !e.whole {
		io.WriteString(e.w, "data: [DONE]\n\n") //nolint:errcheck // the program may be gone
	}
	e.complete(obj{"id": "c1", "object": "chat.completion", "created": 1, "model": "test", "choices": []obj{{"index": 0, "message": message, "finish_reason": reason}}})
}

func readGemini(b *modelBody, r *request) {
	r.add("", b.Tools)
	for _, c := range b.Contents {
		if c.Role == "model" {
			continue
		}
		var all []string
		for _, p := range c.Parts {
			if p.FunctionResponse != nil {
				r.result(p.FunctionResponse.Response)
			} else {
				all = append(all, p.Text)
			}
		}
		r.said(strings.Join(all, "\n"))
	}
}

func writeGemini(e *events, m move) {
	part := obj{"text": m.text}
	if m.tool != "" {
		part = obj{"functionCall": obj{"name": m.tool, "args": m.arguments}}
	}
	answer := obj{
		"candidates":    []obj{{"index": 0, "content": obj{"role": "model", "parts": []obj{part}}, "finishReason": "STOP"}},
		"usageMetadata": obj{"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}, "modelVersion": "test",
	}
	e.event("", answer)
	e.complete(answer)
}

func textOf(arguments map[string]any) string {
	raw, _ := json.Marshal(arguments) //nolint:errcheck // strings
	return string(raw)
}

var calls struct {
	sync.Mutex
	n int
}

// callID returns a unique ID for a tool call.
func callID() string {
	calls.Lock()
	defer calls.Unlock()
	calls.n++
	return fmt.Sprintf("call_%d", calls.n)
}
