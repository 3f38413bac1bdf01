package agent

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"hubbub/peers/attention"
	"hubbub/peers/peer"
	"hubbub/protocol"

	"github.com/oklog/ulid/v2"
)

// replyPrefix begins the outbox keys of answers to the broker, which settle an
// event; other requests to it settle nothing.
const replyPrefix = "reply:"

// An origin is what the answer to a wake goes to. It is empty for chat events.
type origin struct {
	DeliveryID     string `json:"deliveryId,omitempty"`
	ConversationID string `json:"conversationId,omitempty"`
	MessageID      string `json:"messageId,omitempty"`
	QuestionID     string `json:"questionId,omitempty"`
	AnsweredID     string `json:"answeredId,omitempty"` // this agent's own question
	WorkItemID     string `json:"workItemId,omitempty"`
	FlightID       string `json:"flightId,omitempty"`
}

// A wakeFact is the part of collab.delivery.woken that an agent reads.
type wakeFact struct {
	DeliveryID string `json:"deliveryId"`
	Rule       string `json:"rule"`
	Reason     string `json:"reason"`
	SenderID   string `json:"senderId"`
	SenderKind string `json:"senderKind"` // human or agent; absent from older brokers
	Message    *struct {
		ID, ConversationID, AuthorID, Surface, Text string
	} `json:"message"`
	WorkItem *struct {
		ID, Title, Summary, State, ConversationID, Priority string
	} `json:"workItem"`
	Question *struct {
		ID, Title, State, AskedByID, ConversationID, Answer string
	} `json:"question"`
	Invocation *struct {
		ID, Text, ConversationID, RequestedByID string
	} `json:"invocation"`
	Flight *struct {
		ID string
	} `json:"flight"`
	Conversation *struct {
		ID, Kind, Title string
	} `json:"conversation"`
}

// receiveFact takes what the broker tells this agent: a wake, which is an
// event like any other, or that a claimed event is free again.
func (a *Agent) receiveFact(ctx context.Context, d *peer.Delivery) error {
	if !fromBroker(d) {
		return peer.Reject("only the collaboration broker sends facts")
	}
	var fact protocol.CollabEvent
	if err := d.Decode(&fact); err != nil {
		return peer.Reject("the content is not a collab_event: " + err.Error())
	}
	defer a.poke()
	switch fact.Type {
	case "collab.delivery.woken":
		return a.receiveWake(ctx, d, &fact)
	case "collab.claim.offered":
		var claim struct {
			EventID string `json:"eventId"`
		}
		if err := json.Unmarshal(fact.Payload, &claim); err != nil {
			return peer.Reject("the claim cannot be read: " + err.Error())
		}
		return a.inTx(ctx, func(tx *sql.Tx) error { return a.offered(ctx, tx, claim.EventID) })
	}
	return nil
}

func (a *Agent) receiveWake(ctx context.Context, d *peer.Delivery, fact *protocol.CollabEvent) error {
	var w wakeFact
	if err := json.Unmarshal(fact.Payload, &w); err != nil {
		return peer.Reject("the wake cannot be read: " + err.Error())
	}
	if fact.ID == "" {
		return peer.Reject("the wake has no id")
	}
	e := &entry{
		SourceID: fact.ID, Chat: protocol.TopicBroker, MessageID: d.Message.MessageID, TraceParent: d.Message.TraceParent,
		Received: time.Now(), Content: w.content(a.id, fact.ID, d.Message.Timestamp), Origin: w.origin(), Stage: stageStored,
	}
	return a.inTx(ctx, func(tx *sql.Tx) error {
		if err := a.takeIn(ctx, tx, e); err != nil {
			return err
		}
		if w.DeliveryID == "" {
			return nil
		}
		return a.requestLater(ctx, tx, "delivery.ack", "ack:"+w.DeliveryID+":"+string(d.Message.MessageID), map[string]any{"id": w.DeliveryID})
	})
}

func (w *wakeFact) origin() origin {
	o := origin{DeliveryID: w.DeliveryID}
	if w.Conversation != nil {
		o.ConversationID = w.Conversation.ID
	}
	if w.WorkItem != nil {
		o.WorkItemID = w.WorkItem.ID
	}
	switch {
	case w.answers():
		o.AnsweredID = w.Question.ID
	case w.Question != nil && w.Question.State == "open":
		o.QuestionID = w.Question.ID
	}
	if w.Message != nil {
		o.MessageID, o.ConversationID = w.Message.ID, w.Message.ConversationID
	}
	if w.Flight != nil {
		o.FlightID = w.Flight.ID
	}
	return o
}

// answers reports whether a wake brings the answer to a question of this agent.
func (w *wakeFact) answers() bool {
	return w.Question != nil && w.Question.State == "answered" && w.Message == nil && w.WorkItem == nil
}

// content is a wake as a chat event: an assignment of this agent, an approval
// where work is to be reviewed, a blocker where others wait for it, or the
// answer to its own question.
func (w *wakeFact) content(self protocol.PeerID, id, at string) protocol.ChatMessage {
	c := protocol.ChatMessage{
		Event: protocol.EventAssignment, SourceID: id, CreatedAt: at, Mentions: []string{string(self)}, Text: w.text(),
		Chat: &protocol.Chat{ID: "work", Kind: "channel"}, Author: &protocol.Author{ID: "broker", Kind: "system"},
	}
	switch {
	case w.answers():
		c.Event = string(attention.KindAnswer)
	case w.Rule == "dependency_owner":
		c.Event = protocol.EventBlocker
	case w.WorkItem != nil && w.WorkItem.State == "review":
		c.Event = protocol.EventApproval
	}
	if w.WorkItem != nil {
		c.Chat.ID = "work:" + w.WorkItem.ID
		if w.WorkItem.Priority == "urgent" {
			c.Priority = "urgent"
		}
	}
	if w.Conversation != nil {
		c.Chat.ID, c.Chat.Title = w.Conversation.ID, w.Conversation.Title
		switch w.Conversation.Kind {
		case "dm", "thread":
			c.Chat.Kind = w.Conversation.Kind
		}
	}
	if w.SenderID != "" {
		c.Author.ID, c.Author.Kind = w.SenderID, "human"
		if w.SenderKind == "agent" || w.Message != nil && w.Message.Surface == "agent" {
			c.Author.Kind = "agent"
		}
	}
	return c
}

// text says what a wake is about, in the words of the records.
func (w *wakeFact) text() string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if w.Message != nil {
		add("%s", w.Message.Text)
	}
	if w.Invocation != nil {
		add("%s", w.Invocation.Text)
	}
	if w.Question != nil {
		add("Question %s (%s): %s", w.Question.ID, w.Question.State, w.Question.Title)
		if w.Question.Answer != "" {
			add("Answer: %s", w.Question.Answer)
		}
	}
	if w.WorkItem != nil {
		add("Work item %s (%s): %s", w.WorkItem.ID, w.WorkItem.State, w.WorkItem.Title)
		if w.WorkItem.Summary != "" {
			add("%s", w.WorkItem.Summary)
		}
	}
	if len(lines) == 0 {
		add("You were woken: %s", w.Reason)
	}
	return strings.Join(lines, "\n")
}

// requestLater queues a request to the broker. The broker answers a repeated
// request as it did before, so it has its effect once.
func (a *Agent) requestLater(ctx context.Context, tx *sql.Tx, method, key string, params any) error {
	raw, err := json.Marshal(params)
	if err != nil {
		return err
	}
	m := a.peer.NewMessage(protocol.TypeCollabRequest, protocol.CollabRequest{Method: method, Params: raw, RequestID: "req_" + ulid.Make().String()})
	return a.enqueue(ctx, tx, protocol.TopicBroker, key, m)
}

// takesWords reports whether an answer to a wake would reach anybody.
func (o *origin) takesWords() bool {
	return o.QuestionID != "" || o.ConversationID != "" || o.FlightID != "" || o.WorkItemID != ""
}

// answerBroker queues the answer to a wake: an answer to its question, a
// message in its conversation, or the output of its flight. A notice of the
// host is a message in its conversation.
func (a *Agent) answerBroker(ctx context.Context, tx *sql.Tx, e *entry, kind string, id protocol.MessageID, reply *protocol.ChatReply) error {
	o := e.Origin
	key := replyPrefix + reply.IdempotencyKey
	if kind == "notice" && o.ConversationID != "" { // for people who read there; it wakes nobody
		return a.requestLater(ctx, tx, "message.post", key, map[string]any{
			"id": string(id), "conversationId": o.ConversationID, "text": reply.Text, "surface": "agent", "kind": "status",
		})
	}
	if kind != "text" {
		return nil // signals show in the state of the flight; see tellBroker
	}
	switch {
	case o.QuestionID != "":
		return a.requestLater(ctx, tx, "question.answer", key, map[string]any{"id": o.QuestionID, "answer": reply.Text})
	case o.ConversationID != "":
		params := map[string]any{"id": string(id), "conversationId": o.ConversationID, "text": reply.Text, "surface": "agent"}
		if o.MessageID != "" {
			params["inReplyTo"] = o.MessageID
		}
		switch {
		case o.WorkItemID != "":
			params["workItemId"] = o.WorkItemID
		case e.Content.Author.Kind == "human": // who asked reads it there; no other agent has to
			params["kind"] = "final"
		}
		return a.requestLater(ctx, tx, "message.post", key, params)
	case o.FlightID != "":
		return a.requestLater(ctx, tx, "flight.update", key, map[string]any{"id": o.FlightID, "state": "completed", "output": reply.Text})
	}
	// No chat takes words: the work item itself says where things stand.
	return a.requestLater(ctx, tx, "work_item.update", key, map[string]any{"id": o.WorkItemID, "summary": reply.Text})
}

// tellBroker keeps the broker's records in step with an event: the claim on
// it, its flight, and the question that it answered, which ends when this agent
// has taken the answer in.
func (a *Agent) tellBroker(ctx context.Context, tx *sql.Tx, e *entry, d attention.Disposition, reason string) error {
	if d.Final() {
		if err := a.settleClaim(ctx, tx, e, d); err != nil {
			return err
		}
	}
	o := e.Origin
	if o.AnsweredID != "" && d.Final() && d != attention.DispositionFailed {
		return a.requestLater(ctx, tx, "question.close", "close:"+o.AnsweredID+":"+e.EventID, map[string]any{"id": o.AnsweredID})
	}
	if o.FlightID == "" || e.Replied && o.ConversationID == "" && o.QuestionID == "" { // the answer itself completed the flight
		return nil
	}
	params := map[string]any{"id": e.Origin.FlightID}
	switch d {
	case attention.DispositionResponded, attention.DispositionAcknowledged:
		params["state"] = "completed"
	case attention.DispositionDeferred:
		params["state"] = "waiting"
	case attention.DispositionFailed:
		params["state"], params["error"] = "failed", reason
	case attention.DispositionIgnored, attention.DispositionSuperseded:
		params["state"], params["error"] = "cancelled", reason
	default:
		return nil
	}
	return a.requestLater(ctx, tx, "flight.update", uniqueKey("flight:"+e.Origin.FlightID, e.Seq), params)
}

// tellFlight tells the broker that a woken agent is at work.
func (a *Agent) tellFlight(ctx context.Context, tx *sql.Tx, t *turn) error {
	e, err := entryByID(ctx, tx, t.EventID)
	if err != nil || e == nil || e.Origin.FlightID == "" {
		return err
	}
	return a.requestLater(ctx, tx, "flight.update", uniqueKey("flight:"+e.Origin.FlightID, e.Seq),
		map[string]any{"id": e.Origin.FlightID, "state": "running"})
}
