package tg

import (
	"context"
	"database/sql"
	"fmt"

	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/peers/surface"
	"hubbub/protocol"
	"hubbub/protocol/text"
)

// delayed tells the agent, once, that its reply waits, when an attempt did not
// settle it.
func (out *outbound) delayed(ctx context.Context, o *outgoing, err error) error {
	if o.attempt > 1 || !outbox.Open(err) {
		return err
	}
	status := store.InTx(context.WithoutCancel(ctx), out.db, func(tx *sql.Tx) error {
		return out.report(ctx, tx, o, protocol.DeliveryStatus{Status: protocol.StatusQueued, Reason: text.Clip(err.Error(), maxReason)}, "queued")
	})
	if status != nil {
		out.log.Error().Err(status).Msg("reporting that a reply waits failed")
	}
	out.surface.Wake()
	return err
}

// report queues a delivery_status for the agent that wrote a reply, once per name.
func (out *outbound) report(ctx context.Context, tx *sql.Tx, o *outgoing, content protocol.DeliveryStatus, name string) error {
	content.MessageID, content.IdempotencyKey = o.busID, o.content.IdempotencyKey
	return out.surface.Report(ctx, tx, &surface.Report{
		Chat: peerOf(o.chat.key), Agent: protocol.PeerID(o.agent), Key: fmt.Sprintf("%d:%s", o.Reply, name), Trace: o.Trace, Status: content,
	})
}

// settled runs in the transaction that settles a part: it notes the message that the
// part made, and with the last part reports what became of the reply.
func (out *outbound) settled(ctx context.Context, tx *sql.Tx, item outbox.Item, outcome outbox.State, cause error) error {
	o, err := out.outgoing(ctx, tx, &item)
	if err != nil {
		if !outbox.Open(err) {
			return nil // an item that nobody can read has nobody to report to
		}
		return err
	}
	number, _ := out.shown.Load(item.ID)
	message, _ := number.(int64)
	err = store.Exec(ctx, tx, `UPDATE sends SET attempt = 0, message = max(message, ?) WHERE reply = ? AND part = ?`, message, o.Reply, o.Part)
	if err != nil {
		return err
	}
	log := out.log.With().Str("topic", string(topicOf(o.chat.key))).Str("peer", o.agent).Int64("item", item.ID).AnErr("reason", cause).Logger()
	switch outcome {
	case outbox.StateSent:
	case outbox.StateDropped:
		log.Info().Msg("answer not shown, and nobody misses it")
	default:
		log.Error().Str("outcome", string(outcome)).Msg("answer not shown for certain; see `hubbub outbox list`")
	}
	return out.reportWhole(ctx, tx, o, item, outcome)
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
	source, _, err := store.One(ctx, tx, func(row store.Row) (source string, err error) {
		var chat int64
		err = row.Scan(&chat, &status.TelegramMessageID)
		return out.sourceID(chat, int(status.TelegramMessageID)), err
	}, `SELECT telegram_chat, message FROM sends WHERE reply = ? AND message > 0 ORDER BY part LIMIT 1`, o.Reply)
	if err != nil {
		return err
	}
	status.SourceID = source
	// An operator may have a part sent again: then there is another report.
	if err := out.report(ctx, tx, o, status, fmt.Sprintf("%s:%d", status.Status, item.SettledAt.UnixMicro())); err != nil {
		return err
	}
	if lost && o.agent != "" && outcome != outbox.StateDropped { // a reaction less needs no alarm
		return out.tellLost(ctx, tx, o.chat)
	}
	return nil
}

// tellLost tells a chat that an answer was lost, if it can be told.
func (out *outbound) tellLost(ctx context.Context, tx *sql.Tx, c *chat) error {
	if c.silent() {
		return nil
	}
	return out.notice(ctx, tx, c, 0, "lost:"+thisHour(), "An answer could not be shown here. Ask again if you miss one; /status says more.")
}
