package mx

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"hubbub/peers/bridge"
	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/notify"
)

// An ingester applies stored events: it decides what follows from each.
type ingester struct {
	*outbound
	arrived  notify.Signal // events have been stored
	typeists *typeists
}

// A storedEvent is an event that has not been applied yet.
type storedEvent struct {
	seq        int64
	kind, room string
	raw        json.RawMessage
}

// run applies stored events in the order of their arrival. An event that cannot be parsed is kept.
// If the database cannot be written, the event is retried.
func (in *ingester) run(ctx context.Context) error {
	return bridge.ApplyStored(ctx, in.log, "events", in.arrived, in.applyBatch)
}

func (in *ingester) applyBatch(ctx context.Context) (int, error) {
	batch, err := store.Read(ctx, in.db, func(tx *store.Tx) []storedEvent {
		return store.All(tx, func(e *storedEvent) []any { return []any{&e.seq, &e.kind, &e.room, (*[]byte)(&e.raw)} },
			`SELECT seq, kind, room, raw FROM inbox WHERE state = 'new' ORDER BY seq LIMIT 100`)
	})
	for i := range batch {
		if err := in.apply(context.WithoutCancel(ctx), &batch[i]); err != nil {
			return 0, err
		}
	}
	return len(batch), err
}

// apply applies one event in one transaction.
func (in *ingester) apply(ctx context.Context, e *storedEvent) error {
	err := store.InTx(ctx, in.db, func(tx *store.Tx) {
		state := "done"
		reason, err := in.handleSafely(tx, e)
		switch {
		case err != nil:
			in.log.Error().Err(err).Int64("event", e.seq).Msg("event not understood; kept unchanged")
			state, reason = "unreadable", err.Error()
		case reason != "":
			state = "skipped"
		}
		tx.Exec(`UPDATE inbox SET state = ?, reason = ? WHERE seq = ?`, state, reason, e.seq)
	})
	if err == nil {
		in.crash("taken in")
	}
	return err
}

// handleSafely acts on an event and turns a panic into an error. It returns why no agent receives
// the event, or "" if the agents do.
func (in *ingester) handleSafely(tx *store.Tx, e *storedEvent) (reason string, err error) {
	defer func() {
		if p := recover(); p != nil {
			in.log.Error().Interface("panic", p).Bytes("stack", debug.Stack()).Msg("reading an event panicked")
			err = fmt.Errorf("reading this event panicked: %v", p)
		}
	}()
	switch e.kind {
	case "invite":
		return in.handleInvite(tx, e)
	case "receipt":
		return in.handleReceipt(tx, e)
	}
	var raw rawEvent
	if err := json.Unmarshal(e.raw, &raw); err != nil {
		return "", fmt.Errorf("reading an event: %w", err)
	}
	if raw.Key != nil {
		return in.handleState(tx, e.room, &raw)
	}
	switch {
	case raw.Sender == string(in.bot):
		return "the bot's own event", in.handleEcho(tx, &raw)
	case e.kind == "old":
		return "older than the bot's membership", nil
	}
	return in.handleMessage(tx, e.room, &raw)
}

// handleMessage acts on an event that is not state.
func (in *ingester) handleMessage(tx *store.Tx, room string, raw *rawEvent) (string, error) {
	var h *parsedEvent
	var err error
	switch raw.Type {
	case "m.room.message", "m.sticker":
		h, err = in.parseMessage(raw)
	case "m.reaction":
		h, err = in.parseReaction(raw)
	case "m.room.redaction":
		return in.handleRedaction(tx, room, raw)
	case "m.room.encrypted":
		in.announceEncryption(tx, in.ensure(tx, room))
		return "an encrypted message", nil
	default:
		return "an event of the type " + raw.Type, nil
	}
	if err != nil {
		return "", err
	}
	h.room = room
	own := localpart(string(in.bot))
	if words := h.data.Content.Text; h.mentionsOnlyByName &&
		(beginsWithName(words, own) || beginsWithName(words, in.nameOf(tx, room, string(in.bot)))) {
		h.data.Names = bridge.AppendUnique(h.data.Names, strings.ToLower(own))
	}
	return in.handle(tx, h), nil
}

// handle acts on a parsed event. It returns why no agent receives it, or "".
func (in *ingester) handle(tx *store.Tx, h *parsedEvent) string {
	c := in.ensure(tx, h.room)
	if !in.admitsChat(tx, c) && !(c.isDirect() && in.admitsUser(tx, h.sender)) {
		return in.reject(tx, c, h)
	}
	switch {
	case h.command != "":
		in.runCommand(tx, c, h)
		return "the command " + prefix + h.command
	case h.skip != "":
		return h.skip
	case c.stopped:
		if h.data.Content.Event == protocol.EventMessage && (c.isDirect() || in.isForAgents(tx, c, h)) {
			in.notice(tx, c, h.thread, "stopped:"+bridge.Today(), bridge.StoppedText(prefix))
		}
		return "the chat is stopped"
	case h.edits != "":
		if reason := in.checkEdit(tx, h); reason != "" {
			return reason
		}
	}
	in.storeEvent(tx, c, h)
	if in.namesOutsider(tx, c, h) {
		in.enqueueCommand(tx, c, h, bridge.VerbSay, h.data.Content.Text)
	}
	return ""
}

// isForAgents reports whether a message in a room is addressed to the bot or to one of its agents.
func (in *ingester) isForAgents(tx *store.Tx, c *chat, h *parsedEvent) bool {
	return slices.Contains(h.data.Names, strings.ToLower(localpart(string(in.bot)))) ||
		h.data.ReplyTo != "" && protocol.RoleOf(protocol.PeerID(in.answered(tx, c, h.data.ReplyTo).Author)) ==
			protocol.RoleAgent ||
		slices.ContainsFunc(in.router.Agents(tx, c.peer()), func(a bridge.Assignment) bool {
			return slices.Contains(h.data.Names, a.Agent.Name())
		})
}

// checkEdit returns why an edit does not count, or adds what it keeps of the message that it
// replaces: its thread and the message that it answers. Homeservers let everybody send one.
func (in *ingester) checkEdit(tx *store.Tx, h *parsedEvent) (reason string) {
	type row struct{ sender, thread, replyTo string }
	of, known := store.One(tx, func(r *row) []any { return []any{&r.sender, &r.thread, &r.replyTo} },
		`SELECT sender, thread, coalesce(data ->> '$.replyTo', '') FROM events
		WHERE event = ? AND source_id = ? ORDER BY id LIMIT 1`, h.edits, h.source)
	switch {
	case !known:
		return "an edit of a message that no agent received"
	case of.sender != h.sender:
		return "an edit of somebody else's message"
	}
	h.thread, h.data.ReplyTo = of.thread, of.replyTo
	return ""
}

// storeEvent stores an event and passes it to the router.
func (in *ingester) storeEvent(tx *store.Tx, c *chat, h *parsedEvent) {
	m := &h.data.Content
	m.Attachments = in.files.Attachments(tx, h.files)
	if m.Author == nil {
		m.Author = in.authorOf(h.sender, in.nameOf(tx, c.room, h.sender))
	}
	m.Chat = in.describe(tx, c, h.thread)
	if h.data.Content.Event == protocol.EventReaction && h.thread == "" {
		m.Chat = in.describe(tx, c, in.threadOf(tx, h.data.ReplyTo))
	}
	source := h.source
	if source == "" {
		source = sourceID(h.event)
	}
	event := h.event
	if h.edits != "" {
		event = h.edits
	}
	number := store.Value[int64](tx, `INSERT INTO events
		(chat, event, sender, thread, source_id, data, bus_id, received_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
		c.key, event, h.sender, h.thread, source, mustJSON(h.data), string(protocol.NewMessageID()), nowMicros())
	if tx.Err() == nil {
		in.router.Deliver(tx, &bridge.Event{ID: number, Chat: c.peer(), Source: source}, time.Time{})
	}
}

// threadOf returns the thread of a message, of a person or an agent, or "".
func (a *account) threadOf(tx *store.Tx, event string) string {
	if thread := store.Value[string](tx, `SELECT thread FROM events WHERE event = ? ORDER BY id LIMIT 1`,
		event); thread != "" {
		return thread
	}
	return store.Value[string](tx, `SELECT coalesce(r.content ->> '$.threadId', '') FROM sends s
		JOIN replies r ON r.id = s.reply WHERE s.event = ?`, event)
}

// handleEcho stores the ID of an event that the bot sent, if the answer to the request was lost.
func (in *ingester) handleEcho(tx *store.Tx, e *rawEvent) error {
	var content map[string]json.RawMessage
	if err := json.Unmarshal(e.Content, &content); err != nil {
		return fmt.Errorf("reading an own event: %w", err)
	}
	var txn string
	if json.Unmarshal(content[txnKey], &txn) == nil && txn != "" {
		tx.Exec(`UPDATE sends SET event = ? WHERE txn = ? AND event = ''`, e.ID, txn)
	}
	return nil
}

// handleRedaction passes on that a person removed a message.
func (in *ingester) handleRedaction(tx *store.Tx, room string, e *rawEvent) (string, error) {
	var content struct {
		Redacts string `json:"redacts"`
	}
	if err := json.Unmarshal(e.Content, &content); err != nil {
		return "", fmt.Errorf("reading a redaction: %w", err)
	}
	target := content.Redacts
	if target == "" {
		target = e.Redacts
	}
	tx.Exec(`DELETE FROM reactions WHERE event = ?`, target) // the agent may show it again
	type row struct{ source, thread, kind string }
	of, known := store.One(tx, func(r *row) []any { return []any{&r.source, &r.thread, &r.kind} },
		`SELECT source_id, thread, data ->> '$.content.event' FROM events WHERE event = ? ORDER BY id LIMIT 1`, target)
	switch {
	case !known:
		return "a redaction of an event that no agent received", nil
	case of.kind == protocol.EventReaction:
		return "a reaction was removed", nil
	}
	h := in.newEvent(e, protocol.EventDelete)
	h.room, h.source, h.event, h.thread = room, of.source, target, of.thread
	h.data.Content.Actor = &protocol.Party{ID: e.Sender, Kind: "human"}
	return in.handle(tx, h), nil
}

// handleReceipt tells an agent that a person has read its message, in rooms of a few people.
func (in *ingester) handleReceipt(tx *store.Tx, e *storedEvent) (string, error) {
	var r receipt
	if err := json.Unmarshal(e.raw, &r); err != nil {
		return "", fmt.Errorf("reading a receipt: %w", err)
	}
	c := in.ensure(tx, e.room)
	if c.members > maxMembers {
		return "a receipt in a large room", nil
	}
	h := &parsedEvent{room: e.room, sender: r.User, event: "receipt:" + r.Event + ":" + r.User}
	h.data.ReplyTo = r.Event
	h.data.Content = protocol.ChatMessage{
		Text: in.opts.Glyphs["seen"], Event: protocol.EventReaction, Signal: "seen",
		CreatedAt: time.UnixMilli(r.At).UTC().Format(time.RFC3339),
	}
	return in.handle(tx, h), nil
}

// takeHookMessage stores a message from a hook as an event of its chat. People do not see it, only
// what the agents make of it. An assignment is for the chat's first agent.
func (in *ingester) takeHookMessage(ctx context.Context, d *peer.Delivery) error {
	content, err := bridge.ParseHookMessage(d)
	if err != nil {
		return err
	}
	return store.InTx(ctx, in.db, func(tx *store.Tx) {
		c, refusal := in.find(tx, d.Topic)
		switch {
		case refusal != "":
		case !in.admitsChat(tx, c):
			refusal = "the chat is no longer admitted"
		case c.isMuted():
			refusal = "the chat is stopped, or the bot is not a member of it"
		}
		if refusal != "" {
			tx.Fail(peer.Reject(refusal))
			return
		}
		if store.Value[bool](tx, `SELECT 1 FROM events WHERE chat = ? AND source_id = ?`, c.key, content.SourceID) {
			return
		}
		h := &parsedEvent{sender: content.Author.ID, source: content.SourceID, data: eventData{Content: content}}
		if content.Event == protocol.EventAssignment {
			h.data.Names = []string{strings.ToLower(localpart(string(in.bot)))}
		}
		in.storeEvent(tx, c, h)
	})
}

var errNoAnswer = errors.New("no answer from the homeserver")
