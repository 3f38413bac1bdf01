package agent

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"hubbub/peers/attention"
	"hubbub/peers/outbox"
	"hubbub/peers/peer"
	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"
)

// queueReply queues a message or a signal to the chat of an event, and marks
// the event, in one transaction: after a crash the mark forbids another.
func (a *Agent) queueReply(ctx context.Context, tx *sql.Tx, e *entry, kind, key string, reply protocol.ChatReply) (protocol.MessageID, error) {
	reply.IdempotencyKey, reply.InReplyTo, reply.ThreadID = key, e.SourceID, e.Content.Chat.ThreadID
	if e.Content.Chat.Kind != "dm" && reply.Text != "" {
		reply.ReplyTo = e.SourceID // among many messages, show which one is meant
	}
	claim, err := a.claimOf(ctx, tx, e.EventID)
	if err != nil {
		return "", err
	}
	if claim != nil && claim.via == "broker" && claim.owner == string(a.id) {
		reply.Claim = &protocol.ReplyClaim{EventID: e.EventID, Token: claim.token}
	}
	m := a.peer.NewMessage(replyType(e.Chat), reply)
	m.InReplyTo, m.TraceParent = e.MessageID, e.TraceParent
	if e.Chat == protocol.TopicBroker {
		err = a.answerBroker(ctx, tx, e, kind, m.MessageID, &reply)
	} else {
		err = a.enqueue(ctx, tx, e.Chat, key, m)
	}
	if err != nil {
		return "", err
	}
	text := reply.Text
	if kind == "signal" {
		text = reply.Signal
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO sent (message_id, event_id, key, chat, conversation, thread, kind, text, sent_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		m.MessageID, e.EventID, key, e.Chat, e.Content.Chat.ID, e.Content.Chat.ThreadID, kind, text, time.Now().UnixMicro())
	if err != nil {
		return "", fmt.Errorf("storing the message %s: %w", m.MessageID, err)
	}
	if kind == "notice" {
		return m.MessageID, nil
	}
	if _, err := tx.ExecContext(ctx, `UPDATE turns SET outbound = 1 WHERE turn_id = ?`, e.TurnID); err != nil {
		return "", fmt.Errorf("marking the turn of %s: %w", e.EventID, err)
	}
	e.Acted, e.Replied = true, e.Replied || kind == "text"
	_, err = tx.ExecContext(ctx, `UPDATE events SET acted = 1, replied = ? WHERE seq = ?`, e.Replied, e.Seq)
	if err == nil && kind == "text" {
		err = a.setPlace(ctx, tx, e.Content.Chat, `joined_at = CASE WHEN left_at > 0 THEN joined_at ELSE ?3 END`, "")
	}
	if err != nil {
		return "", fmt.Errorf("marking %s as answered: %w", e.EventID, err)
	}
	return m.MessageID, nil
}

// replyType is the type in which a chat takes answers.
func replyType(chat protocol.Topic) protocol.MessageType {
	if protocol.PeerID(chat).Family() == "chorus" {
		return protocol.TypeChatReply
	}
	return protocol.TypeTGReply
}

// The keys of what the agent itself sends for an event.
func replyKey(e *entry) string                 { return e.EventID + ":reply" }
func noticeKey(kind string, e *entry) string   { return kind + ":" + e.EventID }
func signalKey(e *entry, signal string) string { return "react:" + e.EventID + ":" + signal }

// reservedKey reports whether a model's idempotencyKey is one that the agent may
// need itself, for this event or for another: taken, it would stand in the way.
func reservedKey(key string, e *entry) bool {
	if key == replyKey(e) {
		return false
	}
	return strings.HasSuffix(key, ":reply") || strings.HasPrefix(key, "react:") ||
		strings.HasPrefix(key, noticeFailed+":") || strings.HasPrefix(key, noticeEscalation+":")
}

func visibilityOf(e *entry) string {
	switch {
	case e.Content.Chat.Kind == "dm":
		return "dm"
	case e.Content.Chat.ThreadID != "" || e.Content.Chat.Kind == "thread":
		return "thread"
	}
	return "channel"
}

// sendItem makes one attempt to send what is queued. A chat must have its
// bridge there; records are sent whether anybody listens or not.
func (a *Agent) sendItem(ctx context.Context, item outbox.Item) error {
	var m protocol.Message
	if err := json.Unmarshal(item.Body, &m); err != nil {
		return outbox.Permanent(fmt.Errorf("a queued message cannot be read: %w", err))
	}
	topic := protocol.Topic(item.Destination)
	result, err := a.peer.Send(ctx, topic, m)
	if needless := peer.Needless(topic, item.Attempt, result, err); needless != nil {
		return outbox.Drop(needless)
	}
	if err != nil {
		return classify(err)
	}
	if !needsAddressee(topic) || result.Addressee == protocol.AddresseeOK {
		return nil
	}
	if result.Addressee == "" && result.DeliveredTo > 0 { // a bus that does not tell
		return nil
	}
	for _, f := range result.Failures {
		if f.Status == protocol.OutcomeRejected && f.Peer.Family() == protocol.PeerID(topic).Family() {
			return outbox.Permanent(fmt.Errorf("%s refused it: %s", f.Peer, f.Error))
		}
	}
	err = fmt.Errorf("%s did not take it (%s)", topic, result.Addressee)
	if m.Type == protocol.TypeAgentEvent { // answers wait behind it
		return outbox.Permanent(err)
	}
	return err
}

// needsAddressee reports whether somebody in particular must take a message.
func needsAddressee(topic protocol.Topic) bool { return protocol.IsIdentity(topic) }

// classify says what a failed send means: what the bus refused it refuses
// again, all else may pass.
func classify(err error) error {
	var refused *jsonrpc.Error
	if errors.As(err, &refused) && refused.Code == protocol.CodeInvalidParams {
		return outbox.Permanent(err)
	}
	if errors.Is(err, peer.ErrStopped) {
		return outbox.Retry(time.Second, err)
	}
	return err
}

// itemSettled stores what became of a message to a chat, in the transaction of
// its settlement: an answer that its bridge took settles the event.
func (a *Agent) itemSettled(ctx context.Context, tx *sql.Tx, item outbox.Item, outcome outbox.State, cause error) error {
	defer a.queued.Delete(tx) // the outbox looks again by itself
	if item.Destination == string(protocol.TopicAttention) || item.Destination == string(protocol.TopicBroker) && !strings.HasPrefix(item.Key, replyPrefix) {
		return nil
	}
	var event, kind, messageID string
	key := item.Key
	if item.Destination == string(protocol.TopicBroker) {
		key = strings.TrimPrefix(key, replyPrefix)
	}
	err := tx.QueryRowContext(ctx, `SELECT event_id, kind, message_id FROM sent WHERE key = ? AND chat = ?`, key, item.Destination).
		Scan(&event, &kind, &messageID)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking for the message %s: %w", item.Key, err)
	}
	status, why := "accepted", ""
	if outcome != outbox.StateSent {
		status, why = protocol.StatusFailed, string(outcome)
		if cause != nil {
			why = cause.Error()
		}
	}
	if _, err := tx.ExecContext(ctx, `UPDATE sent SET status = ?, reason = ? WHERE message_id = ? AND status = 'queued'`, status, why, messageID); err != nil {
		return fmt.Errorf("storing what became of %s: %w", messageID, err)
	}
	if status == protocol.StatusFailed {
		err := a.record(ctx, tx, "delivery:"+messageID+":undelivered", map[string]any{
			"event": "delivery", "eventId": event, "agent": a.id, "messageId": messageID, "kind": kind, "status": status, "reason": why,
		})
		if err != nil {
			return err
		}
	}
	e, err := entryByID(ctx, tx, event)
	if err != nil || e == nil || kind != "text" {
		return err
	}
	if status == protocol.StatusFailed {
		return a.dispose(ctx, tx, e, attention.DispositionFailed, "the answer could not be delivered: "+cut(why, 300))
	}
	return a.dispose(ctx, tx, e, attention.DispositionResponded, "answered")
}
