package tg

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"hubbub/peers/bridge"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/notify"

	"github.com/go-telegram/bot/models"
)

// An ingester applies stored updates: it decides what follows from each.
type ingester struct {
	*outbound
	arrived notify.Signal // updates have been stored
}

// A storedUpdate is an update that has not been applied yet.
type storedUpdate struct {
	seq int64
	raw json.RawMessage
}

// run applies stored updates in the order of their arrival and skips none. An update that cannot
// be parsed is kept. If the database cannot be written, the update is retried.
func (in *ingester) run(ctx context.Context) error {
	// A newer version may parse what an older one could not.
	err := store.Exec(ctx, in.db,
		`UPDATE updates SET state = 'new' WHERE bot = ? AND state = 'unreadable'`, in.bot)
	if err != nil && ctx.Err() == nil {
		in.log.Error().Err(err).Msg("retrying unreadable updates failed")
	}
	return bridge.ApplyStored(ctx, in.log, "updates", in.arrived, in.applyBatch)
}

func (in *ingester) applyBatch(ctx context.Context) (int, error) {
	batch, err := store.ReadAll(ctx, in.db,
		func(u *storedUpdate) []any { return []any{&u.seq, (*[]byte)(&u.raw)} },
		`SELECT seq, raw FROM updates WHERE bot = ? AND state = 'new' ORDER BY seq LIMIT 100`, in.bot)
	for _, u := range batch {
		if err := in.apply(context.WithoutCancel(ctx), u); err != nil {
			return 0, err
		}
	}
	return len(batch), err
}

// apply applies one update in one transaction. If a power cut undoes it, the stored update is
// applied again.
func (in *ingester) apply(ctx context.Context, u storedUpdate) error {
	h, unread := in.parseSafely(u.raw)
	if unread != nil {
		in.log.Error().Err(unread).Int64("update", u.seq).Msg("update not understood; kept unchanged")
	}
	err := store.InTxUnsynced(ctx, in.db, func(tx *store.Tx) {
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

// notifyUnreadable tells the author of a message that cannot be parsed, in a direct chat, that no
// agent has received it.
func (in *ingester) notifyUnreadable(tx *store.Tx, raw json.RawMessage) {
	var as struct {
		Message *struct {
			ID   int         `json:"message_id"`
			Chat models.Chat `json:"chat"`
		} `json:"message"`
	}
	if json.Unmarshal(raw, &as) != nil || as.Message == nil || as.Message.Chat.Type != models.ChatTypePrivate ||
		!in.admitsUser(tx, as.Message.Chat.ID) {
		return
	}
	in.notice(tx, in.ensureChat(tx, &as.Message.Chat), 0,
		fmt.Sprintf("unread:%d:%d", as.Message.Chat.ID, as.Message.ID),
		"I can't read this message because Telegram sent it in a format I don't know yet. Please send it as plain text.")
}

// parseSafely parses an update and turns a panic into an error.
func (in *ingester) parseSafely(raw json.RawMessage) (u parsedUpdate, err error) {
	err = bridge.Guard(in.log, "parsing an update", func() (err error) {
		u, err = parseUpdate(raw, &in.me)
		return err
	})
	if u.data.Content.Event == protocol.EventReaction && u.data.Content.Signal == "" {
		u.data.Content.Signal = in.opts.glyphs().SignalOf(u.data.Content.Text)
	}
	return u, err
}

// handle acts on an update. It returns why no agent receives it, or "" if the agents do.
func (in *ingester) handle(tx *store.Tx, u *parsedUpdate) string {
	if u.moved.to != 0 {
		in.migrateChat(tx, u.moved.from, u.moved.to)
		return "the group moved"
	}
	if !in.admits(tx, u) {
		return in.reject(tx, u)
	}
	c := in.ensureChat(tx, &u.chat)
	if u.thread == 0 && (u.data.Content.Event == protocol.EventReaction || u.callback != "") {
		// Telegram does not tell the topic of a reaction, or of a press in an old message.
		u.setThread(in.threadOfMessage(tx, c, u.chat.ID, u.message))
	}
	if u.isQuestion() && !(c.isStopped() && u.command == "/start") { // nobody sees questions in a stopped chat
		u.command = ""
	}
	if u.author.ID == id(u.user) { // else a channel or a group is the author
		in.rememberName(tx, u.user, u.author.Username)
	}
	switch {
	case u.present != nil && !*u.present && !c.present:
		return "the bot had already left"
	case u.present != nil && *u.present != c.present:
		in.setPresent(tx, c, *u.present)
	case u.message != 0 && !c.present: // a message arrived, so the bot is in the chat
		in.setPresent(tx, c, true)
	}
	if u.callback != "" {
		if why := in.handlePress(tx, c, u); why != "" {
			return why
		}
	}
	if !c.isStopped() {
		in.withdrawReactions(tx, c, u)
	}
	switch {
	case u.command != "":
		in.runCommand(tx, c, u)
		return commandReason + u.command
	case u.album != "" && in.followsCommand(tx, u):
		return "a file of a command"
	case u.skip != "":
		return u.skip
	case c.isStopped():
		in.noteStopped(tx, c, u)
		return "the chat is stopped"
	}
	if u.data.Content.Signal == protocol.SignalStop {
		tx.OnCommit(func() { in.typing.clearChat(c.key) })
	}
	in.storeEvent(tx, c, u)
	if u.user != 0 && in.view(c).LeadsElsewhere(tx, &u.data.Content, u.data.Names) {
		in.enqueueCommand(tx, c, u, bridge.VerbSay, u.data.Content.Text)
	}
	return ""
}

// threadOfMessage returns the topic of a person's or an agent's message, or 0 if the chat has none.
func (in *ingester) threadOfMessage(tx *store.Tx, c *chat, telegramChat int64, message int) int {
	thread := store.Value[int](tx, `SELECT thread FROM events WHERE source_id = ? ORDER BY id LIMIT 1`,
		in.sourceID(telegramChat, message))
	raw, found := store.One(tx, store.Scalar[string], `SELECT r.content FROM sends s JOIN replies r ON r.id = s.reply
		WHERE s.bot = ? AND s.telegram_chat = ? AND s.message = ? AND s.message > 0`, in.bot, telegramChat, message)
	var reply protocol.ChatReply
	if found && thread == 0 && json.Unmarshal([]byte(raw), &reply) == nil {
		thread = threadFor(tx, &reply)
	}
	if thread == 0 && c.forum && !c.isDirect() {
		thread = generalThread
	}
	return thread
}

// withdrawReactions deletes the events of the reactions that an update takes back, for agents that have not
// acted on them.
func (in *ingester) withdrawReactions(tx *store.Tx, c *chat, u *parsedUpdate) {
	message := in.sourceID(u.chat.ID, u.message)
	for _, emoji := range u.data.Removed {
		source := store.Value[string](tx, `SELECT source_id FROM events e WHERE source_id > ?1 || ':reaction:'
			AND source_id < ?1 || ':reaction;' AND data ->> '$.content.author.id' = ?2 AND data ->> '$.content.text' = ?3
			AND NOT EXISTS (SELECT 1 FROM events d WHERE d.source_id = e.source_id AND d.id > e.id)
			ORDER BY id DESC LIMIT 1`, message, u.author.ID, emoji)
		if source == "" {
			continue
		}
		gone := *u
		gone.suffix, gone.data.ReplyMessage = strings.TrimPrefix(source, message), 0
		gone.setContent(protocol.EventDelete, "", 0)
		gone.data.Content.CreatedAt = u.data.Content.CreatedAt
		gone.data.Content.Actor = &protocol.Party{ID: u.author.ID, Kind: u.author.Kind}
		in.storeEvent(tx, c, &gone)
	}
}

// storeEvent stores an update as an event and passes it to the router.
func (in *ingester) storeEvent(tx *store.Tx, c *chat, u *parsedUpdate) {
	if !c.present && in.router.Status(tx, peerOf(c.key)).State != bridge.Assigned {
		return // the bot was removed, and no agent needs to know
	}
	u.data.Content.Attachments = in.files.Attachments(tx, u.files.own)
	u.data.ReplyFiles = in.files.Attachments(tx, u.files.answered)
	u.data.Content.Author = &u.author
	u.data.Content.Chat.ID = id(c.key)
	u.data.Content.Chat.TimeZone = in.opts.Zones[id(u.chat.ID)]
	var ready time.Time
	source := in.sourceID(u.chat.ID, u.message) + u.suffix
	if u.album != "" {
		whole, joined := in.joinAlbum(tx, u)
		if joined {
			return
		}
		if source = cmp.Or(whole, source); u.data.Content.Event != protocol.EventEdit {
			ready = time.Now().Add(in.opts.AlbumWait)
		}
	}
	event := store.Value[int64](tx, `INSERT INTO events
		(bot, chat, telegram_chat, message, thread, source_id, album, data, bus_id, received_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
		in.bot, c.key, u.chat.ID, u.message, u.thread, source, u.album, string(mustJSON(u.data)),
		string(protocol.NewMessageID()), nowMicros())
	if tx.Err() == nil {
		in.router.Deliver(tx, &bridge.Event{ID: event, Chat: peerOf(c.key), Source: source}, ready)
	}
}
