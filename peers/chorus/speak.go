package chorus

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"hubbub/peers/attention"
	"hubbub/protocol"
)

// A speech is what is known when an external agent wants to say something in
// answer to an event.
type speech struct {
	policy      attention.Policy
	disposition attention.Disposition
	place       string // see placeLeaving
	part        bool   // it comes to the event's own callback: a part of one answer
	claimNeeded bool   // and not held
}

// refusalOf says why an agent may not say something, or "". What the policy
// forbids is refused here, whatever the agent's instructions say. It is pure.
func refusalOf(s speech) string {
	switch {
	case s.place == placeLeft:
		return "you were asked to leave this chat; you take part again when somebody mentions you"
	case s.policy == attention.PolicyMustNotRespond:
		return "this event is not for you to answer (must_not_respond)"
	case s.policy == attention.PolicyAckOnly:
		return "this event needs no answer (ack_only); use chat.react if you must"
	case s.disposition == attention.DispositionSuperseded:
		return "this event was superseded by a later one; answer that one"
	case s.disposition == attention.DispositionFailed, s.disposition == attention.DispositionIgnored, s.disposition == attention.DispositionAcknowledged:
		return "this event is closed (" + string(s.disposition) + ")"
	case s.disposition == attention.DispositionResponded && !s.part:
		return "you have answered this event already"
	case s.claimNeeded:
		return "others may answer this event too; claim it with chat.claim first"
	}
	return ""
}

// An utterance is what an external agent says.
type utterance struct {
	event *eventRow
	text  string
	key   string // names it among what the agent says in this channel
	tool  string // for the record: what it came through
	part  bool
	reply protocol.ChatReply // visibility, directedness and the like, as given
}

// A spoken utterance is what became of one.
type spoken struct {
	MessageID protocol.MessageID `json:"messageId,omitempty"`
	Status    string             `json:"status"` // sent, duplicate or refused
	Reason    string             `json:"reason,omitempty"`
}

// The statuses of a spoken utterance.
const (
	spokenSent      = "sent"
	spokenDuplicate = "duplicate"
	spokenRefused   = "refused"
)

// errTooLong refuses an answer that does not fit into a frame of the bus.
var errTooLong = refuse(http.StatusRequestEntityTooLarge, "the message is larger than a frame of the bus")

// speak stores what an external agent says, for the chat, if it may be said. A
// refusal is recorded. The caller wakes the bus queue after the commit.
func (g *Gateway) speak(ctx context.Context, tx *sql.Tx, u utterance) (spoken, error) {
	e := u.event
	var before protocol.MessageID
	err := tx.QueryRowContext(ctx, `SELECT message_id FROM said WHERE agent = ? AND channel = ? AND key = ?`, e.agent, e.channel, u.key).Scan(&before)
	if err == nil {
		return spoken{MessageID: before, Status: spokenDuplicate}, nil
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return spoken{}, fmt.Errorf("looking for what was said: %w", err)
	}
	place, err := placeOf(ctx, tx, e.agent, e.channel)
	if err != nil {
		return spoken{}, err
	}
	why := refusalOf(speech{
		policy: e.policy, disposition: e.disposition, place: place, part: u.part,
		claimNeeded: e.needsClaim && e.claimToken == 0 && g.brokerSeen(),
	})
	if why != "" {
		return spoken{Status: spokenRefused, Reason: why}, g.recordRefusal(ctx, tx, e, u.tool, why, u.key)
	}
	m := protocol.NewMessage(replyType(e.kind), e.agent.ID(), replyOf(u))
	if g.frameSize(len(e.chat), m) > g.opts.MaxFrame {
		return spoken{}, errTooLong
	}
	if err := g.enqueueBus(ctx, tx, e.chat.Topic(), u.key, m); err != nil {
		return spoken{}, err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO said (agent, channel, event_id, key, message_id, text, said_at) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		e.agent, e.channel, e.id, u.key, m.MessageID, u.text, micros(g.store.now()))
	if err != nil {
		return spoken{}, fmt.Errorf("storing what was said: %w", err)
	}
	if place == placeLeaving {
		if err := setPlace(ctx, tx, e.agent, e.channel, placeLeft); err != nil {
			return spoken{}, err
		}
	}
	return spoken{MessageID: m.MessageID, Status: spokenSent},
		g.dispose(ctx, tx, e.agent, e.seq, attention.DispositionResponded, u.tool)
}

// replyOf is the content of the reply: what the agent gave, and what only the
// gateway knows.
func replyOf(u utterance) protocol.ChatReply {
	r := u.reply
	r.Text, r.InReplyTo, r.IdempotencyKey, r.ThreadID = u.text, u.event.id, u.key, u.event.thread
	if u.event.claimToken > 0 {
		r.Claim = &protocol.ReplyClaim{EventID: u.event.id, Token: u.event.claimToken}
	}
	return r
}

func (g *Gateway) recordRefusal(ctx context.Context, tx *sql.Tx, e *eventRow, tool, why, key string) error {
	return g.report(ctx, tx, e.agent, "refusal "+key+" "+hashSecret(why)[:8], protocol.Refusal{
		Event: "refusal", EventID: e.id, Agent: e.agent.ID(), Tool: tool, Reason: why,
	})
}

func protocolDisposition(agent AgentName, id string, d attention.Disposition, reason string) protocol.Disposition {
	return protocol.Disposition{Event: "disposition", EventID: id, Agent: agent.ID(), Disposition: string(d), Reason: reason}
}

// shorten makes a key fit: what is longer is hashed.
func shorten(key string) string {
	if key = strings.TrimSpace(key); len(key) > 200 {
		return "sha256:" + hashSecret(key)
	}
	return key
}
