package model

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
)

// What the API sends: one event of a stream, or an answer in one piece.
type (
	openaiChunk struct {
		Choices []struct {
			Index        int          `json:"index"`
			Delta        openaiPiece  `json:"delta"`
			Message      *openaiPiece `json:"message"` // of an answer in one piece
			FinishReason string       `json:"finish_reason"`
		} `json:"choices"`
		Usage *struct {
			PromptTokens     int64 `json:"prompt_tokens"`
			CompletionTokens int64 `json:"completion_tokens"`
		} `json:"usage"`
	}
	openaiPiece struct {
		Content   string       `json:"content"` // null reads as ""
		Refusal   string       `json:"refusal"`
		ToolCalls []openaiCall `json:"tool_calls"`
	}
	openaiCall struct {
		Index    *int   `json:"index"` // missing on some endpoints, which send whole calls
		ID       string `json:"id"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
		Extra json.RawMessage `json:"extra_content"` // Gemini's thought signatures
	}
)

// openai is the chat completions API of one endpoint.
type openai struct {
	official bool // OpenAI's own

	mu     sync.Mutex
	quirks quirks
}

// quirks are what an endpoint turned out to want.
type quirks struct {
	limitName       string // "max_tokens" or "max_completion_tokens"
	noStreamOptions bool
}

func (*openai) sign(h http.Header, key string) {
	if key != "" {
		h.Set("Authorization", "Bearer "+key)
	}
}

func (o *openai) request(model string, r *request) (body any, learn func(refusal string) bool) {
	o.mu.Lock()
	q := o.quirks
	o.mu.Unlock()
	fields := object{"model": model, "stream": true, "messages": openaiMessages(r), q.limitName: r.MaxTokens}
	if !q.noStreamOptions {
		fields["stream_options"] = object{"include_usage": true}
	}
	var tools []object
	for _, t := range r.Tools {
		tools = append(tools, object{"type": "function", "function": toolObject(t, "parameters")})
	}
	if len(tools) > 0 {
		fields["tools"] = tools
		if r.NoTools {
			fields["tool_choice"] = "none"
		}
	}
	return fields, func(refusal string) bool { return o.learn(q, refusal) }
}

// learn reports whether a refusal taught something about the endpoint, so that
// another request can succeed. Each lesson is learned once.
func (o *openai) learn(used quirks, refusal string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case !used.noStreamOptions && strings.Contains(refusal, "stream_options"):
		o.quirks.noStreamOptions = true
	case used.limitName == "max_tokens" && strings.Contains(refusal, "max_completion_tokens"):
		o.quirks.limitName = "max_completion_tokens"
	case used.limitName == "max_completion_tokens" && !o.official && strings.Contains(refusal, "max_completion_tokens"):
		o.quirks.limitName = "max_tokens"
	default:
		return false
	}
	return true
}

// openaiMessages writes a dialogue. Content is always sent, since some endpoints
// miss it.
func openaiMessages(r *request) (out []object) {
	if r.System != "" {
		out = append(out, object{"role": "system", "content": r.System})
	}
	for _, m := range r.Messages {
		switch m.Role {
		case roleUser:
			out = append(out, object{"role": "user", "content": m.Text})
		case roleAssistant:
			said := object{"role": "assistant", "content": nil}
			if m.Text != "" {
				said["content"] = m.Text
			}
			if len(m.Calls) > 0 {
				said["tool_calls"] = openaiCalls(m.Calls)
			}
			out = append(out, said)
		case roleTool:
			for _, result := range m.Results {
				text := result.Text
				if result.IsError {
					text = "error: " + text
				}
				out = append(out, object{"role": "tool", "tool_call_id": result.ID, "content": text})
			}
		}
	}
	return out
}

func openaiCalls(calls []call) (out []object) {
	for _, c := range calls {
		o := object{"id": c.ID, "type": "function", "function": object{"name": c.Name, "arguments": string(c.sentBack())}}
		if len(c.Extra) > 0 {
			o["extra_content"] = c.Extra
		}
		out = append(out, o)
	}
	return out
}

func (*openai) read(a *answer, data []byte) error {
	if string(data) == "[DONE]" {
		a.last = true
		return nil
	}
	var c openaiChunk
	if err := json.Unmarshal(data, &c); err != nil {
		return err
	}
	if c.Usage != nil {
		a.InputTokens, a.OutputTokens = c.Usage.PromptTokens, c.Usage.CompletionTokens
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue // only one was asked for
		}
		said := choice.Delta
		if choice.Message != nil {
			said, a.whole = *choice.Message, true
		}
		a.say(said.Content + said.Refusal)
		for _, piece := range said.ToolCalls {
			if err := openaiPart(a, piece); err != nil {
				return err
			}
		}
		if choice.FinishReason != "" {
			a.stop(choice.FinishReason)
			a.whole = true
		}
	}
	return nil
}

// openaiPart joins a piece to its call. Without an index, a piece with an id (or
// a name) begins a call and any other continues the last one; some endpoints
// give every call index 0, so that only another id tells that one begins.
func openaiPart(a *answer, piece openaiCall) error {
	var p *part
	switch {
	case piece.Index != nil:
		p = a.byIndex[*piece.Index]
		if p != nil && piece.ID != "" && p.ID != "" && p.ID != piece.ID {
			p = nil
		}
	case piece.ID == "" && piece.Function.Name == "":
		if len(a.parts) == 0 {
			return errNotBegun
		}
		p = a.parts[len(a.parts)-1]
	}
	if p == nil {
		p = &part{isCall: true}
		if err := a.begin(piece.Index, p); err != nil {
			return err
		}
	}
	p.ID = cmp.Or(piece.ID, p.ID)
	if len(piece.Extra) > 0 {
		p.Extra = piece.Extra
	}
	return p.add(piece.Function.Name, piece.Function.Arguments)
}
