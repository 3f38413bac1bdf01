package agent

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/attention"
	"hubbub/protocol"
)

// An agent may serve several chats, and what is written in one of them may try
// to make its model tell what was said in another, or speak there. So the tools
// of a turn belong to the chat of the turn: they act on its events alone, and
// read only what those who see the answer may read. What the agent asked others in
// a turn comes back to the chat of that turn.

// digestChat is the chat of a digest's turn: none. Its excerpts are of many
// chats, so it reads no more and acts nowhere.
const digestChat protocol.Topic = "digest"

// chatOf is the chat to which the tools of a turn belong.
func (t *turn) chatOf() protocol.Topic {
	if t.Mode == attention.ModeDigest {
		return digestChat
	}
	return t.Chat
}

// A question is one that a turn asked through the broker: where, and for what.
type question struct {
	chat  protocol.Topic
	event string
}

// noteQuestion remembers where a question was asked that the broker has stored.
func (b *toolbox) noteQuestion(ctx context.Context, result json.RawMessage) error {
	var asked struct {
		Question struct{ ID string } `json:"question"`
	}
	if b.chat == "" || b.chat == digestChat || json.Unmarshal(result, &asked) != nil || asked.Question.ID == "" {
		return nil
	}
	var event string
	if b.turnID != "" {
		e, err := b.turnEvent(ctx)
		if err != nil {
			return err
		}
		if e != nil {
			event = e.EventID
		}
	}
	_, err := b.a.db.ExecContext(ctx, `INSERT OR IGNORE INTO questions (question_id, chat, event_id, asked_at) VALUES (?, ?, ?, ?)`,
		asked.Question.ID, b.chat, event, time.Now().UnixMicro())
	return err
}

// questionOf returns what was asked, where an event brings the answer to it and
// nobody but the agent hears what it says to that. Else it is nil.
func (a *Agent) questionOf(ctx context.Context, q querier, e *entry) (*question, error) {
	if e.Chat != protocol.TopicBroker || e.Origin.AnsweredID == "" || e.Origin.takesWords() {
		return nil, nil
	}
	var asked question
	err := q.QueryRowContext(ctx, `SELECT chat, event_id FROM questions WHERE question_id = ?`, e.Origin.AnsweredID).Scan(&asked.chat, &asked.event)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking for where %s was asked: %w", e.Origin.AnsweredID, err)
	}
	return &asked, nil
}

// homeOf is the chat of an event's turns: its own, or, for the answer to a question,
// the one where it was asked, so that who waits there is told.
func (a *Agent) homeOf(ctx context.Context, q querier, e *entry) (protocol.Topic, error) {
	asked, err := a.questionOf(ctx, q, e)
	if err != nil || asked == nil {
		return e.Chat, err
	}
	return asked.chat, nil
}

// askedFor tells the model for which event it asked what is answered now, as header
// lines.
func (a *Agent) askedFor(ctx context.Context, q querier, e *entry) ([]string, error) {
	asked, err := a.questionOf(ctx, q, e)
	if err != nil || asked == nil || asked.event == "" {
		return nil, err
	}
	return []string{"asked_by_you_for: " + asked.event}, nil
}

// ToolsOf returns the tools as the turns of one chat have them, for a server
// that gives them to a program. The tools of "" are those of Tools.
func (a *Agent) ToolsOf(chat string) harness.Tools { return &toolbox{a: a, chat: protocol.Topic(chat)} }

var otherChatRefusal = attention.Refusal{
	Reason: "other_chat",
	Advice: "That event was said in another chat. This turn acts in its own chat only; the other event comes to you in a turn of its own where it is for you.",
}

// readable is the JSON list of the chats that a toolbox may read, for inReach: its
// own, and, in a direct chat with a person, those where this person writes, too.
// Who a person is, Telegram vouches for in all its chats; other platforms do so in
// one at most. A toolbox that belongs to no chat reads all: null.
func (b *toolbox) readable(ctx context.Context) (string, error) {
	var chats []protocol.Topic
	if b.chat != "" {
		chats = append(chats, b.chat)
	}
	if protocol.PeerID(b.chat).Family() == "tg" {
		elsewhere, err := b.a.sharedChats(ctx, b.chat)
		if err != nil {
			return "", err
		}
		chats = append(chats, elsewhere...)
	}
	raw, err := json.Marshal(chats)
	return string(raw), err
}

// reachOf is the list of one chat.
func reachOf(chat protocol.Topic) string {
	raw, _ := json.Marshal([]protocol.Topic{chat}) //nolint:errcheck // strings can be written
	return string(raw)
}

// inReach is the condition that a row's chat is in a list of readable, and that
// the agent still talks to it.
func inReach(parameter string) string {
	return `(` + parameter + ` = 'null' OR chat IN (SELECT value FROM json_each(` + parameter + `))) AND chat IN (SELECT topic FROM chats)`
}

// eventInReach is inReach for events, which are also readable where their turns are:
// the answers to questions.
func eventInReach(parameter string) string {
	return `(` + inReach(parameter) + ` OR chat = '` + string(protocol.TopicBroker) + `' AND EXISTS (SELECT 1 FROM turns t
		WHERE t.turn_id = events.turn_id AND t.chat IN (SELECT value FROM json_each(` + parameter + `))))`
}

// sharedChats lists the other chats where the person of a direct chat writes.
func (a *Agent) sharedChats(ctx context.Context, chat protocol.Topic) ([]protocol.Topic, error) {
	list, err := entries(ctx, a.db, `WHERE chat = ? AND author_kind = 'human' ORDER BY seq DESC LIMIT 1`, chat)
	if err != nil || len(list) == 0 || list[0].Content.Chat.Kind != "dm" {
		return nil, err
	}
	rows, err := a.db.QueryContext(ctx, `SELECT DISTINCT chat FROM events WHERE author = ? AND author_kind = 'human' AND chat LIKE 'tg:%' AND chat <> ?`,
		list[0].Content.Author.ID, chat)
	if err != nil {
		return nil, fmt.Errorf("looking for the other chats of the person in %s: %w", chat, err)
	}
	defer rows.Close()
	var chats []protocol.Topic
	for rows.Next() {
		var other protocol.Topic
		if err := rows.Scan(&other); err != nil {
			return nil, err
		}
		chats = append(chats, other)
	}
	return chats, rows.Err()
}
