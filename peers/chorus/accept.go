package chorus

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"hubbub/peers/attention"
	"hubbub/peers/bridge"
	"hubbub/peers/store"
	"hubbub/protocol"
)

// inboxPath is where Chorus services POST; the secret of the connection string follows it.
const inboxPath = "/inbox/"

// Limits on what is stored for one inbox.
const (
	maxWaiting   = 1000 // messages that no agent has taken yet
	maxChannels  = 1000
	storeTimeout = 15 * time.Second
	frameMargin  = 512 // bytes of a frame in addition to its params
)

// serveInbox accepts one message from a Chorus service. It answers 200 once the message is on
// disk; the processing follows.
func (g *Gateway) serveInbox(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
		return newHTTPError(http.StatusMethodNotAllowed, "POST messages here")
	}
	// A request without a valid secret ends here, whatever it contains.
	inbox, err := g.store.inboxOf(r.Context(), r.PathValue("secret"))
	if err != nil {
		return err
	}
	leave, err := g.limiters.calls.acquire(r.Context(), inboxPath+string(inbox), false)
	if err != nil {
		return err
	}
	defer leave()
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	posted, err := ParseInboxMessage(body, g.egress.guard)
	if err != nil {
		return newHTTPError(http.StatusBadRequest, err.Error())
	}
	in, err := g.newInbound(inbox, posted)
	if err != nil {
		return err
	}
	// The caller may disconnect now; the message is stored nevertheless.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), storeTimeout)
	defer cancel()
	if err := g.accept(ctx, in, func(*store.Tx, int64) {}); err != nil {
		return err
	}
	return writeOK(w)
}

// An inboundMessage is one message from a Chorus service on its way to an agent.
type inboundMessage struct {
	posted    *InboxMessage
	inbox     InboxName
	channel   protocol.PeerID
	sourceID  string
	messageID protocol.MessageID // of the chat_message, the same in every attempt
	said      protocol.ChatMessage
	content   json.RawMessage // said, encoded
}

// newInbound makes the chat_message of a message. It refuses a message that does not fit into a
// frame of the bus (413).
func (g *Gateway) newInbound(inbox InboxName, p *InboxMessage) (*inboundMessage, error) {
	peer := ChannelPeer(inbox, p.ChannelID)
	in := &inboundMessage{
		posted:    p,
		inbox:     inbox,
		channel:   peer,
		sourceID:  string(peer) + ":" + p.MessageID,
		messageID: protocol.NewMessageID(),
	}
	author := authorOf(p, g.senders.echoes.author(peer, p.Sender, p.Content), g.senders.roster.isOnline)
	in.said = protocol.ChatMessage{
		Text:     p.Content,
		Event:    protocol.EventMessage,
		SourceID: in.sourceID,
		Chat: &protocol.Chat{
			ID:      string(peer),
			Kind:    string(conversationKind(p)),
			Title:   p.Name,
			Service: p.Service,
			Context: p.Context,
		},
		Author:    &author,
		CreatedAt: protocol.FormatTime(g.opts.Now()),
	}
	if len(p.MCP) > 0 {
		in.said.MCP = fmt.Appendf(nil, `{"url":%s}`, jsonString(g.proxyURL(peer)))
	}
	if err := in.encode(); err != nil {
		return nil, err
	}
	if g.frameSize(protocol.MaxTopic, in.message()) > g.opts.MaxFrame {
		return nil, errFrameTooLarge
	}
	return in, nil
}

// classifySender marks the sender of a new message as a program if it answers an agent at the pace
// of a program.
func (g *Gateway) classifySender(in *inboundMessage) error {
	p, author := in.posted, in.said.Author
	if p.Kind != "" || author.Kind != string(attention.AuthorHuman) || p.Callback == taskCallback {
		return nil
	}
	agent := g.senders.paces.recordMessage(in.channel, p.Sender, p.Content)
	if agent == "" {
		return nil
	}
	author.ID, author.Kind = string(personPeer(p.Sender)), string(attention.AuthorAgent)
	in.said.ReplyTo = &protocol.ReplyTo{Author: string(agent)}
	return in.encode()
}

func (in *inboundMessage) encode() (err error) {
	if in.content, err = json.Marshal(in.said); err != nil {
		return fmt.Errorf("encoding a chat message: %w", err)
	}
	return nil
}

// message returns the chat_message for the agent.
func (in *inboundMessage) message() protocol.Message {
	return protocol.Message{
		MessageID: in.messageID, Type: protocol.TypeChatMessage, From: in.channel,
		Timestamp: protocol.FormatTime(time.Now()), Content: in.content,
	}
}

// frameSize returns an upper bound for the frame size of a sendMessage.
func (g *Gateway) frameSize(topicBytes int, m protocol.Message) int {
	raw, err := json.Marshal(m)
	if err != nil {
		return g.opts.MaxFrame + 1
	}
	return len(raw) + topicBytes + frameMargin
}

// accept stores a message and its channel in one transaction. It seals the callback and the
// channel's tools. A message that is already stored, by (channel ID, message ID), changes
// nothing. onStored is called within the transaction, with the sequence number of the message.
func (g *Gateway) accept(ctx context.Context, in *inboundMessage, onStored func(tx *store.Tx, seq int64)) error {
	s, now := g.store, micros(g.opts.Now())
	return store.InTx(ctx, s.db, func(tx *store.Tx) {
		if seq := store.Value[int64](
			tx,
			`SELECT seq FROM inbound WHERE channel = ? AND external_id = ?`,
			in.channel,
			in.posted.MessageID,
		); seq != 0 {
			onStored(tx, seq)
			return
		}
		tx.Fail(g.classifySender(in))
		ready := g.ensureChannel(tx, in)
		s.joinRoom(tx, in)
		seq := store.Value[int64](
			tx,
			`INSERT INTO inbound (channel, external_id, source_id, message_id, content, received_at)
			VALUES (?, ?, ?, ?, ?, ?) RETURNING seq`,
			in.channel,
			in.posted.MessageID,
			in.sourceID,
			in.messageID,
			[]byte(in.content),
			now,
		)
		tx.Exec(
			`UPDATE inbound SET callback = ? WHERE seq = ?`,
			s.seal.seal(callbackLabel(seq), in.posted.Callback),
			seq,
		)
		if len(in.posted.MCP) > 0 { // the newest configuration replaces the previous one
			raw, err := json.Marshal(in.posted.MCP)
			tx.Fail(err)
			tx.Exec(
				`UPDATE channel SET mcp = ?, mcp_at = ? WHERE peer = ?`,
				s.seal.seal(toolsLabel(in.channel), string(raw)),
				now,
				in.channel,
			)
		}
		onStored(tx, seq)
		g.commands().sendKept(tx, in.channel)
		if !g.handleCommand(tx, in, seq) {
			g.router.Deliver(tx, &bridge.Event{ID: seq, Chat: in.channel, Source: in.sourceID}, ready)
		}
	})
}

// ensureChannel creates the channel on its first message and enforces the limits of the inbox. It
// returns when the message is ready: the first one of a channel waits until the other inboxes may
// have it, too. The zero time means now.
func (g *Gateway) ensureChannel(tx *store.Tx, in *inboundMessage) (ready time.Time) {
	type counts struct {
		exists, others    bool
		channels, waiting int
	}
	now, _ := store.One(tx, func(c *counts) []any { return []any{&c.exists, &c.others, &c.channels, &c.waiting} }, `SELECT
		EXISTS (SELECT 1 FROM channel WHERE peer = ?1),
		EXISTS (SELECT 1 FROM inbox WHERE name <> ?2 AND secret_sha256 IS NOT NULL),
		(SELECT count(*) FROM channel WHERE inbox = ?2),
		(SELECT count(*) FROM inbound JOIN channel ON channel.peer = inbound.channel
		 WHERE channel.inbox = ?2 AND inbound.forwarded_at = 0)`, in.channel, in.inbox)
	switch {
	case now.waiting >= maxWaiting:
		tx.Fail(
			newHTTPError(http.StatusServiceUnavailable, "too many messages are waiting in this inbox; try again later"),
		)
		return ready
	case now.exists:
		return ready
	case now.channels >= maxChannels:
		g.forgetChannel(tx, in.inbox)
	}
	tx.Exec(
		`INSERT INTO channel (peer, inbox, external_id, created_at) VALUES (?, ?, ?, ?)`,
		in.channel,
		in.inbox,
		in.posted.ChannelID,
		micros(g.store.now()),
	)
	if now.others && in.inChannel() {
		ready = g.store.now().Add(roomWait)
	}
	return ready
}

// forgetChannel deletes the channel of an inbox that has been idle for the longest time, with its
// messages and tasks. tx fails if every channel is in use.
func (g *Gateway) forgetChannel(tx *store.Tx, inbox InboxName) {
	channel := one(tx, errChannelsInUse, store.Scalar[protocol.PeerID], idleChannelQuery, inbox)
	events := store.All(tx, store.Scalar[int64], `DELETE FROM inbound WHERE channel = ? RETURNING seq`, channel)
	tx.Exec(`DELETE FROM channel WHERE peer = ?`, channel)
	bridge.Forget(tx, "", channel, events)
}

var errChannelsInUse = newHTTPError(
	http.StatusServiceUnavailable,
	"every channel of this inbox waits for an answer; try again later",
)

// idleChannelQuery finds the channel of an inbox that has been idle for the longest time. A
// channel is in use while an agent may still answer one of its messages, a task expects a message,
// or something waits in a queue, where a space separates its identity from the rest of the name.
const idleChannelQuery = `SELECT peer FROM channel WHERE inbox = ?
	AND NOT EXISTS (SELECT 1 FROM inbound WHERE channel = peer AND (forwarded_at = 0
		OR length(callback) > 0 AND (turn <> '` + lifecycleIdle + `' OR EXISTS (SELECT 1 FROM task_message m
			JOIN task t ON t.id = m.task WHERE m.inbound = seq AND t.state = '` + taskInputRequired + `'))))
	AND NOT EXISTS (SELECT 1 FROM outbox WHERE state IN ('pending', 'sending')
		AND queue IN ('` + callbackQueueName + `', '` + bridge.QueueAgents + `', '` + bridge.QueueCommands + `')
		AND destination >= peer AND destination < peer || '!')
	ORDER BY coalesce((SELECT received_at FROM inbound WHERE channel = peer ORDER BY seq DESC LIMIT 1), created_at)
	LIMIT 1`

func callbackLabel(seq int64) string            { return fmt.Sprintf("callback:%d", seq) }
func toolsLabel(channel protocol.PeerID) string { return "tools:" + string(channel) }

// callbackOf returns the callback of a message, or "" if it is no longer stored.
func (s *Store) callbackOf(ctx context.Context, seq int64) (string, error) {
	return s.openSecret(ctx, callbackLabel(seq), `SELECT callback FROM inbound WHERE seq = ?`, seq)
}

// mcpServersOf returns the newest MCP configuration of a channel, or nil.
func (s *Store) mcpServersOf(ctx context.Context, channel protocol.PeerID) (servers []MCPServer, err error) {
	raw, err := s.openSecret(ctx, toolsLabel(channel), `SELECT mcp FROM channel WHERE peer = ?`, channel)
	if raw != "" {
		err = json.Unmarshal([]byte(raw), &servers)
	}
	return servers, err
}

// openSecret reads and opens a sealed secret. It returns "" if there is none.
func (s *Store) openSecret(ctx context.Context, label, query string, of any) (string, error) {
	sealed, err := store.ReadValue[[]byte](ctx, s.db, query, of)
	if len(sealed) == 0 {
		return "", err
	}
	return s.seal.open(label, sealed)
}
