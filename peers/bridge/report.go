package bridge

import (
	"context"
	"encoding/json"
	"errors"

	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/protocol"
)

// A Report tells an agent what became of its reply in a chat.
type Report struct {
	Chat   protocol.PeerID
	Agent  protocol.PeerID // whoever wrote the reply; empty: nobody is told
	Key    string          // once per agent
	Trace  string          // traceparent of the reply
	Status protocol.DeliveryStatus
}

// A reportItem message is the body of an item of the queue of reports.
type reportItem struct {
	Topic   protocol.Topic   `json:"topic"`
	Message protocol.Message `json:"message"`
}

// Report queues a delivery_status, in the transaction that knows what it says.
func (r *Router) Report(tx *store.Tx, report *Report) {
	if report.Agent == "" {
		return
	}
	m := protocol.NewMessage(protocol.TypeDeliveryStatus, report.Chat, report.Status)
	m.InReplyTo, m.TraceParent = report.Status.MessageID, report.Trace
	body, err := json.Marshal(reportItem{report.Agent.Topic(), m})
	tx.Fail(err)
	_, err = r.reports.EnqueueTx(tx, string(report.Agent), report.Key, body)
	if !errors.Is(err, outbox.ErrFull) { // the agent has been away for a hundred thousand replies
		tx.Fail(err)
	}
}

// deliverReport makes one attempt to give a report to its agent, or to the operator's
// command that wrote the reply: that one has ended, as a rule, and nobody misses it.
func (r *Router) deliverReport(ctx context.Context, stored outbox.Item) error {
	var item reportItem
	if err := json.Unmarshal(stored.Body, &item); err != nil {
		return outbox.Permanent(err)
	}
	err := r.peer.Deliver(ctx, item.Topic, stored.Attempt, item.Message)
	r.opts.Crash("reported")
	return err
}

// ParseReport returns what a report says, for operators.
func ParseReport(body []byte) protocol.DeliveryStatus {
	var r reportItem
	var status protocol.DeliveryStatus
	if json.Unmarshal(body, &r) == nil {
		_ = json.Unmarshal(r.Message.Content, &status) // what cannot be read says nothing
	}
	return status
}
