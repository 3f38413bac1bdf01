package mailbox

import (
	"strings"

	"hubbub/peers/attention"
	"hubbub/peers/store"
	"hubbub/protocol"
)

// MaxQuestions is the maximum number of questions to people for one event.
const MaxQuestions = 5

// Questions returns how many questions were asked for an event.
func (v *View) Questions(eventID string) int {
	return store.Value[int](v.Tx, `SELECT count(*) FROM questions WHERE event_id = ? AND event_id <> ''`, eventID)
}

// ShowQuestion shows a question from the broker to the author of e, in the chat of e, once.
func (tx *Tx) ShowQuestion(id string, e *Entry, question string) {
	if tx.SentAs(QuestionPrefix+id) != nil {
		return
	}
	how := "Reply to this message to answer."
	if !SupportsReplies(e.Chat) {
		how = "Your next message here is the answer."
	}
	tx.SendText(e, SentNotice, QuestionPrefix+id, question+"\n\n"+how)
}

// ShowAnswered replaces a question in a chat with a note that it is answered.
func (tx *Tx) ShowAnswered(id, by string) {
	if asked := tx.SentAs(QuestionPrefix + id); asked != nil {
		if e := tx.Entry(asked.EventID); e != nil {
			by = tx.WithNames(attention.HeaderValue(by), e.Chat, by)
		}
	}
	ReplaceQuestion(tx, id, "Answered by "+by+".")
}

// ReplaceQuestion replaces a question with its outcome, once.
func ReplaceQuestion(tx *Tx, id, what string) {
	asked := tx.SentAs(QuestionPrefix + id)
	if asked == nil || tx.SentAs(repliedPrefix+id) != nil {
		return
	}
	if e := tx.Entry(asked.EventID); e != nil {
		question := asked.Text[:max(0, strings.LastIndex(asked.Text, "\n\n"))] // without the instructions
		tx.Reply(e, SentNotice, repliedPrefix+id, protocol.ChatReply{
			Text: question + "\n\n" + what, Edits: QuestionPrefix + id,
		})
	}
}
