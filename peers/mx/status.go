package mx

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
	return out.router.ReportDelay(ctx, o.of.Attempt, o.report(protocol.DeliveryStatus{}, "accepted"), err)
}

// report returns a report for the author of a reply. Of the reports about a reply with the same
// name, only the first is delivered.
func (o *outgoing) report(status protocol.DeliveryStatus, name string) *bridge.Report {
	status.MessageID, status.IdempotencyKey = o.busID, o.content.IdempotencyKey
	return &bridge.Report{
		Chat: o.chat.peer(), Agent: protocol.PeerID(o.agent), Key: fmt.Sprintf("%d:%s", o.Reply, name), Trace: o.Trace,
		Status: status,
	}
}

// onSettled runs in the transaction that settles an item. With the last part, it reports the outcome
// of the reply.
func (out *outbound) onSettled(tx *store.Tx, of outbox.Item, outcome outbox.State, cause error) {
	o, err := out.outgoing(tx, &of)
	if err != nil || o.Act != nil {
		if err != nil && outbox.WillRetry(err) { // else the item is unreadable, and there is nobody to report to
			tx.Fail(err)
		}
		if outcome == outbox.StateDead || outcome == outbox.StateDropped {
			out.log.Warn().Err(cause).Str("room", of.Destination).Msg("room not joined or left")
		}
		return
	}
	bridge.LogSettled(out.log, &of, o.chat.peer(), o.agent, outcome, cause)
	out.reportReply(tx, o, outcome)
}

// reportReply reports the outcome of a reply when none of its parts is open.
func (out *outbound) reportReply(tx *store.Tx, o *outgoing, outcome outbox.State) {
	status, lost := protocol.DeliveryStatus{Status: protocol.StatusDelivered}, false
	for _, p := range out.matrix.ListByPrefix(tx, o.of.Destination, fmt.Sprintf("%d.", o.Reply)) {
		isSignal := o.content.Signal != "" && p.Key == fmt.Sprintf("%d.0", o.Reply) // see splitParts
		switch p.State {
		case outbox.StatePending, outbox.StateSending:
			return
		case outbox.StateDead, outbox.StateDropped, outbox.StateUnknown:
			status.Status, lost = protocol.StatusFailed, lost || !isSignal // a missing reaction needs no notice
		}
		status.Reason = max(status.Reason, text.Clip(p.Error, bridge.MaxReason))
	}
	first, shown := store.One(tx, store.Scalar[string],
		`SELECT event FROM sends WHERE reply = ? AND event <> '' ORDER BY kind = 'signal', part LIMIT 1`, o.Reply)
	if shown {
		status.SourceID = sourceID(first)
	}
	if shown && status.Status == protocol.StatusDelivered {
		out.relay(tx, o, first)
	}
	// If an operator sends a part again, another report follows.
	out.router.Report(tx, o.report(status, fmt.Sprintf("%s:%d", status.Status, o.of.SettledAt.UnixMicro())))
	unreadable := o.chat.encrypted && out.cipher == nil // people know that the bot cannot take part there
	if lost && o.agent != "" && outcome != outbox.StateDropped && !o.chat.isMuted() && !unreadable {
		out.notice(tx, o.chat, "", "lost:"+bridge.ThisHour(),
			"An answer could not be shown here. If you're missing one, please ask again; !status says more.")
	}
}
