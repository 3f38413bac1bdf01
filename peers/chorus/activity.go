package chorus

import (
	"cmp"
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

// An activity is the content of the agent_event in which an agent reports what it
// does for a message.
type activity struct {
	Kind      EventType `json:"event"` // status, tool_call, tool_result, error
	InReplyTo string    `json:"inReplyTo"`
	Event
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
func ofActivity(a activity) (e Event, done, ok bool) {
	switch a.Kind {
	case EventStatus:
		e = Event{Status: a.Status}
	case EventToolCall:
		e = Event{Name: a.Name, Args: json.RawMessage(cmp.Or(string(a.Args), "{}")), ID: a.ID}
	case EventToolResult:
		e = Event{ID: a.ID, Content: json.RawMessage(cmp.Or(string(a.Content), `""`))}
	case EventError:
		e = Event{Message: a.Message, Code: a.Code}
	default:
		return e, false, false
	}
	e.Type = a.Kind
	return e, a.Kind == EventError, true
}

// ParseEvent reads what an external agent POSTs to a callback. The error names
// what is wrong and repeats no value.
func ParseEvent(body []byte) (e *Event, err error) {
	o := readObject("the body", "", body, &err)
	e = &Event{Type: EventType(o.required("type", 64))}
	if err != nil {
		return nil, err
	}
	switch e.Type {
	case EventMessage:
		e.Content = quoted(o.required("content", maxBody))
	case EventToolCall:
		e.Name = o.required("name", maxLabel)
		e.ID = o.optional("id", maxID)
		e.Args, _ = o.present("args")
	case EventToolResult:
		e.ID = o.optional("id", maxID)
		e.Content, _ = o.present("content")
	case EventStatus, EventLifecycle:
		e.Status = o.required("status", maxLabel)
	case EventError:
		e.Message = o.required("message", maxContext)
		e.Code = o.optional("code", maxLabel)
	default:
		return nil, errors.New("type must be message, tool_call, tool_result, status or error")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.Type, err)
	}
	return e, nil
}
