package mailbox

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"hubbub/peers/attention"
	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/text"
)

// A SentKind is the kind of a sent message.
type SentKind string

// The kinds of sent messages.
const (
	SentText   SentKind = "text"
	SentSignal SentKind = "signal"
	SentFile   SentKind = "file"   // in addition to the answer
	SentNotice SentKind = "notice" // from the agent's program, not from the model

	// SentInterim is a message that the answer will replace. It settles nothing: the event stays
	// open, and its turn may run again.
	SentInterim SentKind = "interim"
)

// A Sent is a message from the agent. Its delivery state is in the outbox.
type Sent struct {
	MessageID    protocol.MessageID
	EventID      string
	Conversation string
	Thread       string
	Kind         SentKind
	Text         string // or the signal
	At           time.Time
}

const sentNames = `message_id, event_id, conversation, thread, kind, text, sent_at`

func scanSent(into **Sent) []any {
	s := new(Sent)
	*into = s
	return []any{&s.MessageID, &s.EventID, &s.Conversation, &s.Thread, &s.Kind, &s.Text, store.Micros{Time: &s.At}}
}

// SentWhere returns the first message of a query, or nil. where follows SELECT ... FROM sent WHERE.
func (v *View) SentWhere(where string, args ...any) *Sent {
	return First(v.Tx, scanSent, `SELECT `+sentNames+` FROM sent WHERE `+where, args...)
}

// SentAs returns the message with a key, or nil.
func (v *View) SentAs(key string) *Sent { return v.SentWhere(`key = ?`, key) }

// HasReplied reports whether a text was sent in response to an event.
func (v *View) HasReplied(e *Entry) bool {
	return v.SentWhere(`event_id = ? AND kind = 'text'`, e.EventID) != nil
}

// ReasonExchangeHeld is the reason of events in an exchange that agents may not continue.
const ReasonExchangeHeld = "exchange_held"

// Interim returns the interim message of an event, including its earlier versions and the other
// fragments of its turn, or nil.
func (v *View) Interim(e *Entry) *Sent {
	return v.SentWhere(`kind = 'interim' AND event_id IN (SELECT event_id FROM events
		WHERE chat = ? AND source_id = ? OR turn_id = ? AND turn_id <> '') ORDER BY sent_at LIMIT 1`, e.Chat,
		e.SourceID, e.TurnID)
}

// ReplyType returns the message type of answers to a chat.
func ReplyType(chat protocol.Topic) protocol.MessageType {
	switch protocol.PeerID(chat).Family() {
	case "chorus", "mx":
		return protocol.TypeChatReply
	}
	return protocol.TypeTGReply
}

// onlyAnswers reports whether a chat takes each reply as an answer, as services of Chorus do.
func onlyAnswers(chat protocol.Topic) bool { return protocol.PeerID(chat).Family() == "chorus" }

// ReportEnd reports that an event of a service was closed without an answer. A service sees no
// attention records, and would wait for a reply.
func (tx *Tx) ReportEnd(e *Entry) {
	if d := e.Disposition(); d.Final() && d != attention.DispositionResponded {
		tx.reportEnd(e, UniqueKey("disposition", e.Seq), d)
	}
}

// ReportTaken is ReportEnd for a message that is not stored as an event, such as a person's answer
// to a question.
func (tx *Tx) ReportTaken(e *Entry) {
	tx.reportEnd(e, "taken:"+e.SourceID, attention.DispositionAcknowledged)
}

func (tx *Tx) reportEnd(e *Entry, key string, d attention.Disposition) {
	if onlyAnswers(e.Chat) {
		tx.Enqueue(e.Chat, key, tx.m.MessageFor(e, protocol.TypeAgentEvent,
			map[string]any{"event": protocol.RecordDisposition, "inReplyTo": e.SourceID, "disposition": d}))
	}
}

// SendNotice sends a text of the agent's program, once per event and kind.
func (tx *Tx) SendNotice(e *Entry, kind, text string) {
	if key := kind + ":" + e.EventID; tx.SentAs(key) == nil {
		tx.SendText(e, SentNotice, key, text)
	}
}

// SendText sends a text in response to an event. It obligates nobody.
func (tx *Tx) SendText(e *Entry, kind SentKind, key, text string) {
	tx.Reply(e, kind, key, protocol.ChatReply{Text: text, Directedness: string(attention.DirectedAmbient)})
}

// Reply queues a message or signal to the chat of an event, and marks the event as answered in
// the same transaction. After a crash, the mark prevents a second answer. By default a message has
// the visibility of the event, and an answer or file obliges those whom it mentions.
func (tx *Tx) Reply(e *Entry, kind SentKind, key string, reply protocol.ChatReply) protocol.MessageID {
	reply.IdempotencyKey, reply.InReplyTo, reply.ThreadID = key, e.SourceID, e.Content.Chat.ThreadID
	if reply.Signal == "" {
		chosen := attention.DirectedAmbient
		if kind == SentText || kind == SentFile {
			chosen = attention.MessageDirectedness(reply.Text, "")
		}
		reply.Visibility = cmp.Or(reply.Visibility, e.Visibility())
		reply.Directedness = cmp.Or(reply.Directedness, string(chosen))
	}
	if e.Content.Chat.Kind != string(attention.ConversationDM) && reply.Text != "" {
		reply.ReplyTo = e.SourceID // shows which of many messages is meant
	}
	if claim := tx.CurrentClaim(e.EventID); claim.FromBroker && claim.Owner == string(tx.m.id) {
		reply.Claim = &protocol.ReplyClaim{EventID: e.EventID, Token: claim.Token}
	}
	if kind == SentText && !tx.HasReplied(e) || key == NoticeFailed+":"+e.EventID {
		if said := tx.Interim(e); said != nil && !onlyAnswers(e.Chat) {
			reply.Edits = InterimKey(&Entry{EventID: said.EventID})
		}
	}
	m := tx.m.MessageFor(e, ReplyType(e.Chat), reply)
	if kind == SentInterim && onlyAnswers(e.Chat) {
		m = tx.m.MessageFor(e, protocol.TypeAgentEvent,
			map[string]any{"event": "status", "inReplyTo": e.SourceID, "status": reply.Text})
	}
	if e.FromBroker() {
		tx.m.opts.Broker.Answer(tx, e, kind, m.MessageID, &reply)
	} else {
		tx.Enqueue(e.Chat, key, m)
	}
	tx.Exec(`INSERT INTO sent (`+sentNames+`, key, chat) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		m.MessageID, e.EventID, e.Content.Chat.ID, reply.ThreadID, kind, sentText(&reply), time.Now().UnixMicro(), key,
		e.Chat)
	if kind != SentNotice && kind != SentInterim {
		e.Acted = true
		tx.Exec(`UPDATE turns SET outbound = 1 WHERE turn_id = ?`, e.TurnID)
	}
	if kind == SentText {
		tx.Move(e, Answer, "")
		tx.SetParticipation(e, Spoke)
	}
	return m.MessageID
}

// sentText returns the text that is stored for a message.
func sentText(reply *protocol.ChatReply) string {
	if reply.File != nil {
		return strings.TrimSpace("[file: " + reply.File.Name + "] " + reply.Text)
	}
	return cmp.Or(WithButtons(reply.Text, reply.Buttons), reply.Signal)
}

// FilesFor returns how many files were sent in response to an event.
func (v *View) FilesFor(e *Entry) int {
	return store.Value[int](v.Tx, `SELECT count(*) FROM sent WHERE event_id = ? AND kind = 'file'`, e.EventID)
}

// onSettled stores the outcome of a message, in the transaction in which the outbox settles it.
// An answer that its bridge accepted settles the event.
func (m *Mailbox) onSettled(within *store.Tx, item outbox.Item, outcome outbox.State, cause error) {
	key, ours := item.Key, true
	switch protocol.Topic(item.Destination) {
	case protocol.TopicAttention:
		ours = false
	case protocol.TopicBroker:
		key, ours = strings.CutPrefix(key, BrokerReplyPrefix)
	}
	if !ours {
		return
	}
	tx := &Tx{View{within, m}}
	s := tx.SentWhere(`key = ? AND chat = ?`, key, item.Destination)
	if s == nil {
		return
	}
	e := tx.Entry(s.EventID)
	answered := e != nil && s.Kind == SentText
	switch {
	case outcome != outbox.StateSent:
		why := string(outcome)
		if cause != nil {
			why = cause.Error()
		}
		recordDelivery(tx, s, "undelivered", protocol.StatusFailed, why)
		if outcome == outbox.StateDead {
			markUndelivered(tx, s, protocol.Topic(item.Destination), why)
		} else {
			tx.m.opts.Hooks.Unconfirmed(tx, s.MessageID)
		}
		if answered {
			tx.Move(e, Fail, "the answer could not be delivered: "+text.Prefix(why, 300))
			tx.ReportEnd(e)
		}
	case answered:
		tx.Move(e, Respond, "answered")
	}
}

// HandleDeliveryStatus stores what a chat reports about a message. Unknown messages and typing
// signs are ignored.
func (tx *Tx) HandleDeliveryStatus(chat protocol.Topic, s *protocol.DeliveryStatus) {
	// of a whole message or a part
	if s.SourceID != "" && (s.Status == protocol.StatusDelivered || s.Status == protocol.StatusFailed) {
		tx.Exec(`UPDATE sent SET source_id = ?1 WHERE (message_id = ?2 OR ?2 = '' AND key = ?3) AND chat = ?4`,
			s.SourceID, s.MessageID, s.IdempotencyKey, chat)
		if said := tx.SentWhere(`(message_id = ?1 OR ?1 = '' AND key = ?2) AND chat = ?3`, s.MessageID,
			s.IdempotencyKey, chat); said != nil {
			tx.m.opts.Hooks.Delivered(tx, said.MessageID, s.SourceID)
		}
	}
	if s.Status != protocol.StatusFailed && s.Status != protocol.StatusUnknown {
		return
	}
	if sent := tx.SentWhere(`(message_id = ?1 OR ?1 = '' AND key = ?2) AND chat = ?3`, s.MessageID, s.IdempotencyKey,
		chat); sent != nil {
		recordDelivery(tx, sent, s.Status, s.Status, s.Reason)
		if s.Status == protocol.StatusFailed {
			markUndelivered(tx, sent, chat, s.Reason)
		} else {
			tx.m.opts.Hooks.Unconfirmed(tx, sent.MessageID)
		}
	}
}

// recordDelivery records a message that its chat did not get, or may not have got, once per
// status.
func recordDelivery(tx *Tx, s *Sent, once, status, reason string) {
	tx.Record("delivery:"+string(s.MessageID)+":"+once, nil, protocol.DeliveryRecord{
		Agent:     tx.m.id,
		Event:     protocol.RecordDelivery,
		EventID:   s.EventID,
		Kind:      string(s.Kind),
		MessageID: s.MessageID,
		Reason:    reason,
		Status:    status,
	})
}

// ReplyToCommand replies to a message that is not stored as an event.
func (tx *Tx) ReplyToCommand(e *Entry, said string) {
	key := DecidedPrefix + "said:" + e.SourceID
	if e.Content.Event == protocol.EventEdit {
		key += ":" + strconv.FormatInt(e.Content.Sequence, 10)
	}
	reply := protocol.ChatReply{Text: said, IdempotencyKey: key, ThreadID: e.Content.Chat.ThreadID,
		Visibility: e.Visibility(), Directedness: string(attention.DirectedAmbient)}
	tx.Enqueue(e.Chat, key, tx.m.MessageFor(e, ReplyType(e.Chat), reply))
}

// WithButtons returns the stored text of a question with buttons. Its last line lists the button
// texts.
func WithButtons(question string, buttons []protocol.Button) string {
	for i, b := range buttons {
		before := " "
		if i == 0 {
			before = "\n"
		}
		question += before + "[" + b.Text + "]"
	}
	return question
}

// questionText returns what the given message from the agent may ask, or "".
func (v *View) questionText(e *Entry, sourceID string) string {
	return store.Value[string](v.Tx, `SELECT `+askedText+
		` FROM sent WHERE chat = ? AND source_id = ? AND source_id <> '' AND (kind = 'text' OR key LIKE 'escalation:%')`,
		e.Chat, sourceID)
}

// hasReacted reports whether an earlier reaction with the same signal to a message from the agent
// has begun a turn: a thumb that was taken back and set again, or another person's, says nothing
// new.
func (v *View) hasReacted(e *Entry, sourceID string) bool {
	return e.Content.Event == protocol.EventReaction && store.Value[bool](v.Tx, `SELECT EXISTS (SELECT 1 FROM events
		WHERE conversation = ?1 AND received_at >= (SELECT sent_at FROM sent WHERE chat = ?2 AND source_id = ?3
			AND source_id <> '')
			AND author_kind = 'human' AND kind = 'reaction' AND chat = ?2 AND seq < ?4 AND state <> 'superseded'
			AND content ->> '$.replyTo.sourceId' = ?3 AND content ->> '$.signal' = ?5
			AND (decision ->> '$.reason' LIKE 'reaction_proceeds%' OR decision ->> '$.reason' LIKE 'reaction_asks%'))`,
		e.Content.Chat.ID, e.Chat, sourceID, e.Seq, e.Content.Signal)
}

// askedText selects the part of a message that may ask something. A message with choices always
// asks.
const askedText = `CASE WHEN key LIKE 'choice:%' THEN text || ' ?' ELSE text END`

// SentKey returns the key under which a message of a chat was sent, or "" if it is unknown.
func (v *View) SentKey(chat protocol.Topic, sourceID string) string {
	return store.Value[string](v.Tx, `SELECT key FROM sent WHERE chat = ? AND source_id = ? AND source_id <> ''`, chat,
		sourceID)
}
