package mailbox

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"hubbub/peers/attention"
	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/text"
)

// A SentKind says what a message of the agent is.
type SentKind string

// The kinds of messages.
const (
	SentText   SentKind = "text"
	SentSignal SentKind = "signal"
	SentNotice SentKind = "notice" // of the host, not of the model
)

// A Sent is one message of the agent. Whether it was sent is the outbox's to say.
type Sent struct {
	MessageID    protocol.MessageID
	EventID      string
	Conversation string
	Thread       string
	Kind         SentKind
	Text         string // or the signal
	At           time.Time
}

const sentColumns = `message_id, event_id, conversation, thread, kind, text, sent_at`

func scanSent(row store.Row) (*Sent, error) {
	var s Sent
	err := row.Scan(&s.MessageID, &s.EventID, &s.Conversation, &s.Thread, &s.Kind, &s.Text, timeColumn{&s.At})
	return &s, err
}

func (v View) sent(where string, args ...any) (*Sent, error) {
	s, _, err := store.One(v.ctx, v.q, scanSent, `SELECT `+sentColumns+` FROM sent WHERE `+where, args...)
	return s, err
}

// SentAs returns the message that was sent under a key, or nil.
func (v View) SentAs(key string) (*Sent, error) { return v.sent(`key = ?`, key) }

// Spoken reports whether a message was sent in response to an event.
func (v View) Spoken(e *Entry) (bool, error) {
	s, err := v.sent(`event_id = ? AND kind = 'text'`, e.EventID)
	return s != nil, err
}

// The notices.
const (
	NoticeFailed     = "failed"
	NoticeEscalation = "escalation"
)

// ReplyKey is the key of the answer to an event for which its author gave none.
func ReplyKey(e *Entry) string { return e.EventID + ":reply" }

// SignalKey is the key of a signal.
func SignalKey(e *Entry, signal attention.Signal) string {
	return "react:" + e.EventID + ":" + string(signal)
}

// ReservedKey reports whether the agent may need a key itself, for this event or for
// another: taken by a model, it would stand in the way.
func ReservedKey(key string, e *Entry) bool {
	if key == ReplyKey(e) {
		return false
	}
	return strings.HasSuffix(key, ":reply") || strings.HasPrefix(key, "react:") ||
		strings.HasPrefix(key, NoticeFailed+":") || strings.HasPrefix(key, NoticeEscalation+":")
}

// BrokerReplyPrefix begins the outbox keys of answers to the broker, which settle an
// event; other requests to it settle nothing.
const BrokerReplyPrefix = "reply:"

// ReplyType is the type in which a chat takes answers.
func ReplyType(chat protocol.Topic) protocol.MessageType {
	if protocol.PeerID(chat).Family() == "chorus" {
		return protocol.TypeChatReply
	}
	return protocol.TypeTGReply
}

// Notice sends a text of the host, once per event and kind.
func (tx *Tx) Notice(e *Entry, kind, text string) error {
	_, err := tx.Reply(e, SentNotice, kind+":"+e.EventID, protocol.ChatReply{
		Text: text, Visibility: e.Visibility(), Directedness: string(attention.DirectedAmbient),
	})
	return err
}

// Reply queues a message or a signal to the chat of an event, and marks the event, in
// one transaction: after a crash the mark forbids another.
func (tx *Tx) Reply(e *Entry, kind SentKind, key string, reply protocol.ChatReply) (protocol.MessageID, error) {
	reply.IdempotencyKey, reply.InReplyTo, reply.ThreadID = key, e.SourceID, e.Content.Chat.ThreadID
	if e.Content.Chat.Kind != string(attention.ConversationDM) && reply.Text != "" {
		reply.ReplyTo = e.SourceID // among many messages, show which one is meant
	}
	claim, err := tx.Claim(e.EventID)
	if err != nil {
		return "", err
	}
	if claim.FromBroker && claim.Owner == string(tx.m.id) {
		reply.Claim = &protocol.ReplyClaim{EventID: e.EventID, Token: claim.Token}
	}
	m := tx.message(ReplyType(e.Chat), e, reply)
	if e.FromBroker() {
		err = tx.m.opts.Broker.Answer(tx, e, kind, m.MessageID, &reply)
	} else {
		err = tx.Enqueue(e.Chat, key, m)
	}
	if err != nil {
		return "", err
	}
	words := reply.Text
	if kind == SentSignal {
		words = reply.Signal
	}
	err = tx.exec(`INSERT INTO sent (`+sentColumns+`, key, chat) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		m.MessageID, e.EventID, e.Content.Chat.ID, e.Content.Chat.ThreadID, kind, words, time.Now().UnixMicro(), key, e.Chat)
	if err != nil || kind == SentNotice {
		return m.MessageID, err
	}
	e.Acted = true
	if err := tx.exec(`UPDATE turns SET outbound = 1 WHERE turn_id = ?`, e.TurnID); err != nil || kind == SentSignal {
		return m.MessageID, err
	}
	if err := tx.Move(e, Answer, ""); err != nil {
		return "", err
	}
	return m.MessageID, tx.SetPlace(e, Spoke)
}

// settled stores what became of a message to a chat, in the transaction in which the
// outbox settles it: an answer that its bridge took settles the event.
func (m *Mailbox) settled(ctx context.Context, begun *sql.Tx, item outbox.Item, outcome outbox.State, cause error) error {
	key := item.Key
	switch protocol.Topic(item.Destination) {
	case protocol.TopicAttention:
		return nil
	case protocol.TopicBroker:
		answer, ok := strings.CutPrefix(key, BrokerReplyPrefix)
		if !ok {
			return nil
		}
		key = answer
	}
	tx := m.tx(ctx, begun)
	s, err := tx.sent(`key = ? AND chat = ?`, key, item.Destination)
	if err != nil || s == nil {
		return err
	}
	why := string(outcome)
	if cause != nil {
		why = cause.Error()
	}
	if outcome != outbox.StateSent {
		if err := tx.recordDelivery(s, "undelivered", protocol.StatusFailed, why); err != nil {
			return err
		}
	}
	e, err := tx.Entry(s.EventID)
	if err != nil || e == nil || s.Kind != SentText {
		return err
	}
	if outcome != outbox.StateSent {
		return tx.Move(e, Fail, "the answer could not be delivered: "+text.Prefix(why, 300))
	}
	return tx.Move(e, Respond, "answered")
}

// Delivered takes what a chat says became of a message.
func (tx *Tx) Delivered(chat protocol.Topic, s *protocol.DeliveryStatus) error {
	if s.Status != protocol.StatusFailed && s.Status != protocol.StatusUnknown {
		return nil
	}
	sent, err := tx.sent(`(message_id = ?1 OR ?1 = '' AND key = ?2) AND chat = ?3`, s.MessageID, s.IdempotencyKey, chat)
	if err != nil || sent == nil { // it is no longer known, or was a typing sign
		return err
	}
	return tx.recordDelivery(sent, s.Status, s.Status, s.Reason)
}

// recordDelivery tells of a message that its chat did not get, or perhaps not, once
// for each of the reasons why.
func (tx *Tx) recordDelivery(s *Sent, once, status, reason string) error {
	return tx.Record("delivery:"+string(s.MessageID)+":"+once, nil, map[string]any{
		"event": "delivery", "eventId": s.EventID, "agent": tx.m.id, "messageId": s.MessageID, "kind": s.Kind, "status": status, "reason": reason,
	})
}
