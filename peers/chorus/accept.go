package chorus

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"hubbub/peers/store"
	"hubbub/peers/surface"
	"hubbub/protocol"
)

// Limits on what one inbox may have us keep.
const (
	maxWaiting   = 1000 // messages of one inbox that no agent has taken yet
	maxChannels  = 1000 // channels of one inbox
	storeTimeout = 15 * time.Second
	frameMargin  = 512 // bytes that the envelope of a frame needs besides its params
)

// An inbound is one message of a Chorus service on its way to an agent.
type inbound struct {
	seq       int64
	channel   protocol.PeerID
	inbox     InboxName
	external  ChannelID
	id        string // the service's message id
	sourceID  string
	messageID protocol.MessageID // of the chat_message, the same in every attempt
	content   json.RawMessage
	callback  string
	mcp       []MCPServer
}

// inboundOf makes the chat_message of a posted message. It refuses with 413
// what would not fit into a frame of the bus.
func (g *Gateway) inboundOf(inbox InboxName, p *Posted) (*inbound, error) {
	peer := ChannelPeer(inbox, p.ChannelID)
	in := &inbound{
		channel: peer, inbox: inbox, external: p.ChannelID, id: p.MessageID,
		sourceID: string(peer) + ":" + p.MessageID, messageID: protocol.NewMessageID(),
		callback: p.Callback, mcp: p.MCP,
	}
	content := protocol.ChatMessage{
		Text: p.Content, Event: protocol.EventMessage, SourceID: in.sourceID,
		// A service POSTs what it wants answered: to the agent each message is a direct one.
		Chat:      &protocol.Chat{ID: string(peer), Kind: "dm", Title: p.Name, Service: p.Service, Context: p.Context},
		Author:    &protocol.Author{ID: p.Sender, Kind: "human", DisplayName: p.Sender},
		CreatedAt: protocol.FormatTime(g.opts.Now()),
	}
	if len(p.MCP) > 0 {
		raw, err := json.Marshal(map[string]string{"url": g.proxyURL(peer)})
		if err != nil {
			return nil, fmt.Errorf("writing the address of the tools: %w", err)
		}
		content.MCP = raw
	}
	raw, err := json.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("writing a chat message: %w", err)
	}
	in.content = raw
	if g.frameSize(protocol.MaxTopic, in.message()) > g.opts.MaxFrame {
		return nil, refuse(http.StatusRequestEntityTooLarge, "the message is larger than a frame of the bus")
	}
	return in, nil
}

// message is the chat_message that goes to the agent.
func (in *inbound) message() protocol.Message {
	return protocol.Message{
		MessageID: in.messageID, Type: protocol.TypeChatMessage, From: in.channel,
		Timestamp: protocol.FormatTime(time.Now()), Content: in.content,
	}
}

// frameSize returns an upper bound of the size of a sendMessage's frame.
func (g *Gateway) frameSize(topicBytes int, m protocol.Message) int {
	raw, err := json.Marshal(m)
	if err != nil {
		return g.opts.MaxFrame + 1
	}
	return len(raw) + topicBytes + frameMargin
}

// accept stores a message and its channel in one transaction. A message that was
// stored before, by (channel id, message id), changes nothing.
func (g *Gateway) accept(ctx context.Context, in *inbound) error {
	return g.store.inTx(ctx, func(tx *sql.Tx) error {
		_, known, err := store.One(ctx, tx, store.Column[int], `SELECT 1 FROM inbound WHERE channel = ? AND external_id = ?`, in.channel, in.id)
		if err != nil || known {
			return err
		}
		if err := g.store.ensureChannel(ctx, tx, in); err != nil {
			return err
		}
		now := micros(g.opts.Now())
		in.seq, _, err = store.One(ctx, tx, store.Column[int64], `INSERT INTO inbound (channel, external_id, source_id, message_id, content, received_at)
			VALUES (?, ?, ?, ?, ?, ?) RETURNING seq`, in.channel, in.id, in.sourceID, in.messageID, []byte(in.content), now)
		if err != nil {
			return err
		}
		if err := g.store.keepSecrets(ctx, tx, in, now); err != nil {
			return err
		}
		return g.surface.Pass(ctx, tx, &surface.Event{ID: in.seq, Chat: in.channel, Source: in.sourceID}, time.Time{})
	})
}

// ensureChannel creates the channel on its first message and enforces the bounds of
// the inbox.
func (s *Store) ensureChannel(ctx context.Context, tx *sql.Tx, in *inbound) error {
	var exists bool
	var channels, waiting int
	err := tx.QueryRowContext(ctx, `SELECT
		EXISTS (SELECT 1 FROM channel WHERE peer = ?1),
		(SELECT count(*) FROM channel WHERE inbox = ?2),
		(SELECT count(*) FROM inbound JOIN channel ON channel.peer = inbound.channel
		 WHERE channel.inbox = ?2 AND inbound.forwarded_at = 0)`, in.channel, in.inbox).Scan(&exists, &channels, &waiting)
	switch {
	case err != nil:
		return err
	case waiting >= maxWaiting:
		return refuse(http.StatusServiceUnavailable, "too many messages wait in this inbox; try again later")
	case exists:
		return nil
	case channels >= maxChannels:
		return refuse(http.StatusServiceUnavailable, "this inbox has too many channels")
	}
	return store.Exec(ctx, tx, `INSERT INTO channel (peer, inbox, external_id, created_at) VALUES (?, ?, ?, ?)`,
		in.channel, in.inbox, in.external, micros(s.now()))
}

// keepSecrets seals what must go out again: the message's callback, and the
// channel's tools, whose newest configuration replaces the one before.
func (s *Store) keepSecrets(ctx context.Context, tx *sql.Tx, in *inbound, now int64) error {
	err := store.Exec(ctx, tx, `UPDATE inbound SET callback = ? WHERE seq = ?`, s.seal.seal(callbackLabel(in.seq), []byte(in.callback)), in.seq)
	if err != nil || len(in.mcp) == 0 {
		return err
	}
	raw, err := json.Marshal(in.mcp)
	if err != nil {
		return fmt.Errorf("storing the tools of a channel: %w", err)
	}
	return store.Exec(ctx, tx, `UPDATE channel SET mcp = ?, mcp_at = ? WHERE peer = ?`, s.seal.seal(toolsLabel(in.channel), raw), now, in.channel)
}

func callbackLabel(seq int64) string            { return fmt.Sprintf("callback:%d", seq) }
func toolsLabel(channel protocol.PeerID) string { return "tools:" + string(channel) }

// callbackOf returns the callback of a stored message, "" if it is no longer kept.
func (s *Store) callbackOf(ctx context.Context, seq int64) (string, error) {
	sealed, _, err := store.One(ctx, s.db, store.Column[[]byte], `SELECT callback FROM inbound WHERE seq = ?`, seq)
	if err != nil || sealed == nil {
		return "", err
	}
	callback, err := s.seal.open(callbackLabel(seq), sealed)
	return string(callback), err
}

// toolsOf returns the newest MCP configuration of a channel, nil if it has none.
func (s *Store) toolsOf(ctx context.Context, channel protocol.PeerID) (servers []MCPServer, err error) {
	sealed, _, err := store.One(ctx, s.db, store.Column[[]byte], `SELECT mcp FROM channel WHERE peer = ?`, channel)
	if err != nil || sealed == nil {
		return nil, err
	}
	raw, err := s.seal.open(toolsLabel(channel), sealed)
	if err == nil {
		err = json.Unmarshal(raw, &servers)
	}
	return servers, err
}
