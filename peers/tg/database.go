package tg

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"hubbub/peers/bridge"
	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
)

//go:embed schema.sql
var schema string

// Database is the name of the bridge's database in its data folder.
const Database = "tg.db"

// Open opens the bridge's database, creating it if it is missing.
func Open(path string) (*store.DB, error) {
	return store.Open(path, schema+outbox.Schema+bridge.Schema)
}

// pruneLoop deletes old records once a day. Events are kept.
func (b *Bridge) pruneLoop(ctx context.Context) error { return bridge.PruneDaily(ctx, b.router, prune) }

// prune deletes old updates, and limits that have ended.
func prune(tx *store.Tx) {
	now := time.Now()
	tx.Exec(`DELETE FROM updates WHERE received_at < ? AND state <> 'new'`, now.Add(-keepUpdates).UnixMicro())
	tx.Exec(`DELETE FROM holds WHERE until < ?`, now.UnixMicro())
}

// A chat is a row of the table chats.
type chat struct {
	key      int64 // names the chat's topic
	telegram int64 // the current ID in Telegram
	kind     string
	title    string
	forum    bool
	present  bool
	stopped  int64 // when a user stopped it, in microseconds; 0 while it runs
}

func (c *chat) isDirect() bool { return c.kind == string(models.ChatTypePrivate) }

func (c *chat) isStopped() bool { return c.stopped != 0 }

// isMuted reports whether nothing may be sent to the chat.
func (c *chat) isMuted() bool { return !c.present || c.isStopped() }

// chatOf returns the chat that a topic names.
func chatOf(topic protocol.Topic) (int64, error) {
	name, ok := strings.CutPrefix(string(topic), "tg:")
	n, err := strconv.ParseInt(name, 10, 64)
	if !ok || err != nil || n == 0 {
		return 0, fmt.Errorf("%q is not a Telegram chat; the address of a chat is tg:<chat id>", topic)
	}
	return n, nil
}

var errNoChat = errors.New("this bot has no such chat")

// load returns a chat by any ID that it has had, and reports whether it exists.
func (a *account) load(tx *store.Tx, anyID int64) (*chat, bool) {
	c, found := store.One(tx, func(c *chat) []any {
		return []any{&c.key, &c.telegram, &c.kind, &c.title, &c.forum, &c.present, &c.stopped}
	}, `SELECT chat, telegram_id, kind, title, forum, present, stopped FROM chats WHERE bot = ?1 AND chat =
		coalesce((SELECT chat FROM aliases WHERE bot = ?1 AND telegram_id = ?2), ?2)`, a.bot, anyID)
	return &c, found
}

// ensureChat returns the chat of an update. It creates a new chat and updates a known one.
func (a *account) ensureChat(tx *store.Tx, from *models.Chat) *chat {
	c, known := a.load(tx, from.ID)
	if !known {
		c = &chat{key: from.ID, telegram: from.ID, present: true}
	}
	if !known || from.ID == c.telegram && from.Type != "" {
		c.kind, c.title, c.forum = string(from.Type), cmp.Or(from.Title, fullName(from.FirstName, from.LastName)),
			from.IsForum
		tx.Exec(`INSERT INTO chats (bot, chat, telegram_id, kind, title, forum) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
			ON CONFLICT (bot, chat) DO UPDATE SET kind = ?4, title = ?5, forum = ?6 WHERE (kind, title, forum) <> (?4, ?5, ?6)`,
			a.bot, c.key, c.telegram, c.kind, c.title, c.forum)
	}
	return c
}

// setPresent records whether the bot may write to a chat. If it may not, the chat requests no
// agent.
func (a *account) setPresent(tx *store.Tx, c *chat, present bool) {
	c.present = present
	tx.Exec(`UPDATE chats SET present = ? WHERE bot = ? AND chat = ?`, present, a.bot, c.key)
	a.updateRouter(tx, c)
}

// setStopped records that a user stopped or restarted a chat.
func (a *account) setStopped(tx *store.Tx, c *chat, stopped bool) {
	if c.stopped = 0; stopped {
		c.stopped = nowMicros()
	}
	tx.Exec(`UPDATE chats SET stopped = ? WHERE bot = ? AND chat = ?`, c.stopped, a.bot, c.key)
	a.updateRouter(tx, c)
}

func (a *account) updateRouter(tx *store.Tx, c *chat) {
	set := a.router.Open
	if c.isMuted() {
		set = a.router.Close
	}
	set(tx, peerOf(c.key))
}

// migrateChat makes the new ID of a group an alias of its first one.
func (a *account) migrateChat(tx *store.Tx, from, to int64) {
	c, known := a.load(tx, from)
	if !known || c.telegram == to { // the chat is unknown, or already migrated
		return
	}
	a.log.Info().Int64("chat", c.key).Int64("moved_to", to).Msg("group became a supergroup; it keeps its agents")
	tx.Exec(`INSERT OR REPLACE INTO aliases (bot, telegram_id, chat) VALUES (?, ?, ?)`, a.bot, to, c.key)
	tx.Exec(`UPDATE chats SET telegram_id = ?, kind = ? WHERE bot = ? AND chat = ?`,
		to, string(models.ChatTypeSupergroup), a.bot, c.key)
	// Messages may have arrived under the new ID before this was known.
	a.router.MoveChat(tx, peerOf(to), peerOf(c.key))
}

var errNotStored = errors.New("it is not in the database")
