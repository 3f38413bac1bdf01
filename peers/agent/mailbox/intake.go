package mailbox

import (
	"fmt"
	"strconv"
	"time"

	"hubbub/peers/attention"
	"hubbub/peers/store"
	"hubbub/protocol"
)

// A Stranger is the error for an event whose id belongs to a message of another
// chat.
type Stranger struct{ SourceID string }

// Error says so.
func (s *Stranger) Error() string {
	return "the sourceId " + s.SourceID + " belongs to a message of another chat"
}

// JoinChat remembers a chat that the agent talks to, and the conversation behind it
// if that is known.
func (tx *Tx) JoinChat(topic protocol.Topic, conversation string) error {
	return tx.exec(`INSERT INTO chats (topic, conversation, configured_at) VALUES (?1, ?2, ?3)
		ON CONFLICT (topic) DO UPDATE SET conversation = CASE WHEN ?2 = '' THEN conversation ELSE ?2 END`, topic, conversation, time.Now().UnixMicro())
}

// ConversationOf returns the conversation behind a chat, or "" if it is not known.
func (v View) ConversationOf(chat protocol.Topic) (string, error) {
	conversation, _, err := store.One(v.ctx, v.q, store.Column[string], `SELECT conversation FROM chats WHERE topic = ?`, chat)
	return conversation, err
}

// TakeIn stores an event, once per (event, sourceId, sequence): an edit or a delete
// changes the event that it is about. It fails with a *Stranger, or, if too many
// events of the chat are open, with an error that may pass.
func (tx *Tx) TakeIn(e *Entry) error {
	if fresh, err := tx.receipt(e); err != nil || !fresh {
		return err
	}
	if err := tx.JoinChat(e.Chat, e.Content.Chat.ID); err != nil {
		return err
	}
	if e.Content.Event == protocol.EventDelete {
		return tx.takeDelete(e)
	}
	if err := tx.checkRoom(e.Chat); err != nil {
		return err
	}
	if gone, err := tx.withdrawn(e); err != nil || gone {
		return err
	}
	if e.Content.Event == protocol.EventEdit {
		return tx.takeEdit(e)
	}
	e.EventID = e.SourceID
	known, err := tx.Entry(e.EventID)
	switch {
	case err != nil:
		return err
	case known != nil && known.Chat != e.Chat:
		return &Stranger{e.SourceID}
	case known != nil: // an edit came before its message
		return nil
	}
	return tx.insert(e)
}

// receipt notes that something came in, and reports whether it is new. Without a
// sequence, edits are told apart by their message.
func (tx *Tx) receipt(e *Entry) (fresh bool, err error) {
	sequence := strconv.FormatInt(e.Content.Sequence, 10)
	if e.Content.Sequence == 0 && e.Content.Event == protocol.EventEdit {
		sequence = string(e.Carrier.MessageID)
	}
	n, err := store.Changed(tx.ctx, tx.q, `INSERT OR IGNORE INTO receipts (kind, source_id, sequence, received_at) VALUES (?, ?, ?, ?)`,
		e.Content.Event, receiptName(e), sequence, timeColumn{&e.Received})
	return n == 1, err
}

func receiptName(e *Entry) string { return string(e.Chat) + " " + e.SourceID }

// withdrawn reports whether a message was deleted, perhaps before it came.
func (tx *Tx) withdrawn(e *Entry) (bool, error) {
	_, gone, err := store.One(tx.ctx, tx.q, store.Column[int], `SELECT 1 FROM receipts WHERE kind = ? AND source_id = ?`, protocol.EventDelete, receiptName(e))
	return gone, err
}

// checkRoom fails if too many events of a chat are not decided, held, or in a turn
// that has not ended. It is no rejection: a chat gives up what is rejected, and
// this may come again.
func (tx *Tx) checkRoom(chat protocol.Topic) error {
	open, _, err := store.One(tx.ctx, tx.q, store.Column[int], `SELECT (SELECT count(*) FROM events WHERE chat = ?1 AND state IN ('stored', 'held')) +
		(SELECT count(*) FROM turns WHERE chat = ?1 AND `+isLive+`)`, chat)
	if err == nil && open >= tx.m.opts.MaxOpen {
		err = fmt.Errorf("%d events of %s wait for this agent; send it again later", open, chat)
	}
	return err
}

// about returns the events of a chat that tell of a message, in order: the message,
// and each edit that is an event of its own.
func (tx *Tx) about(chat protocol.Topic, source string) ([]*Entry, error) {
	return tx.entries(`WHERE source_id = ? AND chat = ? ORDER BY seq`, source, chat)
}

// replaceable reports whether nothing was done about an event yet: its text may
// change.
func (e *Entry) replaceable() bool { return !e.Settled() && !e.Acted }

// takeEdit applies an edit. Before an answer, the event itself has the new text from
// now on, and a turn that shows the old one begins anew. After an answer, or if the
// event was closed without one and the new text might change that, the edit is an
// event of its own.
func (tx *Tx) takeEdit(e *Entry) error {
	told, err := tx.about(e.Chat, e.SourceID)
	if err != nil {
		return err
	}
	if len(told) == 0 { // its message never came here, or was forgotten
		e.EventID = e.SourceID
		return tx.insert(e)
	}
	old := told[len(told)-1]
	if e.Content.Sequence > 0 && e.Content.Sequence < old.Content.Sequence {
		return nil // overtaken by a later edit
	}
	if old.replaceable() {
		return tx.replaceContent(old, e)
	}
	if carrier, err := tx.carrierOf(old); err != nil || carrier != nil {
		if err != nil {
			return err
		}
		if err := tx.replaceText(old, e); err != nil {
			return err
		}
		return tx.Withdraw(carrier.TurnID, "the message was edited before an answer")
	}
	if old.State == Deferred { // the edit comes in its place
		if err := tx.Move(old, Supersede, "edited"); err != nil {
			return err
		}
	}
	if e.EventID, err = tx.freeEditID(e.SourceID, len(told)); err != nil {
		return err
	}
	return tx.insert(e)
}

// carrierOf returns the event that carries a merged fragment, or nil if it is none,
// or something was done about it.
func (tx *Tx) carrierOf(e *Entry) (*Entry, error) {
	if e.MergedInto == "" {
		return nil, nil
	}
	carrier, err := tx.Current(e.EventID)
	if carrier != nil && !carrier.replaceable() {
		carrier = nil
	}
	return carrier, err
}

// freeEditID names the event of an edit. Counting alone does not do: an older event
// may have been forgotten, and others may have minted such a name.
func (tx *Tx) freeEditID(source string, n int) (string, error) {
	for ; ; n++ {
		id := fmt.Sprintf("%s#edit-%d", source, n)
		if taken, err := tx.Entry(id); err != nil || taken == nil {
			return id, err
		}
	}
}

// replaceText gives an event the text of its edit. It stays of its kind.
func (tx *Tx) replaceText(old, edit *Entry) error {
	kind := old.Content.Event
	old.Content = edit.Content
	old.Content.Event = kind
	return tx.saveContent(old)
}

// replaceContent gives an event its new text and has it decided anew. One that a
// turn shows stays in that turn, which begins anew.
func (tx *Tx) replaceContent(old, edit *Entry) error {
	if err := tx.replaceText(old, edit); err != nil {
		return err
	}
	if old.State == Turned {
		if gone, err := tx.editedAway(old); err != nil {
			return err
		} else if !gone {
			return tx.Withdraw(old.TurnID, "the message was edited before an answer")
		}
	}
	old.TurnID, old.DeadlineAt = "", time.Time{}
	return tx.Move(old, Reopen, "")
}

// editedAway cancels the turn of an event whose new text is not this agent's to
// answer, such as one that names another agent now, and reports whether it did. A
// turn over several fragments goes on, for the others.
func (tx *Tx) editedAway(e *Entry) (bool, error) {
	t, err := tx.Turn(e.TurnID)
	if err != nil || t == nil || len(t.Merged) > 1 {
		return false, err
	}
	facts, err := tx.Facts(e)
	if err != nil {
		return false, err
	}
	d := attention.Decide(e.Event(), tx.m.opts.Self, facts, tx.m.opts.Attention)
	if d.Policy != attention.PolicyMustNotRespond && d.Policy != attention.PolicyAckOnly {
		return false, nil
	}
	return true, tx.cancel(t, "the message was edited, and is not for this agent any more")
}

// takeDelete withdraws a message: its event ends superseded if it is open, and its
// text is gone from the mailbox.
func (tx *Tx) takeDelete(e *Entry) error {
	told, err := tx.about(e.Chat, e.SourceID)
	if err != nil || len(told) == 0 {
		return err
	}
	for _, one := range told {
		one.Deleted = true
		one.Content.Text, one.Content.Attachments, one.Content.Mentions = "", nil, nil
		if err := tx.saveContent(one); err != nil {
			return err
		}
	}
	const inPart = "a part of the message was deleted before an answer"
	old := told[len(told)-1]
	if old.MergedInto != "" {
		carrier, err := tx.carrierOf(old)
		if err != nil || carrier == nil {
			return err
		}
		return tx.Withdraw(carrier.TurnID, inPart)
	}
	t, err := tx.Turn(old.TurnID)
	if err != nil || !old.Open() {
		return err
	}
	if t != nil {
		fragments, err := tx.Fragments(t)
		if err != nil {
			return err
		}
		for _, f := range fragments {
			if !f.Deleted && old.replaceable() { // the event lives on as the carrier of the others
				return tx.Withdraw(old.TurnID, inPart)
			}
		}
		if err := tx.cancel(t, "the message was deleted before an answer"); err != nil {
			return err
		}
	}
	return tx.Move(old, Supersede, "deleted")
}
