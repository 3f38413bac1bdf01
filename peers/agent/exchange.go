package agent

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"hubbub/peers/attention"
	"hubbub/protocol"
)

// escalationMark begins the message that calls a person in. Agents recognize
// it, so that the other one does not call a person in as well.
const escalationMark = "Two agents have been talking here without a person"

// exchange reads what this agent and another said to each other in one
// conversation since a person last spoke there.
func (a *Agent) exchange(ctx context.Context, q querier, conversation, other string) (attention.Exchange, error) {
	var x attention.Exchange
	since := time.Now().Add(-attention.ExchangeWindow).UnixMicro()
	var person, escalated int64
	err := q.QueryRowContext(ctx, `SELECT
		coalesce((SELECT max(received_at) FROM events WHERE conversation = ?1 AND author_kind = 'human' AND kind IN ('message','edit','assignment','approval','blocker')), 0),
		coalesce((SELECT max(escalated_at) FROM places WHERE conversation = ?1), 0)`, conversation).Scan(&person, &escalated)
	if err != nil {
		return x, fmt.Errorf("reading the exchange with %s: %w", other, err)
	}
	x.Escalated = escalated > person
	rows, err := q.QueryContext(ctx, `SELECT received_at FROM events
			WHERE conversation = ?1 AND author = ?2 AND kind IN ('message','assignment','approval','blocker','answer') AND received_at > ?3 AND received_at > ?4
			AND directedness IN ('', 'to_me', 'to_my_role')
		UNION ALL SELECT s.sent_at FROM sent s JOIN events e ON e.event_id = s.event_id
			WHERE s.conversation = ?1 AND e.author = ?2 AND s.kind = 'text' AND s.sent_at > ?3 AND s.sent_at > ?4
		ORDER BY 1 LIMIT 1000`, conversation, other, person, since)
	if err != nil {
		return x, fmt.Errorf("reading the exchange with %s: %w", other, err)
	}
	defer rows.Close()
	for rows.Next() {
		var at int64
		if err := rows.Scan(&at); err != nil {
			return x, err
		}
		x.Sent = append(x.Sent, fromMicros(at))
	}
	return x, rows.Err()
}

// weighExchange takes back the obligation towards another agent where the two
// have said too much without a person, and calls a person in, once.
func (a *Agent) weighExchange(ctx context.Context, tx *sql.Tx, e *entry) error {
	c := &e.Content
	if c.Author.Kind != "agent" || e.Decision.Policy == attention.PolicyMustNotRespond || e.Decision.Policy == attention.PolicyAckOnly {
		return nil
	}
	if strings.HasPrefix(c.Text, escalationMark) {
		if err := a.setPlace(ctx, tx, c.Chat, `escalated_at = ?3`, ""); err != nil {
			return err
		}
	}
	x, err := a.exchange(ctx, tx, c.Chat.ID, c.Author.ID)
	if err != nil {
		return err
	}
	verdict := x.Weigh(time.Now())
	if verdict == attention.VerdictAllow {
		return nil
	}
	e.Decision.Policy, e.Decision.Injection, e.Decision.Context = attention.PolicyMustNotRespond, attention.ModeToolMailbox, ""
	e.Decision.Knock, e.Decision.DeadlineMS, e.Decision.Reason = nil, 0, "exchange_held"
	if verdict == attention.VerdictHold {
		return nil
	}
	return a.escalate(ctx, tx, e)
}

// escalate tells people, once, that two agents were stopped.
func (a *Agent) escalate(ctx context.Context, tx *sql.Tx, e *entry) error {
	c := &e.Content
	if err := a.setPlace(ctx, tx, c.Chat, `escalated_at = ?3`, ""); err != nil {
		return err
	}
	text := fmt.Sprintf("%s: %s and %s, %d messages within a minute. I say no more until a person does. Should we go on?",
		escalationMark, a.id.Name(), attention.HeaderValue(strings.TrimPrefix(c.Author.ID, "agent:")), attention.ExchangeLimit)
	if err := a.sendNotice(ctx, tx, e, noticeEscalation, text); err != nil {
		return err
	}
	return a.recordAbout(ctx, tx, uniqueKey("escalation", e.Seq), e, map[string]any{
		"event": "escalation", "eventId": e.EventID, "agent": a.id, "with": c.Author.ID, "reason": "exchange_limit",
	})
}

// The kinds of notices.
const (
	noticeFailed     = "failed"
	noticeEscalation = "escalation"
)

// sendNotice sends a text of the host, not of the model, once per event and kind.
func (a *Agent) sendNotice(ctx context.Context, tx *sql.Tx, e *entry, kind, text string) error {
	_, err := a.queueReply(ctx, tx, e, "notice", noticeKey(kind, e), protocol.ChatReply{
		Text: text, Visibility: visibilityOf(e), Directedness: string(attention.DirectedAmbient),
	})
	return err
}
