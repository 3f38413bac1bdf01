package intake

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"hubbub/peers/agent/mailbox"
	"hubbub/peers/agent/mailbox/obligations"
	"hubbub/peers/attention"
	"hubbub/peers/store"
	"hubbub/protocol"
)

// A ForeignEventError reports an event whose id belongs to a message of another chat.
type ForeignEventError struct{ SourceID string }

func (s *ForeignEventError) Error() string {
	return "the sourceId " + s.SourceID + " belongs to a message of another chat"
}

// Store stores an event once per (event, sourceId, sequence). An edit or a deletion changes
// the event that it is about. Store fails with a *ForeignEventError, or with a temporary
// error if too many events of the chat are open.
func Store(tx *mailbox.Tx, e *mailbox.Entry) {
	if !mailbox.RecordReceipt(tx, e) {
		return
	}
	if !handleChoice(tx, e) {
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

// storeMessage stores an event under the id of its message, unless an edit was stored under it
// before.
func storeMessage(tx *mailbox.Tx, e *mailbox.Entry) {
	e.EventID = e.SourceID
	if known := tx.Entry(e.EventID); known == nil {
		mailbox.InsertEvent(tx, e)
	} else if known.Chat != e.Chat {
		tx.Fail(&ForeignEventError{e.SourceID})
	}
}

// wasDeleted reports whether the event's message was deleted. The deletion may arrive first.
func wasDeleted(tx *mailbox.Tx, e *mailbox.Entry) bool {
	return store.Value[bool](tx.Tx, `SELECT true FROM receipts WHERE kind = ? AND source_id = ?`, protocol.EventDelete,
		mailbox.ReceiptKey(e))
}

// checkOpenEvents fails if too many events of a chat are undecided, held, or in a turn that has
// not ended. The error is not a rejection: the chat sends the event again.
func checkOpenEvents(tx *mailbox.Tx, chat protocol.Topic) {
	open := store.Value[int](tx.Tx, `SELECT (SELECT count(*) FROM events WHERE chat = ?1 AND state IN ('stored', 'held')) +
		(SELECT count(*) FROM turns WHERE chat = ?1 AND `+mailbox.LiveCondition+`)`, chat)
	if open >= tx.Options().MaxOpen {
		tx.Fail(fmt.Errorf("%d events of %s are waiting for this agent; send it again later", open, chat))
	}
}

// eventsAbout returns the events about a message in order: the message itself, and each edit that
// is an event of its own.
func eventsAbout(tx *mailbox.Tx, chat protocol.Topic, source string) []*mailbox.Entry {
	return tx.Events(`WHERE source_id = ? AND chat = ? AND event_id NOT LIKE 'undelivered:%' AND kind <> 'return' ORDER BY seq`, source, chat)
}

// isReplaceable reports whether the text of the event may still change because nothing was done
// about it.
func isReplaceable(e *mailbox.Entry) bool { return !e.Settled() && !e.Acted }

// applyEdit applies an edit. Before an answer, the edit replaces the text of the event, and a
// turn that shows the old text restarts. After an answer, or if the event was closed without one,
// the edit becomes an event of its own.
func applyEdit(tx *mailbox.Tx, e *mailbox.Entry) {
	const edited = "the message was edited before an answer"
	told := eventsAbout(tx, e.Chat, e.SourceID)
	if len(told) == 0 { // the message never arrived, or was pruned
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
	case e.Content.Sequence > 0 && e.Content.Sequence < old.Content.Sequence: // superseded by a later edit
	case sameContent(&e.Content, &old.Content): // some chats report edits without a change, for example of a preview
	case isReplaceable(old):
		replaceText(tx, old, e)
		if old.State == mailbox.Turned && !cancelIfNotAddressed(tx, old) {
			tx.Withdraw(old.TurnID, edited)
			return
		}
		old.TurnID, old.DeadlineAt = "", time.Time{}
		tx.Move(old, mailbox.Reopen, "")
	case carrier != nil:
		replaceText(tx, old, e)
		tx.Withdraw(carrier.TurnID, edited)
	default:
		if old.Promised() { // the edit takes its place
			tx.Move(old, mailbox.Supersede, "edited")
		}
		e.EventID = newEditID(tx, e.SourceID, len(told))
		mailbox.InsertEvent(tx, e)
	}
}

// sameContent reports whether an edit changes nothing visible.
func sameContent(edit, old *protocol.ChatMessage) bool {
	a, b := *edit, *old
	for _, m := range []*protocol.ChatMessage{&a, &b} {
		m.Event, m.SourceID, m.Sequence, m.CreatedAt, m.Author, m.Chat = "", "", 0, "", nil, nil
	}
	return reflect.DeepEqual(a, b)
}

// inheritObligation gives an edit the obligation of its message.
func inheritObligation(edit, old *mailbox.Entry) {
	if c := &edit.Content; c.Obligation == nil && old.Content.Obligation != nil {
		c.Obligation, c.Recipients, c.CreatedAt = old.Content.Obligation, old.Content.Recipients, old.Content.CreatedAt
	}
}

// recordChange records who edited or deleted a message that is an obligation.
func recordChange(tx *mailbox.Tx, e *mailbox.Entry, kind attention.ActKind) {
	by := e.AuthorIdentity()
	if c := &e.Content; c.Actor != nil {
		by = mailbox.PartyIdentity(*c.Actor, e.Chat)
	}
	if len(obligations.List(&tx.View, `id = ?`, e.SourceID)) > 0 {
		obligations.RecordAct(tx, obligations.Act{ID: string(kind) + ":" + string(e.Source.MessageID),
			Target: e.SourceID, Act: attention.Act{Kind: kind, Actor: by}})
	}
}

// mergeTarget returns the event that a fragment was merged into, or nil if the fragment was not
// merged or can no longer change.
func mergeTarget(tx *mailbox.Tx, e *mailbox.Entry) *mailbox.Entry {
	if e.MergedInto == "" {
		return nil
	}
	if carrier := tx.Current(e.EventID); carrier != nil && isReplaceable(carrier) {
		return carrier
	}
	return nil
}

// newEditID returns an unused event id for an edit. A count alone is not unique: older events may
// have been pruned, and other ids may look alike.
func newEditID(tx *mailbox.Tx, source string, n int) string {
	for ; ; n++ {
		if id := protocol.EditEventID(source, n); tx.Entry(id) == nil {
			return id
		}
	}
}

// replaceText replaces the text of an event with that of an edit. The kind of the event stays.
func replaceText(tx *mailbox.Tx, old, edit *mailbox.Entry) {
	kind := old.Content.Event
	old.Content = edit.Content
	old.Content.Event = kind
	mailbox.SaveContent(tx, old)
}

// cancelIfNotAddressed cancels the turn of an event whose new text does not concern this agent
// any more, and reports whether it did. A turn over several fragments continues for the others.
func cancelIfNotAddressed(tx *mailbox.Tx, e *mailbox.Entry) bool {
	t := tx.Turn(e.TurnID)
	if t == nil || len(t.Merged) > 1 {
		return false
	}
	d := attention.Decide(e.Event(), tx.Options().Self, obligations.Facts(&tx.View, e), tx.Options().Attention)
	if d.Policy != attention.PolicyMustNotRespond && d.Policy != attention.PolicyAckOnly {
		return false
	}
	tx.CancelTurn(t, "the message was edited and no longer concerns this agent")
	return true
}

// applyDelete deletes a message. Its event is superseded if it is open, and its text is erased. A
// turn with other fragments restarts with those.
func applyDelete(tx *mailbox.Tx, e *mailbox.Entry) {
	told := eventsAbout(tx, e.Chat, e.SourceID)
	if len(told) == 0 {
		return
	}
	for _, one := range told {
		one.Deleted = true
		one.Content.Text, one.Content.Attachments, one.Content.Mentions = "", nil, nil
		mailbox.SaveContent(tx, one)
	}
	old := told[len(told)-1]
	defer recordChange(tx, e, attention.ActDeleted)
	carrier := mergeTarget(tx, old)
	t := tx.Turn(old.TurnID)
	if carrier == nil && t != nil && isReplaceable(old) &&
		slices.ContainsFunc(tx.Fragments(t), func(f *mailbox.Entry) bool { return !f.Deleted }) {
		carrier = old
	}
	switch {
	case carrier != nil:
		tx.Withdraw(carrier.TurnID, "a part of the message was deleted before an answer")
	case old.Open():
		if t != nil {
			tx.CancelTurn(t, "the message was deleted before an answer")
		}
		tx.Move(old, mailbox.Supersede, "deleted")
	}
}
