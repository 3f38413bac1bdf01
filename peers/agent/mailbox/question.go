package mailbox

import (
	"strings"

	"hubbub/peers/attention"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/collab"
)

// The keys of a question to a person in a chat, and of what stands in its place once it is
// answered.
const (
	questionKey = "question:"
	repliedKey  = "replied:"
)

// MaxQuestions is how many people may be asked something for one event.
const MaxQuestions = 5

// PersonIdentity is who wrote an event, as records name people.
func (e *Entry) PersonIdentity() string { return personIdentity(e.Chat, e.Content.Author.ID) }

// personIdentity is a person of a chat by the id that they have there: at the command line that is an identity.
func personIdentity(chat protocol.Topic, id string) string {
	family := protocol.PeerID(chat).Family() + ":"
	return family + strings.TrimPrefix(id, family)
}

// OnBehalfOf returns the person whom an event serves, or "": who wrote it.
func (e *Entry) OnBehalfOf() string {
	switch {
	case e.Content.Author.Kind != string(attention.AuthorHuman):
		return ""
	case e.FromBroker():
		return e.Content.Author.ID
	}
	return e.PersonIdentity()
}

// FindPerson returns the newest event of the person whom a name means, in the chat where a turn
// of chat may ask them: that chat itself, if they speak there, or else their direct chat. It
// returns nil for who is in neither. A name is an identity ("tg:77"), as a header shows an author
// ("human:77"), or a username.
func (v *View) FindPerson(name string, chat protocol.Topic) *Entry {
	name = strings.TrimPrefix(strings.TrimSpace(name), "@")
	family, id, typed := strings.Cut(name, ":")
	switch {
	case !typed:
		family, id = "", ""
	case family == string(attention.AuthorHuman):
		family = protocol.PeerID(chat).Family()
	}
	list := v.entries(`WHERE author_kind = 'human' AND chat IN (SELECT topic FROM chats)
		AND (author = ?1 AND chat LIKE ?2 || ':%' OR ?1 = '' AND lower(content ->> '$.author.username') = lower(?3) AND ?3 <> '')
		AND (chat = ?4 OR content ->> '$.chat.kind' = 'dm') ORDER BY chat = ?4 DESC, seq DESC LIMIT 1`, id, family, name, chat)
	if len(list) == 0 {
		return nil
	}
	return list[0]
}

// Questions counts what was asked for an event.
func (v *View) Questions(eventID string) int {
	return store.Value[int](v.Tx, `SELECT count(*) FROM questions WHERE event_id = ? AND event_id <> ''`, eventID)
}

// ShowQuestion shows a question that the broker has stored to the person who is asked, where
// they wrote e. One that was shown changes nothing.
func (tx *Tx) ShowQuestion(id string, e *Entry, question string) {
	if tx.SentAs(questionKey+id) != nil {
		return
	}
	how := "Answer by a reply to this message."
	if !supportsReplies(e.Chat) {
		how = "What you write here next is the answer."
	}
	tx.SendText(e, SentNotice, questionKey+id, question+"\n\n"+how)
}

// supportsReplies reports whether a message of a chat can say which other one it answers.
func supportsReplies(chat protocol.Topic) bool { return protocol.PeerID(chat).Family() == "tg" }

// handleQuestionAnswer takes the answer of the person who was asked something in a chat, in place of
// StoreEvent, and reports whether it was one. It comes to the agent from the broker, once.
func handleQuestionAnswer(tx *Tx, e *Entry) bool {
	c := &e.Content
	if c.Event != protocol.EventMessage || c.Author.Kind != string(attention.AuthorHuman) || c.Forwarded != "" || strings.TrimSpace(c.Text) == "" || len(c.Attachments) > 0 {
		return false
	}
	id := tx.questionAnswered(e)
	if id == "" || !recordReceipt(tx, e) {
		return id != ""
	}
	tx.ShowAnswered(id, e.PersonIdentity())
	if HandleEscalationAnswer(tx, id, c.Text, e.PersonIdentity()) {
		return true
	}
	answer := collab.AnswerParams{ID: id, Answer: c.Text, By: protocol.PeerID(e.PersonIdentity())}
	tx.Enqueue(protocol.TopicBroker, questionKey+id, collab.QuestionAnswer.Message(tx.m.id, answer))
	return true
}

// questionAnswered returns the open question that a person answers with an event, or "": only
// who was asked does.
func (v *View) questionAnswered(e *Entry) string {
	source := ""
	if e.Content.ReplyTo != nil {
		source = e.Content.ReplyTo.SourceID
	}
	if source == "" && supportsReplies(e.Chat) {
		return ""
	}
	return store.Value[string](v.Tx, `SELECT substr(s.key, length('question:') + 1) FROM sent s JOIN events e ON e.event_id = s.event_id
		WHERE s.chat = ?1 AND s.key >= 'question:' AND s.key < 'question;' AND e.author = ?2 AND (s.source_id = ?3 OR ?3 = '')
		AND NOT EXISTS (SELECT 1 FROM sent r WHERE r.key = 'replied:' || substr(s.key, length('question:') + 1)) ORDER BY s.sent_at DESC LIMIT 1`,
		e.Chat, e.Content.Author.ID, source)
}

// ShowAnswered puts in the place of a question that it is answered, and by whom.
func (tx *Tx) ShowAnswered(id, by string) {
	replaceQuestion(tx, id, "Answered by "+attention.HeaderValue(by)+".")
}

// replaceQuestion puts in the place of a question, once, what became of it.
func replaceQuestion(tx *Tx, id, what string) {
	asked := tx.SentAs(questionKey + id)
	if asked == nil || tx.SentAs(repliedKey+id) != nil {
		return
	}
	if e := tx.Entry(asked.EventID); e != nil {
		question := asked.Text[:max(0, strings.LastIndex(asked.Text, "\n\n"))] // without how to answer
		tx.Reply(e, SentNotice, repliedKey+id, protocol.ChatReply{
			Text: question + "\n\n" + what, Edits: questionKey + id, Visibility: e.Visibility(), Directedness: string(attention.DirectedAmbient),
		})
	}
}
