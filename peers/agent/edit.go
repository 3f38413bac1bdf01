package agent

import (
	"context"
	"database/sql"
	"fmt"

	"hubbub/peers/agent/harness"
	"hubbub/peers/attention"
	"hubbub/protocol"
)

// takeEdit applies an edit. Before an answer, the event itself says the new
// text from now on, and a turn that shows the old one is cancelled. After an
// answer, or where the event was closed without one and the new text might
// change that, the edit is an event of its own.
func (a *Agent) takeEdit(ctx context.Context, tx *sql.Tx, e *entry) error {
	old, err := a.latestOf(ctx, tx, e.Chat, e.SourceID)
	if err != nil {
		return err
	}
	if old == nil { // its message never came here, or was forgotten
		e.EventID = e.SourceID
		return insertEntry(ctx, tx, e)
	}
	if e.Content.Sequence > 0 && e.Content.Sequence < old.Content.Sequence {
		return nil // overtaken by a later edit
	}
	if old.open() && !old.Acted {
		return a.replaceContent(ctx, tx, old, e)
	}
	if old.MergedInto != "" && !old.Acted {
		if carrier, err := currentEntry(ctx, tx, old.EventID); err != nil || carrier != nil && carrier.open() && !carrier.Acted {
			if err != nil {
				return err
			}
			if err := a.replaceText(ctx, tx, old, e); err != nil {
				return err
			}
			return a.reopenTurn(ctx, tx, carrier, "the message was edited before an answer")
		}
	}
	if old.Disposition == attention.DispositionDeferred { // the edit comes in its place
		if err := a.dispose(ctx, tx, old, attention.DispositionSuperseded, "edited"); err != nil {
			return err
		}
	}
	if e.EventID, err = freeEditID(ctx, tx, e.SourceID); err != nil {
		return err
	}
	return insertEntry(ctx, tx, e)
}

// latestOf returns the newest event of a chat that tells of a message.
func (a *Agent) latestOf(ctx context.Context, tx *sql.Tx, chat protocol.Topic, source string) (*entry, error) {
	list, err := entries(ctx, tx, `WHERE source_id = ? AND chat = ? ORDER BY seq DESC LIMIT 1`, source, chat)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return list[0], nil
}

// freeEditID names the event of an edit. Counting alone does not do: an older
// event may have been forgotten, and others may have minted such a name.
func freeEditID(ctx context.Context, tx *sql.Tx, source string) (string, error) {
	var n int
	err := tx.QueryRowContext(ctx, `SELECT count(*) FROM events WHERE source_id = ?`, source).Scan(&n)
	if err != nil {
		return "", fmt.Errorf("counting the edits of %s: %w", source, err)
	}
	for ; ; n++ {
		id := fmt.Sprintf("%s#edit-%d", source, n)
		if taken, err := entryByID(ctx, tx, id); err != nil || taken == nil {
			return id, err
		}
	}
}

// replaceText gives an event the text of its edit and keeps what it is.
func (a *Agent) replaceText(ctx context.Context, tx *sql.Tx, old, edit *entry) error {
	kind := old.Content.Event
	old.Content = edit.Content
	old.Content.Event = kind
	return updateContent(ctx, tx, old)
}

// replaceContent gives an open event its new content and decides anew.
func (a *Agent) replaceContent(ctx context.Context, tx *sql.Tx, old, edit *entry) error {
	if err := a.replaceText(ctx, tx, old, edit); err != nil {
		return err
	}
	if old.Stage == stageTurned {
		gone, err := a.editedAway(ctx, tx, old)
		if err != nil {
			return err
		}
		if !gone {
			return a.reopenTurn(ctx, tx, old, "the message was edited before an answer")
		}
	}
	old.Stage = stageStored
	_, err := tx.ExecContext(ctx, `UPDATE events SET stage = ?, turn_id = '', deadline_at = 0 WHERE seq = ?`, stageStored, old.Seq)
	if err != nil {
		return fmt.Errorf("storing the edit of %s: %w", old.EventID, err)
	}
	return nil
}

// editedAway cancels the turn of an event whose new text is not this agent's to
// answer, such as one that names another agent now: the mailbox decides anew. A
// turn over several fragments goes on, for the others.
func (a *Agent) editedAway(ctx context.Context, tx *sql.Tx, e *entry) (bool, error) {
	t, err := turnByID(ctx, tx, e.TurnID)
	if err != nil || t == nil || len(t.Merged) > 1 {
		return false, err
	}
	facts, err := a.facts(ctx, tx, e)
	if err != nil {
		return false, err
	}
	d := attention.Decide(e.event(), a.self(), facts, a.opts.attentionConfig(harness.Capabilities{Injection: harness.AllInjection}))
	if d.Policy != attention.PolicyMustNotRespond && d.Policy != attention.PolicyAckOnly {
		return false, nil
	}
	return true, a.cancelTurn(ctx, tx, t, "the message was edited, and is not for this agent any more")
}

// withdrawn reports whether a message was deleted, perhaps before it came.
func withdrawn(ctx context.Context, tx *sql.Tx, e *entry) (gone bool, err error) {
	err = tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM receipts WHERE kind = ? AND source_id = ?)`,
		protocol.EventDelete, receiptName(e)).Scan(&gone)
	if err != nil {
		return false, fmt.Errorf("looking whether %s was deleted: %w", e.SourceID, err)
	}
	return gone, nil
}

// takeDelete withdraws a message: its event ends superseded if it is open, and
// its text is gone from the mailbox.
func (a *Agent) takeDelete(ctx context.Context, tx *sql.Tx, e *entry) error {
	told, err := entries(ctx, tx, `WHERE source_id = ? AND chat = ? ORDER BY seq`, e.SourceID, e.Chat)
	if err != nil || len(told) == 0 {
		return err
	}
	for _, one := range told { // the message, and each edit that is an event of its own
		one.Deleted = true
		one.Content.Text, one.Content.Attachments, one.Content.Mentions = "", nil, nil
		if err := updateContent(ctx, tx, one); err != nil {
			return err
		}
	}
	old := told[len(told)-1]
	if old.MergedInto != "" {
		if carrier, err := currentEntry(ctx, tx, old.EventID); err != nil || carrier == nil || !carrier.open() || carrier.Acted {
			return err
		} else {
			return a.reopenTurn(ctx, tx, carrier, "a part of the message was deleted before an answer")
		}
	}
	if !old.open() {
		return nil
	}
	if old.Stage == stageTurned {
		if done, err := a.withdrawDeleted(ctx, tx, old); done || err != nil {
			return err
		}
	}
	return a.dispose(ctx, tx, old, attention.DispositionSuperseded, "deleted")
}

// withdrawDeleted cancels the turn of a deleted event. Where the turn carries
// other fragments too, it is begun anew with those and the event lives on as
// their carrier: done is true.
func (a *Agent) withdrawDeleted(ctx context.Context, tx *sql.Tx, old *entry) (done bool, err error) {
	t, err := turnByID(ctx, tx, old.TurnID)
	if err != nil || t == nil {
		return false, err
	}
	others, err := a.fragments(ctx, tx, t)
	if err != nil {
		return false, err
	}
	alive := 0
	for _, f := range others {
		if !f.Deleted && f.EventID != old.EventID {
			alive++
		}
	}
	if alive > 0 && !old.Acted {
		return true, a.reopenTurn(ctx, tx, old, "a part of the message was deleted before an answer")
	}
	return false, a.cancelTurn(ctx, tx, t, "the message was deleted before an answer")
}
