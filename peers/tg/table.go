package tg

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
)

//go:embed schema.sql
var schema string

// Open opens or creates the bridge's database. A running bridge and the
// operator's commands may have it open at the same time.
func Open(path string) (*sql.DB, error) {
	return store.Open(path, []string{schema + outbox.Schema})
}

// sqlTx keeps the signatures short.
type sqlTx = sql.Tx

// inTx runs f in one transaction, which holds the write lock from its start.
func inTx(ctx context.Context, db *sql.DB, f func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("beginning a transaction: %w", err)
	}
	defer tx.Rollback() //nolint:errcheck // a no-op once committed
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// A querier is a database or a transaction.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// exec runs a statement for its effect.
func exec(ctx context.Context, q querier, query string, args ...any) error {
	_, err := q.ExecContext(ctx, query, args...)
	return err
}

// list reads a column of texts.
func list(ctx context.Context, q querier, query string, args ...any) ([]string, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, rows.Err()
}

// The states of a chat on its way to an agent.
const (
	chatIdle     = "idle"     // nobody said anything yet
	chatAsking   = "asking"   // a spawn_request waits for somebody who takes it
	chatWaiting  = "waiting"  // it was taken; the route is awaited
	chatAssigned = "assigned" // there is an agent
)

// A chat is one row of chats.
type chat struct {
	key      int64 // names its topic
	telegram int64 // where to send
	kind     string
	title    string
	forum    bool
	present  bool
	stopped  bool
	state    string
	request  string
	askedAt  time.Time
	attempts int
	nextAt   time.Time
	told     bool
	trouble  string
}

func (c *chat) direct() bool { return c.kind == string(models.ChatTypePrivate) }

func (c *chat) group() bool { return !c.direct() }

// topic is where the chat is addressed on the bus, and how it speaks.
func topicOf(key int64) protocol.Topic { return protocol.Topic("tg:" + id(key)) }

func peerOf(key int64) protocol.PeerID { return protocol.PeerID("tg:" + id(key)) }

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

// loadChat reads a chat by its key or by any id that it has had.
func (b *Bridge) loadChat(ctx context.Context, q querier, anyID int64) (*chat, error) {
	var c chat
	var asked, next int64
	err := q.QueryRowContext(ctx, `SELECT chat, telegram_id, kind, title, forum, present, stopped, state, request,
		asked_at, attempts, next_at, told, trouble FROM chats WHERE bot = ?1 AND chat =
		coalesce((SELECT chat FROM aliases WHERE bot = ?1 AND telegram_id = ?2), ?2)`, b.bot, anyID).
		Scan(&c.key, &c.telegram, &c.kind, &c.title, &c.forum, &c.present, &c.stopped, &c.state, &c.request,
			&asked, &c.attempts, &next, &c.told, &c.trouble)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNoChat
	}
	if err != nil {
		return nil, fmt.Errorf("reading chat %d: %w", anyID, err)
	}
	c.askedAt, c.nextAt = at(asked), at(next)
	return &c, nil
}

// meetChat returns the chat of an update, making it known when it is new.
func (b *Bridge) meetChat(ctx context.Context, tx *sql.Tx, from *models.Chat) (*chat, error) {
	title := from.Title
	if title == "" {
		title = strings.TrimSpace(from.FirstName + " " + from.LastName)
	}
	c, err := b.loadChat(ctx, tx, from.ID)
	if errors.Is(err, errNoChat) {
		err = exec(ctx, tx, `INSERT INTO chats (bot, chat, telegram_id, kind, title, forum) VALUES (?, ?, ?, ?, ?, ?)`,
			b.bot, from.ID, from.ID, string(from.Type), title, from.IsForum)
		return &chat{key: from.ID, telegram: from.ID, kind: string(from.Type), title: title,
			forum: from.IsForum, present: true, state: chatIdle}, err
	}
	if err != nil {
		return nil, err
	}
	if from.ID == c.telegram && from.Type != "" && (c.title != title || c.forum != from.IsForum || c.kind != string(from.Type)) {
		c.title, c.forum, c.kind = title, from.IsForum, string(from.Type)
		err = exec(ctx, tx, `UPDATE chats SET kind = ?, title = ?, forum = ? WHERE bot = ? AND chat = ?`,
			c.kind, c.title, c.forum, b.bot, c.key)
	}
	return c, err
}

// agentsOf returns the agents of a chat in the order of their assignment.
func (b *Bridge) agentsOf(ctx context.Context, q querier, key int64) ([]string, error) {
	return list(ctx, q, `SELECT agent FROM assignments WHERE bot = ? AND chat = ? ORDER BY id`, b.bot, key)
}

// at is the time of a stored number, zero for zero.
func at(micro int64) time.Time {
	if micro == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micro)
}

func now() int64 { return time.Now().UnixMicro() }

// Database is the name of the bridge's database in its data folder.
const Database = "tg.db"
