package tg

import (
	"context"
	"fmt"

	"hubbub/peers/bridge"
	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/text"
)

// reportDelay reports to the agent, after the first attempt, that its reply is waiting.
func (out *outbound) reportDelay(ctx context.Context, o *outgoing, err error) error {
	return out.router.ReportDelay(ctx, o.item.Attempt, o.report(protocol.DeliveryStatus{}, "accepted"), err)
}

// report returns a report for the author of a reply. Of the reports about a reply with the same
// name, only the first is delivered.
func (o *outgoing) report(status protocol.DeliveryStatus, name string) *bridge.Report {
	author := protocol.PeerID(o.agent)
	if o.isOwn() {
		author = "" // nobody waits for the report
	}
	status.MessageID, status.IdempotencyKey = o.busID, o.content.IdempotencyKey
	return &bridge.Report{
		Chat: peerOf(o.chat.key), Agent: author, Key: fmt.Sprintf("%d:%s", o.Reply, name), Trace: o.Trace,
		Status: status,
	}
}

// onSettled runs in the transaction that settles a part. It stores the number of the message.
// With the last part, it reports the outcome of the reply.
func (out *outbound) onSettled(tx *store.Tx, item outbox.Item, outcome outbox.State, cause error) {
	o, err := out.outgoing(tx, &item)
	if err != nil {
		if outbox.WillRetry(err) { // else the item is unreadable, and there is nobody to report to
			tx.Fail(err)
		}
		return
	}
	number, _ := out.shown.Load(item.ID)
	message, _ := number.(int64)
	tx.Exec(`UPDATE sends SET attempt = 0, message = max(message, ?) WHERE reply = ? AND part = ?`, message, o.Reply,
		o.Part)
	if tx.Err() != nil {
		return
	}
	bridge.LogSettled(out.log, &item, peerOf(o.chat.key), o.agent, outcome, cause)
	out.reportReply(tx, o, outcome)
}

// reportReply reports the outcome of a reply when none of its parts is open.
func (out *outbound) reportReply(tx *store.Tx, o *outgoing, outcome outbox.State) {
	status, lost := protocol.DeliveryStatus{Status: protocol.StatusDelivered}, false
	for _, p := range out.partsOf(tx, o) {
		switch p.State {
		case outbox.StatePending, outbox.StateSending:
			return
		case outbox.StateDead, outbox.StateDropped:
			status.Status = protocol.StatusFailed
			lost = lost || p.kind == kindText
		case outbox.StateUnknown:
			if status.Status == protocol.StatusDelivered {
				status.Status = protocol.StatusUnknown
			}
		}
		status.Reason = max(status.Reason, text.Clip(out.api.Redact(p.Error), bridge.MaxReason))
	}
	type made struct{ chat, message int64 }
	first, shown := store.One(tx, func(m *made) []any { return []any{&m.chat, &m.message} },
		`SELECT telegram_chat, message FROM sends WHERE reply = ? AND message > 0 ORDER BY part LIMIT 1`, o.Reply)
	if shown {
		status.TelegramMessageID, status.SourceID = first.message, out.sourceID(first.chat, int(first.message))
	}
	if shown && status.Status == protocol.StatusDelivered {
		out.relayToOtherAgents(tx, o, first.chat, int(first.message))
	}
	// If an operator sends a part again, another report follows.
	out.router.Report(tx, o.report(status, fmt.Sprintf("%s:%d", status.Status, o.item.SettledAt.UnixMicro())))
	// a missing reaction needs no notice
	if lost && o.agent != "" && outcome != outbox.StateDropped && !o.chat.isMuted() {
		out.notice(tx, o.chat, 0, "lost:"+bridge.ThisHour(),
			"An answer could not be shown here. If you're missing one, please ask again; /status says more.")
	}
}
