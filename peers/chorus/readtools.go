package chorus

import (
	"context"
	"fmt"
	"sort"
	"strconv"
	"time"

	"hubbub/peers/attention"
	"hubbub/protocol"
)

const (
	defaultListed = 50
	maxListed     = 200
	maxListedText = 512 << 10 // bytes of one answer, about
)

type listArguments struct {
	Stream       string `json:"stream"`
	Conversation string `json:"conversation"`
	Policy       string `json:"policy"`
	Open         bool   `json:"open"`
	Since        string `json:"since"`
	Limit        int    `json:"limit"`
}

// A listedEvent is one event as the tools show it: C2A's envelope, with the
// content that may have been withheld.
type listedEvent struct {
	EventID      string                `json:"eventId"`
	Event        attention.EventKind   `json:"event"`
	Conversation listedConversation    `json:"conversation"`
	Author       protocol.Author       `json:"author"`
	Target       listedTarget          `json:"target"`
	Content      []listedPart          `json:"content"`
	Attachments  []protocol.Attachment `json:"attachments,omitempty"`
	Signal       string                `json:"signal,omitempty"`
	ReplyTo      *protocol.ReplyTo     `json:"replyTo,omitempty"`
	Timing       listedTiming          `json:"timing"`
	Attention    listedAttention       `json:"attention"`
	Injection    listedInjection       `json:"injection"`
	Disposition  attention.Disposition `json:"disposition,omitempty"`
}

type listedConversation struct {
	ID       string `json:"id"`
	Kind     string `json:"kind"`
	ThreadID string `json:"threadId,omitempty"`
	StreamID string `json:"streamId,omitempty"`
	Title    string `json:"title,omitempty"`
}

type listedTarget struct {
	Mentions     []string               `json:"mentions,omitempty"`
	Directedness attention.Directedness `json:"directedness"`
}

type listedPart struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type listedTiming struct {
	CreatedAt string `json:"createdAt,omitempty"`
	Sequence  int64  `json:"sequence"`
}

type listedAttention struct {
	Policy attention.Policy `json:"policy"`
	Reason string           `json:"reason"`
}

type listedInjection struct {
	Mode attention.Mode `json:"mode"`
}

// listEvents shows the events of the scope's channel, withheld ones included.
func (g *Gateway) listEvents(ctx context.Context, s scope, a listArguments) (any, error) {
	after, since, err := parseSince(a.Since)
	if err != nil {
		return nil, err
	}
	limit := listLimit(a.Limit)
	list, err := events(ctx, g.store.db, `agent = ?1 AND channel = ?2 AND seq > ?3 AND received_at >= ?4 AND (?5 = '' OR policy = ?5)
		AND (?6 = 0 OR disposition IN ('', 'claimed', 'deferred'))
		AND (?7 = '' OR json_extract(CAST(content AS TEXT), '$.chat.streamId') = ?7)
		AND (?8 = '' OR conversation = ?8 OR channel = ?8 OR chat = ?8) ORDER BY seq LIMIT ?9`,
		s.agent, s.channel, after, since, a.Policy, a.Open, a.Stream, a.Conversation, limit+1)
	if err != nil {
		return nil, err
	}
	shown, size := []listedEvent{}, 0
	result := map[string]any{}
	for i, e := range list {
		if i == limit || i > 0 && size > maxListedText {
			result["next"] = strconv.FormatInt(list[i-1].seq, 10)
			break
		}
		shown = append(shown, listed(e))
		size += len(e.content)
	}
	result["events"] = shown
	return result, nil
}

func listLimit(n int) int {
	if n <= 0 {
		return defaultListed
	}
	return min(n, maxListed)
}

// parseSince reads a time or a place in the list.
func parseSince(s string) (after, since int64, err error) {
	if s == "" {
		return 0, 0, nil
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n, 0, nil
	}
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return 0, 0, toolErrorf("since must be a time such as 2026-11-20T12:00:00Z, or next of an earlier call")
	}
	return 0, micros(at), nil
}

func listed(e *eventRow) listedEvent {
	c := e.chatMessage()
	kind := c.Chat.Kind
	if kind == "" {
		kind = string(attention.ConversationDM)
	}
	if c.Author.Kind == "" {
		c.Author.Kind = string(attention.AuthorHuman)
	}
	return listedEvent{
		EventID: e.id, Event: e.event,
		Conversation: listedConversation{ID: c.Chat.ID, Kind: kind, ThreadID: c.Chat.ThreadID, StreamID: c.Chat.StreamID, Title: c.Chat.Title},
		Author:       *c.Author, Target: listedTarget{c.Mentions, e.directed},
		Content: []listedPart{{"text", c.Text}}, Attachments: c.Attachments, Signal: c.Signal, ReplyTo: c.ReplyTo,
		Timing:      listedTiming{CreatedAt: createdAt(c, e.receivedAt), Sequence: e.seq},
		Attention:   listedAttention{e.policy, e.reason},
		Injection:   listedInjection{e.injection},
		Disposition: e.disposition,
	}
}

func createdAt(c protocol.ChatMessage, received int64) string {
	if c.CreatedAt != "" {
		return c.CreatedAt
	}
	return protocol.FormatTime(time.UnixMicro(received))
}

type threadArguments struct {
	Conversation string `json:"conversation"`
	ThreadID     string `json:"threadId"`
	Limit        int    `json:"limit"`
}

// A threadMessage is one message of a channel, from whoever said it.
type threadMessage struct {
	EventID   string          `json:"eventId,omitempty"`
	MessageID string          `json:"messageId,omitempty"` // of the agent's own
	InReplyTo string          `json:"inReplyTo,omitempty"`
	Author    protocol.Author `json:"author"`
	Text      string          `json:"text"`
	CreatedAt string          `json:"createdAt"`

	at int64
}

// readThread shows the latest messages of the scope's channel, its own
// included.
func (g *Gateway) readThread(ctx context.Context, s scope, a threadArguments) (any, error) {
	limit := listLimit(a.Limit)
	list, err := events(ctx, g.store.db, `agent = ?1 AND channel = ?2 AND kind IN ('message', 'edit')
		AND (?3 = '' OR conversation = ?3 OR channel = ?3 OR chat = ?3) AND (?4 = '' OR thread = ?4) ORDER BY seq DESC LIMIT ?5`,
		s.agent, s.channel, a.Conversation, a.ThreadID, limit)
	if err != nil {
		return nil, err
	}
	messages := []threadMessage{}
	for _, e := range list {
		c := e.chatMessage()
		messages = append(messages, threadMessage{EventID: e.id, Author: *c.Author, Text: c.Text, CreatedAt: createdAt(c, e.receivedAt), at: e.receivedAt})
	}
	own, err := g.store.saidIn(ctx, s, limit)
	if err != nil {
		return nil, err
	}
	messages = append(messages, own...)
	sort.SliceStable(messages, func(i, j int) bool { return messages[i].at < messages[j].at })
	return map[string]any{"messages": latest(messages, limit)}, nil
}

// latest keeps the last messages, as many as fit.
func latest(messages []threadMessage, limit int) []threadMessage {
	first, size := len(messages), 0
	for first > 0 && len(messages)-first < limit && size <= maxListedText {
		first--
		size += len(messages[first].Text)
	}
	return messages[first:]
}

// saidIn returns what the agent itself said in a channel, the latest first.
func (s *Store) saidIn(ctx context.Context, sc scope, limit int) ([]threadMessage, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT event_id, message_id, text, said_at FROM said WHERE agent = ? AND channel = ? ORDER BY seq DESC LIMIT ?`,
		sc.agent, sc.channel, limit)
	if err != nil {
		return nil, fmt.Errorf("reading what was said: %w", err)
	}
	defer rows.Close()
	var list []threadMessage
	for rows.Next() {
		m := threadMessage{Author: protocol.Author{ID: string(sc.agent.ID()), Kind: string(attention.AuthorAgent)}}
		if err := rows.Scan(&m.InReplyTo, &m.MessageID, &m.Text, &m.at); err != nil {
			return nil, fmt.Errorf("reading what was said: %w", err)
		}
		m.CreatedAt = protocol.FormatTime(time.UnixMicro(m.at))
		list = append(list, m)
	}
	return list, rows.Err()
}
