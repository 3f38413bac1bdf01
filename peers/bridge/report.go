package bridge

import (
	"context"
	"encoding/json"
	"errors"

	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/text"

	"github.com/rs/zerolog"
)

// A Report tells an agent what happened to its reply in a chat.
type Report struct {
	Chat   protocol.PeerID
	Agent  protocol.PeerID // the author of the reply; if empty, nothing is reported
	Key    string          // unique per agent: a key is reported once
	Trace  string          // traceparent of the reply
	Status protocol.DeliveryStatus
}

// A reportItem is the body of an item in the queue of reports.
type reportItem struct {
	Topic   protocol.Topic   `json:"topic"`
	Message protocol.Message `json:"message"`
}

// Report queues a delivery_status. It belongs to the transaction that stores the status.
func (r *Router) Report(tx *store.Tx, report *Report) {
	if report.Agent == "" {
		return
	}
	m := protocol.NewMessage(protocol.TypeDeliveryStatus, report.Chat, report.Status)
	m.InReplyTo = report.Status.MessageID
	m.TraceParent = report.Trace
	body, err := json.Marshal(reportItem{report.Agent.Topic(), m})
	tx.Fail(err)
	_, err = r.reports.EnqueueTx(tx, string(report.Agent), report.Key, body)
	if !errors.Is(err, outbox.ErrFull) { // the agent has been absent for a hundred thousand replies
		tx.Fail(err)
	}
}

// ReportDelay reports to the author of a reply, after the first attempt to send it, that it waits.
// It returns err, the outcome of the attempt. The status of the report is set here.
func (r *Router) ReportDelay(ctx context.Context, attempt int, report *Report, err error) error {
	if attempt > 1 || !outbox.WillRetry(err) {
		return err
	}
	report.Status.Status, report.Status.Reason = protocol.StatusAccepted, text.Clip(err.Error(), MaxReason)
	failed := store.InTx(context.WithoutCancel(ctx), r.db, func(tx *store.Tx) { r.Report(tx, report) })
	if failed != nil {
		r.log.Error().Err(failed).Msg("reporting that a reply is waiting failed")
	}
	return err
}

// deliverReport makes one attempt to deliver a report to the author of the reply. An
// author that was an operator's command has usually ended, and its report is lost.
func (r *Router) deliverReport(ctx context.Context, stored outbox.Item) error {
	var item reportItem
	if err := json.Unmarshal(stored.Body, &item); err != nil {
		return outbox.Permanent(err)
	}
	err := r.peer.Deliver(ctx, item.Topic, stored.Attempt, item.Message)
	r.opts.Crash("reported")
	return err
}

// LogSettled logs that a part of an agent's reply was not sent.
func LogSettled(log *zerolog.Logger, item *outbox.Item, chat protocol.PeerID, agent string, outcome outbox.State,
	cause error) {
	if outcome == outbox.StateSent {
		return
	}
	e, says := log.Error(), "reply possibly not sent; see `hubbub outbox list`"
	if outcome == outbox.StateDropped {
		e, says = log.Info(), "reply not sent; another agent answers"
	}
	e.Str("topic", string(chat)).Str("peer", agent).Int64("item", item.ID).AnErr("reason", cause).
		Str("outcome", string(outcome)).Msg(says)
}

// ParseReport returns the status in the body of a queued report, for operators. The
// status is empty if the body cannot be read.
func ParseReport(body []byte) protocol.DeliveryStatus {
	var item reportItem
	var status protocol.DeliveryStatus
	if json.Unmarshal(body, &item) == nil {
		_ = json.Unmarshal(item.Message.Content, &status) // an unreadable status stays empty
	}
	return status
}
