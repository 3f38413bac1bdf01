package activitylog

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"hubbub/protocol"
)

// An AttentionRecord is one agent_event to system:attention: an agent decided on an event, ran a
// turn for it, claimed it, was refused an action, or ended it. Its Agent is the sender, whatever
// the content says.
type AttentionRecord struct {
	At        time.Time `json:"ts"`
	MessageID string    `json:"messageId"`
	protocol.Record
}

// Sent returns the id of the message that a delivery or a post is about, or "".
func (a *AttentionRecord) Sent() string {
	switch c := a.Content.(type) {
	case *protocol.DeliveryRecord:
		return string(c.MessageID)
	case *protocol.PostRecord:
		return string(c.MessageID)
	}
	return ""
}

// Concerns reports whether the record is about an event with that id or an edit of it, about a turn
// that merged the event, or about a message from the agent with that id.
func (a *AttentionRecord) Concerns(eventID string) bool {
	turn, ok := a.Content.(*protocol.TurnRecord)
	return a.EventID == eventID || protocol.SourceOfEvent(a.EventID) == eventID || a.Sent() == eventID ||
		ok && slices.Contains(turn.MergedEventIDs, eventID)
}

// recordMembers are the members that MarshalJSON takes from the content of a record, in order.
var recordMembers = strings.Fields("directedness policy injection priority disposition tool arguments resultBytes " +
	"resultSha256 failed chat turnId attempt mode state mergedEventIds model inputTokens cachedTokens outputTokens usd " +
	"bound until granted owner token via sent kind status target reminderId due decisionId by scope digest with rung " +
	"to message obligationId author recipient blocks age slot")

// MarshalJSON writes the members that all records have, and those of its kind that are not empty.
func (a *AttentionRecord) MarshalJSON() ([]byte, error) {
	type head AttentionRecord // without this method
	b, err := marshalUnescaped((*head)(a))
	if err != nil {
		return nil, err
	}
	content, err := marshalUnescaped(a.Content)
	if err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(content, &members); err != nil {
		return nil, err
	}
	if a.Sent() != "" {
		members["sent"] = members["messageId"]
	}
	b = b[:len(b)-len("}")]
	for _, name := range recordMembers {
		switch value := string(members[name]); {
		case value == "false" && name != "granted":
		case slices.Contains([]string{"", `""`, "0", "null", "[]"}, value):
		default:
			b = fmt.Appendf(b, ",%q:%s", name, value)
		}
	}
	return append(b, '}'), nil
}

// FinalDisposition reports whether an event with this disposition has ended. An
// event without a disposition, or that is claimed or deferred, is still open.
func FinalDisposition(disposition string) bool {
	switch disposition {
	case "", "claimed", "deferred":
		return false
	}
	return true
}

// ParseAttention parses the attention record in a send_start row. It returns false if the row has
// none.
func ParseAttention(e *Entry) (a AttentionRecord, ok bool) {
	m, _ := e.Decode(nil)
	record, _ := protocol.ParseRecord(m.Content)
	if m.Type != protocol.TypeAgentEvent || record.Event == "" {
		return a, false
	}
	if protocol.RoleOf(m.From) == protocol.RoleAgent || record.Agent == "" {
		record.Agent = string(m.From)
	}
	return AttentionRecord{e.Time(), e.MessageID, record}, true
}

// A ChatEvent is one chat message as it was sent to one agent.
type ChatEvent struct {
	EventID   string
	MessageID string
	At        time.Time
	Agent     string // the topic that it was sent to
	From      string
	Message   protocol.Message
	Content   protocol.ChatMessage
}

// ParseChatEvent parses the chat message in a send_start row. It returns false if the content
// cannot be decoded.
func ParseChatEvent(e *Entry) (ChatEvent, bool) {
	c := ChatEvent{MessageID: e.MessageID, At: e.Time(), Agent: e.Topic, From: e.From}
	m, ok := e.Decode(&c.Content)
	c.Message, c.EventID = m, cmp.Or(c.Content.SourceID, e.MessageID)
	return c, ok
}
