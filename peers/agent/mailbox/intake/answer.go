package intake

import (
	"strings"
	"time"

	"hubbub/peers/agent/mailbox"
	"hubbub/peers/agent/mailbox/lifecycle"
	"hubbub/peers/attention"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/collab"
)

// HandleAnswer handles a person's answer to a question in a chat, in place of Store.
// It reports whether e was one. The broker then delivers the answer to the agent.
func HandleAnswer(tx *mailbox.Tx, e *mailbox.Entry) bool {
	c := &e.Content
	if c.Event != protocol.EventMessage || c.Author.Kind != string(attention.AuthorHuman) || c.Forwarded != "" ||
		strings.TrimSpace(c.Text) == "" || len(c.Attachments) > 0 || attention.IsPause(c.Text) {
		return false
	}
	id := questionAnswered(&tx.View, e)
	if id == "" || !mailbox.RecordReceipt(tx, e) {
		return id != ""
	}
	tx.ShowAnswered(id, e.PersonIdentity())
	if lifecycle.HandleEscalationAnswer(tx, id, c.Text, e.PersonIdentity()) {
		return true
	}
	answer := collab.AnswerParams{ID: id, Answer: c.Text, By: protocol.PeerID(e.PersonIdentity())}
	tx.Enqueue(protocol.TopicBroker, mailbox.QuestionPrefix+id, collab.QuestionAnswer.Message(tx.Self(), answer))
	return true
}

// questionAnswered returns the open question that an event answers, or "". Only the person who
// was asked can answer.
func questionAnswered(v *mailbox.View, e *mailbox.Entry) string {
	source := ""
	if e.Content.ReplyTo != nil {
		source = e.Content.ReplyTo.SourceID
	}
	if source == "" && mailbox.SupportsReplies(e.Chat) {
		return ""
	}
	return store.Value[string](v.Tx, `SELECT substr(s.key, length('question:') + 1) FROM sent s JOIN events e ON e.event_id = s.event_id
		WHERE s.chat = ?1 AND s.key >= 'question:' AND s.key < 'question;' AND e.author = ?2 AND (s.source_id = ?3 OR ?3 = '')
		AND NOT EXISTS (SELECT 1 FROM sent r WHERE r.key = 'replied:' || substr(s.key, length('question:') + 1)) ORDER BY s.sent_at DESC LIMIT 1`,
		e.Chat, e.Content.Author.ID, source)
}

// handleChoice handles a person's choice in reply to a question with choices and shows the choice
// in place of the question. It reports whether the event counts: only the first choice does.
func handleChoice(tx *mailbox.Tx, e *mailbox.Entry) bool {
	c := &e.Content
	if c.Event != protocol.EventMessage || c.ReplyTo == nil || c.Forwarded != "" ||
		c.Author.Kind != string(attention.AuthorHuman) {
		return true
	}
	asked := tx.SentWhere(`chat = ? AND source_id = ? AND source_id <> '' AND key LIKE 'choice:%'`, e.Chat,
		c.ReplyTo.SourceID)
	if asked == nil {
		return true
	}
	end := max(0, strings.LastIndexByte(asked.Text, '\n'))
	question, offered := asked.Text[:end], asked.Text[end:]
	about := tx.Entry(asked.EventID)
	switch key := mailbox.ChosenPrefix + asked.EventID; {
	case about == nil || !strings.Contains(offered, "["+c.Text+"]"):
	case tx.SentAs(key) != nil:
		tx.RecordRefusal(e, asked.EventID, "choice", "chosen_before")
		return false
	default:
		tx.Reply(about, mailbox.SentNotice, key, protocol.ChatReply{
			Text:  question + "\n\nChosen: " + c.Text + " (" + mailbox.QuotedName(c.Author) + ")",
			Edits: mailbox.ChoiceKey(about),
		})
	}
	return true
}

// maxStatusDelay is how long the delivery_status of a message may take while the agent runs.
const maxStatusDelay = time.Minute

// AwaitsStatus reports whether an event may be about one of the agent's messages that has no known id
// in the chat yet. A reaction, or a reply to a question, can arrive before the delivery_status of the
// message, which is repeated with a delay after the agent was down.
func AwaitsStatus(v *mailbox.View, e *mailbox.Entry) bool {
	to, reaction := e.Content.ReplyTo, e.Content.Event == protocol.EventReaction
	if to == nil || to.SourceID == "" || !mailbox.SupportsReplies(e.Chat) ||
		!reaction && to.Author != string(v.Self()) {
		return false
	}
	since := e.ReceivedAt.Add(-maxStatusDelay)
	if since.Before(v.Mailbox().StartedAt()) {
		since = time.Time{} // it may have been down for long
	}
	return store.Value[bool](v.Tx, `SELECT NOT EXISTS (SELECT 1 FROM sent WHERE chat = ?1 AND source_id = ?2 AND source_id <> '')
		AND NOT EXISTS (SELECT 1 FROM events WHERE chat = ?1 AND source_id = ?2)
		AND EXISTS (SELECT 1 FROM sent WHERE chat = ?1 AND source_id = '' AND undelivered = '' AND sent_at > ?3
			AND kind <> 'signal' AND (?4 OR key LIKE 'decision:%' OR key LIKE 'choice:%' OR key LIKE 'question:%'))`,
		e.Chat, to.SourceID, since.UnixMicro(), reaction)
}
