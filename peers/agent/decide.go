package agent

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/attention"
	"hubbub/protocol"
)

// decideStored decides on the events that have no decision yet, in the order
// in which they came, at most a hundred at once; more says that others wait.
func (a *Agent) decideStored(ctx context.Context, caps harness.Capabilities) (more bool, err error) {
	const batch = 100
	list, err := entries(ctx, a.db, `WHERE stage = ? ORDER BY seq LIMIT ?`, stageStored, batch)
	if err != nil {
		return false, err
	}
	for _, e := range list {
		err := a.inTx(ctx, func(tx *sql.Tx) error {
			fresh, err := entryByID(ctx, tx, e.EventID)
			if err != nil || fresh == nil || fresh.Stage != stageStored {
				return err
			}
			return a.decide(ctx, tx, fresh, caps)
		})
		if err != nil {
			return false, fmt.Errorf("deciding on %s: %w", e.EventID, err)
		}
	}
	return len(list) == batch, nil
}

// decide decides on one event, records why, and puts it where it belongs.
func (a *Agent) decide(ctx context.Context, tx *sql.Tx, e *entry, caps harness.Capabilities) error {
	event := e.event()
	facts, err := a.facts(ctx, tx, e)
	if err != nil {
		return err
	}
	e.Decision = attention.Decide(event, a.self(), facts, a.opts.attentionConfig(caps))
	if err := a.weighExchange(ctx, tx, e); err != nil {
		return err
	}
	if err := a.act(ctx, tx, e); err != nil {
		return err
	}
	return a.assign(ctx, tx, e)
}

// self is the agent as the attention layer knows it.
func (a *Agent) self() attention.Self {
	return attention.Self{ID: string(a.id), Aliases: a.opts.Aliases, Roles: a.opts.Roles, Streams: a.opts.Streams}
}

// facts looks up what the records say about an event.
func (a *Agent) facts(ctx context.Context, tx *sql.Tx, e *entry) (attention.Facts, error) {
	c := &e.Content
	facts := attention.Facts{Age: max(0, time.Since(e.Received))}
	var joined, left, chatLeft, lastOwn, lastOther int64
	var lastText string
	err := tx.QueryRowContext(ctx, `SELECT
		coalesce((SELECT joined_at FROM places WHERE conversation = ?1 AND thread = ?2), 0),
		coalesce((SELECT left_at FROM places WHERE conversation = ?1 AND thread = ?2), 0),
		coalesce((SELECT left_at FROM places WHERE conversation = ?1 AND thread = ''), 0),
		EXISTS (SELECT 1 FROM events e JOIN claims c ON c.event_id = e.event_id
			WHERE e.conversation = ?1 AND e.thread = ?2 AND c.owner = ?3 AND c.expires_at > ?4)
			OR EXISTS (SELECT 1 FROM events WHERE conversation = ?1 AND thread = ?2 AND kind = 'assignment' AND directedness = 'to_me'
				AND disposition IN ('', 'claimed', 'deferred') AND seq < ?5),
		EXISTS (SELECT 1 FROM events WHERE source_id = ?6 AND chat = ?7 AND replied = 1),
		coalesce((SELECT max(sent_at) FROM sent WHERE conversation = ?1 AND thread = ?2 AND kind = 'text'), 0),
		coalesce((SELECT text FROM sent WHERE conversation = ?1 AND thread = ?2 AND kind = 'text' ORDER BY sent_at DESC LIMIT 1), ''),
		coalesce((SELECT max(received_at) FROM events WHERE conversation = ?1 AND thread = ?2 AND seq < ?5 AND kind = 'message'), 0)`,
		c.Chat.ID, c.Chat.ThreadID, string(a.id), time.Now().UnixMicro(), e.Seq, e.SourceID, e.Chat).
		Scan(&joined, &left, &chatLeft, &facts.OwnsThread, &facts.Answered, &lastOwn, &lastText, &lastOther)
	if err != nil {
		return facts, fmt.Errorf("looking up what is known about %s: %w", e.EventID, err)
	}
	facts.Participating = joined > 0
	facts.Left = left > 0 || chatLeft > joined
	facts.Asked = lastOwn > lastOther && strings.HasSuffix(strings.TrimRight(lastText, " \n\t)*_"), "?")
	facts.OtherAgents, err = a.otherAgents(ctx, tx, c.Chat.ID)
	return facts, err
}

func (a *Agent) otherAgents(ctx context.Context, tx *sql.Tx, conversation string) ([]string, error) {
	rows, err := tx.QueryContext(ctx, `SELECT DISTINCT author FROM events WHERE conversation = ? AND author_kind = 'agent' LIMIT 100`, conversation)
	if err != nil {
		return nil, fmt.Errorf("looking for other agents: %w", err)
	}
	defer rows.Close()
	var list []string
	for rows.Next() {
		var author string
		if err := rows.Scan(&author); err != nil {
			return nil, err
		}
		if strings.TrimPrefix(author, "agent:") != a.id.Name() {
			list = append(list, author)
		}
	}
	return list, rows.Err()
}

// act carries out what a decision asks of the host itself.
func (a *Agent) act(ctx context.Context, tx *sql.Tx, e *entry) error {
	c := &e.Content
	switch e.Decision.Action {
	case attention.ActionLeave:
		return a.setPlace(ctx, tx, c.Chat, `left_at = ?3, leave_event = ?4, joined_at = 0`, e.EventID)
	case attention.ActionReturn:
		return a.setPlace(ctx, tx, c.Chat, `left_at = 0, leave_event = '', joined_at = ?3`, "")
	case attention.ActionCancel:
		if err := a.cancelPlace(ctx, tx, e); err != nil {
			return err
		}
	}
	if e.Decision.Directedness == attention.DirectedToMe && e.Decision.Policy == attention.PolicyMustRespond {
		return a.setPlace(ctx, tx, c.Chat, `joined_at = ?3`, "")
	}
	return nil
}

func (a *Agent) setPlace(ctx context.Context, tx *sql.Tx, chat *protocol.Chat, set, event string) error {
	_, err := tx.ExecContext(ctx, `INSERT OR IGNORE INTO places (conversation, thread) VALUES (?, ?)`, chat.ID, chat.ThreadID)
	if err == nil {
		_, err = tx.ExecContext(ctx, `UPDATE places SET `+set+` WHERE conversation = ?1 AND thread = ?2 AND ?3 > 0 AND ?4 = ?4`,
			chat.ID, chat.ThreadID, time.Now().UnixMicro(), event)
	}
	if err != nil {
		return fmt.Errorf("storing where the agent takes part: %w", err)
	}
	return nil
}

// assign puts a decided event where it belongs and records the decision.
func (a *Agent) assign(ctx context.Context, tx *sql.Tx, e *entry) error {
	d := &e.Decision
	e.Stage, e.DeadlineAt = stageKept, time.Time{}
	disposition, why := attention.Disposition(""), ""
	switch d.Injection {
	case attention.ModeImmediate, attention.ModeBuffered:
		e.Stage = stageHeld
	case attention.ModeNotify:
		if d.Policy != attention.PolicyMustNotRespond || a.ownTime() {
			e.Stage = stageHeld
		} else {
			disposition, why = attention.DispositionIgnored, "told with the next turn"
		}
	case attention.ModeDigest:
		e.Stage = stageDigest
		disposition, why = attention.DispositionIgnored, d.Reason
	default:
		switch d.Policy {
		case attention.PolicyMustNotRespond:
			disposition, why = attention.DispositionIgnored, d.Reason
		case attention.PolicyAckOnly:
			disposition, why = attention.DispositionAcknowledged, "seen"
		default: // the harness lacks the mode: it may find the event through its tools
			e.DeadlineAt = time.Now().Add(a.opts.Deadline)
		}
	}
	if err := updateDecision(ctx, tx, e); err != nil {
		return err
	}
	if err := a.recordDecision(ctx, tx, e); err != nil {
		return err
	}
	if disposition != "" {
		return a.dispose(ctx, tx, e, disposition, why)
	}
	return nil
}
