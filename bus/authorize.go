package bus

import (
	"encoding/json"
	"fmt"

	"hubbub/activitylog"
	"hubbub/bus/grant"
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
	if err := s.usage.chargeMessage(s.batch.at, len(m.Params)); err != nil {
		refuseOverQuota(s, m, send, err)
		return
	}
	if err := s.maySend(&send); err != nil {
		s.record(activitylog.Row{
			Event: activitylog.Rejected, MessageID: send.MessageID, RPCID: m.ID.String(), Actor: send.From,
			Topic: send.Topic, Status: string(protocol.OutcomeRejected), Payload: cloneResult(send.Payload), Error: err.Error(),
		})
		s.refuse(m, jsonrpc.Errorf(protocol.CodeInvalidParams, "%v", err))
		return
	}
	if err := s.server.acceptsMessages(); err != nil {
		s.refuse(m, jsonrpc.Errorf(protocol.CodeInternal, "%v", err))
		return
	}
	if send.Once {
		publishOnce(s, m, send)
		return
	}
	s.publish(m.ID, send, nil)
}

// refuseOverQuota answers a message that a bound of the credential does not let through. It leaves
// no row: the log's bytes may be what is used up.
func refuseOverQuota(s *session, m jsonrpc.Message, send protocol.Send, why error) {
	result := protocol.SendResult{
		MessageID: protocol.MessageID(send.MessageID),
		Failures:  []protocol.Failure{{Peer: s.id, Status: protocol.OutcomeRate, Error: why.Error()}},
	}
	if protocol.IsIdentity(protocol.Topic(send.Topic)) {
		result.Addressee = protocol.AddresseeFailed
	}
	s.chargeOverhead(s.batch.at)
	s.server.metrics.refused.Add(1)
	if answer, err := json.Marshal(result); err == nil { // strings only
		s.answer(m, answer)
	}
}

// granted returns the session's credential, or nil if the bus is open.
func (s *session) granted() *grant.Credential { return s.credential.Load() }

// anyName is what an open bus vouches for: whoever reaches it may be anybody.
var anyName = []string{"*"}

// vouchedNames returns the names for which the bus vouches with a message: those that the
// sender's credential grants, in requests to the broker, which alone asks for them.
func (s *session) vouchedNames(m *protocol.Send) []string {
	if m.Type != protocol.TypeCollabRequest {
		return nil
	}
	if c := s.granted(); c != nil {
		return c.Names
	}
	return anyName
}

// mayBe returns nil if the session may use an identity, or the reason why not.
func (s *session) mayBe(id protocol.PeerID) error {
	if c := s.granted(); c != nil && !c.MayBe(id) {
		return fmt.Errorf("the credential %q does not grant the identity %q (--identity of hubbub token create)", c.Name, id)
	}
	return nil
}

// maySubscribe returns nil if the session may subscribe to a pattern, or the reason why
// not.
func (s *session) maySubscribe(p protocol.Pattern) error {
	if c := s.granted(); c != nil && !c.MaySubscribe(p) {
		return fmt.Errorf("the credential %q does not grant the subscription %q (--subscribe of hubbub token create)", c.Name, p)
	}
	return nil
}

// maySend returns nil if the session may send a message, or the reason why not. The
// role of payload.from must allow the type, the session must be that identity or
// speak for it, and its credential must grant the topic.
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
	if c := s.granted(); c != nil && !c.MayPublish(m.Topic) {
		return fmt.Errorf("the credential %q does not grant sending to %q (--publish of hubbub token create)", c.Name, m.Topic)
	}
	return nil
}

// speaksFor reports whether the session is an identity or may speak for it: by
// its credential, or, on an open bus, as a bridge for its family.
func (s *session) speaksFor(id protocol.PeerID) bool {
	if id == s.id {
		return true
	}
	if c := s.granted(); c != nil {
		return c.MayBe(id)
	}
	return protocol.SpeaksForFamily(s.id) && s.id.Family() == id.Family()
}

// isAddressee reports whether a message to the topic is for the session: it is
// that identity, or one of its family that may speak for it. A peer of another
// family may speak for everyone and listen to everything, as an operator's does,
// but a message that it processed has not reached its addressee.
func (s *session) isAddressee(topic protocol.PeerID) bool {
	return topic == s.id || s.id.Family() == topic.Family() && s.speaksFor(topic)
}
