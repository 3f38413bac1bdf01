package mailbox

import (
	"cmp"
	"strings"

	"hubbub/peers/attention"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/text"
)

// Prefixes of the keys of a question with choices, and of the message that replaces it after a
// choice.
const (
	choiceKey = "choice:"
	chosenKey = "chosen:"
)

// ChoiceKey is the key of the question with choices that answers an event.
func ChoiceKey(e *Entry) string { return choiceKey + e.EventID }

// SupportsButtons reports whether a chat can show buttons.
func SupportsButtons(chat protocol.Topic) bool { return protocol.PeerID(chat).Family() == "tg" }

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

// handleChoice handles a person's choice in reply to a question with choices and shows the choice
// in place of the question. It reports whether the event counts: only the first choice does.
func (tx *Tx) handleChoice(e *Entry) bool {
	c := &e.Content
	if c.Event != protocol.EventMessage || c.ReplyTo == nil || c.Forwarded != "" || c.Author.Kind != string(attention.AuthorHuman) {
		return true
	}
	asked := tx.sent(`chat = ? AND source_id = ? AND key LIKE 'choice:%'`, e.Chat, c.ReplyTo.SourceID)
	if asked == nil {
		return true
	}
	end := max(0, strings.LastIndexByte(asked.Text, '\n'))
	question, offered := asked.Text[:end], asked.Text[end:]
	about := tx.Entry(asked.EventID)
	switch key := chosenKey + asked.EventID; {
	case about == nil || !strings.Contains(offered, "["+c.Text+"]"):
	case tx.SentAs(key) != nil:
		tx.RecordRefusal(e, asked.EventID, "choice", "chosen_before")
		return false
	default:
		by := cmp.Or(c.Author.DisplayName, c.Author.Username, c.Author.ID)
		tx.Reply(about, SentNotice, key, protocol.ChatReply{
			Text:  question + "\n\nChosen: " + c.Text + " (`" + text.Clip(strings.ReplaceAll(attention.HeaderValue(by), "`", "'"), 60) + "`)",
			Edits: ChoiceKey(about), Visibility: about.Visibility(), Directedness: string(attention.DirectedAmbient),
		})
	}
	return true
}

// isQuestion reports whether the given message of the agent asks something.
func (v *View) isQuestion(e *Entry, sourceID string) bool {
	return attention.EndsWithQuestion(store.Value[string](v.Tx, `SELECT `+askedText+` FROM sent WHERE chat = ? AND source_id = ? AND source_id <> '' AND (kind = 'text' OR key LIKE 'escalation:%')`, e.Chat, sourceID))
}

// askedText selects the part of a message that may ask something. A message with choices always
// asks.
const askedText = `CASE WHEN key LIKE 'choice:%' THEN '?' ELSE text END`
