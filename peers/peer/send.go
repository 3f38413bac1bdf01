package peer

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"hubbub/protocol"
)

// Send publishes a message and returns the bus's answer. It waits for a connection and for the
// answer until ctx ends. It fills in an empty MessageID, From or Timestamp.
//
// A nil error means that the bus accepted the message. The result says which peers processed it,
// and which failed and how. Nobody may have processed it: see SendResult.DeliveredTo and, if a
// specific peer matters, Addressee. A rate limit of the credential is not an error, either: see
// protocol.OutcomeRate and [Classify].
//
// With ErrNotConnected, ErrStopped, *TooLargeError and *jsonrpc.Error nothing was delivered; the
// last two repeat at every attempt. With ErrInterrupted, or if ctx ends before the answer, the
// message may have been delivered: send it again with the same MessageID if the receivers detect
// duplicates.
func (p *Peer) Send(ctx context.Context, topic protocol.Topic, m protocol.Message) (protocol.SendResult, error) {
	return p.send(ctx, topic, m, false)
}

// SendOnce is Send for a message that may be sent again with the same MessageID, at any bus of
// the cluster. For ten minutes, each repeat gets the outcome of the first attempt, even if that
// was a failure, and nothing is delivered again. If the bus does not know the first outcome, or
// cannot store this one, it refuses with a temporary *jsonrpc.Error: send the message again
// later.
func (p *Peer) SendOnce(ctx context.Context, topic protocol.Topic, m protocol.Message) (protocol.SendResult, error) {
	return p.send(ctx, topic, m, true)
}

func (p *Peer) send(ctx context.Context, topic protocol.Topic, m protocol.Message, once bool) (protocol.SendResult,
	error) {
	var result protocol.SendResult
	p.complete(&m)
	l, err := p.wait(ctx)
	if err != nil {
		return result, err
	}
	raw, err := l.call(ctx, protocol.MethodSendMessage, protocol.SendParams{Topic: topic, Payload: m, Once: once})
	if err != nil {
		return result, err
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		return result, fmt.Errorf("reading the bus's answer: %w", err)
	}
	return result, nil
}

// absences is the number of attempts that must find a command line absent before it counts as
// gone. It may only have lost its connection, for example during a restart of the bus.
const absences = 3

func (p *Peer) complete(m *protocol.Message) {
	if m.MessageID == "" {
		m.MessageID = protocol.NewMessageID()
	}
	if m.From == "" {
		m.From = p.id
	}
	if m.Timestamp == "" {
		m.Timestamp = protocol.FormatTime(time.Now())
	}
	if m.Content == nil {
		m.Content = json.RawMessage("{}")
	}
}

// call sends a request on one connection and waits for the answer.
func (l *link) call(ctx context.Context, method string, params any) ([]byte, error) {
	raw, err := json.Marshal(params)
	if err != nil {
		return nil, fmt.Errorf("the params of %s cannot be marshalled: %w", method, err)
	}
	raw, err = l.conn.Call(ctx, method, raw)
	return raw, explainCall(err)
}

func (l *link) subscribe(ctx context.Context, pattern protocol.Pattern, observe bool) error {
	_, err := l.call(ctx, protocol.MethodSubscribe, protocol.SubscribeParams{Topic: string(pattern), Observe: observe})
	return err
}

func (l *link) unsubscribe(ctx context.Context, pattern protocol.Pattern) error {
	_, err := l.call(ctx, protocol.MethodUnsubscribe, protocol.SubscribeParams{Topic: string(pattern)})
	return err
}
