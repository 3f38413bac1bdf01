package chorus

import (
	"encoding/json"
	"errors"
	"fmt"

	"hubbub/peers/attention"
	"hubbub/protocol"
)

// An Event is one JSON object that goes to a callback, or came to one.
type Event struct {
	Type    EventType       `json:"type"`
	Content json.RawMessage `json:"content,omitempty"` // message: a string; tool_result: any value
	Name    string          `json:"name,omitempty"`    // tool_call
	Args    json.RawMessage `json:"args,omitempty"`    // tool_call
	ID      string          `json:"id,omitempty"`      // tool_call, tool_result: equal in both
	Status  string          `json:"status,omitempty"`  // status, lifecycle
	Message string          `json:"message,omitempty"` // error
	Code    string          `json:"code,omitempty"`    // error
}

// An EventType says what a callback's event is.
type EventType string

// The types of events. EventLifecycle extends the protocol: it brackets what an
// agent does for one message.
const (
	EventMessage    EventType = "message"
	EventToolCall   EventType = "tool_call"
	EventToolResult EventType = "tool_result"
	EventStatus     EventType = "status"
	EventError      EventType = "error"
	EventLifecycle  EventType = "lifecycle"
)

// The statuses of a lifecycle event.
const (
	lifecycleProcessing = "processing"
	lifecycleIdle       = "idle"
)

func quoted(s string) json.RawMessage {
	raw, err := json.Marshal(s)
	if err != nil {
		panic("a string cannot be marshalled: " + err.Error())
	}
	return raw
}

// An AgentActivity is the content of the agent_event in which an agent reports
// what it does for a message, and of those that the gateway sends for external
// agents.
type AgentActivity struct {
	Event     string          `json:"event"` // status, tool_call, tool_result, error
	InReplyTo string          `json:"inReplyTo,omitempty"`
	Agent     protocol.PeerID `json:"agent,omitempty"`
	Status    string          `json:"status,omitempty"`
	Name      string          `json:"name,omitempty"`
	Args      json.RawMessage `json:"args,omitempty"`
	ID        string          `json:"id,omitempty"`
	Content   json.RawMessage `json:"content,omitempty"`
	Message   string          `json:"message,omitempty"`
	Code      string          `json:"code,omitempty"`
}

// ofReply returns the event by which a callback hears of an agent's reply, and
// whether the agent is done with its turn. ok is false if nothing is shown.
func ofReply(r protocol.ChatReply) (e Event, done, ok bool) {
	switch {
	case r.Text != "":
		return Event{Type: EventMessage, Content: quoted(r.Text)}, true, true
	case r.Signal != "":
		row, err := attention.ParseSignal(r.Signal)
		done := err == nil && row.Disposition.Final()
		return Event{Type: EventStatus, Status: r.Signal}, done, true
	default:
		return Event{}, false, false // typing: the lifecycle says it already
	}
}

// ofActivity returns the event by which a callback hears of an agent's report, and
// whether it ends the turn. ok is false if the report is not about a turn.
func ofActivity(a AgentActivity) (e Event, done, ok bool) {
	switch EventType(a.Event) {
	case EventStatus:
		return Event{Type: EventStatus, Status: a.Status}, false, true
	case EventToolCall:
		args := a.Args
		if len(args) == 0 {
			args = json.RawMessage("{}")
		}
		return Event{Type: EventToolCall, Name: a.Name, Args: args, ID: a.ID}, false, true
	case EventToolResult:
		content := a.Content
		if len(content) == 0 {
			content = json.RawMessage(`""`)
		}
		return Event{Type: EventToolResult, ID: a.ID, Content: content}, false, true
	case EventError:
		return Event{Type: EventError, Message: a.Message, Code: a.Code}, true, true
	}
	return Event{}, false, false
}

// ParseEvent reads what an external agent POSTs to a callback. The error names
// what is wrong and repeats no value.
func ParseEvent(body []byte) (*Event, error) {
	members, err := object("the body", body)
	if err != nil {
		return nil, err
	}
	r := reader{}
	e := &Event{Type: EventType(r.required(members, "", "type", 64))}
	if r.err != nil {
		return nil, r.err
	}
	switch e.Type {
	case EventMessage:
		e.Content = quoted(r.required(members, "", "content", maxBody))
	case EventToolCall:
		e.Name = r.required(members, "", "name", maxLabel)
		e.ID = r.optional(members, "", "id", maxID)
		e.Args, _ = present(members, "args")
	case EventToolResult:
		e.ID = r.optional(members, "", "id", maxID)
		e.Content, _ = present(members, "content")
	case EventStatus, EventLifecycle:
		e.Status = r.required(members, "", "status", maxLabel)
	case EventError:
		e.Message = r.required(members, "", "message", maxContext)
		e.Code = r.optional(members, "", "code", maxLabel)
	default:
		return nil, errors.New("type must be message, tool_call, tool_result, status or error")
	}
	if r.err != nil {
		return nil, fmt.Errorf("%s: %w", e.Type, r.err)
	}
	return e, nil
}
