package mailbox

import (
	"strings"
	"time"

	"hubbub/peers/attention"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/text"
)

//
// An agent is notified once of each message that will never be delivered: in the next tool result
// of the same turn, or as an "undelivered" event afterwards. Failures of its replies to such
// events are only recorded.

// undeliveredKey is the prefix of the ids of such events.
const undeliveredKey = "undelivered:"

// Bounds of these notices, in bytes.
const (
	maxUndeliveredReason = 300
	maxUndeliveredText   = 200
)

// markUndelivered records that a message will never be delivered, and closes its obligation.
func markUndelivered(tx *Tx, s *Sent, chat protocol.Topic, reason string) {
	if s.Kind != SentText && s.Kind != SentFile || strings.HasPrefix(s.EventID, undeliveredKey) ||
		chat == protocol.TopicBroker {
		return
	}
	if !store.Value[bool](tx.Tx,
		`UPDATE sent SET undelivered = ? WHERE message_id = ? AND undelivered = '' RETURNING true`,
		text.Clip(text.OneLine(reason), maxUndeliveredReason), s.MessageID) {
		return
	}
	tx.m.opts.Hooks.Undelivered(tx, s.MessageID)
	if e := tx.Entry(s.EventID); e != nil {
		if t := tx.Turn(e.TurnID); t != nil && !t.Ended() {
			return
		}
	}
	reportUndelivered(tx, `message_id = ?`, s.MessageID)
}

// An undelivered is a message that was not delivered.
type undelivered struct {
	Sent
	chat        protocol.Topic
	reason      string
	partlyShown bool // the first part of the message is shown
}

// notice returns the text for the agent.
func (l *undelivered) notice() string {
	what := "Your message was not delivered; nobody there has seen it: "
	if l.partlyShown {
		what = "Only the beginning of your message was delivered: "
	}
	return what + l.reason + ". It began: " + text.Clip(text.OneLine(l.Text), maxUndeliveredText)
}

// takeUnreported returns the messages that were not reported as undelivered yet, and marks them
// as reported.
func takeUnreported(tx *Tx, where string, args ...any) []undelivered {
	list := store.All(tx.Tx, func(l *undelivered) []any {
		return []any{&l.MessageID, &l.EventID, &l.Thread, &l.Text, &l.chat, &l.reason, &l.partlyShown}
	},
		`SELECT message_id, event_id, thread, text, chat, undelivered, source_id <> '' FROM sent WHERE undelivered <> '' AND reported = 0 AND `+where+` ORDER BY sent_at`, args...)
	for _, l := range list {
		tx.Exec(`UPDATE sent SET reported = 1 WHERE message_id = ?`, l.MessageID)
	}
	return list
}

const inTurn = `event_id IN (SELECT event_id FROM events WHERE turn_id = ? AND turn_id <> '')`

// HasUndelivered reports whether TakeUndelivered would return anything.
func HasUndelivered(v *View, turnID string) bool {
	return store.Value[bool](v.Tx, `SELECT EXISTS (SELECT 1 FROM sent WHERE undelivered <> '' AND reported = 0 AND `+
		inTurn+`)`, turnID)
}

// TakeUndelivered returns, once, the notices about undelivered messages of a running turn.
func TakeUndelivered(tx *Tx, turnID string) (told []string) {
	for _, l := range takeUnreported(tx, inTurn, turnID) {
		told = append(told, l.notice())
	}
	return told
}

// reportUndelivered stores an event for each undelivered message, except in a chat that a person
// stopped: its messages end with it, and nobody would see what the agent does about them.
func reportUndelivered(tx *Tx, where string, args ...any) {
	for _, l := range takeUnreported(tx, where, args...) {
		e := &Entry{EventID: undeliveredKey + string(l.MessageID), Chat: l.chat, ReceivedAt: time.Now(),
			Source: Source{MessageID: l.MessageID}}
		e.SourceID = e.EventID
		e.Content = protocol.ChatMessage{Event: string(attention.KindUndelivered), Text: l.notice(),
			Author: &protocol.Author{ID: "hubbub", Kind: string(attention.AuthorSystem)}}
		if about := tx.Entry(l.EventID); about != nil && about.Chat == l.chat {
			chat := *about.Content.Chat
			e.Content.Chat, e.SourceID, e.Source.TraceParent = &chat, about.SourceID, about.Source.TraceParent
		} else if there := tx.AssignedChat(string(l.chat)); there != nil {
			e.Content.Chat = there.Content.Chat
		} else {
			continue
		}
		if isStopped(tx.Tx, e) {
			continue
		}
		e.Content.SourceID = e.SourceID
		InsertEvent(tx, e)
		tx.OnCommit(tx.m.opts.OnChange)
	}
}

// isStopped reports whether the newest event from a person in the chat of an event stopped the
// chat.
func isStopped(tx *store.Tx, e *Entry) bool {
	return store.Value[bool](tx, `SELECT kind = 'message' AND coalesce(json_extract(content, '$.signal'), '') = 'stop'
		FROM events WHERE conversation = ? AND chat = ? AND author_kind = 'human' ORDER BY received_at DESC, seq DESC LIMIT 1`,
		e.Content.Chat.ID, e.Chat)
}

// mayReplyAgain reports whether an event may get a second answer because no part of its only
// answer was delivered.
func mayReplyAgain(v *View, e *Entry) bool {
	return store.Value[bool](v.Tx,
		`SELECT count(*) = 1 AND min(undelivered) <> '' AND max(source_id) = '' FROM sent WHERE event_id = ? AND kind = 'text'`, e.EventID)
}

// NextReplyKey returns the default key of the next answer to an event.
func NextReplyKey(v *View, e *Entry) string {
	if mayReplyAgain(v, e) || v.SentAs(secondReplyKey(e)) != nil {
		return secondReplyKey(e)
	}
	return ReplyKey(e)
}
