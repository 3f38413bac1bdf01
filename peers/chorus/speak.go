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

// standingOf reads what the records say about an event at the moment when its
// agent wants to act on it. The parts of one answer, which come to the event's
// own callback, do not count as answers of their own.
func (g *Gateway) standingOf(ctx context.Context, tx *sql.Tx, e *eventRow, text string, part bool) (attention.Standing, error) {
	place, err := placeOf(ctx, tx, e.agent, e.channel)
	if err != nil {
		return attention.Standing{}, err
	}
	s := attention.Standing{
		Known: true, Policy: e.policy, Disposition: e.disposition, Left: place == placeLeft,
		ClaimNeeded: e.needsClaim && g.brokerSeen(), ClaimHeld: e.claimToken != 0,
	}
	if part && s.Disposition == attention.DispositionResponded {
		s.Disposition = ""
	}
	if !e.byAgent() {
		return s, nil
	}
	x, err := exchangeOf(ctx, tx, e.agent, e.channel, g.store.now())
	if err != nil {
		return s, err
	}
	s.Exchange = x.Weigh(g.store.now())
	earlier, err := recentTexts(ctx, tx, e.agent, e.channel)
	s.Repeats = attention.AddsNothing(text, earlier)
	return s, err
}

// byAgent reports whether another agent wrote the event.
func (e *eventRow) byAgent() bool {
	return strings.HasPrefix(e.author, string(attention.AuthorAgent)+":")
}

// recentTexts are an agent's own last messages in a channel.
func recentTexts(ctx context.Context, tx *sql.Tx, agent AgentName, channel string) ([]string, error) {
	rows, err := tx.QueryContext(ctx, `SELECT text FROM said WHERE agent = ? AND channel = ? ORDER BY seq DESC LIMIT 10`, agent, channel)
	if err != nil {
		return nil, fmt.Errorf("reading what was said: %w", err)
	}
	defer rows.Close()
	var list []string
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, fmt.Errorf("reading what was said: %w", err)
		}
		list = append(list, text)
	}
	return list, rows.Err()
}

// refusalOfSilence refuses a text that only says that nothing is to be said.
var refusalOfSilence = attention.Refusal{
	Reason: "silence", Advice: "Silence is not a text: to stay silent, send nothing.",
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
	Advice    string             `json:"advice,omitempty"` // what to do now
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
	standing, err := g.standingOf(ctx, tx, e, u.text, u.part)
	if err != nil {
		return spoken{}, err
	}
	refusal := attention.PermitMessage(standing)
	if !refusal.Refused() && attention.MeansSilence(u.text) {
		refusal = refusalOfSilence
	}
	if refusal.Refused() {
		return spoken{Status: spokenRefused, Reason: refusal.Reason, Advice: refusal.Advice}, g.recordRefusal(ctx, tx, e, u.tool, refusal.Reason, u.key)
	}
	m := e.origin.message(replyType(e.kind), e.agent.ID(), replyOf(u))
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
	if err := leaveAfter(ctx, tx, e.agent, e.channel); err != nil {
		return spoken{}, err
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
	return g.report(ctx, tx, e.agent, e.origin, "refusal "+why+" "+key, protocol.Refusal{
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
