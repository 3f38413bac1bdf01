package bus

import (
	"encoding/json"
	"fmt"

	"hubbub/activitylog"
	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"
)

// sendMessage checks a message and publishes it (sections 5.3 and 9).
func (s *session) sendMessage(m jsonrpc.Message) {
	send, err := protocol.ScanSend(&s.batch.parser, m.Params)
	if err != nil {
		s.refuse(m, jsonrpc.Errorf(protocol.CodeInvalidParams, "%v", err))
		return
	}
	if err := s.client.usage.chargeMessage(s.batch.at, len(m.Params)); err != nil {
		s.refuseOverQuota(m, send, err)
		return
	}
	if err := s.maySend(&send); err != nil {
		s.record(activitylog.Row{
			Event:     activitylog.Rejected,
			MessageID: send.MessageID,
			RPCID:     m.ID.String(),
			Actor:     send.From,
			Topic:     send.Topic,
			Status:    string(protocol.OutcomeRejected),
			Payload:   cloneResult(send.Payload),
			Error:     err.Error(),
		})
		s.refuse(m, jsonrpc.Errorf(protocol.CodeInvalidParams, "%v", err))
		return
	}
	if err := s.server.acceptsMessages(); err != nil {
		s.refuse(m, jsonrpc.Errorf(protocol.CodeInternal, "%v", err))
		return
	}
	if send.Once {
		s.publishOnce(m, send)
		return
	}
	s.publish(m.ID, send, nil)
}

// refuseOverQuota answers a message that exceeds a limit of the credential. It records no row,
// because the exceeded limit may be the one on the activity log.
func (s *session) refuseOverQuota(m jsonrpc.Message, send protocol.Send, reason error) {
	result := protocol.SendResult{
		MessageID: protocol.MessageID(send.MessageID),
		Failures:  []protocol.Failure{{Peer: s.id, Status: protocol.OutcomeRate, Error: reason.Error()}},
	}
	if protocol.IsIdentity(protocol.Topic(send.Topic)) {
		result.Addressee = protocol.AddresseeFailed
	}
	s.client.chargeOverhead(s.batch.at)
	s.server.metrics.refused.Add(1)
	if answer, err := json.Marshal(result); err == nil { // always: strings only
		s.answer(m, answer)
	}
}

// maySend returns nil if the session may send a message, or the reason why not. The role of
// payload.from must allow the type, the session must be that identity or speak for it, and
// its credential must grant the topic.
func (s *session) maySend(m *protocol.Send) error {
	from := protocol.PeerID(m.From)
	if err := protocol.MaySend(from, m.Type); err != nil {
		return err
	}
	if m.Topic == string(protocol.TopicPresence) {
		return fmt.Errorf("only the bus itself sends to %q", m.Topic)
	}
	if from != s.id && !s.speaksFor(from) {
		return fmt.Errorf("%s may not speak as %q", s.id, from)
	}
	if c := s.client.granted(); c != nil && !c.MayPublish(m.Topic) {
		return fmt.Errorf("the credential %q does not grant sending to %q (--publish of hubbub token create)",
			c.Name, m.Topic)
	}
	return nil
}

// speaksFor reports whether the session has an identity or may speak for it. Its credential
// may grant that; on an open bus, a bridge may speak for its family.
func (s *session) speaksFor(id protocol.PeerID) bool {
	if id == s.id {
		return true
	}
	if c := s.client.granted(); c != nil {
		return c.MayBe(id)
	}
	return protocol.MaySendForFamily(s.id) && s.id.Family() == id.Family()
}

// isAddressee reports whether the session is the addressee of a topic: it has that
// identity, or it is of the same family and may speak for it. A peer of another family is
// never the addressee, even an operator's peer that may speak for all and receives everything.
func (s *session) isAddressee(topic protocol.PeerID) bool {
	return topic == s.id || s.id.Family() == topic.Family() && s.speaksFor(topic)
}
