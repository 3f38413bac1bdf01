package agent

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"hubbub/peers/agent/mailbox"
	"hubbub/peers/peer"
	"hubbub/protocol"
)

// Limits on what one message may bring.
const (
	maxText        = 256 << 10 // bytes
	maxAttachments = 64
	maxMentions    = 64
	maxID          = 400 // bytes of an id that others minted
	maxKey         = 512 // bytes of an idempotencyKey, as of a key of the outbox; the agent's own are made of an id
)

// handle sets the handlers of the messages that reach an agent.
func (a *Agent) handle() {
	for t, h := range map[protocol.MessageType]peer.Handler{
		protocol.TypeConfigure:      a.receiveConfigure,
		protocol.TypeTGMessage:      a.receiveChat,
		protocol.TypeChatMessage:    a.receiveChat,
		protocol.TypeDeliveryStatus: a.receiveStatus,
		protocol.TypeCollabResult:   a.receiveResult,
		protocol.TypeCollabEvent:    a.receiveFact,
		protocol.TypeAgentEvent:     a.receiveAgentEvent,
	} {
		a.peer.Handle(t, h)
	}
}

// receiveConfigure remembers a chat that the agent talks to. A chat speaks for
// itself; people at the command line and the spawner may name any.
func (a *Agent) receiveConfigure(ctx context.Context, d *peer.Delivery) error {
	var c protocol.Configure
	if err := d.Decode(&c); err != nil || c.TalkTo == "" {
		return peer.Reject(`configure needs content.talkto, such as {"talkto":"tg:42"}`)
	}
	from := d.Message.From
	role := protocol.RoleOf(from)
	if c.TalkTo != from.Topic() && role != protocol.RoleCLI && role != protocol.RoleSystem {
		return peer.Reject(fmt.Sprintf("%s may not configure this agent for %s", from, c.TalkTo))
	}
	return a.joinChat(ctx, a.db, c.TalkTo, "")
}

// An execer is a *sql.DB or *sql.Tx.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func (a *Agent) joinChat(ctx context.Context, db execer, topic protocol.Topic, conversation string) error {
	_, err := db.ExecContext(ctx, `INSERT INTO chats (topic, conversation, configured_at) VALUES (?1, ?2, ?3)
		ON CONFLICT (topic) DO UPDATE SET conversation = CASE WHEN ?2 = '' THEN conversation ELSE ?2 END`,
		topic, conversation, time.Now().UnixMicro())
	if err != nil {
		return fmt.Errorf("storing the chat %s: %w", topic, err)
	}
	return nil
}

// receiveChat stores a chat event. Nil means that it is in the mailbox, or was
// before.
func (a *Agent) receiveChat(ctx context.Context, d *peer.Delivery) error {
	var c protocol.ChatMessage
	if err := json.Unmarshal(d.Message.Content, &c); err != nil {
		return peer.Reject("the content is not a chat message: " + err.Error())
	}
	if problem := checkChat(&c); problem != "" {
		return peer.Reject(problem)
	}
	mailbox.Complete(&c, &d.Message)
	e := &entry{
		SourceID: c.SourceID, Chat: d.Message.From.Topic(), MessageID: d.Message.MessageID, TraceParent: d.Message.TraceParent,
		Received: time.Now(), Content: c, Stage: stageStored,
	}
	err := a.inTx(ctx, func(tx *sql.Tx) error { return a.takeIn(ctx, tx, e) })
	if err != nil {
		return err
	}
	a.opts.crash("stored")
	a.poke()
	return nil
}

// checkChat says what is wrong with a chat message, or nothing.
func checkChat(c *protocol.ChatMessage) string {
	switch {
	case len(c.Text) > maxText:
		return fmt.Sprintf("the text has %d bytes; at most %d are taken", len(c.Text), maxText)
	case len(c.Attachments) > maxAttachments || len(c.Mentions) > maxMentions:
		return fmt.Sprintf("at most %d attachments and %d mentions are taken", maxAttachments, maxMentions)
	case len(c.SourceID) > maxID, c.Chat != nil && len(c.Chat.ID)+len(c.Chat.ThreadID) > maxID, c.Author != nil && len(c.Author.ID) > maxID:
		return fmt.Sprintf("an id has more than %d bytes", maxID)
	}
	return ""
}

// takeIn stores an event once.
func (a *Agent) takeIn(ctx context.Context, tx *sql.Tx, e *entry) error {
	fresh, err := receipt(ctx, tx, e)
	if err != nil || !fresh {
		return err
	}
	if err := a.joinChat(ctx, tx, e.Chat, e.Content.Chat.ID); err != nil {
		return err
	}
	if e.Content.Event == protocol.EventDelete {
		return a.takeDelete(ctx, tx, e)
	}
	if err := a.checkRoom(ctx, tx, e.Chat); err != nil {
		return err
	}
	if gone, err := withdrawn(ctx, tx, e); err != nil || gone {
		return err
	}
	if e.Content.Event == protocol.EventEdit {
		return a.takeEdit(ctx, tx, e)
	}
	e.EventID = e.SourceID
	if known, err := entryByID(ctx, tx, e.EventID); err != nil || known != nil {
		if known != nil && known.Chat != e.Chat {
			return peer.Reject("the sourceId " + e.SourceID + " belongs to a message of another chat")
		}
		if known != nil { // an edit came before its message
			return nil
		}
		return err
	}
	return insertEntry(ctx, tx, e)
}

// receipt notes that something came in, and reports false where it had before.
// Without a sequence, edits are told apart by their message.
func receipt(ctx context.Context, tx *sql.Tx, e *entry) (bool, error) {
	sequence := strconv.FormatInt(e.Content.Sequence, 10)
	if e.Content.Sequence == 0 && e.Content.Event == protocol.EventEdit {
		sequence = string(e.MessageID)
	}
	res, err := tx.ExecContext(ctx, `INSERT OR IGNORE INTO receipts (kind, source_id, sequence, received_at) VALUES (?, ?, ?, ?)`,
		e.Content.Event, receiptName(e), sequence, e.Received.UnixMicro())
	if err != nil {
		return false, fmt.Errorf("storing the receipt of %s: %w", e.SourceID, err)
	}
	n, err := res.RowsAffected()
	return n == 1, err
}

func receiptName(e *entry) string { return string(e.Chat) + " " + e.SourceID }

// checkRoom fails where too many events of a chat are open: not decided, composed,
// or in a turn that has not ended. It is no rejection: a chat gives up what is
// rejected, and this may come again.
func (a *Agent) checkRoom(ctx context.Context, tx *sql.Tx, chat protocol.Topic) error {
	var open int
	err := tx.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM events WHERE chat = ?1 AND stage IN (?2, ?3)) +
		(SELECT count(*) FROM turns WHERE chat = ?1 AND state IN ('queued','running','accepted','withdrawn'))`,
		chat, stageStored, stageHeld).Scan(&open)
	if err != nil {
		return fmt.Errorf("counting open events: %w", err)
	}
	if open >= a.opts.MaxOpen {
		return fmt.Errorf("%d events of %s wait for this agent; send it again later", open, chat)
	}
	return nil
}

// receiveStatus notes what became of one of the agent's messages.
func (a *Agent) receiveStatus(ctx context.Context, d *peer.Delivery) error {
	var s protocol.DeliveryStatus
	if err := d.Decode(&s); err != nil {
		return peer.Reject("the content is not a delivery_status: " + err.Error())
	}
	return a.inTx(ctx, func(tx *sql.Tx) error { return a.noteStatus(ctx, tx, d.Message.From.Topic(), &s) })
}

func (a *Agent) noteStatus(ctx context.Context, tx *sql.Tx, chat protocol.Topic, s *protocol.DeliveryStatus) error {
	var event, kind, before string
	err := tx.QueryRowContext(ctx, `SELECT event_id, kind, status FROM sent WHERE (message_id = ?1 OR ?1 = '' AND key = ?2) AND chat = ?3`,
		s.MessageID, s.IdempotencyKey, chat).Scan(&event, &kind, &before)
	if err == sql.ErrNoRows {
		return nil // a status of something that we no longer know, or of a typing sign
	}
	if err != nil {
		return fmt.Errorf("looking for the message %s: %w", s.MessageID, err)
	}
	_, err = tx.ExecContext(ctx, `UPDATE sent SET status = ?, reason = ?, source_id = CASE WHEN ? = '' THEN source_id ELSE ? END
		WHERE event_id = ? AND chat = ? AND (message_id = ? OR key = ?)`,
		s.Status, s.Reason, s.SourceID, s.SourceID, event, chat, s.MessageID, s.IdempotencyKey)
	if err != nil {
		return fmt.Errorf("storing the delivery status of %s: %w", s.MessageID, err)
	}
	if before != s.Status && (s.Status == protocol.StatusFailed || s.Status == protocol.StatusUnknown) {
		return a.record(ctx, tx, "delivery:"+string(s.MessageID)+":"+s.Status, map[string]any{
			"event": "delivery", "eventId": event, "agent": a.id, "messageId": s.MessageID, "kind": kind, "status": s.Status, "reason": s.Reason,
		})
	}
	return nil
}

// receiveAgentEvent takes events of other agents and of the spawner. None asks
// anything of this agent; they are on the bus's record.
func (a *Agent) receiveAgentEvent(_ context.Context, d *peer.Delivery) error {
	var head struct {
		Event string `json:"event"`
	}
	if err := d.Decode(&head); err != nil {
		return peer.Reject("the content is not an agent_event: " + err.Error())
	}
	a.opts.Log.Debug().Str("peer", string(d.Message.From)).Str("event", strings.ToValidUTF8(head.Event, "?")).Msg("agent event")
	return nil
}
