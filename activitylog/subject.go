package activitylog

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"hubbub/protocol"
)

// MayHaveSubjects reports whether a send_start row may be about events. A payload with a
// backslash may spell the type in another way.
func MayHaveSubjects(topic string, payload []byte) bool {
	return topic == string(protocol.TopicAttention) || topic == string(protocol.TopicCollabEvents) ||
		bytes.Contains(payload, []byte("_message")) || bytes.IndexByte(payload, '\\') >= 0
}

// Subjects returns the ids of what a send_start row is about: the events of an attention record,
// the records that a broker's event names, or the event of a chat message.
func (e *Entry) Subjects() []string {
	if !MayHaveSubjects(e.Topic, e.Payload) {
		return nil
	}
	switch e.Topic {
	case string(protocol.TopicAttention):
		a, ok := ParseAttention(e)
		if !ok {
			return nil
		}
		ids := []string{a.EventID, a.Sent()}
		if turn, ok := a.Content.(*protocol.TurnRecord); ok {
			ids = append(ids, turn.MergedEventIDs...)
		}
		return slices.DeleteFunc(ids, isEmpty)
	case string(protocol.TopicCollabEvents):
		var fact protocol.CollabEvent
		e.Decode(&fact) // an event that cannot be decoded has no subjects
		return CollabSubjects(&fact)
	}
	c, ok := ParseChatEvent(e)
	if ok && (c.Message.Type == protocol.TypeTGMessage || c.Message.Type == protocol.TypeChatMessage) {
		return []string{c.EventID}
	}
	return nil
}

func isEmpty(id string) bool { return id == "" }

// CollabSubjects returns the ids that an event from the broker names: its own, its target's, and
// those in its payload.
func CollabSubjects(fact *protocol.CollabEvent) []string {
	type named struct {
		ID string `json:"id"`
	}
	var p struct {
		named
		RecordID, WorkItemID, QuestionID, InvocationID, FlightID, MessageID, DeliveryID string
		Message, WorkItem, Question, Invocation, Flight                                 named
	}
	_ = json.Unmarshal(fact.Payload, &p) // a payload that cannot be decoded names nothing
	_, target, _ := strings.Cut(fact.Target, ":")
	return slices.DeleteFunc([]string{
		fact.ID, target, p.ID, p.RecordID, p.WorkItemID, p.QuestionID, p.InvocationID, p.FlightID, p.MessageID,
		p.DeliveryID,
		p.Message.ID, p.WorkItem.ID, p.Question.ID, p.Invocation.ID, p.Flight.ID,
	}, isEmpty)
}
