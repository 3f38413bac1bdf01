// Package chorus defines the JSON of the Chorus channel protocol: the POSTs to a remote agent,
// and the events to a callback.
package chorus

import "encoding/json"

// A Post is the body of a POST to a remote agent: one message of a channel.
type Post struct {
	Channel  Channel `json:"channel"`
	Message  Message `json:"message"`
	Callback string  `json:"callback,omitempty"` // URL for Events, secret
	MCP      any     `json:"mcp,omitempty"`      // address of the channel's tools: one server or a list
}

// A Channel is the channel of a message.
type Channel struct {
	ID      string `json:"id"`
	Name    string `json:"name,omitempty"`
	Service string `json:"service,omitempty"`
	Context string `json:"context,omitempty"`
}

// A Message is one message of a channel.
type Message struct {
	ID      string          `json:"id"`
	Sender  string          `json:"sender"`
	Content string          `json:"content"`
	Knock   json.RawMessage `json:"knock,omitempty"`
}

// An Event is one JSON object sent to a callback.
type Event struct {
	Type EventType `json:"type"`
	// message, tool_result: a string; some agents send a tool_result of any value
	Content json.RawMessage `json:"content,omitempty"`
	Name    string          `json:"name,omitempty"`    // tool_call
	Args    json.RawMessage `json:"args,omitempty"`    // tool_call
	ID      string          `json:"id,omitempty"`      // tool_call, tool_result: the same in both
	Status  string          `json:"status,omitempty"`  // status, lifecycle
	Message string          `json:"message,omitempty"` // error
	Code    string          `json:"code,omitempty"`    // error
}

// An EventType is the type of an Event.
type EventType string

// The types of events. EventLifecycle extends the protocol: it marks the start and the end of an
// agent's work on one message, for services that accept it.
const (
	EventMessage    EventType = "message"
	EventToolCall   EventType = "tool_call"
	EventToolResult EventType = "tool_result"
	EventStatus     EventType = "status"
	EventError      EventType = "error"
	EventLifecycle  EventType = "lifecycle"
)
