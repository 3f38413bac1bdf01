package openai

import (
	"bytes"
	"encoding/json"

	"hubbub/peers/agent/harness/turnloop"
)

// What the API takes. Content is always sent, since some endpoints miss it.
type (
	wireMessage struct {
		Role       string     `json:"role"`
		Content    *string    `json:"content"`
		ToolCalls  []wireCall `json:"tool_calls,omitempty"`
		ToolCallID string     `json:"tool_call_id,omitempty"`
	}
	wireCall struct {
		ID       string          `json:"id"`
		Type     string          `json:"type"`
		Function wireFunction    `json:"function"`
		Extra    json.RawMessage `json:"extra_content,omitempty"` // Gemini's thought signatures
	}
	wireFunction struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	wireTool struct {
		Type     string       `json:"type"`
		Function wireToolSpec `json:"function"`
	}
	wireToolSpec struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters"`
	}
)

// request writes a request as this endpoint takes it.
func (m *model) request(r *turnloop.Request, q quirks) map[string]any {
	body := map[string]any{
		"model": m.Name(), "stream": true, "messages": wireMessages(r), q.limitName: r.MaxTokens,
	}
	if !q.noStreamOptions {
		body["stream_options"] = map[string]any{"include_usage": true}
	}
	if len(r.Tools) == 0 {
		return body
	}
	tools := make([]wireTool, 0, len(r.Tools))
	for _, t := range r.Tools {
		schema := t.InputSchema
		if len(schema) == 0 {
			schema = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		tools = append(tools, wireTool{Type: "function", Function: wireToolSpec{Name: t.Name, Description: t.Description, Parameters: schema}})
	}
	body["tools"] = tools
	if r.WithTools == turnloop.ToolsDenied {
		body["tool_choice"] = "none"
	}
	return body
}

func wireMessages(r *turnloop.Request) []wireMessage {
	var out []wireMessage
	add := func(role, text string) *wireMessage {
		out = append(out, wireMessage{Role: role, Content: &text})
		return &out[len(out)-1]
	}
	if r.System != "" {
		add("system", r.System)
	}
	for _, m := range r.Messages {
		switch m.Role {
		case turnloop.RoleTool:
			for _, result := range m.Results {
				text := result.Text
				if result.IsError {
					text = "error: " + text
				}
				add("tool", text).ToolCallID = result.ID
			}
		case turnloop.RoleAssistant:
			w := add("assistant", m.Text)
			if m.Text == "" {
				w.Content = nil
			}
			for _, c := range m.Calls {
				w.ToolCalls = append(w.ToolCalls, wireCall{ID: c.ID, Type: "function", Function: wireFunction{c.Name, argumentsOf(c)}, Extra: c.Extra})
			}
		default:
			add("user", m.Text)
		}
	}
	return out
}

// argumentsOf returns arguments as endpoints want them back: many read them, and
// refuse every request whose history has others. What the model erred in was
// told to it in the call's result.
func argumentsOf(c turnloop.Call) string {
	raw := bytes.TrimSpace([]byte(c.Arguments))
	if len(raw) == 0 || raw[0] != '{' || !json.Valid(raw) {
		return "{}"
	}
	return c.Arguments
}
