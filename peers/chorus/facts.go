package chorus

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"hubbub/peers/attention"
	"hubbub/protocol"
)

// factsOf looks up what the records say about an event's surroundings.
func factsOf(ctx context.Context, tx *sql.Tx, h *heard, now time.Time) (attention.Facts, error) {
	f := attention.Facts{Age: h.age(now)}
	var place string
	var saidAt, heardAt sql.NullInt64
	var last sql.NullString
	err := tx.QueryRowContext(ctx, `SELECT
		EXISTS (SELECT 1 FROM said WHERE agent = ?1 AND channel = ?2)
			OR EXISTS (SELECT 1 FROM event WHERE agent = ?1 AND channel = ?2 AND directedness = 'to_me'),
		EXISTS (SELECT 1 FROM event WHERE agent = ?1 AND channel = ?2
			AND (disposition = 'claimed' OR kind = 'assignment' AND directedness = 'to_me')),
		coalesce((SELECT state FROM place WHERE agent = ?1 AND channel = ?2), ''),
		EXISTS (SELECT 1 FROM said WHERE agent = ?1 AND event_id = ?3),
		(SELECT max(said_at) FROM said WHERE agent = ?1 AND channel = ?2),
		(SELECT max(received_at) FROM event WHERE agent = ?1 AND channel = ?2),
		(SELECT text FROM said WHERE agent = ?1 AND channel = ?2 ORDER BY seq DESC LIMIT 1)`,
		h.agent, h.channel, h.event.EventID).
		Scan(&f.Participating, &f.OwnsThread, &place, &f.Answered, &saidAt, &heardAt, &last)
	if err != nil {
		return f, fmt.Errorf("reading what is known of a channel: %w", err)
	}
	f.Left = place == placeLeft
	f.Asked = saidAt.Int64 > heardAt.Int64 && strings.HasSuffix(strings.TrimSpace(last.String), "?")
	f.OtherAgents, err = otherAgents(ctx, tx, h)
	return f, err
}

// otherAgents lists the agents that have spoken in the channel.
func otherAgents(ctx context.Context, tx *sql.Tx, h *heard) ([]string, error) {
	rows, err := tx.QueryContext(ctx, `SELECT DISTINCT author FROM event
		WHERE agent = ? AND channel = ? AND author GLOB 'agent:*' AND author != ? LIMIT 64`, h.agent, h.channel, h.agent.ID())
	if err != nil {
		return nil, fmt.Errorf("reading who is in a channel: %w", err)
	}
	defer rows.Close()
	var list []string
	for rows.Next() {
		var author string
		if err := rows.Scan(&author); err != nil {
			return nil, fmt.Errorf("reading who is in a channel: %w", err)
		}
		list = append(list, author)
	}
	return list, rows.Err()
}

// exchangeOf reads what an agent and others said to each other in a channel
// since a person last spoke there.
func exchangeOf(ctx context.Context, q querier, agent AgentName, channel string, now time.Time) (attention.Exchange, error) {
	var x attention.Exchange
	var person int64
	err := q.QueryRowContext(ctx, `SELECT coalesce(max(received_at), 0) FROM event
		WHERE agent = ? AND channel = ? AND author GLOB 'human:*' AND kind IN ('message', 'edit')`, agent, channel).Scan(&person)
	if err == nil {
		err = q.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM event WHERE agent = ? AND channel = ? AND reason = ? AND received_at > ?)`,
			agent, channel, reasonEscalated, person).Scan(&x.Escalated)
	}
	if err != nil {
		return x, fmt.Errorf("reading an exchange: %w", err)
	}
	sent, err := integers(ctx, q, `SELECT received_at FROM event WHERE agent = ?1 AND channel = ?2 AND author GLOB 'agent:*' AND received_at > ?3
		UNION ALL SELECT said_at FROM said WHERE agent = ?1 AND channel = ?2 AND said_at > ?3 ORDER BY 1 LIMIT 1000`,
		agent, channel, max(person, micros(now.Add(-attention.ExchangeWindow))))
	if err != nil {
		return x, fmt.Errorf("reading an exchange: %w", err)
	}
	for _, at := range sent {
		x.Sent = append(x.Sent, time.UnixMicro(at))
	}
	return x, nil
}

// The reasons of decisions that an exchange between agents has changed.
const (
	reasonHeld      = "exchange_held"
	reasonEscalated = "exchange_escalated" // a person was called in, once
)

// weighExchange takes back the obligation towards another agent where the two
// have said too much without a person.
func weighExchange(ctx context.Context, tx *sql.Tx, h *heard, d *attention.Decision, now time.Time) error {
	if h.event.Author.Kind != attention.AuthorAgent || d.Policy == attention.PolicyMustNotRespond || d.Policy == attention.PolicyAckOnly {
		return nil
	}
	x, err := exchangeOf(ctx, tx, h.agent, h.channel, now)
	if err != nil {
		return err
	}
	verdict := x.Weigh(now)
	if verdict == attention.VerdictAllow {
		return nil
	}
	d.Policy, d.Injection, d.Context = attention.PolicyMustNotRespond, attention.ModeToolMailbox, ""
	d.Knock, d.DeadlineMS, d.Reason = nil, 0, reasonHeld
	if verdict == attention.VerdictEscalate {
		d.Reason = reasonEscalated
	}
	return nil
}

// escalate calls a person in.
func (g *Gateway) escalate(ctx context.Context, tx *sql.Tx, h *heard) error {
	text := fmt.Sprintf("%s and %s have exchanged %d messages within a minute with no person between them, so %s stops here. Please decide how to go on.",
		h.agent.ID(), h.author(), attention.ExchangeLimit, h.agent.ID())
	e := &eventRow{agent: h.agent, chat: h.chat, kind: h.kind, origin: origin{h.id, h.trace}}
	return g.tellChat(ctx, tx, e, protocol.ChatReply{
		Text: text, InReplyTo: h.event.EventID, IdempotencyKey: shorten("exchange:" + h.event.EventID), ThreadID: h.event.Conversation.ThreadID,
	})
}

// tellChat sends a reply of the gateway's own on behalf of an agent.
func (g *Gateway) tellChat(ctx context.Context, tx *sql.Tx, e *eventRow, r protocol.ChatReply) error {
	return g.enqueueBus(ctx, tx, e.chat.Topic(), r.IdempotencyKey, e.origin.message(replyType(e.kind), e.agent.ID(), r))
}

// replyType is how an answer to a message of a type is typed.
func replyType(kind protocol.MessageType) protocol.MessageType {
	if kind == protocol.TypeChatMessage {
		return protocol.TypeChatReply
	}
	return protocol.TypeTGReply
}

// The states of a place that an agent was asked to leave. A place without a
// state is one it takes part in.
const (
	placeLeaving = "leaving" // one answer more
	placeLeft    = "left"
)

func placeOf(ctx context.Context, q querier, agent AgentName, channel string) (state string, err error) {
	err = q.QueryRowContext(ctx, `SELECT state FROM place WHERE agent = ? AND channel = ?`, agent, channel).Scan(&state)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return state, err
}

func setPlace(ctx context.Context, tx *sql.Tx, agent AgentName, channel, state string) error {
	var err error
	if state == "" {
		_, err = tx.ExecContext(ctx, `DELETE FROM place WHERE agent = ? AND channel = ?`, agent, channel)
	} else {
		_, err = tx.ExecContext(ctx, `INSERT INTO place (agent, channel, state) VALUES (?, ?, ?)
			ON CONFLICT (agent, channel) DO UPDATE SET state = excluded.state`, agent, channel, state)
	}
	if err != nil {
		return fmt.Errorf("storing where an agent takes part: %w", err)
	}
	return nil
}

// leaveAfter ends an agent's part in a place that it was asked to leave, once
// it has said its one sentence.
func leaveAfter(ctx context.Context, tx *sql.Tx, agent AgentName, channel string) error {
	_, err := tx.ExecContext(ctx, `UPDATE place SET state = ? WHERE agent = ? AND channel = ? AND state = ?`, placeLeft, agent, channel, placeLeaving)
	if err != nil {
		return fmt.Errorf("storing where an agent takes part: %w", err)
	}
	return nil
}
