package anthropic

import (
	"bytes"
	"encoding/json"

	"hubbub/peers/agent/harness/turnloop"
)

// What the API takes.
type (
	wireRequest struct {
		Model      string         `json:"model"`
		MaxTokens  int            `json:"max_tokens"`
		Stream     bool           `json:"stream"`
		System     []wireBlock    `json:"system,omitempty"`
		Messages   []wireMessage  `json:"messages"`
		Tools      []wireTool     `json:"tools,omitempty"`
		ToolChoice map[string]any `json:"tool_choice,omitempty"`
	}
	wireMessage struct {
		Role    string      `json:"role"`
		Content []wireBlock `json:"content"`
	}
	wireBlock struct {
		Type      string          `json:"type"`
		Text      string          `json:"text,omitempty"`        // text
		ID        string          `json:"id,omitempty"`          // tool_use
		Name      string          `json:"name,omitempty"`        // tool_use
		Input     json.RawMessage `json:"input,omitempty"`       // tool_use
		ToolUseID string          `json:"tool_use_id,omitempty"` // tool_result
		Content   string          `json:"content,omitempty"`     // tool_result
		IsError   bool            `json:"is_error,omitempty"`    // tool_result
		Cache     *wireCache      `json:"cache_control,omitempty"`
	}
	wireTool struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		InputSchema json.RawMessage `json:"input_schema"`
		Cache       *wireCache      `json:"cache_control,omitempty"`
	}
	wireCache struct {
		Type string `json:"type"`
	}
)

var cached = &wireCache{Type: "ephemeral"}

func (m *model) request(r *turnloop.Request) *wireRequest {
	w := &wireRequest{Model: m.Name(), MaxTokens: r.MaxTokens, Stream: true, Messages: wireMessages(r.Messages)}
	if r.System != "" {
		w.System = []wireBlock{{Type: "text", Text: r.System, Cache: cached}}
	}
	for _, t := range r.Tools {
		schema := t.InputSchema
		if len(schema) == 0 {
			schema = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		w.Tools = append(w.Tools, wireTool{Name: t.Name, Description: t.Description, InputSchema: schema})
	}
	if n := len(w.Tools); n > 0 {
		w.Tools[n-1].Cache = cached
		if r.WithTools == turnloop.ToolsDenied {
			w.ToolChoice = map[string]any{"type": "none"}
		}
	}
	return w
}

// wireMessages joins neighbours of one role, as the API wants: results of
// tools belong to the user.
func wireMessages(messages []turnloop.Message) []wireMessage {
	var out []wireMessage
	for _, m := range messages {
		role, blocks := "user", wireBlocks(m)
		if m.Role == turnloop.RoleAssistant {
			role = "assistant"
		}
		if len(blocks) == 0 {
			continue
		}
		if n := len(out); n > 0 && out[n-1].Role == role {
			out[n-1].Content = append(out[n-1].Content, blocks...)
			continue
		}
		out = append(out, wireMessage{Role: role, Content: blocks})
	}
	return out
}

func wireBlocks(m turnloop.Message) []wireBlock {
	var blocks []wireBlock
	for _, r := range m.Results {
		blocks = append(blocks, wireBlock{Type: "tool_result", ToolUseID: r.ID, Content: r.Text, IsError: r.IsError})
	}
	if m.Text != "" {
		blocks = append(blocks, wireBlock{Type: "text", Text: m.Text})
	}
	for _, c := range m.Calls {
		blocks = append(blocks, wireBlock{Type: "tool_use", ID: c.ID, Name: c.Name, Input: inputOf(c.Arguments)})
	}
	return blocks
}

// inputOf returns arguments as the API wants them back: always an object.
func inputOf(arguments string) json.RawMessage {
	raw := bytes.TrimSpace([]byte(arguments))
	if len(raw) == 0 || raw[0] != '{' || !json.Valid(raw) {
		return json.RawMessage("{}")
	}
	return raw
}
