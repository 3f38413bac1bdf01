package bus

import (
	"bytes"
	"errors"
	"time"

	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"
)

// publishOnce publishes a message with once, or answers a repeat with the first outcome. In
// a cluster it first asks the other buses. The reader waits for their replies, so that the
// sender's messages keep their order.
func (s *session) publishOnce(m jsonrpc.Message, send protocol.Send) {
	srv := s.server
	key := DedupKey{From: send.From, MessageID: send.MessageID, Credential: s.client.usage.credentialName()}
	waiter := dedupWaiter{s, bytes.Clone(m.ID)}
	entry, attempt, answer, err := srv.dedup.lookup(s.batch.at, key, waiter)
	if attempt > 0 {
		srv.shutdown.inFlight.begin() // so a stopping bus ends the wait for replies, and answers
		defer srv.shutdown.inFlight.end()
		decision := s.askCluster(entry)
		at := s.batch.at
		waitUntil := at.Add(srv.options.DeliveryTimeout + time.Second)
		decision, waiting := srv.dedup.resolve(entry, attempt, at, waitUntil, waiter, decision)
		for _, w := range waiting {
			w.answer(s.batch, decision.answer, decision.err)
		}
		if decision.deliver {
			s.publish(m.ID, send, entry)
			return
		}
		answer, err = decision.answer, decision.err
	}
	switch {
	case err != nil:
		s.refuse(m, jsonrpc.Errorf(protocol.CodeInternal, "%v", err))
	case answer != nil:
		s.answer(m, answer)
	}
}

// askCluster asks the other buses of the cluster about a message, and waits for their
// replies.
func (s *session) askCluster(e *dedupEntry) dedupDecision {
	c := s.server.options.Cluster
	if c == nil {
		return dedupDecision{deliver: true}
	}
	s.batch.flush()
	var decision dedupDecision
	asked := make(chan struct{})
	owner := s.server.dedup.owner(e)
	c.CheckDuplicate(e.DedupKey, func(replies []DedupReply, err error) {
		if decision = decide(owner, replies); err != nil {
			decision = dedupDecision{err: err}
		}
		close(asked)
	})
	<-asked
	s.batch.at = time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if decision.deliver && s.lifecycle.inactive() {
		decision = dedupDecision{err: errors.New(errReplaced)}
	}
	return decision
}

// answer answers a repeat with the first outcome, or with the reason why there is none.
func (w dedupWaiter) answer(b *batch, answer []byte, err error) {
	switch {
	case w.rpcID == nil: // a notification
	case err != nil:
		w.session.replyError(b, w.rpcID, jsonrpc.Errorf(protocol.CodeInternal, "%v", err))
	default:
		w.session.reply(b, w.rpcID, answer)
	}
}

// finish stores the outcome of a message with once that was delivered here, and passes it to the
// waiting repeats and to the other buses.
func (t *dedupTable) finish(b *batch, e *dedupEntry, answer []byte) {
	for _, w := range t.store(e, answer) {
		w.answer(b, answer, nil)
	}
	if c := t.srv.options.Cluster; c != nil {
		c.ShareOutcome(e.DedupKey, answer)
	}
}

// sweep refuses repeats that have waited too long for the outcome of another bus.
func (t *dedupTable) sweep(b *batch) {
	c := t.srv.options.Cluster
	if c == nil {
		return
	}
	waiting, reasons := t.overdue(b.at, c.Missing())
	for i, w := range waiting {
		w.answer(b, nil, reasons[i])
	}
}
