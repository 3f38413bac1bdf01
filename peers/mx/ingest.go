package mx

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	arrived notify.Signal // events have been stored
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
	batch, err := store.ReadAll(ctx, in.db,
		func(e *storedEvent) []any { return []any{&e.seq, &e.kind, &e.room, (*[]byte)(&e.raw)} },
		`SELECT seq, kind, room, raw FROM inbox WHERE state = 'new' ORDER BY seq LIMIT 100`)
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
		if !store.Value[bool](tx, `SELECT 1 FROM inbox WHERE seq = ? AND raw = ?`, e.seq, string(e.raw)) {
			return // its key has arrived in the meantime: the next batch has the decrypted event
		}
		state, reason := "done", ""
		err := bridge.Guard(in.log, "reading an event", func() (err error) {
			reason, err = in.handleStored(tx, e)
			return err
		})
		switch {
		case err != nil:
			in.log.Error().Err(err).Int64("event", e.seq).Msg("event not understood; kept unchanged")
			state, reason = "unreadable", err.Error()
		case reason == noKey:
			state = "locked"
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

// handleStored acts on a stored event. It returns why no agent receives it, or "" if the agents do.
func (in *ingester) handleStored(tx *store.Tx, e *storedEvent) (reason string, err error) {
	if e.kind == "invite" {
		return in.handleInvite(tx, e)
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
		if txn, shown := sentAs(&raw); txn != "" { // the answer to the request may have been lost
			tx.Exec(`UPDATE sends SET event = ? WHERE txn = ? AND event = ''`, shown, txn)
		}
		return "the bot's own event", nil
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
		in.announceEncryption(tx, in.ensure(tx, room), true)
		return noKey, nil
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
	if h.isQuestion() && !(c.stopped && h.command == "start") { // nobody sees questions in a stopped chat
		h.command = ""
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
	if in.view(c).LeadsElsewhere(tx, &h.data.Content, h.data.Names) {
		in.enqueueCommand(tx, c, h, bridge.VerbSay, h.data.Content.Text)
	}
	return ""
}

// isForAgents reports whether a message in a room is addressed to the bot or to one of its agents.
func (in *ingester) isForAgents(tx *store.Tx, c *chat, h *parsedEvent) bool {
	return in.view(c).NamesAgent(tx, h.data.Names) ||
		h.data.ReplyTo != "" &&
			protocol.RoleOf(protocol.PeerID(in.answered(tx, c, h.data.ReplyTo).Author)) == protocol.RoleAgent
}

// checkEdit returns why an edit does not count, or "". Homeservers let anybody send an edit of
// any message. A valid edit gets the thread of the message that it replaces, and the message that
// this one answers.
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
	if m.Event == protocol.EventReaction && h.thread == "" {
		h.thread = in.threadOf(tx, h.data.ReplyTo)
	}
	m.Chat = in.describe(tx, c, h.thread)
	source, event := cmp.Or(h.source, sourceID(h.event)), cmp.Or(h.edits, h.event)
	number := in.putEvent(tx, c, event, h.sender, h.thread, source, &h.data)
	if tx.Err() == nil {
		in.router.Deliver(tx, &bridge.Event{ID: number, Chat: c.peer(), Source: source}, time.Time{})
	}
}

// threadOf returns the thread of a message, of a person or an agent, or "".
func (a *account) threadOf(tx *store.Tx, event string) string {
	return cmp.Or(store.Value[string](tx, `SELECT thread FROM events WHERE event = ? ORDER BY id LIMIT 1`, event),
		store.Value[string](tx, `SELECT coalesce(r.content ->> '$.threadId', '') FROM sends s
			JOIN replies r ON r.id = s.reply WHERE s.event = ?`, event))
}

// handleRedaction passes on that a person removed a message.
func (in *ingester) handleRedaction(tx *store.Tx, room string, e *rawEvent) (string, error) {
	var content struct {
		Redacts string `json:"redacts"`
	}
	if err := json.Unmarshal(e.Content, &content); err != nil {
		return "", fmt.Errorf("reading a redaction: %w", err)
	}
	target := cmp.Or(content.Redacts, e.Redacts)
	tx.Exec(`DELETE FROM reactions WHERE event = ?`, target) // the agent may show it again
	type row struct{ source, thread string }
	of, known := store.One(tx, func(r *row) []any { return []any{&r.source, &r.thread} },
		`SELECT source_id, thread FROM events WHERE event = ? ORDER BY id LIMIT 1`, target)
	if !known {
		return "a redaction of an event that no agent received", nil
	}
	h := in.newEvent(e, protocol.EventDelete)
	h.room, h.source, h.event, h.thread = room, of.source, target, of.thread
	h.data.Content.Actor = &protocol.Party{ID: e.Sender, Kind: "human"}
	return in.handle(tx, h), nil
}

// handleReceipts tells agents that people have read their messages, in rooms of a few people.
func (in *ingester) handleReceipts(tx *store.Tx, room string, list []json.RawMessage) {
	for _, raw := range list {
		var e rawEvent
		var content map[string]map[string]map[string]any // by event, kind and user
		c, known := in.load(tx, room)
		if json.Unmarshal(raw, &e) != nil || e.Type != "m.receipt" || json.Unmarshal(e.Content, &content) != nil ||
			!known || c.members > maxMembers {
			continue
		}
		for of, kinds := range content {
			for user := range kinds["m.read"] {
				h := &parsedEvent{room: room, sender: user, event: "receipt:" + of + ":" + user}
				if user == string(in.bot) || !store.Value[bool](tx, `SELECT 1 FROM sends s JOIN replies r ON r.id = s.reply
					WHERE s.event = ? AND r.agent <> '' AND NOT EXISTS (SELECT 1 FROM events WHERE event = ?)`, of, h.event) {
					continue
				}
				h.data.ReplyTo = of
				h.data.Content = protocol.ChatMessage{
					Text: in.opts.Glyphs["seen"], Event: protocol.EventReaction, Signal: "seen",
					CreatedAt: protocol.FormatTime(time.Now()),
				}
				in.handle(tx, h)
			}
		}
	}
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
		if refusal == "" && (c.isMuted() || !in.admitsChat(tx, c)) {
			refusal = "the chat is stopped or no longer admitted, or the bot is not a member of it"
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
