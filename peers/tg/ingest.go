package tg

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"time"

	"hubbub/peers/bridge"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/notify"
	"hubbub/protocol/retry"

	"github.com/go-telegram/bot/models"
)

// An ingester takes stored updates in: it decides what follows from each.
type ingester struct {
	*outbound
	arrived notify.Signal // updates are stored
}

// storedUpdate is an update that waits to be taken in.
type storedUpdate struct {
	seq int64
	raw json.RawMessage
}

// run takes stored updates in, in the order in which they came. An update
// that cannot be read is kept as it is; if the database cannot be written, it is
// tried again. No update is skipped.
func (in *ingester) run(ctx context.Context) error {
	// What an older program could not read, this one may.
	tx := store.On(ctx, in.db)
	if tx.Exec(`UPDATE updates SET state = 'new' WHERE bot = ? AND state = 'unreadable'`, in.bot); tx.Err() != nil && ctx.Err() == nil {
		in.log.Error().Err(tx.Err()).Msg("unreadable updates not tried again")
	}
	failures := 0
	for ctx.Err() == nil {
		n, err := in.applyBatch(ctx)
		if err != nil && ctx.Err() == nil {
			failures++
			pause := backoff.After(failures)
			in.log.Error().Err(err).Dur("pause_ms", pause).Msg("taking in stored updates failed; trying again")
			retry.Sleep(ctx, pause)
			continue
		}
		failures = 0
		if n > 0 {
			continue
		}
		select {
		case <-in.arrived.C():
		case <-ctx.Done():
		}
	}
	return nil
}

func (in *ingester) applyBatch(ctx context.Context) (int, error) {
	tx := store.On(ctx, in.db)
	batch := store.All(tx, func(u *storedUpdate) []any { return []any{&u.seq, (*[]byte)(&u.raw)} },
		`SELECT seq, raw FROM updates WHERE bot = ? AND state = 'new' ORDER BY seq LIMIT 100`, in.bot)
	for _, u := range batch {
		if err := in.apply(context.WithoutCancel(ctx), u); err != nil {
			return 0, err
		}
	}
	return len(batch), tx.Err()
}

// apply takes one update in. All that follows from it is one transaction.
func (in *ingester) apply(ctx context.Context, u storedUpdate) error {
	h, unread := in.parseSafely(u.raw)
	if unread != nil {
		in.log.Error().Err(unread).Int64("update", u.seq).Msg("update not understood; kept as it is")
	}
	err := store.InTx(ctx, in.db, func(tx *store.Tx) {
		state, reason := "done", ""
		if unread != nil {
			state, reason = "unreadable", unread.Error()
			in.notifyUnreadable(tx, u.raw)
		} else if reason = in.handle(tx, &h); reason != "" {
			state = "skipped"
		}
		tx.Exec(`UPDATE updates SET state = ?, reason = ? WHERE seq = ?`, state, reason, u.seq)
	})
	if err == nil {
		in.crash("taken in")
	}
	return err
}

// notifyUnreadable tells who wrote a message in a direct chat that cannot be read, once, that nobody
// has it.
func (in *ingester) notifyUnreadable(tx *store.Tx, raw json.RawMessage) {
	var as struct {
		Message *struct {
			ID   int         `json:"message_id"`
			Chat models.Chat `json:"chat"`
		} `json:"message"`
	}
	if json.Unmarshal(raw, &as) != nil || as.Message == nil || as.Message.Chat.Type != models.ChatTypePrivate || !in.admitsUser(tx, as.Message.Chat.ID) {
		return
	}
	in.notice(tx, in.ensureChat(tx, &as.Message.Chat), 0, fmt.Sprintf("unread:%d:%d", as.Message.Chat.ID, as.Message.ID),
		"I cannot read this message: Telegram sent it in a form that I do not know yet. Please say it as plain text.")
}

// parseSafely is read, with a panic turned into an error.
func (in *ingester) parseSafely(raw json.RawMessage) (h parsedUpdate, err error) {
	defer func() {
		if p := recover(); p != nil {
			in.log.Error().Interface("panic", p).Bytes("stack", debug.Stack()).Msg("reading an update panicked")
			err = fmt.Errorf("the program failed on this update: %v", p)
		}
	}()
	h, err = parseUpdate(raw, &in.me)
	if h.data.Content.Event == protocol.EventReaction && h.data.Content.Signal == "" {
		h.data.Content.Signal = in.opts.signalOf(h.data.Content.Text)
	}
	return h, err
}

// handle does what follows from a happening. It returns why no agent hears of
// it, or "" if they do.
func (in *ingester) handle(tx *store.Tx, h *parsedUpdate) string {
	if h.moved.to != 0 {
		in.migrateChat(tx, h.moved.from, h.moved.to)
		return "the group moved"
	}
	if !in.admits(tx, h) {
		return in.reject(tx, h)
	}
	c := in.ensureChat(tx, &h.chat)
	if h.author.Username != "" { // people are told from agents and roles by it
		tx.Exec(`INSERT OR REPLACE INTO people (bot, username, user) VALUES (?, lower(?), ?)`, in.bot, h.author.Username, h.user)
	}
	switch {
	case h.present != nil && !*h.present && !c.present:
		return "the bot had left already"
	case h.present != nil && *h.present != c.present:
		in.setPresent(tx, c, *h.present)
	case h.message != 0 && !c.present: // whoever gets messages is in
		in.setPresent(tx, c, true)
	}
	if h.callback != "" {
		if why := in.handlePress(tx, c, h); why != "" {
			return why
		}
	}
	switch {
	case h.command != "":
		in.runCommand(tx, c, h)
		return "the command " + h.command
	case h.skip != "":
		return h.skip
	case c.stopped:
		if c.isDirect() { // it is told once a day
			in.notice(tx, c, 0, "stopped:"+today(), "This chat is stopped, so the agents do not see your message. /start goes on.")
		}
		return "the chat is stopped"
	}
	if h.data.Content.Signal == protocol.SignalStop {
		tx.OnCommit(func() { in.typing.clearChat(c.key) })
	}
	in.storeEvent(tx, c, h)
	if in.namesOutsider(tx, c, h) {
		in.enqueueCommand(tx, c, h, bridge.VerbSay, h.data.Content.Text)
	}
	return ""
}

// storeEvent stores a happening as an event and passes it to the surface.
func (in *ingester) storeEvent(tx *store.Tx, c *chat, h *parsedUpdate) {
	if !c.present && in.chatStatus(tx, c).State != bridge.Assigned {
		return // there is no agent to tell that the bot was removed
	}
	h.data.Content.Attachments, h.data.ReplyFiles = in.addRefs(tx, h.files.own), in.addRefs(tx, h.files.answered)
	h.data.Content.Author = &h.author
	h.data.Content.Chat.ID = id(c.key)
	var ready time.Time
	source := in.sourceID(h.chat.ID, h.message) + h.suffix
	if h.album != "" {
		whole, joined := in.joinAlbum(tx, h)
		if joined {
			return
		}
		if source = cmp.Or(whole, source); h.data.Content.Event != protocol.EventEdit {
			ready = time.Now().Add(in.opts.AlbumWait)
		}
	}
	event := store.Value[int64](tx, `INSERT INTO events
		(bot, chat, telegram_chat, message, thread, source_id, album, data, bus_id, received_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
		in.bot, c.key, h.chat.ID, h.message, h.thread, source, h.album, string(mustJSON(h.data)), string(protocol.NewMessageID()), nowMicros())
	if tx.Err() == nil {
		in.router.Deliver(tx, &bridge.Event{ID: event, Chat: peerOf(c.key), Source: source}, ready)
	}
}
