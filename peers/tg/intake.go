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
	"hubbub/protocol/retry"

	"github.com/go-telegram/bot/models"
)

// An intake takes stored updates in: it decides what follows from each.
type intake struct {
	*outbound
	arrived chan struct{} // wakes loop
}

// stored is an update that waits to be taken in.
type stored struct {
	seq int64
	raw json.RawMessage
}

// loop takes stored updates in, in the order in which they came. An update
// that cannot be read is kept as it is; if the database cannot be written, it is
// tried again. No update is skipped.
func (in *intake) loop(ctx context.Context) error {
	// What an older program could not read, this one may.
	tx := store.On(ctx, in.db)
	if tx.Exec(`UPDATE updates SET state = 'new' WHERE bot = ? AND state = 'unreadable'`, in.bot); tx.Err() != nil && ctx.Err() == nil {
		in.log.Error().Err(tx.Err()).Msg("unreadable updates not tried again")
	}
	failures := 0
	for ctx.Err() == nil {
		n, err := in.some(ctx)
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
		case <-in.arrived:
		case <-ctx.Done():
		}
	}
	return nil
}

func (in *intake) some(ctx context.Context) (int, error) {
	tx := store.On(ctx, in.db)
	batch := store.All(tx, func(u *stored) []any { return []any{&u.seq, (*[]byte)(&u.raw)} },
		`SELECT seq, raw FROM updates WHERE bot = ? AND state = 'new' ORDER BY seq LIMIT 100`, in.bot)
	for _, u := range batch {
		if err := in.one(context.WithoutCancel(ctx), u); err != nil {
			return 0, err
		}
	}
	return len(batch), tx.Err()
}

// one takes one update in. All that follows from it is one transaction.
func (in *intake) one(ctx context.Context, u stored) error {
	h, unread := in.readSafely(u.raw)
	if unread != nil {
		in.log.Error().Err(unread).Int64("update", u.seq).Msg("update not understood; kept as it is")
	}
	err := store.InTx(ctx, in.db, func(tx *store.Tx) {
		state, reason := "done", ""
		if unread != nil {
			state, reason = "unreadable", unread.Error()
			in.tellUnread(tx, u.raw)
		} else if reason = in.takeIn(tx, &h); reason != "" {
			state = "skipped"
		}
		tx.Exec(`UPDATE updates SET state = ?, reason = ? WHERE seq = ?`, state, reason, u.seq)
	})
	if err == nil {
		in.crash("taken in")
	}
	return err
}

// tellUnread tells who wrote a message in a direct chat that cannot be read, once, that nobody
// has it.
func (in *intake) tellUnread(tx *store.Tx, raw json.RawMessage) {
	var as struct {
		Message *struct {
			ID   int         `json:"message_id"`
			Chat models.Chat `json:"chat"`
		} `json:"message"`
	}
	if json.Unmarshal(raw, &as) != nil || as.Message == nil || as.Message.Chat.Type != models.ChatTypePrivate || !in.admitsUser(tx, as.Message.Chat.ID) {
		return
	}
	in.notice(tx, in.meet(tx, &as.Message.Chat), 0, fmt.Sprintf("unread:%d:%d", as.Message.Chat.ID, as.Message.ID),
		"I cannot read this message: Telegram sent it in a form that I do not know yet. Please say it as plain text.")
}

// readSafely is read, with a panic turned into an error.
func (in *intake) readSafely(raw json.RawMessage) (h happening, err error) {
	defer func() {
		if p := recover(); p != nil {
			in.log.Error().Interface("panic", p).Bytes("stack", debug.Stack()).Msg("reading an update panicked")
			err = fmt.Errorf("the program failed on this update: %v", p)
		}
	}()
	h, err = read(raw, &in.me)
	if h.draft.Content.Event == protocol.EventReaction && h.draft.Content.Signal == "" {
		h.draft.Content.Signal = in.opts.signalOf(h.draft.Content.Text)
	}
	return h, err
}

// takeIn does what follows from a happening. It returns why no agent hears of
// it, or "" if they do.
func (in *intake) takeIn(tx *store.Tx, h *happening) string {
	if h.moved.to != 0 {
		in.move(tx, h.moved.from, h.moved.to)
		return "the group moved"
	}
	if !in.admits(tx, h) {
		return in.turnAway(tx, h)
	}
	c := in.meet(tx, &h.chat)
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
		if why := in.press(tx, c, h); why != "" {
			return why
		}
	}
	switch {
	case h.command != "":
		in.obey(tx, c, h)
		return "the command " + h.command
	case h.skip != "":
		return h.skip
	case c.stopped:
		if c.direct() { // it is told once a day
			in.notice(tx, c, 0, "stopped:"+today(), "This chat is stopped, so the agents do not see your message. /start goes on.")
		}
		return "the chat is stopped"
	}
	if h.draft.Content.Signal == protocol.SignalStop {
		tx.After(func() { in.typing.stopped(c.key) })
	}
	in.storeEvent(tx, c, h)
	if in.routes(tx, c, h) {
		in.order(tx, c, h, bridge.VerbSay, h.draft.Content.Text)
	}
	return ""
}

// storeEvent stores a happening as an event and passes it to the surface.
func (in *intake) storeEvent(tx *store.Tx, c *chat, h *happening) {
	if !c.present && in.standing(tx, c).State != bridge.Assigned {
		return // there is no agent to tell that the bot was removed
	}
	h.draft.Content.Attachments, h.draft.ReplyFiles = in.refer(tx, h.files.own), in.refer(tx, h.files.answered)
	h.draft.Content.Author = &h.author
	h.draft.Content.Chat.ID = id(c.key)
	var ready time.Time
	source := in.sourceID(h.chat.ID, h.message) + h.suffix
	if h.album != "" {
		whole, joined := in.joinAlbum(tx, h)
		if joined {
			return
		}
		if source = cmp.Or(whole, source); h.draft.Content.Event != protocol.EventEdit {
			ready = time.Now().Add(in.opts.AlbumWait)
		}
	}
	event := store.Value[int64](tx, `INSERT INTO events
		(bot, chat, telegram_chat, message, thread, source_id, album, draft, bus_id, received_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
		in.bot, c.key, h.chat.ID, h.message, h.thread, source, h.album, string(encode(h.draft)), string(protocol.NewMessageID()), now())
	if tx.Err() == nil {
		in.router.Deliver(tx, &bridge.Event{ID: event, Chat: peerOf(c.key), Source: source}, ready)
	}
}
