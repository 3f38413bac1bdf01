package agent

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"hubbub/peers/attention"
	"hubbub/peers/outbox"
	"hubbub/protocol"

	"github.com/oklog/ulid/v2"
)

// A turnRecord is the agent_event that tells of one run of the harness, so
// that turns can be counted from the activity log alone.
type turnRecord struct {
	Event          string   `json:"event"` // "turn"
	EventID        string   `json:"eventId"`
	MergedEventIDs []string `json:"mergedEventIds,omitempty"`
	Agent          string   `json:"agent"`
	TurnID         string   `json:"turnId"`
	Attempt        int      `json:"attempt"`
	Mode           string   `json:"mode"`  // immediate, buffered, notify or digest
	State          string   `json:"state"` // started, accepted, finished, failed, cancelled, interrupted
	Reason         string   `json:"reason,omitempty"`
	Model          string   `json:"model,omitempty"`
	InputTokens    int64    `json:"inputTokens,omitempty"`
	OutputTokens   int64    `json:"outputTokens,omitempty"`
	ToolCalls      int      `json:"toolCalls,omitempty"`
	DurationMS     int64    `json:"durationMs,omitempty"`
}

// record queues an agent_event to system:attention in the transaction of what
// it tells of.
func (a *Agent) record(ctx context.Context, tx *sql.Tx, key string, content any) error {
	return a.recordAbout(ctx, tx, key, nil, content)
}

// recordAbout is record with the message that caused it: the record carries
// its id and trace.
func (a *Agent) recordAbout(ctx context.Context, tx *sql.Tx, key string, e *entry, content any) error {
	m := a.peer.NewMessage(protocol.TypeAgentEvent, content)
	if e != nil {
		m.InReplyTo, m.TraceParent = e.MessageID, e.TraceParent
	}
	return a.enqueue(ctx, tx, protocol.TopicAttention, key, m)
}

// enqueue queues a message for a topic in a transaction.
func (a *Agent) enqueue(ctx context.Context, tx *sql.Tx, topic protocol.Topic, key string, m protocol.Message) error {
	body, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("writing the message for %s: %w", topic, err)
	}
	_, err = a.box.EnqueueTx(ctx, tx, string(topic), key, body)
	a.queued.Store(tx, true)
	if errors.Is(err, outbox.ErrFull) && topic == protocol.TopicAttention {
		a.opts.Log.Error().Err(err).Msg("a record for system:attention is lost")
		return nil
	}
	return err
}

func (a *Agent) recordDecision(ctx context.Context, tx *sql.Tx, e *entry) error {
	d := &e.Decision
	return a.recordAbout(ctx, tx, uniqueKey("decision", e.Seq), e, protocol.AttentionDecision{
		Event: "attention_decision", EventID: e.EventID, Agent: a.id, Directedness: string(d.Directedness),
		Policy: string(d.Policy), Injection: string(d.Injection), Priority: string(d.Priority), Reason: d.Reason,
	})
}

// dispose writes a disposition of an event and its record. A final one is
// written once: later ones change nothing.
func (a *Agent) dispose(ctx context.Context, tx *sql.Tx, e *entry, d attention.Disposition, reason string) error {
	if e.Disposition.Final() || e.Disposition == d {
		return nil
	}
	final := ""
	if d.Final() {
		final = `, deadline_at = 0, stage = CASE WHEN stage IN ('stored','held') THEN 'kept' ELSE stage END`
	}
	res, err := tx.ExecContext(ctx, `UPDATE events SET disposition = ?, disposed_at = ?`+final+`
		WHERE seq = ? AND disposition IN ('', 'claimed', 'deferred')`, string(d), time.Now().UnixMicro(), e.Seq)
	if err != nil {
		return fmt.Errorf("storing the disposition of %s: %w", e.EventID, err)
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return err
	}
	e.Disposition = d
	if d.Final() && (e.Stage == stageStored || e.Stage == stageHeld) {
		e.Stage = stageKept
	}
	if err := a.tellBroker(ctx, tx, e, d, reason); err != nil {
		return err
	}
	return a.recordAbout(ctx, tx, uniqueKey("disposition", e.Seq), e, protocol.Disposition{
		Event: "disposition", EventID: e.EventID, Agent: a.id, Disposition: string(d), Reason: reason,
	})
}

// refuse records an action that policy forbade.
func (a *Agent) refuse(ctx context.Context, eventID, tool, reason string) error {
	return a.inTx(ctx, func(tx *sql.Tx) error {
		e, err := entryByID(ctx, tx, eventID)
		if err != nil {
			return err
		}
		return a.recordAbout(ctx, tx, uniqueKey("refusal", time.Now().UnixMicro()), e, protocol.Refusal{
			Event: "refusal", EventID: cut(eventID, maxID), Agent: a.id, Tool: tool, Reason: reason,
		})
	})
}

func (a *Agent) recordTurn(ctx context.Context, tx *sql.Tx, t *turn, state, reason string, more func(*turnRecord)) error {
	r := turnRecord{
		Event: "turn", EventID: t.EventID, Agent: string(a.id), TurnID: t.ID, Attempt: t.Attempt, Mode: string(t.Mode), State: state, Reason: reason,
	}
	if len(t.Merged) > 1 || t.Mode == attention.ModeDigest {
		r.MergedEventIDs = t.Merged
	}
	if more != nil {
		more(&r)
	}
	e, err := entryByID(ctx, tx, t.EventID)
	if err != nil {
		return err
	}
	return a.recordAbout(ctx, tx, uniqueKey("turn:"+t.ID+":"+state, int64(t.Attempt)), e, r)
}

// uniqueKey names a record. Records are queued in the transaction of what they
// tell of, hence once; the rest of the key only keeps two of one event apart.
func uniqueKey(kind string, n int64) string { return fmt.Sprintf("%s:%d:%s", kind, n, ulid.Make()) }

func cut(s string, n int) string {
	if len(s) > n {
		return s[:n]
	}
	return s
}
