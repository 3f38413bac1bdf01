package mailbox

import (
	"strings"

	"hubbub/peers/attention"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/collab"
)

// Prefixes of the keys of a question to a person, and of the message that replaces it.
const (
	questionKey = "question:"
	repliedKey  = "replied:"
)

// MaxQuestions is the maximum number of questions to people for one event.
const MaxQuestions = 5

// PersonIdentity returns the identity of the author as a person of the chat.
func (e *Entry) PersonIdentity() string { return personIdentity(e.Chat, e.Content.Author.ID) }

// personIdentity returns the identity of a person of a chat. At the command line, id already is
// an identity.
func personIdentity(chat protocol.Topic, id string) string {
	family := protocol.PeerID(chat).Family() + ":"
	return family + strings.TrimPrefix(id, family)
}

// OnBehalfOf returns the person who wrote the event, or "" if it was not a person.
func (e *Entry) OnBehalfOf() string {
	switch {
	case e.Content.Author.Kind != string(attention.AuthorHuman):
		return ""
	case e.FromBroker():
		return e.Content.Author.ID
	}
	return e.PersonIdentity()
}

// FindPerson returns the newest event of a person in the given chat or, if they do not write
// there, in their direct chat with the agent. It returns nil if there is none. The name is an
// identity ("tg:77"), an author as shown in headers ("human:77"), or a user name.
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

// Questions returns how many questions were asked for an event.
func (v *View) Questions(eventID string) int {
	return store.Value[int](v.Tx, `SELECT count(*) FROM questions WHERE event_id = ? AND event_id <> ''`, eventID)
}

// ShowQuestion shows a question of the broker to the author of e, in the chat of e, once.
func (tx *Tx) ShowQuestion(id string, e *Entry, question string) {
	if tx.SentAs(questionKey+id) != nil {
		return
	}
	how := "Reply to this message to answer."
	if !supportsReplies(e.Chat) {
		how = "Your next message here is the answer."
	}
	tx.SendText(e, SentNotice, questionKey+id, question+"\n\n"+how)
}

// supportsReplies reports whether a message of the chat can refer to the message it replies to.
func supportsReplies(chat protocol.Topic) bool { return protocol.PeerID(chat).Family() == "tg" }

// handleQuestionAnswer handles a person's answer to a question in a chat, in place of StoreEvent.
// It reports whether e was one. The broker then delivers the answer to the agent.
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

// questionAnswered returns the open question that an event answers, or "". Only the person who
// was asked can answer.
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

// ShowAnswered replaces a question in a chat by a note that it is answered.
func (tx *Tx) ShowAnswered(id, by string) {
	replaceQuestion(tx, id, "Answered by "+attention.HeaderValue(by)+".")
}

// replaceQuestion replaces a question by its outcome, once.
func replaceQuestion(tx *Tx, id, what string) {
	asked := tx.SentAs(questionKey + id)
	if asked == nil || tx.SentAs(repliedKey+id) != nil {
		return
	}
	if e := tx.Entry(asked.EventID); e != nil {
		question := asked.Text[:max(0, strings.LastIndex(asked.Text, "\n\n"))] // without the instructions
		tx.Reply(e, SentNotice, repliedKey+id, protocol.ChatReply{
			Text: question + "\n\n" + what, Edits: questionKey + id, Visibility: e.Visibility(), Directedness: string(attention.DirectedAmbient),
		})
	}
}
