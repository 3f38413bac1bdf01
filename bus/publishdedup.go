package bus

import (
	"bytes"
	"errors"
	"time"

	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"
)

// publishOnce publishes a message, or answers a repeat of one with the first outcome. In a
// cluster the reader waits for the other buses meanwhile, so that the sender's messages
// keep their order.
func publishOnce(s *session, m jsonrpc.Message, send protocol.Send) {
	srv := s.server
	who, again := DedupKey{From: send.From, MessageID: send.MessageID, Credential: s.usage.credentialName()}, dedupWaiter{s, bytes.Clone(m.ID)}
	f, asked, answer, err := srv.dedupTable.lookup(s.batch.at, who, again)
	if asked > 0 {
		srv.inFlight.begin() // so that a bus that stops ends the asking, and answers
		defer srv.inFlight.end()
		r := askCluster(s, f)
		at := s.batch.at
		r, waiting := srv.dedupTable.resolve(f, asked, at, at.Add(srv.options.DeliveryTimeout+time.Second), again, r)
		for _, w := range waiting {
			w.answer(s.batch, r.answer, r.err)
		}
		if r.deliver {
			s.publish(m.ID, send, f)
			return
		}
		answer, err = r.answer, r.err
	}
	switch {
	case err != nil:
		s.refuse(m, jsonrpc.Errorf(protocol.CodeInternal, "%v", err))
	case answer != nil:
		s.answer(m, answer)
	}
}

// askCluster asks the other buses of the cluster about a message, and waits for them.
func askCluster(s *session, f *dedupEntry) dedupDecision {
	c := s.server.options.Cluster
	if c == nil {
		return dedupDecision{deliver: true}
	}
	s.batch.flush()
	var r dedupDecision
	asked := make(chan struct{})
	known := s.server.dedupTable.owner(f)
	c.CheckDuplicate(f.DedupKey, func(votes []DedupReply, err error) {
		if r = decide(known, votes); err != nil {
			r = dedupDecision{err: err}
		}
		close(asked)
	})
	<-asked
	s.batch.at = time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.deliver && s.inactive() {
		r = dedupDecision{err: errors.New(errReplaced)}
	}
	return r
}

// answer gives a repeat the first outcome, or the reason why there is none.
func (r dedupWaiter) answer(b *batch, answer []byte, err error) {
	switch {
	case r.rpcID == nil: // a notification
	case err != nil:
		r.session.replyError(b, r.rpcID, jsonrpc.Errorf(protocol.CodeInternal, "%v", err))
	default:
		r.session.reply(b, r.rpcID, answer)
	}
}

// AnswerDuplicateCheck implements Local.
func (t *dedupTable) AnswerDuplicateCheck(asker BusInstance, who DedupKey) DedupReply {
	return t.check(time.Now(), t.srv.options.Name, asker, who)
}

// StoreOutcome implements Local.
func (t *dedupTable) StoreOutcome(who DedupKey, answer []byte) {
	b := t.srv.newBatch()
	for _, r := range t.storeRemote(b.at, who, answer) {
		r.answer(b, answer, nil)
	}
	b.flush()
}

// finish stores the outcome of a message that was sent with once and delivered here, and
// gives it to those that wait for it, and to the other buses.
func (t *dedupTable) finish(b *batch, f *dedupEntry, answer []byte) {
	for _, r := range t.store(f, answer) {
		r.answer(b, answer, nil)
	}
	if c := t.srv.options.Cluster; c != nil {
		c.ShareOutcome(f.DedupKey, answer)
	}
}

// sweep refuses those that wait in vain for what another bus has.
func (t *dedupTable) sweep(b *batch) {
	c := t.srv.options.Cluster
	if c == nil {
		return
	}
	waiting, why := t.overdue(b.at, c.Missing())
	for i, r := range waiting {
		r.answer(b, nil, why[i])
	}
}
