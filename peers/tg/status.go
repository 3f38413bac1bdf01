package tg

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"hubbub/peers/outbox"
	"hubbub/peers/peer"
	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"
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
func (b *Bridge) delayed(ctx context.Context, o *outgoing, item outbox.Item, err error) error {
	if err == nil || item.Attempt > 1 || !outboxRetries(err) {
		return err
	}
	status := inTx(context.WithoutCancel(ctx), b.db, func(tx *sql.Tx) error {
		return b.report(ctx, tx, o, protocol.DeliveryStatus{Status: protocol.StatusQueued, Reason: clip(err.Error(), 300)}, "queued")
	})
	if status != nil {
		b.log.Error().Err(status).Msg("that a reply waits cannot be reported")
	}
	b.status.Wake()
	return err
}

// outboxRetries reports whether an attempt's error leaves the item open.
func outboxRetries(err error) bool { return !isPermanent(err) && !isUnknown(err) }

// report queues a delivery_status for the agent that wrote a reply, once per name.
func (b *Bridge) report(ctx context.Context, tx *sql.Tx, o *outgoing, content protocol.DeliveryStatus, name string) error {
	if o.agent == "" {
		return nil
	}
	content.MessageID, content.IdempotencyKey = o.busID, o.content.IdempotencyKey
	body, err := json.Marshal(statusItem{Chat: o.chat.key, BusID: protocol.NewMessageID(), Trace: o.Trace, Content: content})
	if err != nil {
		return err
	}
	_, err = b.status.EnqueueTx(context.WithoutCancel(ctx), tx, o.agent, fmt.Sprintf("%d:%s", o.Reply, name), body)
	if errors.Is(err, outbox.ErrFull) {
		return nil // the agent has been away for a hundred thousand replies
	}
	return err
}

// sendStatus makes one attempt to give a delivery_status to its agent, or to the
// operator's command that wrote the reply: that one has ended, as a rule, and
// nobody misses the report.
func (b *Bridge) sendStatus(ctx context.Context, item outbox.Item) error {
	var s statusItem
	if err := json.Unmarshal(item.Body, &s); err != nil {
		return permanent(err)
	}
	m := protocol.NewMessage(protocol.TypeDeliveryStatus, peerOf(s.Chat), s.Content)
	m.MessageID, m.InReplyTo, m.TraceParent = s.BusID, s.Content.MessageID, s.Trace
	result, err := b.peer.Send(ctx, protocol.Topic(item.Destination), m)
	b.crash("reported")
	if needless := peer.Needless(protocol.Topic(item.Destination), item.Attempt, result, err); needless != nil {
		return outbox.Drop(needless)
	}
	if err == nil {
		err = heard(item.Destination, &result)
	}
	var refused *jsonrpc.Error
	if errors.Is(err, errRejected) || errors.As(err, &refused) && refused.Code == protocol.CodeInvalidParams {
		return permanent(err)
	}
	return err
}

// telegramSettled runs in the transaction that settles a part: it notes the
// part's end, and with the last part reports what became of the reply.
func (b *Bridge) telegramSettled(ctx context.Context, tx *sql.Tx, item outbox.Item, outcome outbox.State, cause error) error {
	var o outgoing
	if err := json.Unmarshal(item.Body, &o.sendItem); err != nil {
		return nil //nolint:nilerr // an item that nobody can read has nobody to report to
	}
	state := map[outbox.State]string{
		outbox.StateSent: partSent, outbox.StateUnknown: partUnknown, outbox.StateDead: partFailed, outbox.StateDropped: partFailed,
	}[outcome]
	reason := ""
	if cause != nil {
		reason = clip(b.api.Redact(cause.Error()), 300)
	}
	if err := exec(ctx, tx, `UPDATE sends SET state = ?, reason = ? WHERE reply = ? AND part = ?`, state, reason, o.Reply, o.Part); err != nil {
		return err
	}
	var key int64
	var content string
	err := tx.QueryRowContext(ctx, `SELECT chat, agent, bus_id, content, key FROM replies WHERE id = ?`, o.Reply).Scan(&key, &o.agent, &o.busID, &content, &o.key)
	if err == nil {
		err = json.Unmarshal([]byte(content), &o.content)
	}
	if err != nil {
		return fmt.Errorf("reading reply %d: %w", o.Reply, err)
	}
	o.chat = &chat{key: key}
	switch outcome {
	case outbox.StateSent:
	case outbox.StateDropped:
		b.log.Info().Str("topic", string(topicOf(key))).Str("peer", o.agent).Int64("item", item.ID).Str("reason", reason).
			Msg("an answer was not shown, and nobody misses it")
	default:
		b.log.Error().Str("topic", string(topicOf(key))).Str("peer", o.agent).Int64("item", item.ID).Str("outcome", string(outcome)).
			Str("reason", reason).Msg("an answer was not shown for certain; see `hubbub outbox list`")
	}
	return b.reportWhole(ctx, tx, &o, item, outcome)
}

// reportWhole reports a reply whose last open part has been settled.
func (b *Bridge) reportWhole(ctx context.Context, tx *sql.Tx, o *outgoing, item outbox.Item, outcome outbox.State) error {
	var open, failed, unknown, lost int
	var telegramChat, message int64
	var reason string
	err := tx.QueryRowContext(ctx, `SELECT coalesce(sum(state IN ('pending','sending')), 0), coalesce(sum(state = 'failed'), 0),
		coalesce(sum(state = 'unknown'), 0), coalesce(sum(state = 'failed' AND kind = 'text'), 0), coalesce(max(reason), '')
		FROM sends WHERE reply = ?`, o.Reply).Scan(&open, &failed, &unknown, &lost, &reason)
	if err != nil || open > 0 {
		return err
	}
	err = tx.QueryRowContext(ctx, `SELECT telegram_chat, message FROM sends WHERE reply = ? AND message > 0 ORDER BY part LIMIT 1`, o.Reply).Scan(&telegramChat, &message)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	status := protocol.DeliveryStatus{Status: protocol.StatusDelivered, TelegramMessageID: message, Reason: reason}
	switch {
	case failed > 0:
		status.Status = protocol.StatusFailed
	case unknown > 0:
		status.Status = protocol.StatusUnknown
	}
	if message > 0 {
		status.SourceID = b.sourceID(telegramChat, int(message))
	}
	// An operator may have a part sent again: then there is another report.
	if err := b.report(ctx, tx, o, status, fmt.Sprintf("%s:%d", status.Status, item.SettledAt.UnixMicro())); err != nil {
		return err
	}
	if lost > 0 && o.agent != "" && outcome != outbox.StateDropped { // a reaction less needs no alarm
		return b.tellUser(ctx, tx, o.chat.key)
	}
	return nil
}

// tellUser tells a chat that an answer was lost, where it can be told.
func (b *Bridge) tellUser(ctx context.Context, tx *sql.Tx, key int64) error {
	c, err := b.loadChat(ctx, tx, key)
	if err != nil || !c.present || c.stopped {
		return err
	}
	hour := time.Now().UTC().Format("2006-01-02T15")
	return b.notice(ctx, tx, c, 0, "lost:"+hour, "An answer could not be shown here. Ask again if you miss one; /status says more.")
}
