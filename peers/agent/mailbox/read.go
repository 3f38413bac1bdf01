package mailbox

import (
	"cmp"
	"database/sql/driver"
	"encoding/json"
	"math"
	"slices"
	"time"

	"hubbub/peers/store"
	"hubbub/protocol"
)

// An agent may serve several chats, and what is written in one of them may try to
// make its model tell what was said in another, or speak there. So the tools of a
// turn belong to the chat of the turn: they act on its events alone, and read only
// what those who see the answer may read. What the agent asked others in a turn
// comes back to the chat of that turn.

// A Reach is the chats that somebody may read; nil is all.
type Reach []protocol.Topic

// Value is the reach as a parameter of SQL: a JSON list, or "null".
func (r Reach) Value() (driver.Value, error) { return jsonColumn{[]protocol.Topic(r)}.Value() }

// Reach returns what the turns of a chat may read: the chat, and, in a direct chat
// with a person, those where this person writes, too. Who a person is, Telegram
// vouches for in all its chats; other platforms do so in one at most. The empty chat
// reads all.
func (v *View) Reach(chat protocol.Topic) Reach {
	switch {
	case chat == "":
		return nil
	case protocol.PeerID(chat).Family() != "tg":
		return Reach{chat}
	}
	list := v.entries(`WHERE chat = ? AND author_kind = 'human' ORDER BY seq DESC LIMIT 1`, chat)
	if len(list) == 0 || list[0].Content.Chat.Kind != "dm" {
		return Reach{chat}
	}
	others := store.All(v.Tx, store.Scalar[protocol.Topic],
		`SELECT DISTINCT chat FROM events WHERE author = ? AND author_kind = 'human' AND chat LIKE 'tg:%' AND chat <> ?`, list[0].Content.Author.ID, chat)
	return append(others, chat)
}

// inReach is the condition that a row's chat is in a reach, and that the agent still
// talks to it.
func inReach(parameter string) string {
	return `(` + parameter + ` = 'null' OR chat IN (SELECT value FROM json_each(` + parameter + `))) AND chat IN (SELECT topic FROM chats)`
}

// A Filter says which events List returns. Empty fields do not matter.
type Filter struct {
	Since        json.RawMessage `json:"since"` // what a tool was given as After or From
	After        int64           `json:"-"`     // a sequence
	From         time.Time       `json:"-"`
	Stream       string          `json:"stream"`
	Conversation string          `json:"conversation"`
	Policy       string          `json:"policy"`
	Open         *bool           `json:"open"`
	Limit        int             `json:"limit"`
}

// List returns events in reach on which something was decided, the oldest first:
// those after Filter.After and Filter.From, or the newest if both are zero. Events
// are also readable where their turns are: the answers to questions.
func (v *View) List(reach Reach, f Filter) []*Entry {
	newest := f.After == 0 && f.From.IsZero()
	order, open := "ASC", "1"
	if newest {
		order = "DESC"
	}
	if f.Open != nil {
		if open = isOpen; !*f.Open {
			open = "NOT " + isOpen
		}
	}
	list := v.entries(`WHERE seq > ?1 AND received_at >= ?2 AND (?3 = '' OR stream = ?3) AND (?4 = '' OR conversation = ?4)
		AND (?5 = '' OR policy = ?5) AND `+open+` AND state <> 'stored'
		AND (`+inReach("?7")+` OR chat = ?8 AND EXISTS (SELECT 1 FROM turns t
			WHERE t.turn_id = events.turn_id AND t.chat IN (SELECT value FROM json_each(?7)))) ORDER BY seq `+order+` LIMIT ?6`,
		f.After, timeColumn{&f.From}, f.Stream, f.Conversation, f.Policy, f.Limit, reach, protocol.TopicBroker)
	if newest {
		slices.Reverse(list)
	}
	return list
}

// HasConversation reports whether a conversation is in reach.
func (v *View) HasConversation(reach Reach, conversation string) bool {
	return store.Value[bool](v.Tx, `SELECT true FROM events WHERE conversation = ?1 AND `+inReach("?2"), conversation, reach)
}

// Unanswered returns the ids of the open events of a chat that may be answered and
// were not, the newest first, at most 20. If there are none, they are those that came
// back there from elsewhere: the answers to questions.
func (v *View) Unanswered(chat protocol.Topic) []string {
	const waiting = `policy IN ('must_respond', 'may_respond') AND state <> 'answered' AND `
	list := store.All(v.Tx, store.Scalar[string], `SELECT event_id FROM events WHERE chat = ? AND `+waiting+isOpen+` ORDER BY seq DESC LIMIT 20`, chat)
	if len(list) > 0 {
		return list
	}
	return store.All(v.Tx, store.Scalar[string], `SELECT event_id FROM events WHERE chat = ? AND `+waiting+isOpen+`
		AND EXISTS (SELECT 1 FROM turns t WHERE t.turn_id = events.turn_id AND t.chat = ?) ORDER BY seq DESC LIMIT 20`, protocol.TopicBroker, chat)
}

// A Line is one message of a conversation: an event, or the agent's own.
type Line struct {
	At    time.Time
	Entry *Entry
	Sent  *Sent
}

// Window returns the newest messages of a conversation, or of one thread of it, that
// came before an event (nil: all): the oldest first, the agent's own included. Only
// chats in reach are read: ids of conversations are those that their chats gave
// them, and may be alike.
func (v *View) Window(reach Reach, conversation, thread string, before *Entry, limit int) []Line {
	seq, at := int64(math.MaxInt64), int64(math.MaxInt64)
	if before != nil {
		seq, at = before.Seq, before.ReceivedAt.UnixMicro()
	}
	there := `conversation = ?1 AND ?2 = ?2`
	if thread != "" {
		there = `conversation = ?1 AND thread = ?2`
	}
	list := v.entries(`WHERE `+there+` AND seq < ?3 AND kind IN ('message','edit','assignment','approval','blocker','status')
		AND `+inReach("?5")+` ORDER BY seq DESC LIMIT ?4`, conversation, thread, seq, limit, reach)
	own := store.All(v.Tx, scanSent, `SELECT `+sentNames+` FROM sent
		WHERE `+there+` AND sent_at <= ?3 AND kind IN ('text','notice') AND `+inReach("?5")+` ORDER BY sent_at DESC LIMIT ?4`,
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

// Reactions returns the reactions to the agent's messages in the conversation of an
// event since the agent's last turn there, at most 20.
func (v *View) Reactions(e *Entry) []*Entry {
	return v.entries(`WHERE conversation = ?1 AND chat = ?4 AND kind = 'reaction' AND mode = 'notify' AND policy = 'must_not_respond' AND seq < ?2
		AND seq > coalesce((SELECT max(t.seq) FROM turns t WHERE t.thread_key = ?3 AND t.seq < ?2 AND t.attempt > 0), 0) ORDER BY seq LIMIT 20`,
		e.Content.Chat.ID, e.Seq, e.ThreadKey(), e.Chat)
}

// InProgress returns the events that running and accepted turns show which started since
// then, and that nobody was answered.
func (v *View) InProgress(since time.Time) []*Entry {
	return v.entries(`WHERE state = 'turned' AND turn_id IN (SELECT turn_id FROM turns WHERE state IN ('running','accepted') AND started_at > ?) LIMIT 100`,
		timeColumn{&since})
}

// A askedQuestion is one that a turn asked through the broker: where, and for what.
type askedQuestion struct {
	chat  protocol.Topic
	event string
}

// RecordQuestion remembers where a question was asked that the broker has stored.
func (tx *Tx) RecordQuestion(id string, chat protocol.Topic, eventID string) {
	if chat != "" && chat != digestChat {
		tx.Exec(`INSERT OR IGNORE INTO questions (question_id, chat, event_id, asked_at) VALUES (?, ?, ?, ?)`, id, chat, eventID, time.Now().UnixMicro())
	}
}

// questionOf returns what was asked, if an event brings the answer to it and nobody
// but the agent hears what it says to that.
func (v *View) questionOf(e *Entry) askedQuestion {
	if !e.FromBroker() || e.Origin.AnsweredID == "" || e.Origin.TakesText() {
		return askedQuestion{}
	}
	return first(v.Tx, func(q *askedQuestion) []any { return []any{&q.chat, &q.event} },
		`SELECT chat, event_id FROM questions WHERE question_id = ?`, e.Origin.AnsweredID)
}

// TurnChat returns the chat of an event's turns: its own, or, for the answer to a
// question, the one where it was asked, so that who waits there is told.
func (v *View) TurnChat(e *Entry) protocol.Topic { return cmp.Or(v.questionOf(e).chat, e.Chat) }

// RelatedChatEvent returns the event at which people read what an event of the broker comes from: the one
// for which the agent asked what is answered, or else the newest of a chat for which it asked at
// all. It is nil for who never asked for people, and where a conversation has them itself.
func (v *View) RelatedChatEvent(e *Entry) *Entry {
	if !e.FromBroker() || e.Origin.ConversationID != "" {
		return nil
	}
	return v.Entry(store.Value[string](v.Tx, `SELECT event_id FROM questions WHERE chat <> ? AND event_id <> '' ORDER BY question_id = ? DESC, asked_at DESC LIMIT 1`,
		protocol.TopicBroker, e.Origin.AnsweredID))
}

// AskedForEvent returns the event for which the agent asked what an event answers, or "".
func (v *View) AskedForEvent(e *Entry) string { return v.questionOf(e).event }
