package mailbox

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	"hubbub/peers/attention"
	"hubbub/peers/store"
	"hubbub/protocol"
)

// A ForeignEventError is the error for an event whose id belongs to a message of another
// chat.
type ForeignEventError struct{ SourceID string }

// Error says so.
func (s *ForeignEventError) Error() string {
	return "the sourceId " + s.SourceID + " belongs to a message of another chat"
}

// AddChat remembers a chat that the agent talks to, and the conversation behind it
// if that is known.
func (tx *Tx) AddChat(topic protocol.Topic, conversation string) {
	tx.Exec(`INSERT INTO chats (topic, conversation, configured_at) VALUES (?1, ?2, ?3)
		ON CONFLICT (topic) DO UPDATE SET conversation = CASE WHEN ?2 = '' THEN conversation ELSE ?2 END`, topic, conversation, time.Now().UnixMicro())
}

// ConversationOf returns the conversation behind a chat, or "" if it is not known.
func (v *View) ConversationOf(chat protocol.Topic) string {
	return store.Value[string](v.Tx, `SELECT conversation FROM chats WHERE topic = ?`, chat)
}

// StoreEvent stores an event, once per (event, sourceId, sequence): an edit or a delete
// changes the event that it is about. It fails with a *Stranger, or, if too many
// events of the chat are open, with an error that may pass.
func (tx *Tx) StoreEvent(e *Entry) {
	if !recordReceipt(tx, e) {
		return
	}
	if !tx.handleChoice(e) {
		return
	}
	tx.AddChat(e.Chat, e.Content.Chat.ID)
	if e.Content.Event == protocol.EventDelete {
		applyDelete(tx, e)
		return
	}
	checkOpenEvents(tx, e.Chat)
	switch {
	case wasDeleted(tx, e):
	case e.Content.Event == protocol.EventEdit:
		applyEdit(tx, e)
	default:
		storeMessage(tx, e)
	}
}

// storeMessage stores an event under the name of its message, unless an edit came before it.
func storeMessage(tx *Tx, e *Entry) {
	e.EventID = e.SourceID
	if known := tx.Entry(e.EventID); known == nil {
		insertEvent(tx, e)
	} else if known.Chat != e.Chat {
		tx.Fail(&ForeignEventError{e.SourceID})
	}
}

// recordReceipt notes that something came in, and reports whether it is new. Without a
// sequence, edits are told apart by their message.
func recordReceipt(tx *Tx, e *Entry) (fresh bool) {
	sequence := strconv.FormatInt(e.Content.Sequence, 10)
	if e.Content.Sequence == 0 && e.Content.Event == protocol.EventEdit {
		sequence = string(e.Source.MessageID)
	}
	return store.Value[bool](tx.Tx, `INSERT OR IGNORE INTO receipts (kind, source_id, sequence, received_at) VALUES (?, ?, ?, ?) RETURNING true`,
		e.Content.Event, receiptKey(e), sequence, timeColumn{&e.ReceivedAt})
}

func receiptKey(e *Entry) string { return string(e.Chat) + " " + e.SourceID }

// wasDeleted reports whether a message was deleted, perhaps before it came.
func wasDeleted(tx *Tx, e *Entry) bool {
	return store.Value[bool](tx.Tx, `SELECT true FROM receipts WHERE kind = ? AND source_id = ?`, protocol.EventDelete, receiptKey(e))
}

// checkOpenEvents fails if too many events of a chat are not decided, held, or in a turn
// that has not ended. It is no rejection: a chat gives up what is rejected, and
// this may come again.
func checkOpenEvents(tx *Tx, chat protocol.Topic) {
	open := store.Value[int](tx.Tx, `SELECT (SELECT count(*) FROM events WHERE chat = ?1 AND state IN ('stored', 'held')) +
		(SELECT count(*) FROM turns WHERE chat = ?1 AND `+isLive+`)`, chat)
	if open >= tx.m.opts.MaxOpen {
		tx.Fail(fmt.Errorf("%d events of %s wait for this agent; send it again later", open, chat))
	}
}

// eventsAbout returns the events of a chat that tell of a message, in order: the message,
// and each edit that is an event of its own.
func eventsAbout(tx *Tx, chat protocol.Topic, source string) []*Entry {
	return tx.entries(`WHERE source_id = ? AND chat = ? AND event_id NOT LIKE 'undelivered:%' AND kind <> 'return' ORDER BY seq`, source, chat)
}

// isReplaceable reports whether nothing was done about an event yet: its text may
// change.
func (e *Entry) isReplaceable() bool { return !e.Settled() && !e.Acted }

// applyEdit applies an edit. Before an answer, the event itself has the new text from
// now on, and a turn that shows the old one begins anew. After an answer, or if the
// event was closed without one and the new text might change that, the edit is an
// event of its own.
func applyEdit(tx *Tx, e *Entry) {
	const edited = "the message was edited before an answer"
	told := eventsAbout(tx, e.Chat, e.SourceID)
	if len(told) == 0 { // its message never came here, or was forgotten
		storeMessage(tx, e)
		return
	}
	old := told[len(told)-1]
	carrier := mergeTarget(tx, old)
	inheritObligation(e, old)
	if !sameContent(&e.Content, &old.Content) {
		defer recordChange(tx, e, attention.ActEdited)
	}
	switch {
	case e.Content.Sequence > 0 && e.Content.Sequence < old.Content.Sequence: // overtaken by a later edit
	case sameContent(&e.Content, &old.Content): // chats tell of edits that change nothing, such as of a preview
	case old.isReplaceable():
		replaceText(tx, old, e)
		if old.State == Turned && !cancelIfNotAddressed(tx, old) {
			tx.Withdraw(old.TurnID, edited)
			return
		}
		old.TurnID, old.DeadlineAt = "", time.Time{}
		tx.Move(old, Reopen, "")
	case carrier != nil:
		replaceText(tx, old, e)
		tx.Withdraw(carrier.TurnID, edited)
	default:
		if old.State == Deferred { // the edit comes in its place
			tx.Move(old, Supersede, "edited")
		}
		e.EventID = newEditID(tx, e.SourceID, len(told))
		insertEvent(tx, e)
	}
}

// sameContent reports whether an edit changes nothing that anybody reads.
func sameContent(edit, old *protocol.ChatMessage) bool {
	a, b := *edit, *old
	for _, m := range []*protocol.ChatMessage{&a, &b} {
		m.Event, m.SourceID, m.Sequence, m.CreatedAt, m.Author, m.Chat = "", "", 0, "", nil, nil
	}
	return reflect.DeepEqual(a, b)
}

// inheritObligation gives an edit what its message obliges to: it opens nothing anew.
func inheritObligation(edit, old *Entry) {
	if c := &edit.Content; c.Obligation == nil && old.Content.Obligation != nil {
		c.Obligation, c.Recipients, c.CreatedAt = old.Content.Obligation, old.Content.Recipients, old.Content.CreatedAt
	}
}

// recordChange notes that a message was edited or deleted, and by whom, where somebody waits on its account.
func recordChange(tx *Tx, e *Entry, kind attention.ActKind) {
	by := e.AuthorIdentity()
	if c := &e.Content; c.Actor != nil {
		by = partyIdentity(*c.Actor, e.Chat)
	}
	if len(obligationsWhere(&tx.View, `id = ?`, e.SourceID)) > 0 {
		RecordAct(tx, Act{ID: string(kind) + ":" + string(e.Source.MessageID), Target: e.SourceID, Act: attention.Act{Kind: kind, Actor: by}})
	}
}

// mergeTarget returns the event that carries a merged fragment, or nil if it is none,
// or something was done about it.
func mergeTarget(tx *Tx, e *Entry) *Entry {
	if e.MergedInto == "" {
		return nil
	}
	if carrier := tx.Current(e.EventID); carrier != nil && carrier.isReplaceable() {
		return carrier
	}
	return nil
}

// newEditID names the event of an edit. Counting alone does not do: an older event
// may have been forgotten, and others may have minted such a name.
func newEditID(tx *Tx, source string, n int) string {
	for ; ; n++ {
		if id := fmt.Sprintf("%s#edit-%d", source, n); tx.Entry(id) == nil {
			return id
		}
	}
}

// replaceText gives an event the text of its edit. It stays of its kind.
func replaceText(tx *Tx, old, edit *Entry) {
	kind := old.Content.Event
	old.Content = edit.Content
	old.Content.Event = kind
	saveContent(tx, old)
}

// cancelIfNotAddressed cancels the turn of an event whose new text is not this agent's to
// answer, such as one that names another agent now, and reports whether it did. A
// turn over several fragments goes on, for the others.
func cancelIfNotAddressed(tx *Tx, e *Entry) bool {
	t := tx.Turn(e.TurnID)
	if t == nil || len(t.Merged) > 1 {
		return false
	}
	d := attention.Decide(e.Event(), tx.m.opts.Self, tx.Facts(e), tx.m.opts.Attention)
	if d.Policy != attention.PolicyMustNotRespond && d.Policy != attention.PolicyAckOnly {
		return false
	}
	tx.cancel(t, "the message was edited, and is not for this agent any more")
	return true
}

// applyDelete withdraws a message: its event ends superseded if it is open, and its
// text is gone from the mailbox. A turn that shows other fragments, too, begins anew
// with those, and the event lives on as their carrier.
func applyDelete(tx *Tx, e *Entry) {
	told := eventsAbout(tx, e.Chat, e.SourceID)
	if len(told) == 0 {
		return
	}
	for _, one := range told {
		one.Deleted = true
		one.Content.Text, one.Content.Attachments, one.Content.Mentions = "", nil, nil
		saveContent(tx, one)
	}
	old := told[len(told)-1]
	defer recordChange(tx, e, attention.ActDeleted)
	carrier := mergeTarget(tx, old)
	t := tx.Turn(old.TurnID)
	if carrier == nil && t != nil && old.isReplaceable() && slices.ContainsFunc(tx.Fragments(t), func(f *Entry) bool { return !f.Deleted }) {
		carrier = old
	}
	switch {
	case carrier != nil:
		tx.Withdraw(carrier.TurnID, "a part of the message was deleted before an answer")
	case old.Open():
		if t != nil {
			tx.cancel(t, "the message was deleted before an answer")
		}
		tx.Move(old, Supersede, "deleted")
	}
}
