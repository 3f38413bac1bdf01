package chorus

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"hubbub/peers/attention"
	"hubbub/peers/bridge"
	"hubbub/peers/outbox"
	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/chorus"

	"github.com/rs/zerolog"
)

// A callbackQueue sends events to the callbacks of services, one after another in each channel.
type callbackQueue struct {
	g      *Gateway
	queue  *outbox.Outbox // destination: the channel
	health deliveryHealth
}

// callbackQueueName is the queue of events for callbacks; destination: the channel.
const callbackQueueName = "callback"

func newCallbackQueue(g *Gateway) *callbackQueue {
	q := &callbackQueue{g: g, health: newDeliveryHealth()}
	q.queue = g.newOutbox(q.send, outbox.Options{
		Name:          callbackQueueName,
		Parallel:      32,
		StopTimeout:   g.opts.StopTimeout,
		OnInterrupted: outbox.SettleUnknown, // a service cannot recognize a repeated message
		OnSettled:     q.settle,
		AfterSettled:  q.logOutcome,
	})
	return q
}

// A pendingEvent is an event that waits for its callback.
type pendingEvent struct {
	Event   chorus.Event `json:"event"`
	Inbound int64        `json:"inbound"` // the message with the callback
	// if not 0, the event goes to the callback of the newest message; this is the number of the attempt
	NewestAttempt int `json:"newest,omitempty"`
	// The reply that the event shows; its sender receives the outcome. Empty otherwise.
	Agent     protocol.PeerID      `json:"agent,omitempty"`
	Channel   protocol.PeerID      `json:"channel,omitempty"`
	Reply     protocol.MessageID   `json:"reply,omitempty"`
	Key       string               `json:"key,omitempty"`
	InReplyTo string               `json:"inReplyTo,omitempty"`
	Claim     *protocol.ReplyClaim `json:"claim,omitempty"`
	Asks      bool                 `json:"asks,omitempty"`  // it expects an answer
	Edits     string               `json:"edits,omitempty"` // the key of the reply that it replaces
	// for one person alone
	Private bool `json:"private,omitempty"`
}

// handleReply stores an agent's reply for the callback of the answered message.
func (q *callbackQueue) handleReply(ctx context.Context, d *peer.Delivery) error {
	var reply protocol.ChatReply
	if err := json.Unmarshal(d.Message.Content, &reply); err != nil {
		return peer.Reject("the content of chat_reply cannot be read")
	}
	if err := reply.CheckIDs(); err != nil {
		return peer.Reject(err.Error())
	}
	event, done, ok := replyEvent(reply)
	p := pendingEvent{
		Event: event, Agent: d.Message.From, Channel: protocol.PeerID(d.Topic),
		Reply: d.Message.MessageID, Key: reply.IdempotencyKey, InReplyTo: reply.InReplyTo, Claim: reply.Claim,
		Asks: len(reply.Buttons) > 0, Edits: reply.Edits,
		Private: reply.Visibility == "dm" || reply.Visibility == "ephemeral",
	}
	done = done && !strings.HasPrefix(p.Key, decisionKey) && !strings.HasPrefix(p.Edits, decisionKey)
	return q.enqueue(ctx, p, reply.InReplyTo, cmp.Or(p.Key, string(p.Reply)), done, ok)
}

// handleReport stores an agent's report about its turn for the same callback.
func (q *callbackQueue) handleReport(ctx context.Context, d *peer.Delivery) error {
	var report agentReport
	if err := json.Unmarshal(d.Message.Content, &report); err != nil {
		return peer.Reject("the content of agent_event cannot be read")
	}
	if report.Kind == kindDisposition {
		return q.endTurn(ctx, d, &report)
	}
	event, done, ok := reportEvent(report)
	if !ok {
		return nil // an event of another kind, such as a refusal
	}
	name, err := q.serviceToolName(ctx, protocol.PeerID(d.Topic), event.Name)
	if err != nil {
		return fmt.Errorf("reading a channel's tools: %w", err)
	}
	event.Name = name
	p := pendingEvent{Event: event, Channel: protocol.PeerID(d.Topic), Agent: d.Message.From}
	return q.enqueue(ctx, p, cmp.Or(report.InReplyTo, string(d.Message.InReplyTo)), string(d.Message.MessageID), done,
		true)
}

// endTurn ends the turn of a message that its agent closed without an answer. A turn that has not
// begun matters only to a task, which would stay open.
func (q *callbackQueue) endTurn(ctx context.Context, d *peer.Delivery, report *agentReport) error {
	p := pendingEvent{Channel: protocol.PeerID(d.Topic)}
	failed := report.Disposition == attention.DispositionFailed
	if failed {
		p.Event = chorus.Event{
			Type:    chorus.EventError,
			Message: "the agent could not answer this message",
			Code:    "not_answered",
		}
	}
	err := store.InTx(ctx, q.g.store.db, func(tx *store.Tx) {
		in, found := store.One(tx, answeredColumns, `SELECT seq, turn FROM inbound
			WHERE +channel = ?1 AND (source_id = ?2 OR message_id = ?2)
			AND (turn = ?3 OR turn = '' AND EXISTS (SELECT 1 FROM task_message WHERE inbound = seq))`,
			p.Channel, report.InReplyTo, lifecycleProcessing)
		if found {
			q.putWithLifecycle(tx, in, p, string(d.Message.From)+" "+string(d.Message.MessageID), true, failed)
		}
	})
	if err != nil {
		return fmt.Errorf("storing the end of a turn: %w", err)
	}
	return nil
}

// serviceToolName returns the service's own name of a tool: without the name of its server, which
// is prepended if there are several.
func (q *callbackQueue) serviceToolName(ctx context.Context, channel protocol.PeerID, name string) (string, error) {
	server, tool, cut := strings.Cut(name, toolSeparator)
	if !cut {
		return name, nil
	}
	servers, err := q.g.store.mcpServersOf(ctx, channel)
	if slices.ContainsFunc(servers, func(s MCPServer) bool { return s.Name == server }) {
		return tool, err
	}
	return name, err
}

// enqueue stores an event, with lifecycle events around it, for the callback of its message.
// If visible is false, the event only begins the turn.
func (q *callbackQueue) enqueue(ctx context.Context, p pendingEvent, inReplyTo, key string, done, visible bool) error {
	agent := p.Agent
	if p.Reply == "" {
		p.Agent = "" // nobody receives the outcome of a report
	}
	err := store.InTx(ctx, q.g.store.db, func(tx *store.Tx) {
		in := findAnswered(tx, p.Channel, inReplyTo, q.g.router.InFlight(p.Channel))
		fresh := tx.ExecCount(
			`INSERT OR IGNORE INTO shown (inbound, agent, key) VALUES (?, ?, ?)`,
			in.seq,
			agent,
			shortKey(key),
		)
		if fresh > 0 {
			q.putWithLifecycle(tx, in, p, string(agent)+" "+key, done, visible)
		}
	})
	if errors.Is(err, ErrNotFound) {
		return peer.Reject("there is no such message to reply to")
	}
	if err != nil {
		return fmt.Errorf("storing a reply: %w", err)
	}
	return nil
}

// putWithLifecycle stores an event with lifecycle events around it. The first is "processing",
// and the last is always "idle".
func (q *callbackQueue) putWithLifecycle(
	tx *store.Tx,
	in answeredMessage,
	p pendingEvent,
	key string,
	done, visible bool,
) {
	if in.turn == lifecycleIdle {
		if !visible {
			return
		}
		done = true // a late event opens the turn and closes it again
	}
	lifecycle := func(status string) {
		in.turn = status
		q.put(tx, p.Channel, in.seq, pendingEvent{Event: chorus.Event{Type: chorus.EventLifecycle, Status: status}},
			key+" "+status)
	}
	if in.turn != lifecycleProcessing {
		lifecycle(lifecycleProcessing)
	}
	if visible {
		q.put(tx, p.Channel, in.seq, p, key)
	}
	if done {
		lifecycle(lifecycleIdle)
	}
	tx.Exec(`UPDATE inbound SET turn = ? WHERE seq = ?`, in.turn, in.seq)
}

// An answeredMessage is the message to which a reply belongs.
type answeredMessage struct {
	seq  int64
	turn string // the last lifecycle event
}

func answeredColumns(in *answeredMessage) []any { return []any{&in.seq, &in.turn} }

// findAnswered finds the message to which a reply belongs. It is the message that the reply names
// by sourceId or messageId, else the one being delivered, else the last one that the agent took.
// Reminders and posts of hooks have no callback, so the last message is used for them. tx fails
// with ErrNotFound if there is none.
func findAnswered(tx *store.Tx, channel protocol.PeerID, inReplyTo string, inFlight int64) answeredMessage {
	if slices.ContainsFunc(internalSources, func(own string) bool { return strings.HasPrefix(inReplyTo, own) }) {
		inReplyTo = ""
	}
	if inReplyTo == "" {
		return one(tx, ErrNotFound, answeredColumns, answeredLastQuery, channel, inFlight)
	}
	return one(tx, ErrNotFound, answeredColumns, answeredNamedQuery, channel, inFlight, inReplyTo)
}

// answeredNamedQuery finds the message that a reply names, and answeredLastQuery the one that it
// means otherwise. Both use an index, since every report from an agent needs them.
const (
	answeredNamedQuery = `SELECT seq, turn FROM inbound WHERE +channel = ?1 AND ` + hasCallback + ` AND (source_id = ?3 OR message_id = ?3)
		ORDER BY seq = ?2 DESC, forwarded_at > 0 DESC, seq DESC LIMIT 1`
	answeredLastQuery = `SELECT seq, turn FROM inbound WHERE seq = coalesce(
		(SELECT seq FROM inbound WHERE seq = ?2 AND +channel = ?1 AND ` + hasCallback + `),
		(SELECT seq FROM inbound WHERE channel = ?1 AND +forwarded_at > 0 AND ` + hasCallback + ` ORDER BY seq DESC LIMIT 1),
		(SELECT seq FROM inbound WHERE channel = ?1 AND ` + hasCallback + ` ORDER BY seq DESC LIMIT 1))`
	hasCallback = `(callback IS NULL OR callback <> x'')`
)

// internalSources are the prefixes of sourceIds in a channel that do not come from its service.
var internalSources = []string{hookLabel(""), "reminder:", "undelivered:"}

// put stores one event for the callback of a message. The events of a channel are sent one
// after another, whichever callback they are for, so the channel reads them in order.
func (q *callbackQueue) put(tx *store.Tx, channel protocol.PeerID, seq int64, p pendingEvent, key string) {
	p.Inbound = seq
	raw, err := json.Marshal(p)
	tx.Fail(err)
	key = fmt.Sprintf("%d %s", seq, key)
	if len(key) > 256 {
		key = hashSecret(key)
	}
	_, err = q.queue.EnqueueTx(tx, string(channel), key, raw)
	tx.Fail(err)
}

// putError stores an error event from the gateway for the callback of a message.
func (q *callbackQueue) putError(tx *store.Tx, channel protocol.PeerID, seq int64, key, why, code string) {
	q.put(tx, channel, seq, pendingEvent{Event: chorus.Event{Type: chorus.EventError, Message: why, Code: code}}, key)
}

// maxAttempts is the first attempt of a POST plus three retries.
const maxAttempts = 4

// errNotKept means that a message and its callback are no longer stored.
var errNotKept = errors.New("the callback is no longer stored")

// send POSTs one event to its callback.
func (q *callbackQueue) send(ctx context.Context, item outbox.Item) error {
	var p pendingEvent
	err := json.Unmarshal(item.Body, &p)
	if err == nil && p.NewestAttempt > 0 {
		if p.Inbound, err = q.g.commands().newest(ctx, &p); err != nil {
			return err
		}
	}
	if err != nil {
		return outbox.Permanent(err)
	}
	if why := q.health.skipReason(item.Destination, &p); why != nil {
		return outbox.Drop(why)
	}
	callback, err := q.g.store.callbackOf(ctx, p.Inbound)
	switch {
	case errors.Is(err, errCannotUnseal):
		return outbox.Permanent(err)
	case err != nil:
		return err
	case callback == "":
		return outbox.Permanent(errNotKept)
	case callback == taskCallback:
		return q.g.tasks.advance(ctx, &p)
	case p.Private:
		kind, err := store.ReadValue[string](ctx, q.g.store.db,
			`SELECT json_extract(CAST(content AS TEXT), '$.chat.kind') FROM inbound WHERE seq = ?`, p.Inbound)
		if err != nil {
			return fmt.Errorf("reading the kind of a channel: %w", err)
		}
		if kind != string(attention.ConversationDM) {
			return outbox.Permanent(errors.New("everybody in this channel would read a private reply"))
		}
	}
	err = q.post(ctx, &item, &p, callback)
	return q.g.router.ReportDelay(ctx, item.Attempt, p.report(protocol.StatusAccepted, nil), err)
}

// post makes one attempt to POST an event to its callback.
func (q *callbackQueue) post(ctx context.Context, item *outbox.Item, p *pendingEvent, callback string) error {
	body, err := json.Marshal(p.Event)
	if err != nil {
		return outbox.Permanent(err)
	}
	if p.Reply != "" && p.Event.Type == chorus.EventMessage {
		reply := protocol.ChatReply{InReplyTo: p.InReplyTo, Claim: p.Claim}
		if err := q.g.router.AuthorizeReply(ctx, p.Agent, &reply); err != nil {
			return err
		}
	}
	if p.Event.Type == chorus.EventMessage { // record it first: a service may bring it to another inbox immediately
		var text string
		_ = json.Unmarshal(p.Event.Content, &text) //nolint:errcheck // it was written as a string
		q.g.senders.echoes.record(p.Agent, p.Channel, text)
		if p.Agent != "" {
			q.g.senders.paces.recordAgentMessage(p.Agent, p.Channel)
		}
	}
	err = q.g.egress.poster.post(ctx, callback, body)
	switch status, answered := errors.AsType[statusError](err); {
	case errors.Is(err, errNoResponse):
		return outbox.Unknown(err)
	case answered && p.Event.Type == chorus.EventLifecycle:
		q.health.disableLifecycle(item.Destination)
		q.g.opts.Log.Info().
			Str("peer", item.Destination).
			Err(status).
			Msg("lifecycle events stopped: the service does not accept them")
		return outbox.Drop(fmt.Errorf("%w: %w", errNoLifecycle, status))
	case err != nil && p.isReport():
		return outbox.Drop(err) // answers wait behind it
	}
	return classifyPostError(err, item.Attempt)
}

// classifyPostError decides what follows a failed attempt of a POST: up to three retries after a
// 5xx answer or a failed connection, none otherwise.
func classifyPostError(err error, attempt int) error {
	if err == nil {
		return nil
	}
	if !isRetryable(err) || attempt >= maxAttempts {
		return outbox.Permanent(err)
	}
	return err
}

// settle reports the outcome of a reply to its agent, in the transaction that settles the
// event.
func (q *callbackQueue) settle(tx *store.Tx, item outbox.Item, outcome outbox.State, cause error) {
	var p pendingEvent
	if err := json.Unmarshal(item.Body, &p); err != nil || p.Reply == "" {
		if p.NewestAttempt > 0 && outcome == outbox.StateDead {
			q.g.commands().keepForNextMessage(tx, &item, p)
		}
		return
	}
	status := protocol.StatusFailed
	switch outcome {
	case outbox.StateSent:
		status = protocol.StatusDelivered
	case outbox.StateUnknown:
		status = protocol.StatusUnknown
	}
	q.g.router.Report(tx, p.report(status, cause))
}

// report returns a report for the agent that sent the reply. It has no sourceId, since a service
// assigns no ID. cause may be nil.
func (p *pendingEvent) report(status string, cause error) *bridge.Report {
	r := &bridge.Report{
		Chat:   p.Channel,
		Agent:  p.Agent,
		Key:    string(p.Reply) + " " + status,
		Status: protocol.DeliveryStatus{MessageID: p.Reply, IdempotencyKey: p.Key, Status: status},
	}
	if cause != nil {
		r.Status.Reason = cause.Error()
	}
	return r
}

// logOutcome logs the outcome of an event.
func (q *callbackQueue) logOutcome(item outbox.Item, outcome outbox.State, cause error) {
	q.health.record(item, outcome)
	level := zerolog.WarnLevel
	switch outcome {
	case outbox.StateSent:
		return
	case outbox.StateDropped:
		level = zerolog.DebugLevel
	}
	q.g.opts.Log.WithLevel(level).
		Str("peer", item.Destination).
		Str("outcome", string(outcome)).
		Err(cause).
		Msg("event not accepted by its callback")
}

// isReport reports whether an event only reports activity: it is neither an answer nor an error.
func (p *pendingEvent) isReport() bool {
	return p.Reply == "" && p.NewestAttempt == 0 && p.Event.Type != chorus.EventError
}
