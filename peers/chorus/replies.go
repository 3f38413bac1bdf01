package chorus

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"hubbub/peers/bridge"
	"hubbub/peers/outbox"
	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/chorus"

	"github.com/rs/zerolog"
)

// A pending event, as it waits for its callback.
type pendingEvent struct {
	Event         chorus.Event `json:"event"`
	Inbound       int64        `json:"inbound"`          // the message whose callback it is for
	NewestAttempt int          `json:"newest,omitempty"` // it is for that of the newest message: the which attempt
	// Of the reply that it shows, whose sender is told the outcome; empty for others.
	Agent   protocol.PeerID    `json:"agent,omitempty"`
	Channel protocol.PeerID    `json:"channel,omitempty"`
	Reply   protocol.MessageID `json:"reply,omitempty"`
	Key     string             `json:"key,omitempty"`
	Asks    bool               `json:"asks,omitempty"`  // it wants an answer
	Edits   string             `json:"edits,omitempty"` // the key of the reply that it replaces
}

// handleReply stores an agent's reply for the callback of the message that it
// answers.
func (g *Gateway) handleReply(ctx context.Context, d *peer.Delivery) error {
	var reply protocol.ChatReply
	if err := json.Unmarshal(d.Message.Content, &reply); err != nil {
		return peer.Reject("the content of chat_reply cannot be read")
	}
	event, done, ok := replyEvent(reply)
	p := pendingEvent{
		Event: event, Agent: d.Message.From, Channel: protocol.PeerID(d.Topic),
		Reply: d.Message.MessageID, Key: reply.IdempotencyKey, Asks: len(reply.Buttons) > 0, Edits: reply.Edits,
	}
	done = done && !strings.HasPrefix(p.Key, decisionKey) && !strings.HasPrefix(p.Edits, decisionKey)
	return g.queueEvent(ctx, p, reply.InReplyTo, cmp.Or(p.Key, string(p.Reply)), done, ok)
}

// handleReport stores an agent's report on its turn for the same callback.
func (g *Gateway) handleReport(ctx context.Context, d *peer.Delivery) error {
	var report agentReport
	if err := json.Unmarshal(d.Message.Content, &report); err != nil {
		return peer.Reject("the content of agent_event cannot be read")
	}
	event, done, ok := reportEvent(report)
	if !ok {
		return nil // an event of another kind, such as a refusal
	}
	name, err := g.serviceToolName(ctx, protocol.PeerID(d.Topic), event.Name)
	if err != nil {
		return fmt.Errorf("reading a channel's tools: %w", err)
	}
	event.Name = name
	p := pendingEvent{Event: event, Channel: protocol.PeerID(d.Topic), Agent: d.Message.From}
	return g.queueEvent(ctx, p, cmp.Or(report.InReplyTo, string(d.Message.InReplyTo)), string(d.Message.MessageID), done, true)
}

// serviceToolName returns the name of a tool as the service of a channel knows it: without the name
// of the server that it was offered with, if there are several.
func (g *Gateway) serviceToolName(ctx context.Context, channel protocol.PeerID, name string) (string, error) {
	server, tool, cut := strings.Cut(name, toolSeparator)
	if !cut {
		return name, nil
	}
	servers, err := g.store.mcpServersOf(ctx, channel)
	if slices.ContainsFunc(servers, func(s MCPServer) bool { return s.Name == server }) {
		return tool, err
	}
	return name, err
}

// queueEvent stores an event for the callback of the message that it belongs to,
// with the lifecycle around it. visible is false for a sign of life that only begins
// the turn.
func (g *Gateway) queueEvent(ctx context.Context, p pendingEvent, inReplyTo, key string, done, visible bool) error {
	agent := p.Agent
	if p.Reply == "" {
		p.Agent = "" // nobody is told of a report's outcome
	}
	err := store.InTx(ctx, g.store.db, func(tx *store.Tx) {
		in := findAnswered(tx, p.Channel, inReplyTo, g.router.InFlight(p.Channel))
		fresh := tx.ExecCount(`INSERT OR IGNORE INTO shown (inbound, agent, key) VALUES (?, ?, ?)`, in.seq, agent, shortKey(key))
		if fresh > 0 {
			g.putWithLifecycle(tx, in, p, string(agent)+" "+key, done, visible)
		}
	})
	if errors.Is(err, ErrNotFound) {
		return peer.Reject("there is no such message here to reply to")
	}
	if err != nil {
		return fmt.Errorf("storing a reply: %w", err)
	}
	return nil
}

// putWithLifecycle stores an event with the lifecycle events around it: the
// first is "processing", and the last, always, "idle".
func (g *Gateway) putWithLifecycle(tx *store.Tx, in answeredMessage, p pendingEvent, key string, done, visible bool) {
	if in.turn == lifecycleIdle {
		if !visible {
			return
		}
		done = true // what comes after the end opens the turn and closes it again
	}
	lifecycle := func(status string) {
		in.turn = status
		g.putEvent(tx, p.Channel, in.seq, pendingEvent{Event: chorus.Event{Type: chorus.EventLifecycle, Status: status}}, key+" "+status)
	}
	if in.turn != lifecycleProcessing {
		lifecycle(lifecycleProcessing)
	}
	if visible {
		g.putEvent(tx, p.Channel, in.seq, p, key)
	}
	if done {
		lifecycle(lifecycleIdle)
	}
	tx.Exec(`UPDATE inbound SET turn = ? WHERE seq = ?`, in.turn, in.seq)
}

// A answeredMessage message is the one that a reply belongs to.
type answeredMessage struct {
	seq  int64
	turn string // the last lifecycle event
}

// findAnswered finds the message that a reply belongs to: the one it names, by
// sourceId or by the messageId of the chat_message, else the one that is being
// handed over, else the latest that the agent took. What no service said, such as a reminder or
// what a hook brought, has no callback: its answer is of the latter. tx fails with ErrNotFound if
// there is none.
func findAnswered(tx *store.Tx, channel protocol.PeerID, inReplyTo string, inFlight int64) answeredMessage {
	if slices.ContainsFunc(internalSources, func(own string) bool { return strings.HasPrefix(inReplyTo, own) }) {
		inReplyTo = ""
	}
	into := func(in *answeredMessage) []any { return []any{&in.seq, &in.turn} }
	if inReplyTo == "" {
		return one(tx, ErrNotFound, into, answeredLastQuery, channel, inFlight)
	}
	return one(tx, ErrNotFound, into, answeredNamedQuery, channel, inFlight, inReplyTo)
}

// answeredNamedQuery finds the message that a reply names, and answeredLastQuery the one that it means if it names none: each by
// an index, since an agent's every report asks for it.
const (
	answeredNamedQuery = `SELECT seq, turn FROM inbound WHERE +channel = ?1 AND ` + hasCallback + ` AND (source_id = ?3 OR message_id = ?3)
		ORDER BY seq = ?2 DESC, forwarded_at > 0 DESC, seq DESC LIMIT 1`
	answeredLastQuery = `SELECT seq, turn FROM inbound WHERE seq = coalesce(
		(SELECT seq FROM inbound WHERE seq = ?2 AND +channel = ?1 AND ` + hasCallback + `),
		(SELECT seq FROM inbound WHERE channel = ?1 AND +forwarded_at > 0 AND ` + hasCallback + ` ORDER BY seq DESC LIMIT 1),
		(SELECT seq FROM inbound WHERE channel = ?1 AND ` + hasCallback + ` ORDER BY seq DESC LIMIT 1))`
	hasCallback = `(callback IS NULL OR callback <> x'')`
)

// internalSources begin the sourceIds of events in a channel that its service did not POST.
var internalSources = []string{hookLabel(""), "reminder:", "undelivered:"}

// putEvent stores one event for the callback of a message. The events of a
// channel go out one after the other, whichever of its callbacks they are for:
// the channel reads them in the order in which they were said.
func (g *Gateway) putEvent(tx *store.Tx, channel protocol.PeerID, seq int64, p pendingEvent, key string) {
	p.Inbound = seq
	raw, err := json.Marshal(p)
	tx.Fail(err)
	key = fmt.Sprintf("%d %s", seq, key)
	if len(key) > 256 {
		key = hashSecret(key)
	}
	_, err = g.callbacks.EnqueueTx(tx, string(channel), key, raw)
	tx.Fail(err)
}

// putError stores an error event of the gateway's own for the callback of a
// message.
func (g *Gateway) putError(tx *store.Tx, channel protocol.PeerID, seq int64, key, why, code string) {
	g.putEvent(tx, channel, seq, pendingEvent{Event: chorus.Event{Type: chorus.EventError, Message: why, Code: code}}, key)
}

// maxAttempts is the first attempt at a POST and three more.
const maxAttempts = 4

// errNotKept says that a message and its callback are no longer kept.
var errNotKept = errors.New("the callback is too old to be kept")

// sendEvent POSTs one event to its callback.
func (g *Gateway) sendEvent(ctx context.Context, item outbox.Item) error {
	var p pendingEvent
	err := json.Unmarshal(item.Body, &p)
	if err == nil && p.NewestAttempt > 0 {
		if p.Inbound, err = g.commands().newest(ctx, &p); err != nil {
			return err
		}
	}
	if err != nil {
		return outbox.Permanent(err)
	}
	if why := g.health.skipReason(item.Destination, &p); why != nil {
		return outbox.Drop(why)
	}
	callback, err := g.store.callbackOf(ctx, p.Inbound)
	switch {
	case errors.Is(err, errCannotUnseal):
		return outbox.Permanent(err)
	case err != nil:
		return err
	case callback == "":
		return outbox.Permanent(errNotKept)
	case callback == taskCallback:
		return g.advance(ctx, &p)
	}
	body, err := json.Marshal(p.Event)
	if err != nil {
		return outbox.Permanent(err)
	}
	if p.Event.Type == chorus.EventMessage { // before it goes: a service may bring it to another inbox at once
		var said string
		_ = json.Unmarshal(p.Event.Content, &said) //nolint:errcheck // it was written as a string
		g.roster.recordMessage(p.Agent, p.Channel, said)
	}
	err = g.poster.post(ctx, callback, body)
	switch status, answered := errors.AsType[statusError](err); {
	case errors.Is(err, errNoResponse):
		return outbox.Unknown(err)
	case answered && p.Event.Type == chorus.EventLifecycle:
		g.health.disableLifecycle(item.Destination)
		g.log.Info().Str("peer", item.Destination).Err(status).Msg("channel gets no more lifecycle: its service does not take it")
		return outbox.Drop(fmt.Errorf("%w: %w", errNoLifecycle, status))
	case err != nil && p.isReport():
		return outbox.Drop(err) // answers wait behind it
	}
	return classifyPostError(err, item.Attempt)
}

// classifyPostError returns what follows from an attempt at a POST: three more attempts
// after a 5xx answer or a failed connection, none after anything else.
func classifyPostError(err error, attempt int) error {
	if err == nil {
		return nil
	}
	if !isRetryable(err) || attempt >= maxAttempts {
		return outbox.Permanent(err)
	}
	return err
}

// settleEvent tells the replying agent what became of its reply, in the
// transaction that settles the event.
func (g *Gateway) settleEvent(tx *store.Tx, item outbox.Item, outcome outbox.State, cause error) {
	var p pendingEvent
	if err := json.Unmarshal(item.Body, &p); err != nil || p.Reply == "" {
		if p.NewestAttempt > 0 && outcome == outbox.StateDead {
			g.commands().keepForNextMessage(tx, &item, p)
		}
		return
	}
	// A service gives it no id of its own, so the status has no sourceId.
	status := protocol.DeliveryStatus{MessageID: p.Reply, IdempotencyKey: p.Key, Status: protocol.StatusFailed}
	switch outcome {
	case outbox.StateSent:
		status.Status = protocol.StatusDelivered
	case outbox.StateUnknown:
		status.Status = protocol.StatusUnknown
	}
	if cause != nil {
		status.Reason = cause.Error()
	}
	g.router.Report(tx, &bridge.Report{Chat: p.Channel, Agent: p.Agent, Key: string(p.Reply) + " " + status.Status, Status: status})
}

// logEventOutcome logs what became of an event.
func (g *Gateway) logEventOutcome(item outbox.Item, outcome outbox.State, cause error) {
	g.health.record(item, outcome)
	level := zerolog.WarnLevel
	switch outcome {
	case outbox.StateSent:
		return
	case outbox.StateDropped:
		level = zerolog.DebugLevel
	}
	g.log.WithLevel(level).Str("peer", item.Destination).Str("outcome", string(outcome)).Err(cause).Msg("event not taken by its callback")
}

// maxUnhealthy bounds the channels whose trouble is remembered. With one more, all
// are forgotten, and found out again.
const maxUnhealthy = 1000

// deliveryHealth are the channels at whose callbacks something is not sent: they did not answer, and
// each further report would wait as long, or they take no lifecycle. The events of a channel go
// out one after the other, so what comes after must not wait. After a restart it is found out
// again.
type deliveryHealth struct {
	mu           sync.Mutex
	unresponsive map[string]int64 // the message whose callback did not answer its last event, by channel
	noLifecycle  map[string]bool  // channels
}

// Why an event is not sent.
var (
	errUnresponsive = errors.New("its callback did not answer the event before")
	errNoLifecycle  = errors.New("the service takes no lifecycle")
)

// skipReason returns why an event is not sent, or nil.
func (t *deliveryHealth) skipReason(channel string, p *pendingEvent) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	inbound, silent := t.unresponsive[channel]
	switch {
	case p.Event.Type != chorus.EventLifecycle:
		if p.isReport() && silent && inbound == p.Inbound {
			return errUnresponsive
		}
	case t.noLifecycle[channel]:
		return errNoLifecycle
	}
	return nil
}

// record records what became of an event.
func (t *deliveryHealth) record(item outbox.Item, outcome outbox.State) {
	var p pendingEvent
	if json.Unmarshal(item.Body, &p) != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch outcome {
	case outbox.StateSent, outbox.StateDead: // it answers
		delete(t.unresponsive, item.Destination)
	case outbox.StateUnknown:
		putBounded(t.unresponsive, item.Destination, p.Inbound)
	}
}

// disableLifecycle records that a channel's service takes no lifecycle.
func (t *deliveryHealth) disableLifecycle(channel string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	putBounded(t.noLifecycle, channel, true)
}

func putBounded[V any](of map[string]V, channel string, v V) {
	if len(of) >= maxUnhealthy {
		clear(of)
	}
	of[channel] = v
}

// isReport reports whether an event only tells of what goes on: it is no answer and no error.
func (p *pendingEvent) isReport() bool {
	return p.Reply == "" && p.NewestAttempt == 0 && p.Event.Type != chorus.EventError
}
