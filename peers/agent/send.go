package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/mailbox"
	"hubbub/peers/outbox"
	"hubbub/peers/peer"
	"hubbub/protocol"
)

// send makes one attempt to send what is queued. A chat must have its bridge there;
// records are sent whether anybody listens or not.
func (a *Agent) send(ctx context.Context, item outbox.Item) error {
	var m protocol.Message
	if err := json.Unmarshal(item.Body, &m); err != nil {
		return outbox.Permanent(fmt.Errorf("a queued message cannot be read: %w", err))
	}
	topic := protocol.Topic(item.Destination)
	err := a.peer.Tell(ctx, topic, item.Attempt, m)
	report := m.Type == protocol.TypeAgentEvent && protocol.IsIdentity(topic) // of a turn: answers wait behind it
	switch {
	case errors.Is(err, peer.ErrStopped):
		return outbox.Retry(time.Second, err)
	case err != nil && report && peer.ReceptionOf(err) != peer.Unsent:
		return outbox.Permanent(err)
	}
	return err
}

// servers returns the MCP servers of a turn: the operator's, and that of the chorus
// gateway for a message that came through it.
func (a *Agent) servers(e *mailbox.Entry) ([]harness.MCPServer, error) {
	if e == nil || len(e.Content.MCP) == 0 || protocol.PeerID(e.Chat).Family() != "chorus" || a.opts.Peer == nil {
		return a.opts.MCP, nil
	}
	var proxy struct {
		URL string `json:"url"`
	}
	if err := json.Unmarshal(e.Content.MCP, &proxy); err != nil || proxy.URL == "" {
		return a.opts.MCP, nil
	}
	token := a.opts.Peer.Token
	if a.opts.Peer.TokenFunc != nil {
		var err error
		if token, err = a.opts.Peer.TokenFunc(); err != nil {
			return nil, fmt.Errorf("reading the token for the chorus gateway: %w", err)
		}
	}
	server := harness.MCPServer{Name: "channel", URL: proxy.URL, Headers: map[string]string{}}
	if token != "" {
		server.Headers["Authorization"] = "Bearer " + token
	}
	if a.opts.Conceal != nil {
		server = a.opts.Conceal(server)
	}
	return append(append([]harness.MCPServer{}, a.opts.MCP...), server), nil
}
