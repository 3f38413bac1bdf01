package tg

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/peers/surface"
	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
)

//go:embed schema.sql
var schema string

//go:embed surface.sql
var toSurface string

// Database is the name of the bridge's database in its data folder.
const Database = "tg.db"

// Open opens or creates the bridge's database, and brings it to this version.
func Open(path string) (*sql.DB, error) { return store.Open(path, versions()) }

// OpenBeside opens the database for an operator's command. One of an earlier version
// stays as it is, since the bridge that runs may be of that version: the next bridge
// that starts brings it to its own. What commands read and write is alike in both.
func OpenBeside(path string) (*sql.DB, error) {
	if older, err := store.Older(path, versions()); err == nil && older {
		return store.Attach(path)
	}
	return Open(path)
}

func versions() []string { return []string{schema + outbox.Schema, surface.Schema + toSurface} }

// chats are the chats that the bot is or was in, and their ways to agents.
type chats struct {
	*account
	surface *surface.Surface
}

// A chat is one row of chats.
type chat struct {
	key      int64 // names its topic
	telegram int64 // where to send
	kind     string
	title    string
	forum    bool
	present  bool
	stopped  bool
}

func (c *chat) direct() bool { return c.kind == string(models.ChatTypePrivate) }

func (c *chat) group() bool { return !c.direct() }

// silent reports whether nothing may be sent to the chat.
func (c *chat) silent() bool { return !c.present || c.stopped }

// chatOf returns the chat that a topic names.
func chatOf(topic protocol.Topic) (int64, error) {
	name, ok := strings.CutPrefix(string(topic), "tg:")
	n, err := strconv.ParseInt(name, 10, 64)
	if !ok || err != nil || n == 0 {
		return 0, fmt.Errorf("%q names no Telegram chat; a chat is addressed as tg:<chat id>", topic)
	}
	return n, nil
}

var errNoChat = errors.New("this bot has no such chat")

// load reads a chat by its key or by any id that it has had.
func (cs *chats) load(ctx context.Context, q store.Querier, anyID int64) (*chat, error) {
	c, found, err := store.One(ctx, q, func(row store.Row) (c chat, err error) {
		err = row.Scan(&c.key, &c.telegram, &c.kind, &c.title, &c.forum, &c.present, &c.stopped)
		return c, err
	}, `SELECT chat, telegram_id, kind, title, forum, present, stopped FROM chats WHERE bot = ?1 AND chat =
		coalesce((SELECT chat FROM aliases WHERE bot = ?1 AND telegram_id = ?2), ?2)`, cs.bot, anyID)
	if err == nil && !found {
		err = errNoChat
	}
	return &c, err
}

// meet returns the chat of an update, making it known when it is new.
func (cs *chats) meet(ctx context.Context, tx *sql.Tx, from *models.Chat) (*chat, error) {
	title := from.Title
	if title == "" {
		title = strings.TrimSpace(from.FirstName + " " + from.LastName)
	}
	c, err := cs.load(ctx, tx, from.ID)
	if errors.Is(err, errNoChat) {
		err = store.Exec(ctx, tx, `INSERT INTO chats (bot, chat, telegram_id, kind, title, forum) VALUES (?, ?, ?, ?, ?, ?)`,
			cs.bot, from.ID, from.ID, string(from.Type), title, from.IsForum)
		return &chat{key: from.ID, telegram: from.ID, kind: string(from.Type), title: title, forum: from.IsForum, present: true}, err
	}
	if err != nil {
		return nil, err
	}
	if from.ID == c.telegram && from.Type != "" && (c.title != title || c.forum != from.IsForum || c.kind != string(from.Type)) {
		c.title, c.forum, c.kind = title, from.IsForum, string(from.Type)
		err = store.Exec(ctx, tx, `UPDATE chats SET kind = ?, title = ?, forum = ? WHERE bot = ? AND chat = ?`,
			c.kind, c.title, c.forum, cs.bot, c.key)
	}
	return c, err
}

// setPresent records whether the bot may write to a chat. If it may not, the chat
// asks for no agent.
func (cs *chats) setPresent(ctx context.Context, tx *sql.Tx, c *chat, present bool) error {
	c.present = present
	return cs.change(ctx, tx, c, `UPDATE chats SET present = ? WHERE bot = ? AND chat = ?`, present, present)
}

// setStopped records that a user stopped a chat, or let it go on.
func (cs *chats) setStopped(ctx context.Context, tx *sql.Tx, c *chat, stopped bool) error {
	c.stopped = stopped
	return cs.change(ctx, tx, c, `UPDATE chats SET stopped = ? WHERE bot = ? AND chat = ?`, stopped, !stopped)
}

func (cs *chats) change(ctx context.Context, tx *sql.Tx, c *chat, query string, value, open bool) error {
	if err := store.Exec(ctx, tx, query, value, cs.bot, c.key); err != nil {
		return err
	}
	switch {
	case !open:
		return cs.surface.Close(ctx, tx, peerOf(c.key))
	case c.silent():
		return nil
	}
	return cs.surface.Open(ctx, tx, peerOf(c.key))
}

// move makes the new id of a group an alias of the one it was known by.
func (cs *chats) move(ctx context.Context, tx *sql.Tx, from, to int64) error {
	c, err := cs.load(ctx, tx, from)
	if errors.Is(err, errNoChat) {
		return nil // nothing was ever said there
	}
	if err != nil || c.telegram == to {
		return err
	}
	cs.log.Info().Int64("chat", c.key).Int64("moved_to", to).Msg("group became a supergroup; it keeps its agents")
	return errors.Join(
		store.Exec(ctx, tx, `INSERT OR REPLACE INTO aliases (bot, telegram_id, chat) VALUES (?, ?, ?)`, cs.bot, to, c.key),
		store.Exec(ctx, tx, `UPDATE chats SET telegram_id = ?, kind = ? WHERE bot = ? AND chat = ?`,
			to, string(models.ChatTypeSupergroup), cs.bot, c.key),
		// What was said under the new id before this was known belongs here too.
		cs.surface.Rename(ctx, tx, peerOf(to), peerOf(c.key)))
}

// movedTo records a group's new id, which a refusal gave.
func (cs *chats) movedTo(ctx context.Context, c *chat, to int64) error {
	err := store.InTx(ctx, cs.db, func(tx *sql.Tx) error { return cs.move(ctx, tx, c.key, to) })
	if err == nil {
		c.telegram = to
	}
	return err
}
