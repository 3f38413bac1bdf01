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
	who, again := DedupKey{From: send.From, MessageID: send.MessageID, Credential: s.account.credential()}, repeat{s, bytes.Clone(m.ID)}
	f, asked, answer, err := srv.firsts.claim(s.batch.at, who, again)
	if asked > 0 {
		srv.inFlight.begin() // so that a bus that stops ends the asking, and answers
		defer srv.inFlight.end()
		r := askOthers(s, f)
		at := s.batch.at
		r, waiting := srv.firsts.resolve(f, asked, at, at.Add(srv.options.DeliveryTimeout+time.Second), again, r)
		for _, w := range waiting {
			w.end(s.batch, r.answer, r.err)
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

// askOthers asks the other buses of the cluster about a message, and waits for them.
func askOthers(s *session, f *first) ruling {
	c := s.server.options.Cluster
	if c == nil {
		return ruling{deliver: true}
	}
	s.batch.flush()
	var r ruling
	asked := make(chan struct{})
	known := s.server.firsts.holder(f)
	c.CheckDuplicate(f.DedupKey, func(votes []DedupReply, err error) {
		if r = rule(known, votes); err != nil {
			r = ruling{err: err}
		}
		close(asked)
	})
	<-asked
	s.batch.at = time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.deliver && s.gone() {
		r = ruling{err: errors.New(errReplaced)}
	}
	return r
}

// end gives a repeat the first outcome, or the reason why there is none.
func (r repeat) end(b *batch, answer []byte, err error) {
	switch {
	case r.rpcID == nil: // a notification
	case err != nil:
		r.session.replyError(b, r.rpcID, jsonrpc.Errorf(protocol.CodeInternal, "%v", err))
	default:
		r.session.reply(b, r.rpcID, answer)
	}
}

// AnswerDuplicateCheck implements Local.
func (t *firsts) AnswerDuplicateCheck(asker BusInstance, who DedupKey) DedupReply {
	return t.vote(time.Now(), t.srv.options.Name, asker, who)
}

// StoreOutcome implements Local.
func (t *firsts) StoreOutcome(who DedupKey, answer []byte) {
	b := t.srv.newBatch()
	for _, r := range t.learn(b.at, who, answer) {
		r.end(b, answer, nil)
	}
	b.flush()
}

// tell stores the outcome of a message that was sent with once and delivered here, and
// gives it to those that wait for it, and to the other buses.
func (t *firsts) tell(b *batch, f *first, answer []byte) {
	for _, r := range t.settle(f, answer) {
		r.end(b, answer, nil)
	}
	if c := t.srv.options.Cluster; c != nil {
		c.ShareOutcome(f.DedupKey, answer)
	}
}

// sweep refuses those that wait in vain for what another bus has.
func (t *firsts) sweep(b *batch) {
	c := t.srv.options.Cluster
	if c == nil {
		return
	}
	waiting, why := t.overdue(b.at, c.Missing())
	for i, r := range waiting {
		r.end(b, nil, why[i])
	}
}
