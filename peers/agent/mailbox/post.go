package mailbox

import (
	"time"

	"hubbub/protocol"
)

// A Post is a message to a chat that answers no event.
type Post struct {
	Key, Text    string
	Directedness string
	Visibility   string
	Thread       string // may be empty
	Reason       string // as the model gives it
	Turn         string // that sends it; may be empty
	Cause        *Entry // the event of that turn, or nil
}

// Queue queues and records the post, and marks its turn as having acted.
func (p Post) Queue(tx *Tx, there *Entry) protocol.MessageID {
	m := tx.m.MessageFor(p.Cause, ReplyType(there.Chat),
		protocol.ChatReply{Text: p.Text, IdempotencyKey: p.Key,
			Directedness: p.Directedness, Visibility: p.Visibility, ThreadID: p.Thread})
	tx.Enqueue(there.Chat, p.Key, m)
	tx.Exec(`INSERT INTO sent (`+sentNames+`, key, chat) VALUES (?, '', ?, ?, ?, ?, ?, ?, ?)`,
		m.MessageID, there.Content.Chat.ID, p.Thread, SentText, p.Text, time.Now().UnixMicro(), p.Key, there.Chat)
	tx.Exec(`UPDATE turns SET outbound = 1 WHERE turn_id = ?`, p.Turn)
	event := ""
	if p.Cause != nil {
		event = p.Cause.EventID
	}
	tx.Record(UniqueKey("post", time.Now().UnixMicro()), p.Cause, protocol.PostRecord{
		Agent:        tx.m.id,
		Directedness: p.Directedness,
		Event:        protocol.RecordPost,
		EventID:      event,
		MessageID:    m.MessageID,
		Reason:       p.Reason,
		Target:       there.Chat,
	})
	return m.MessageID
}
