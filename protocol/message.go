package protocol

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
)

// A Message is the payload that travels from a sender to its subscribers
// (section 7). InReplyTo and TraceParent are optional extensions, with the limits of a MessageID.
type Message struct {
	MessageID   MessageID       `json:"messageId"`
	Type        MessageType     `json:"type"`
	From        PeerID          `json:"from"`
	Timestamp   string          `json:"timestamp"` // RFC 3339
	Content     json.RawMessage `json:"content"`   // a JSON object
	InReplyTo   MessageID       `json:"inReplyTo,omitempty"`
	TraceParent string          `json:"traceparent,omitempty"` // W3C trace context
}

// NewMessageID returns a new message id: "msg_" and a ULID, so ids sort by time.
func NewMessageID() MessageID { return MessageID("msg_" + ulid.Make().String()) }

// NewMessage makes a message with a new id and the current time. Content must marshal
// to a JSON object. NewMessage panics if content cannot be marshalled, which is a
// programming error.
func NewMessage(t MessageType, from PeerID, content any) Message {
	raw, err := json.Marshal(content)
	if err != nil {
		panic("content of " + string(t) + " cannot be marshalled: " + err.Error())
	}
	return Message{
		MessageID: NewMessageID(),
		Type:      t,
		From:      from,
		Timestamp: FormatTime(time.Now()),
		Content:   raw,
	}
}

// FormatTime formats a time as the wire and the activity log write it: RFC 3339, UTC,
// with microseconds.
func FormatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z07:00") }

// ParseTime parses a time of RFC 3339, which may have small letters. Package time does not read
// those.
func ParseTime(s string) (time.Time, error) { return time.Parse(time.RFC3339, strings.ToUpper(s)) }
