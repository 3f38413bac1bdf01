package tg

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/text"
)

// A statusItem is the body of an item of the status queue.
type statusItem struct {
	Chat    int64                   `json:"chat"`
	BusID   protocol.MessageID      `json:"busId"` // of the delivery_status, the same at each attempt
	Trace   string                  `json:"traceparent,omitempty"`
	Content protocol.DeliveryStatus `json:"content"`
}

// delayed tells the agent, once, that its reply waits, when an attempt did not
// settle it.
func (out *outbound) delayed(ctx context.Context, o *outgoing, item outbox.Item, err error) error {
	if item.Attempt > 1 || !outbox.Open(err) {
		return err
	}
	status := store.InTx(context.WithoutCancel(ctx), out.db, func(tx *sql.Tx) error {
		return out.report(ctx, tx, o, protocol.DeliveryStatus{Status: protocol.StatusQueued, Reason: text.Clip(err.Error(), maxReason)}, "queued")
	})
	if status != nil {
		out.log.Error().Err(status).Msg("that a reply waits cannot be reported")
	}
	out.status.Wake()
	return err
}

// report queues a delivery_status for the agent that wrote a reply, once per name.
func (out *outbound) report(ctx context.Context, tx *sql.Tx, o *outgoing, content protocol.DeliveryStatus, name string) error {
	if o.agent == "" {
		return nil
	}
	content.MessageID, content.IdempotencyKey = o.busID, o.content.IdempotencyKey
	body, err := json.Marshal(statusItem{Chat: o.chat.key, BusID: protocol.NewMessageID(), Trace: o.Trace, Content: content})
	if err != nil {
		return err
	}
	_, err = out.status.EnqueueTx(context.WithoutCancel(ctx), tx, o.agent, fmt.Sprintf("%d:%s", o.Reply, name), body)
	if errors.Is(err, outbox.ErrFull) {
		return nil // the agent has been away for a hundred thousand replies
	}
	return err
}

// sendStatus makes one attempt to give a delivery_status to its agent, or to the
// operator's command that wrote the reply: that one has ended, as a rule, and
// nobody misses the report.
func (out *outbound) sendStatus(ctx context.Context, item outbox.Item) error {
	var s statusItem
	if err := json.Unmarshal(item.Body, &s); err != nil {
		return outbox.Permanent(err)
	}
	m := protocol.NewMessage(protocol.TypeDeliveryStatus, peerOf(s.Chat), s.Content)
	m.MessageID, m.InReplyTo, m.TraceParent = s.BusID, s.Content.MessageID, s.Trace
	err := out.peer.Tell(ctx, protocol.Topic(item.Destination), item.Attempt, m)
	out.crash("reported")
	return err
}

// settled runs in the transaction that settles a part: it notes the message that the
// part made, and with the last part reports what became of the reply.
func (out *outbound) settled(ctx context.Context, tx *sql.Tx, item outbox.Item, outcome outbox.State, cause error) error {
	var o outgoing
	if err := json.Unmarshal(item.Body, &o.sendItem); err != nil {
		return nil //nolint:nilerr // an item that nobody can read has nobody to report to
	}
	number, _ := out.shown.Load(item.ID)
	message, _ := number.(int64)
	err := store.Exec(ctx, tx, `UPDATE sends SET attempt = 0, message = max(message, ?) WHERE reply = ? AND part = ?`, message, o.Reply, o.Part)
	if err != nil {
		return err
	}
	var key int64
	var content string
	err = tx.QueryRowContext(ctx, `SELECT chat, agent, bus_id, content, key FROM replies WHERE id = ?`, o.Reply).Scan(&key, &o.agent, &o.busID, &content, &o.key)
	if err == nil {
		err = json.Unmarshal([]byte(content), &o.content)
	}
	if err != nil {
		return fmt.Errorf("reading reply %d: %w", o.Reply, err)
	}
	o.chat, o.destination = &chat{key: key}, item.Destination
	switch outcome {
	case outbox.StateSent:
	case outbox.StateDropped:
		out.log.Info().Str("topic", string(topicOf(key))).Str("peer", o.agent).Int64("item", item.ID).AnErr("reason", cause).
			Msg("an answer was not shown, and nobody misses it")
	default:
		out.log.Error().Str("topic", string(topicOf(key))).Str("peer", o.agent).Int64("item", item.ID).Str("outcome", string(outcome)).
			AnErr("reason", cause).Msg("an answer was not shown for certain; see `hubbub outbox list`")
	}
	return out.reportWhole(ctx, tx, &o, item, outcome)
}

// reportWhole reports a reply whose last open part has been settled.
func (out *outbound) reportWhole(ctx context.Context, tx *sql.Tx, o *outgoing, item outbox.Item, outcome outbox.State) error {
	parts, err := out.partsOf(ctx, tx, o.Reply, o.destination)
	if err != nil {
		return err
	}
	status, lost := protocol.DeliveryStatus{Status: protocol.StatusDelivered}, false
	for _, p := range parts {
		switch p.state {
		case outbox.StatePending, outbox.StateSending:
			return nil
		case outbox.StateDead, outbox.StateDropped:
			status.Status = protocol.StatusFailed
			lost = lost || p.kind == kindText
		case outbox.StateUnknown:
			if status.Status == protocol.StatusDelivered {
				status.Status = protocol.StatusUnknown
			}
		}
		status.Reason = max(status.Reason, text.Clip(out.api.Redact(p.reason), maxReason))
	}
	var telegramChat int64
	err = tx.QueryRowContext(ctx, `SELECT telegram_chat, message FROM sends WHERE reply = ? AND message > 0 ORDER BY part LIMIT 1`, o.Reply).
		Scan(&telegramChat, &status.TelegramMessageID)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if status.TelegramMessageID > 0 {
		status.SourceID = out.sourceID(telegramChat, int(status.TelegramMessageID))
	}
	// An operator may have a part sent again: then there is another report.
	if err := out.report(ctx, tx, o, status, fmt.Sprintf("%s:%d", status.Status, item.SettledAt.UnixMicro())); err != nil {
		return err
	}
	if lost && o.agent != "" && outcome != outbox.StateDropped { // a reaction less needs no alarm
		return out.tellUser(ctx, tx, o.chat.key)
	}
	return nil
}

// tellUser tells a chat that an answer was lost, where it can be told.
func (out *outbound) tellUser(ctx context.Context, tx *sql.Tx, key int64) error {
	c, err := out.load(ctx, tx, key)
	if err != nil || c.silent() {
		return err
	}
	hour := time.Now().UTC().Format("2006-01-02T15")
	return out.notice(ctx, tx, c, 0, "lost:"+hour, "An answer could not be shown here. Ask again if you miss one; /status says more.")
}
