package mailbox

import (
	"cmp"
	"database/sql/driver"
	"math"
	"slices"
	"time"

	"hubbub/peers/store"
	"hubbub/protocol"
)

//
// An agent may serve several chats, and text in one of them may try to make its model reveal what
// was said in another, or write there. Therefore the tools of a turn belong to the chat of the
// turn: they act on its events only, and read only what the readers of the answer may read.
// Answers to the questions that a turn asks come back to its chat.

// A Reach is the set of chats that may be read. Nil means all.
type Reach []protocol.Topic

// Value implements driver.Valuer. It returns a JSON list, or "null".
func (r Reach) Value() (driver.Value, error) { return store.JSON{V: []protocol.Topic(r)}.Value() }

// Reach returns the chats that the turns of a chat may read: the chat itself and, for a direct
// chat of Telegram or Matrix with a person, the other chats where that person writes. Only these
// vouch for a person's identity across chats. The empty chat may read all.
func (v *View) Reach(chat protocol.Topic) Reach {
	switch {
	case chat == "":
		return nil
	case !ShowsMessages(chat):
		return Reach{chat}
	}
	list := v.Events(`WHERE chat = ? AND author_kind = 'human' ORDER BY seq DESC LIMIT 1`, chat)
	if len(list) == 0 || list[0].Content.Chat.Kind != "dm" {
		return Reach{chat}
	}
	others := store.All(v.Tx, store.Scalar[protocol.Topic],
		`SELECT DISTINCT chat FROM events WHERE author = ? AND author_kind = 'human' AND chat LIKE ? || ':%' AND chat <> ?`,
		list[0].Content.Author.ID, protocol.PeerID(chat).Family(), chat)
	return append(others, chat)
}

// inReach returns the SQL condition that a row's chat is in a reach and that the agent still
// talks to it.
func inReach(parameter string) string {
	return `(` + parameter + ` = 'null' OR chat IN (SELECT value FROM json_each(` + parameter +
		`))) AND chat IN (SELECT topic FROM chats)`
}

// A Filter selects the events that List returns. Empty fields match all.
type Filter struct {
	After        int64 // a sequence
	From         time.Time
	Stream       string
	Conversation string
	Policy       string
	Open         *bool
	Limit        int
}

// List returns decided events in reach, oldest first: those after Filter.After and Filter.From,
// or the newest if both are zero. Answers to questions are also readable from the chats of their
// turns.
func (v *View) List(reach Reach, f Filter) []*Entry {
	newest := f.After == 0 && f.From.IsZero()
	order, open := "ASC", "1"
	if newest {
		order = "DESC"
	}
	if f.Open != nil {
		if open = OpenCondition; !*f.Open {
			open = "NOT " + OpenCondition
		}
	}
	list := v.Events(`WHERE seq > ?1 AND received_at >= ?2 AND (?3 = '' OR stream = ?3) AND (?4 = '' OR conversation = ?4)
		AND (?5 = '' OR policy = ?5) AND `+open+` AND state <> 'stored'
		AND (`+inReach("?7")+` OR chat = ?8 AND EXISTS (SELECT 1 FROM turns t
			WHERE t.turn_id = events.turn_id AND t.chat IN (SELECT value FROM json_each(?7)))) ORDER BY seq `+order+
		` LIMIT ?6`,
		f.After, store.Micros{Time: &f.From}, f.Stream, f.Conversation, f.Policy, f.Limit, reach, protocol.TopicBroker)
	if newest {
		slices.Reverse(list)
	}
	return list
}

// HasConversation reports whether a conversation is in reach.
func (v *View) HasConversation(reach Reach, conversation string) bool {
	return store.Value[bool](v.Tx, `SELECT true FROM events WHERE conversation = ?1 AND `+inReach("?2"), conversation,
		reach)
}

// AnswerableCondition is the SQL condition that an event is open and may be answered.
var AnswerableCondition = `policy IN ('must_respond', 'may_respond') AND state <> 'answered' AND ` + OpenCondition

// Unanswered returns the ids of at most 20 open events of a chat that may be answered, newest
// first. If there are none, it returns the answers to questions that were asked in that chat.
func (v *View) Unanswered(chat protocol.Topic) []string {
	list := store.All(v.Tx, store.Scalar[string], `SELECT event_id FROM events WHERE chat = ? AND `+AnswerableCondition+
		` ORDER BY seq DESC LIMIT 20`, chat)
	if len(list) > 0 {
		return list
	}
	return store.All(v.Tx, store.Scalar[string], `SELECT event_id FROM events WHERE chat = ? AND `+AnswerableCondition+`
		AND EXISTS (SELECT 1 FROM turns t WHERE t.turn_id = events.turn_id AND t.chat = ?) ORDER BY seq DESC LIMIT 20`,
		protocol.TopicBroker, chat)
}

// A Line is one message of a conversation: an event, or a message from the agent.
type Line struct {
	At    time.Time
	Entry *Entry
	Sent  *Sent
}

// Window returns the newest messages of a conversation or thread before an event (nil: all),
// including the agent's own, oldest first. Only chats in reach are read, since ids of
// conversations may collide between chats.
func (v *View) Window(reach Reach, conversation, thread string, before *Entry, limit int) []Line {
	seq, at := int64(math.MaxInt64), int64(math.MaxInt64)
	if before != nil {
		seq, at = before.Seq, before.ReceivedAt.UnixMicro()
	}
	there := `conversation = ?1 AND ?2 = ?2`
	if thread != "" {
		there = `conversation = ?1 AND thread = ?2`
	}
	list := v.Events(`WHERE `+there+` AND seq < ?3 AND kind IN ('message','edit','assignment','approval','blocker','status')
		AND `+inReach("?5")+` ORDER BY seq DESC LIMIT ?4`, conversation, thread, seq, limit, reach)
	own := store.All(v.Tx, scanSent, `SELECT `+sentNames+` FROM sent
		WHERE `+there+` AND sent_at <= ?3 AND kind IN ('text','notice') AND `+inReach("?5")+
		` ORDER BY sent_at DESC LIMIT ?4`,
		conversation, thread, at, limit, reach)
	var lines []Line
	for _, e := range slices.Backward(list) {
		lines = append(lines, Line{At: e.ReceivedAt, Entry: e})
	}
	for _, s := range own {
		lines = append(lines, Line{At: s.At, Sent: s})
	}
	slices.SortStableFunc(lines, func(x, y Line) int { return x.At.Compare(y.At) })
	return lines[max(0, len(lines)-limit):]
}

// TimeOf returns when a message of a chat was written, or the zero time if it is not stored.
func (v *View) TimeOf(chat protocol.Topic, source string) time.Time {
	if source == "" {
		return time.Time{}
	}
	if list := v.Events(`WHERE source_id = ? AND chat = ? ORDER BY seq LIMIT 1`, source, chat); len(list) > 0 {
		return list[0].SentAt()
	}
	if sent := v.SentWhere(`chat = ? AND source_id = ?`, chat, source); sent != nil {
		return sent.At
	}
	return time.Time{}
}

// Reactions returns at most 20 reactions to the agent's messages in the conversation of an event
// since the agent's last turn there.
func (v *View) Reactions(e *Entry) []*Entry {
	return v.Events(`WHERE conversation = ?1 AND chat = ?4 AND kind = 'reaction' AND mode = 'notify' AND policy = 'must_not_respond' AND seq < ?2
		AND seq > coalesce((SELECT max(t.seq) FROM turns t WHERE t.thread_key = ?3 AND t.seq < ?2 AND t.attempt > 0), 0) ORDER BY seq LIMIT 20`,
		e.Content.Chat.ID, e.Seq, e.ThreadKey(), e.Chat)
}

// InProgress returns the unanswered events of running and accepted turns that started after
// since.
func (v *View) InProgress(since time.Time) []*Entry {
	return v.Events(`WHERE state = 'turned' AND turn_id IN (SELECT turn_id FROM turns WHERE state IN ('running','accepted') AND started_at > ?) LIMIT 100`,
		store.Micros{Time: &since})
}

// An askedQuestion is a question that a turn asked through the broker.
type askedQuestion struct {
	chat  protocol.Topic
	event string
}

// RecordQuestion stores in which chat and for which event a question was asked.
func (tx *Tx) RecordQuestion(id string, chat protocol.Topic, eventID string) {
	if chat != "" && chat != digestChat {
		tx.Exec(`INSERT OR IGNORE INTO questions (question_id, chat, event_id, asked_at) VALUES (?, ?, ?, ?)`, id, chat,
			eventID, time.Now().UnixMicro())
	}
}

// questionOf returns the question that an event answers, if no reply to the event would reach
// anybody.
func (v *View) questionOf(e *Entry) askedQuestion {
	if !e.FromBroker() || e.Origin.AnsweredID == "" || e.Origin.TakesText() {
		return askedQuestion{}
	}
	return First(v.Tx, func(q *askedQuestion) []any { return []any{&q.chat, &q.event} },
		`SELECT chat, event_id FROM questions WHERE question_id = ?`, e.Origin.AnsweredID)
}

// TurnChat returns the chat of an event's turns: its own or, for the answer to a question, the
// chat where it was asked.
func (v *View) TurnChat(e *Entry) protocol.Topic { return cmp.Or(v.questionOf(e).chat, e.Chat) }

// RelatedChatEvent returns the event in a chat that led to a broker event: the one for which the
// agent asked the answered question, or the newest for which it asked anything. It returns nil if
// there is none, or if the broker event has a conversation with people.
func (v *View) RelatedChatEvent(e *Entry) *Entry {
	if !e.FromBroker() || e.Origin.ConversationID != "" {
		return nil
	}
	return v.Entry(store.Value[string](v.Tx,
		`SELECT event_id FROM questions WHERE chat <> ? AND event_id <> '' ORDER BY question_id = ? DESC, asked_at DESC LIMIT 1`,
		protocol.TopicBroker, e.Origin.AnsweredID))
}

// AskedForEvent returns the event for which the agent asked the question that e answers, or "".
func (v *View) AskedForEvent(e *Entry) string { return v.questionOf(e).event }

// ExpiredEvents returns the events whose deadlines have passed.
func (v *View) ExpiredEvents(now time.Time) []*Entry {
	return v.Events(`WHERE deadline_at > 0 AND deadline_at <= ?`, store.Micros{Time: &now})
}

// NextDeadline returns the earliest deadline of an event, accepted turn, reminder or obligation,
// or the zero time if there is none.
func (v *View) NextDeadline() time.Time {
	return First(v.Tx, scanTime, `SELECT coalesce(min(at), 0) FROM (SELECT min(deadline_at) AS at FROM events WHERE deadline_at > 0
		UNION ALL SELECT min(deadline_at) FROM turns WHERE state = 'accepted' UNION ALL SELECT min(due_at) FROM reminders
		UNION ALL SELECT min(check_at) FROM obligations WHERE check_at > 0 AND open = 1)`)
}

// OtherDeferred returns at most 20 other deferred events of the event's conversation.
func (v *View) OtherDeferred(e *Entry) []*Entry {
	return v.Events(`WHERE +conversation = ? AND chat = ? AND state = 'deferred' AND seq <> ? ORDER BY seq LIMIT 20`,
		e.Content.Chat.ID, e.Chat, e.Seq)
}
