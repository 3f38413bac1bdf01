package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"
)

// Send publishes a message and returns what became of it. It waits for a
// connection and for the bus's answer until ctx ends. Empty MessageID, From and
// Timestamp are filled in. The error is a *jsonrpc.Error when the bus refused
// the message, and ErrInterrupted when the connection ended before the answer.
func (p *Peer) Send(ctx context.Context, topic protocol.Topic, m protocol.Message) (protocol.SendResult, error) {
	var result protocol.SendResult
	p.complete(&m)
	l, err := p.wait(ctx)
	if err != nil {
		return result, err
	}
	raw, err := l.call(ctx, protocol.MethodSendMessage, protocol.SendParams{Topic: topic, Payload: m})
	if err != nil {
		return result, err
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		return result, fmt.Errorf("reading the bus's answer: %w", err)
	}
	return result, nil
}

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

// call makes a request on one connection.
func (l *link) call(ctx context.Context, method string, params any) ([]byte, error) {
	raw, err := json.Marshal(params)
	if err != nil {
		return nil, fmt.Errorf("the params of %s cannot be marshalled: %w", method, err)
	}
	raw, err = l.conn.Call(ctx, method, raw)
	if errors.Is(err, jsonrpc.ErrClosed) {
		return nil, ErrInterrupted
	}
	return raw, err
}

func (l *link) subscribe(ctx context.Context, pattern protocol.Pattern, observe bool) error {
	_, err := l.call(ctx, protocol.MethodSubscribe, protocol.SubscribeParams{Topic: string(pattern), Observe: observe})
	return err
}
