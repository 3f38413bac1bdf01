package chorus

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"hubbub/peers/attention"
	"hubbub/protocol"
	"hubbub/protocol/chorus"
	"hubbub/protocol/text"
)

// The statuses of a lifecycle event.
const (
	lifecycleProcessing = "processing"
	lifecycleIdle       = "idle"
)

func jsonString(s string) json.RawMessage {
	raw, _ := json.Marshal(s) // a string can always be encoded
	return raw
}

// An agentReport is the content of an agent_event, in which an agent reports what it does about a
// message.
type agentReport struct {
	Kind        chorus.EventType      `json:"event"` // status, tool_call, tool_result, error, or kindDisposition
	InReplyTo   string                `json:"inReplyTo"`
	Disposition attention.Disposition `json:"disposition"`
	chorus.Event
}

// kindDisposition is the kind of a report that a message was closed without an answer.
const kindDisposition chorus.EventType = protocol.RecordDisposition

// replyEvent returns the callback event for an agent's reply, and whether the agent has finished
// its turn. ok is false if nothing is shown.
func replyEvent(r protocol.ChatReply) (e chorus.Event, done, ok bool) {
	switch {
	case r.Text != "":
		return chorus.Event{Type: chorus.EventMessage, Content: jsonString(r.Text)}, true, true
	case r.Signal != "":
		row, err := attention.ParseSignal(r.Signal)
		done := err == nil && row.Disposition.Final()
		return chorus.Event{Type: chorus.EventStatus, Status: r.Signal}, done, true
	default:
		return chorus.Event{}, false, false // typing: lifecycle events show it
	}
}

// reportEvent returns the callback event for an agent's report, and whether it ends the turn. ok
// is false if the report is not about a turn.
func reportEvent(a agentReport) (e chorus.Event, done, ok bool) {
	switch a.Kind {
	case chorus.EventStatus:
		e = chorus.Event{Status: a.Status}
	case chorus.EventToolCall:
		e = chorus.Event{Name: a.Name, Args: json.RawMessage(cmp.Or(string(a.Args), "{}")), ID: a.ID}
	case chorus.EventToolResult:
		e = chorus.Event{ID: a.ID, Content: jsonText(a.Content)}
	case chorus.EventError:
		e = chorus.Event{Message: a.Message, Code: a.Code}
	default:
		return e, false, false
	}
	e.Type = a.Kind
	return e, a.Kind == chorus.EventError, true
}

// jsonText returns a value as the JSON string that the protocol requires: a string unchanged, and
// any other value as its JSON.
func jsonText(value json.RawMessage) json.RawMessage {
	var s string
	if len(value) > 0 && json.Unmarshal(value, &s) != nil {
		s = string(value)
	}
	return jsonString(s)
}

// ParseEvent parses what an external agent POSTs to a callback. An error names the invalid member
// and repeats no value.
func ParseEvent(body []byte) (e *chorus.Event, err error) {
	if !utf8.Valid(body) {
		return nil, errNotUTF8
	}
	o := readObject("the event", "", body, &err)
	e = &chorus.Event{Type: chorus.EventType(o.nonBlank("type", 64))}
	if err != nil {
		return nil, err
	}
	switch e.Type {
	case chorus.EventMessage:
		e.Content = jsonString(o.nonBlank("content", maxBody))
	case chorus.EventToolCall:
		e.Name = o.nonBlank("name", maxLabel)
		e.ID = o.optional("id", maxID)
		e.Args, _ = o.member("args")
	case chorus.EventToolResult:
		e.ID = o.optional("id", maxID)
		e.Content, _ = o.member("content")
	case chorus.EventStatus, chorus.EventLifecycle:
		e.Status = o.nonBlank("status", maxLabel)
	case chorus.EventError:
		e.Message = o.nonBlank("message", maxContext)
		e.Code = o.optional("code", maxLabel)
	default:
		return nil, errors.New("type must be message, tool_call, tool_result, status or error")
	}
	if !text.IsCleanName(e.ID) {
		o.fail("id must be %s", text.NameRule)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.Type, err)
	}
	return e, nil
}
