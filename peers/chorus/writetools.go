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

type sendArguments struct {
	Target         string `json:"target"`
	InReplyTo      string `json:"inReplyTo"`
	Text           string `json:"text"`
	IdempotencyKey string `json:"idempotencyKey"`
	Visibility     string `json:"visibility"`
	Directedness   string `json:"directedness"`
}

// sendMessage says something in the scope's channel, under the same rules as a
// callback.
func (g *Gateway) sendMessage(ctx context.Context, s scope, a sendArguments) (any, error) {
	if strings.TrimSpace(a.Text) == "" {
		return nil, toolErrorf("text must not be empty; to stay silent, end your turn or call chat.resolve")
	}
	e, err := g.eventToAnswer(ctx, s, a.InReplyTo)
	if err != nil {
		return nil, err
	}
	if a.Target != "" && a.Target != e.conversation() && a.Target != s.channel && a.Target != string(e.chat) {
		return nil, toolErrorf("target %q is not this chat; this token opens %s alone", a.Target, s.channel)
	}
	key := shorten(a.IdempotencyKey)
	if key == "" {
		key = hashSecret(e.id + "\x00" + a.Text)
	}
	if err := g.holdClaim(ctx, e); err != nil {
		return nil, toolErrorf("%s", err)
	}
	var said spoken
	err = g.store.inTx(ctx, func(tx *sql.Tx) error {
		fresh, err := eventBySeq(ctx, tx, e.seq)
		if err != nil {
			return err
		}
		said, err = g.speak(ctx, tx, utterance{
			event: fresh, text: a.Text, key: "tool:" + key, tool: "chat.send_message",
			reply: protocol.ChatReply{Visibility: a.Visibility, Directedness: a.Directedness},
		})
		return err
	})
	if errors.Is(err, errTooLong) {
		return nil, toolErrorf("%s", err)
	}
	if err != nil {
		return nil, err
	}
	g.toBus.Wake()
	return said, nil
}

// conversation returns the conversation id of an event's chat.
func (e *eventRow) conversation() string { return e.chatMessage().Chat.ID }

// eventToAnswer finds the event that an answer is for: the one that is named,
// else the latest that may be answered.
func (g *Gateway) eventToAnswer(ctx context.Context, s scope, id string) (*eventRow, error) {
	if id != "" {
		return g.eventNamed(ctx, s, id)
	}
	list, err := events(ctx, g.store.db, `agent = ? AND channel = ? AND policy IN ('must_respond', 'may_respond')
		AND disposition IN ('', 'claimed', 'deferred', 'responded') ORDER BY disposition = 'responded', seq DESC LIMIT 1`, s.agent, s.channel)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, toolErrorf("nothing in this chat asks for an answer of yours; name the event with inReplyTo")
	}
	return list[0], nil
}

// eventNamed finds the newest happening of an event in the scope's channel.
func (g *Gateway) eventNamed(ctx context.Context, s scope, id string) (*eventRow, error) {
	list, err := events(ctx, g.store.db, `agent = ?1 AND channel = ?2 AND (event_id = ?3 OR event_id || '~' || seq = ?3) ORDER BY seq DESC LIMIT 1`,
		s.agent, s.channel, id)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, toolErrorf("there is no event %q in this chat; chat.list_events shows those that there are", id)
	}
	return list[0], nil
}

type reactArguments struct {
	InReplyTo string `json:"inReplyTo"`
	Signal    string `json:"signal"`
	ETA       string `json:"eta"`
}

// react answers an event with a signal.
func (g *Gateway) react(ctx context.Context, s scope, a reactArguments) (any, error) {
	row, err := attention.ParseSignal(a.Signal)
	if err != nil {
		return nil, toolErrorf("%s", err)
	}
	e, err := g.eventNamed(ctx, s, a.InReplyTo)
	if err != nil {
		return nil, err
	}
	if row.Disposition == attention.DispositionClaimed {
		if err := g.holdClaim(ctx, e); err != nil {
			return nil, toolErrorf("%s", err)
		}
	}
	why := ""
	err = g.store.inTx(ctx, func(tx *sql.Tx) error {
		if why, err = g.mayDispose(ctx, tx, e, row.Disposition, "chat.react"); err != nil || why != "" {
			return err
		}
		key := "react:" + e.id + ":" + a.Signal
		m := e.origin.message(replyType(e.kind), e.agent.ID(), protocol.ChatReply{
			Signal: a.Signal, InReplyTo: e.id, IdempotencyKey: key, ThreadID: e.thread,
		})
		if err := g.enqueueBus(ctx, tx, e.chat.Topic(), shorten(key), m); err != nil {
			return err
		}
		if row.Disposition == "" {
			return nil
		}
		return g.dispose(ctx, tx, e.agent, e.seq, row.Disposition, reasonWith("reaction "+a.Signal, a.ETA))
	})
	if err != nil {
		return nil, err
	}
	g.toBus.Wake()
	if why != "" {
		return nil, toolErrorf("%s", why)
	}
	return map[string]any{"signal": a.Signal, "disposition": row.Disposition}, nil
}

// mayDispose says why an agent may not end an event so, or "". A refusal is
// recorded.
func (g *Gateway) mayDispose(ctx context.Context, tx *sql.Tx, e *eventRow, d attention.Disposition, tool string) (string, error) {
	standing, err := g.standingOf(ctx, tx, e, "", false)
	if err != nil {
		return "", err
	}
	refusal := attention.PermitReaction(standing)
	if !refusal.Refused() && d != "" && !e.policy.May(d) {
		refusal = attention.Refusal{Reason: "policy", Advice: fmt.Sprintf("An event that is %s cannot become %s.", e.policy, d)}
	}
	if !refusal.Refused() {
		return "", nil
	}
	return refusal.Advice, g.recordRefusal(ctx, tx, e, tool, refusal.Reason, tool+" "+e.id)
}

// reasonWith appends what an agent said about when.
func reasonWith(reason, eta string) string {
	if eta == "" {
		return reason
	}
	return reason + ", eta " + eta[:min(len(eta), 200)]
}

type claimArguments struct {
	EventID string `json:"eventId"`
	TTLMS   int64  `json:"ttlMs"`
}

// claimEvent claims an event. When the claim is granted and the event had been
// withheld, it is delivered now.
func (g *Gateway) claimEvent(ctx context.Context, s scope, a claimArguments) (any, error) {
	e, err := g.eventNamed(ctx, s, a.EventID)
	if err != nil {
		return nil, err
	}
	if e.policy == attention.PolicyMustNotRespond || e.policy == attention.PolicyAckOnly {
		return nil, toolErrorf("this event is not for you to answer (%s), so there is nothing to claim", e.policy)
	}
	if e.disposition.Final() {
		return nil, toolErrorf("this event is closed (%s)", e.disposition)
	}
	got, err := g.claim(ctx, e, time.Duration(a.TTLMS)*time.Millisecond)
	if err != nil {
		return nil, toolErrorf("%s", err)
	}
	if got.Granted {
		if err := g.deliverClaimed(ctx, e); err != nil {
			return nil, err
		}
	}
	return got, nil
}

// deliverClaimed posts an event that was withheld or only knocked for, with the
// same eventId.
func (g *Gateway) deliverClaimed(ctx context.Context, e *eventRow) error {
	if e.injection.Injects() {
		return nil // it was posted with its content
	}
	err := g.store.inTx(ctx, func(tx *sql.Tx) error {
		now := g.store.now()
		h := &heard{agent: e.agent, channel: e.channel}
		h.event.Author = attention.Author{ID: e.author, Kind: attention.AuthorHuman}
		id, err := newTurn(ctx, tx, h, now, micros(now), nil)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE event SET turn = ?, injection = ? WHERE seq = ?`, id, attention.ModeBuffered, e.seq)
		return err
	})
	if err != nil {
		return fmt.Errorf("delivering a claimed event: %w", err)
	}
	g.turns.look()
	return nil
}

type deferArguments struct {
	EventID string `json:"eventId"`
	Reason  string `json:"reason"`
	ETA     string `json:"eta"`
}

func (g *Gateway) deferEvent(ctx context.Context, s scope, a deferArguments) (any, error) {
	reason := a.Reason[:min(len(a.Reason), 500)]
	return g.settle(ctx, s, a.EventID, attention.DispositionDeferred, reasonWith(reason, a.ETA), "chat.defer")
}

type resolveArguments struct {
	EventID string `json:"eventId"`
}

// resolveEvent ends an event: responded where an answer was owed or claimed,
// acknowledged or ignored where policy allows no more.
func (g *Gateway) resolveEvent(ctx context.Context, s scope, a resolveArguments) (any, error) {
	e, err := g.eventNamed(ctx, s, a.EventID)
	if err != nil {
		return nil, err
	}
	d := attention.DispositionResponded
	if !e.policy.May(d) {
		d = attention.DispositionIgnored
	}
	return g.settle(ctx, s, a.EventID, d, "resolved", "chat.resolve")
}

// settle records a disposition that an agent chose.
func (g *Gateway) settle(ctx context.Context, s scope, id string, d attention.Disposition, reason, tool string) (any, error) {
	e, err := g.eventNamed(ctx, s, id)
	if err != nil {
		return nil, err
	}
	why := ""
	err = g.store.inTx(ctx, func(tx *sql.Tx) error {
		if !e.policy.May(d) {
			why = fmt.Sprintf("An event that is %s cannot become %s.", e.policy, d)
			return g.recordRefusal(ctx, tx, e, tool, "policy", tool+" "+e.id)
		}
		return g.dispose(ctx, tx, e.agent, e.seq, d, reason)
	})
	if err != nil {
		return nil, err
	}
	g.toBus.Wake()
	if why != "" {
		return nil, toolErrorf("%s", why)
	}
	e, err = eventBySeq(ctx, g.store.db, e.seq)
	if err != nil {
		return nil, err
	}
	return map[string]any{"disposition": e.disposition}, nil
}
