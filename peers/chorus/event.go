package chorus

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"hubbub/peers/attention"
	"hubbub/peers/peer"
	"hubbub/protocol"
)

// A heard event is one message from a chat to an external agent, read.
type heard struct {
	event    attention.Event
	message  protocol.ChatMessage
	agent    AgentName
	channel  string          // chat, and thread where there is one
	chat     protocol.PeerID // where replies go
	kind     protocol.MessageType
	id       protocol.MessageID
	trace    string // W3C trace context
	sequence int64
	content  json.RawMessage
}

// hear reads a tg_message or chat_message, with the defaults of what is missing.
func hear(agent AgentName, m *protocol.Message) (*heard, error) {
	var c protocol.ChatMessage
	if err := json.Unmarshal(m.Content, &c); err != nil {
		return nil, fmt.Errorf("the content of %s cannot be read", m.Type)
	}
	h := &heard{message: c, agent: agent, chat: m.From, kind: m.Type, id: m.MessageID, trace: m.TraceParent, sequence: c.Sequence, content: m.Content}
	if c.SourceID == "" {
		c.SourceID = string(m.MessageID)
	}
	chat := protocol.Chat{ID: m.From.Name()}
	if c.Chat != nil {
		chat = *c.Chat
	}
	author := protocol.Author{ID: string(m.From)}
	if c.Author != nil {
		author = *c.Author
	}
	h.channel = string(m.From)
	if chat.ThreadID != "" {
		h.channel += "/" + chat.ThreadID
	}
	h.event = attention.Event{
		EventID: c.SourceID, Kind: attention.EventKind(c.Event),
		Conversation: attention.Conversation{
			ID: chat.ID, Kind: attention.ConversationKind(chat.Kind), ThreadID: chat.ThreadID, StreamID: chat.StreamID, Title: chat.Title,
		},
		Author:   attention.Author{ID: author.ID, Kind: attention.AuthorKind(author.Kind), DisplayName: author.DisplayName, Username: author.Username},
		Mentions: c.Mentions, Text: c.Text, Priority: attention.Priority(c.Priority), Signal: c.Signal, Attachments: len(c.Attachments),
	}
	if h.event.Kind == "" {
		h.event.Kind = attention.KindMessage
	}
	if h.event.Kind == attention.KindEdit && h.sequence == 0 {
		h.sequence = sequenceOf(m.MessageID)
	}
	if c.ReplyTo != nil {
		h.event.ReplyTo = &attention.ReplyTo{EventID: c.ReplyTo.SourceID, Author: c.ReplyTo.Author}
	}
	return h, nil
}

// sequenceOf tells edits apart that have no sequence: by the message that brought
// them, which is the same when it is sent again.
func sequenceOf(id protocol.MessageID) int64 {
	sum := sha256.Sum256([]byte(id))
	return -1 - int64(binary.BigEndian.Uint32(sum[:]))
}

// author names who wrote the event: kind and id.
func (h *heard) author() string {
	kind := h.event.Author.Kind
	if kind == "" {
		kind = attention.AuthorHuman
	}
	return string(kind) + ":" + strings.TrimPrefix(h.event.Author.ID, string(kind)+":")
}

// age is how long ago the event was written; 0 when that is not told.
func (h *heard) age(now time.Time) time.Duration {
	at, err := time.Parse(time.RFC3339, h.message.CreatedAt)
	if err != nil {
		return 0
	}
	return max(0, now.Sub(at))
}

// takeEvent stores an event for an external agent, decides what it may see of
// it, and records the decision: all in one transaction, so that the event is
// safe and judged when the bus hears "processed".
func (g *Gateway) takeEvent(ctx context.Context, agent AgentName, d *peer.Delivery) error {
	h, err := hear(agent, &d.Message)
	if err != nil {
		return peer.Reject(err.Error())
	}
	err = g.store.inTx(ctx, func(tx *sql.Tx) error {
		known, err := knownEvent(ctx, tx, h)
		if err != nil || known {
			return err
		}
		settings, err := g.store.agent(ctx, tx, agent)
		if err != nil {
			return err
		}
		return g.judge(ctx, tx, h, settings)
	})
	if err != nil {
		return fmt.Errorf("storing an event: %w", err)
	}
	g.wakeAll()
	return nil
}

// judge decides on a new event, stores it with the decision, and does what
// follows from it.
func (g *Gateway) judge(ctx context.Context, tx *sql.Tx, h *heard, settings AgentSettings) error {
	now := g.store.now()
	facts, err := factsOf(ctx, tx, h, now)
	if err != nil {
		return err
	}
	self := attention.Self{ID: string(h.agent.ID()), Roles: settings.Roles, Streams: settings.Streams}
	decision := attention.Decide(h.event, self, facts, attention.Config{
		Deadline: g.opts.CallbackTTL,
		Inject:   &attention.Capabilities{Immediate: true, Buffered: true, Notify: settings.Knocks, ToolMailbox: true},
	})
	if err := weighExchange(ctx, tx, h, &decision, now); err != nil {
		return err
	}
	seq, err := storeEvent(ctx, tx, h, decision, now)
	if err != nil {
		return err
	}
	if err := g.report(ctx, tx, h.agent, origin{h.id, h.trace}, fmt.Sprintf("decision %d", seq), protocol.AttentionDecision{
		Event: "attention_decision", EventID: h.event.EventID, Agent: h.agent.ID(),
		Directedness: string(decision.Directedness), Policy: string(decision.Policy), Injection: string(decision.Injection),
		Priority: string(decision.Priority), Reason: decision.Reason,
	}); err != nil {
		return err
	}
	if decision.Reason == reasonEscalated {
		if err := g.escalate(ctx, tx, h); err != nil {
			return err
		}
	}
	return g.act(ctx, tx, h, seq, decision)
}

// knownEvent reports whether an event was taken in before, or is the text of a
// message that was deleted.
func knownEvent(ctx context.Context, tx *sql.Tx, h *heard) (known bool, err error) {
	err = tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM event WHERE agent = ?1 AND event_id = ?2
		AND (kind = ?3 AND sequence = ?4 OR ?3 IN ('message', 'edit') AND kind = 'delete' AND chat = ?5))`,
		h.agent, h.event.EventID, h.event.Kind, h.sequence, h.chat).Scan(&known)
	return known, err
}

func storeEvent(ctx context.Context, tx *sql.Tx, h *heard, d attention.Decision, now time.Time) (seq int64, err error) {
	res, err := tx.ExecContext(ctx, `INSERT INTO event (agent, kind, event_id, sequence, channel, chat, conversation, thread, author, type,
		message_id, traceparent, content, received_at, directedness, policy, injection, reason, needs_claim)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		h.agent, h.event.Kind, h.event.EventID, h.sequence, h.channel, h.chat, h.event.Conversation.ID, h.event.Conversation.ThreadID,
		h.author(), h.kind, h.id, h.trace, []byte(h.content), micros(now), d.Directedness, d.Policy, d.Injection, d.Reason, d.NeedsClaim())
	if err != nil {
		return 0, err
	}
	return res.LastInsertId()
}

// report sends an agent_event of the agent's attention layer, once per key.
func (g *Gateway) report(ctx context.Context, tx *sql.Tx, agent AgentName, c origin, key string, content any) error {
	return g.enqueueBus(ctx, tx, protocol.TopicAttention, key, c.message(protocol.TypeAgentEvent, agent.ID(), content))
}

// An origin is the message on the bus on account of which others are sent: traces
// follow it.
type origin struct {
	id    protocol.MessageID
	trace string
}

// message makes a message that has the origin.
func (c origin) message(t protocol.MessageType, from protocol.PeerID, content any) protocol.Message {
	m := protocol.NewMessage(t, from, content)
	m.InReplyTo, m.TraceParent = c.id, c.trace
	return m
}
