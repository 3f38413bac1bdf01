package model

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"time"

	"hubbub/peers/agent/harness"
)

// A request is one request to a model.
type request struct {
	System   string
	Messages []message
	Tools    []harness.Tool // with names that the API accepts
	// NoTools means that the tools must not be called. They are listed nevertheless, since the
	// history contains calls to them.
	NoTools   bool
	MaxTokens int
}

// A role is who a message comes from.
type role string

const (
	roleUser      role = "user"
	roleAssistant role = "assistant"
	roleTool      role = "tool"
)

// A message is one message of a conversation with a model. Histories store it as JSON.
type message struct {
	Role    role            `json:"role"`
	Text    string          `json:"text,omitempty"`
	Images  []harness.Image `json:"-"`                 // user: of this turn; not remembered
	Calls   []call          `json:"calls,omitempty"`   // assistant
	Results []callResult    `json:"results,omitempty"` // tool: one for each call
}

// A call is a tool call of a model.
type call struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`            // the name for the API
	Arguments string          `json:"arguments"`       // should be a JSON object, but models make mistakes
	Extra     json.RawMessage `json:"extra,omitempty"` // to be sent back to the API unchanged
}

// validArguments returns the arguments as a JSON object. Many APIs parse them and refuse a
// history with anything else. The model's mistake is reported in the result of the call.
func (c call) validArguments() json.RawMessage {
	raw := bytes.TrimSpace([]byte(c.Arguments))
	if len(raw) == 0 || raw[0] != '{' || !json.Valid(raw) {
		return json.RawMessage("{}")
	}
	return raw
}

// A callResult is the answer to a call.
type callResult struct {
	ID      string          `json:"id"`
	Text    string          `json:"text"`
	IsError bool            `json:"isError,omitempty"`
	Images  []harness.Image `json:"-"` // of this turn; not remembered
}

// A requestError says why a request to a model failed. Its text contains no secret.
type requestError struct {
	Retry      bool          // it may succeed later
	RetryAfter time.Duration // the wait that the API asks for, or 0
	TooLong    bool          // the request exceeds the model's context
	Rejected   bool          // the API does not accept something in the request, perhaps in the history
	Err        error
}

// Error returns the text of the cause.
func (e *requestError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *requestError) Unwrap() error { return e.Err }

// imageURL returns an image as a data URL.
func imageURL(i harness.Image) string {
	return "data:" + i.MimeType + ";base64," + base64.StdEncoding.EncodeToString(i.Data)
}

// object is a JSON object of a request.
type object = map[string]any

// toolObject describes a tool. The member named schema holds its JSON Schema.
func toolObject(t harness.Tool, schema string) object {
	o := object{"name": t.Name, schema: json.RawMessage(`{"type":"object","properties":{}}`)}
	if t.Description != "" {
		o["description"] = t.Description
	}
	if len(t.InputSchema) > 0 {
		o[schema] = t.InputSchema
	}
	return o
}
