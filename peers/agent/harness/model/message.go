package model

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"time"

	"hubbub/peers/agent/harness"
)

// A request is one question to a model.
type request struct {
	System   string
	Messages []message
	Tools    []harness.Tool // with names that the API takes
	// NoTools: the tools are listed, since the history has calls of them, and
	// may not be called.
	NoTools   bool
	MaxTokens int
}

// A role says whose message it is.
type role string

const (
	roleUser      role = "user"
	roleAssistant role = "assistant"
	roleTool      role = "tool"
)

// A message is one step of a dialogue with a model. Histories hold it as JSON.
type message struct {
	Role    role            `json:"role"`
	Text    string          `json:"text,omitempty"`
	Images  []harness.Image `json:"-"`                 // user: of this turn; they are not remembered
	Calls   []call          `json:"calls,omitempty"`   // assistant
	Results []callResult    `json:"results,omitempty"` // tool: one for each call
}

// A call is a tool call of a model.
type call struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`            // as the API knows it
	Arguments string          `json:"arguments"`       // meant to be a JSON object; models err
	Extra     json.RawMessage `json:"extra,omitempty"` // what the API wants back unchanged
}

// validArguments returns the arguments as an API wants them back: many read them, and
// refuse every request whose history has anything but an object. What the model
// erred in was told to it in the call's result.
func (c call) validArguments() json.RawMessage {
	raw := bytes.TrimSpace([]byte(c.Arguments))
	if len(raw) == 0 || raw[0] != '{' || !json.Valid(raw) {
		return json.RawMessage("{}")
	}
	return raw
}

// A callResult answers a call.
type callResult struct {
	ID      string `json:"id"`
	Text    string `json:"text"`
	IsError bool   `json:"isError,omitempty"`
}

// A requestError says why a request to a model failed. Its text holds no
// secret.
type requestError struct {
	Retry      bool          // it may work later
	RetryAfter time.Duration // how long the API wants us to wait; 0 if it did not say
	TooLong    bool          // the request exceeds what the model can read
	Rejected   bool          // something in the request is not taken; its history may be to blame
	Err        error
}

// Error returns the text of the cause.
func (e *requestError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *requestError) Unwrap() error { return e.Err }

// imageURL returns an image as an address that holds it.
func imageURL(i harness.Image) string {
	return "data:" + i.MimeType + ";base64," + base64.StdEncoding.EncodeToString(i.Data)
}

// object is a JSON object of a request.
type object = map[string]any

// toolObject describes a tool, its JSON Schema under that name.
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
