package mailbox

import (
	"strings"
	"time"

	"hubbub/peers/attention"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/text"
)

// What the agent said and its chat will never show, it is told once: by the next result of a
// tool while the turn runs that said it, and else by an event. Of what it says to that event it
// is told nothing more.

// undeliveredKey begins the ids of such events.
const undeliveredKey = "undelivered:"

// Bounds of what the agent is told, in bytes.
const (
	maxUndeliveredReason = 300
	maxUndeliveredText   = 200
)

// markUndelivered notes that a message will never be delivered. Nobody owes what it asked for.
func markUndelivered(tx *Tx, s *Sent, chat protocol.Topic, reason string) {
	if s.Kind != SentText && s.Kind != SentFile || strings.HasPrefix(s.EventID, undeliveredKey) || chat == protocol.TopicBroker {
		return
	}
	if !store.Value[bool](tx.Tx, `UPDATE sent SET undelivered = ? WHERE message_id = ? AND undelivered = '' RETURNING true`,
		text.Clip(text.OneLine(reason), maxUndeliveredReason), s.MessageID) {
		return
	}
	closeOwn(tx, string(s.MessageID), "not_delivered")
	if e := tx.Entry(s.EventID); e != nil {
		if t := tx.Turn(e.TurnID); t != nil && !t.Ended() {
			return
		}
	}
	reportUndelivered(tx, `message_id = ?`, s.MessageID)
}

// A undelivered is a message that was not delivered, and why not.
type undelivered struct {
	Sent
	chat        protocol.Topic
	reason      string
	partlyShown bool // its first part is shown
}

// notice is what the agent is told.
func (l *undelivered) notice() string {
	what := "Your message was not delivered, and nobody there has read it: "
	if l.partlyShown {
		what = "Your message was not delivered to its end; only its beginning is shown there: "
	}
	return what + l.reason + ". It began: " + text.Clip(text.OneLine(l.Text), maxUndeliveredText)
}

// takeUnreported returns what was lost and not told yet, and notes that it is told now.
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

// HasUndelivered reports whether TakeUndelivered has something to tell.
func HasUndelivered(v *View, turnID string) bool {
	return store.Value[bool](v.Tx, `SELECT EXISTS (SELECT 1 FROM sent WHERE undelivered <> '' AND reported = 0 AND `+inTurn+`)`, turnID)
}

// TakeUndelivered returns what a running turn is to be told of its messages that were not delivered,
// once.
func TakeUndelivered(tx *Tx, turnID string) (told []string) {
	for _, l := range takeUnreported(tx, inTurn, turnID) {
		told = append(told, l.notice())
	}
	return told
}

// reportUndelivered makes events of messages that were lost.
func reportUndelivered(tx *Tx, where string, args ...any) {
	for _, l := range takeUnreported(tx, where, args...) {
		e := &Entry{EventID: undeliveredKey + string(l.MessageID), Chat: l.chat, ReceivedAt: time.Now(), Source: Source{MessageID: l.MessageID}}
		e.SourceID = e.EventID
		e.Content = protocol.ChatMessage{Event: string(attention.KindUndelivered), Text: l.notice(), Author: &protocol.Author{ID: "hubbub", Kind: string(attention.AuthorSystem)}}
		if about := tx.Entry(l.EventID); about != nil && about.Chat == l.chat {
			chat := *about.Content.Chat
			e.Content.Chat, e.SourceID, e.Source.TraceParent = &chat, about.SourceID, about.Source.TraceParent
		} else if there := tx.AssignedChat(string(l.chat)); there != nil {
			e.Content.Chat = there.Content.Chat
		} else {
			continue
		}
		e.Content.SourceID = e.SourceID
		insertEvent(tx, e)
		tx.OnCommit(tx.m.opts.OnChange)
	}
}

// mayReplyAgain reports whether an event may be answered once more: its one answer was lost, all of it.
func mayReplyAgain(v *View, e *Entry) bool {
	return store.Value[bool](v.Tx, `SELECT count(*) = 1 AND min(undelivered) <> '' AND max(source_id) = '' FROM sent WHERE event_id = ? AND kind = 'text'`, e.EventID)
}

// NextReplyKey is the key of the answer to an event for which its author gave none: another
// one if the first answer was lost.
func NextReplyKey(v *View, e *Entry) string {
	if mayReplyAgain(v, e) || v.SentAs(secondReplyKey(e)) != nil {
		return secondReplyKey(e)
	}
	return ReplyKey(e)
}

func secondReplyKey(e *Entry) string { return e.EventID + ":again:reply" }
