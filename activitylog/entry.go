package activitylog

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"hubbub/protocol"
)

// An Entry is one row of a log as it was read. Columns that are NULL are empty.
type Entry struct {
	ID        int64
	TS        string // as stored: RFC 3339, UTC, microseconds
	Event     string // name of an Event; logs of later programs may have others
	MessageID string
	RPCID     string
	Actor     string
	Topic     string
	Status    string
	Payload   json.RawMessage // as stored
	Error     string
	Bus       string

	// Type and From are those of the row's message, read from its send_start
	// row; empty if there is none.
	Type string
	From string

	Log int // which of the Reader's logs holds it, from 0

	Sent int64 // id of the first row of the row's Sending; 0 if unknown
}

// Time returns the time of the row; the zero time if TS cannot be read.
func (e *Entry) Time() time.Time {
	t, err := ParseTime(e.TS)
	if err != nil {
		return time.Time{}
	}
	return t
}

// Decode decodes the message of a send_start row, and the message's content into content unless
// that is nil. It reports whether both succeeded; members of another type stay empty.
func (e *Entry) Decode(content any) (m protocol.Message, ok bool) {
	err := json.Unmarshal(e.Payload, &m)
	if content != nil {
		err = errors.Join(err, json.Unmarshal(m.Content, content))
	}
	return m, err == nil
}

// Is reports whether the row records an event.
func (e *Entry) Is(event Event) bool { return e.Event == event.String() }

// MarshalJSON writes the columns under their names, NULL as null and payload_json as
// plain JSON, followed by `type` and `from` of the message.
func (e *Entry) MarshalJSON() ([]byte, error) {
	payload := e.Payload
	switch {
	case len(payload) == 0:
		payload = nil
	case !json.Valid(payload), !utf8.Valid(payload):
		text, err := json.Marshal(string(payload))
		if err != nil {
			return nil, err
		}
		payload = text
	}
	return marshalUnescaped(struct {
		ID        int64           `json:"id"`
		TS        string          `json:"ts"`
		Event     string          `json:"event"`
		MessageID string          `json:"message_id"`
		RPCID     *string         `json:"rpc_id"`
		Actor     *string         `json:"actor"`
		Topic     *string         `json:"topic"`
		Status    *string         `json:"status"`
		Payload   json.RawMessage `json:"payload_json"`
		Error     *string         `json:"error"`
		Bus       *string         `json:"bus"`
		Type      string          `json:"type,omitempty"`
		From      string          `json:"from,omitempty"`
	}{
		e.ID, e.TS, e.Event, e.MessageID, orNull(e.RPCID), orNull(e.Actor), orNull(e.Topic), orNull(e.Status),
		payload, orNull(e.Error), orNull(e.Bus), e.Type, e.From,
	})
}

// marshalUnescaped is like json.Marshal, but does not escape <, > and &.
func marshalUnescaped(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Summary summarizes the content of a message without text in a few words: the method, the kind
// of event, a status. It returns an empty string for unknown content. The caller must clip and
// escape the words, which are as they were sent.
func Summary(content json.RawMessage) string {
	var x struct {
		Signal, Event, RequestID, Method, Type, Status, Topic, TalkTo, Agent, Reason, Error string
		Typing                                                                              bool
	}
	_ = json.Unmarshal(content, &x) // fields of another kind stay empty
	var result protocol.CollabResult
	if x.RequestID != "" && x.Method == "" && json.Unmarshal(content, &result) == nil &&
		(result.OK || result.Error != nil) {
		if result.OK {
			return "ok"
		}
		return result.Error.Code + ": " + result.Error.Message
	}
	switch {
	case x.Signal != "":
		return "signal " + x.Signal
	case x.Typing:
		return "is typing"
	case x.Event != "":
		return strings.TrimSuffix(x.Event+": "+x.Reason, ": ")
	}
	var words []string
	for _, w := range []string{x.Method, x.Type, x.Status, x.Topic, x.TalkTo, x.Agent, x.Reason, x.Error} {
		if w != "" {
			words = append(words, w)
		}
	}
	return strings.Join(words, " · ")
}

// ErrNoLog is wrapped by errors about a log that does not exist.
var ErrNoLog = errors.New("there is no activity log")

// ErrLocked is wrapped by errors about a log that another program has locked.
var ErrLocked = errors.New("the activity log is locked")
