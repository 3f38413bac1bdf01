package tg

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"hubbub/peers/store"

	"github.com/go-telegram/bot/models"
)

// admits reports whether an update comes from an admitted chat. A direct chat is admitted through
// its user, a group through its chat, for all members. Names, titles and the origin of forwarded
// messages never count.
func (a *account) admits(tx *store.Tx, u *parsedUpdate) bool {
	if u.chat.Type == models.ChatTypePrivate {
		return a.admitsUser(tx, u.user)
	}
	return a.admitsChat(tx, u.chat.ID)
}

// admitsTopic reports whether the bus may write to a chat.
func (a *account) admitsTopic(tx *store.Tx, key int64) bool {
	if key > 0 { // the ID of a direct chat is that of its user
		return a.admitsUser(tx, key)
	}
	return a.admitsChat(tx, key)
}

func (a *account) admitsUser(tx *store.Tx, user int64) bool {
	if a.opts.AllowAll || slices.Contains(a.opts.AllowUsers, user) {
		return user != 0
	}
	return a.paired(tx, "user", user)
}

// admitsChat checks every ID that a group has had.
func (a *account) admitsChat(tx *store.Tx, telegramChat int64) bool {
	ids := []int64{telegramChat}
	if c, known := a.load(tx, telegramChat); known {
		ids = append(ids, c.key, c.telegram)
	}
	return a.opts.AllowAll || slices.ContainsFunc(ids, func(n int64) bool {
		return slices.Contains(a.opts.AllowChats, n) || a.paired(tx, "chat", n)
	})
}

func (a *account) paired(tx *store.Tx, kind string, n int64) bool {
	return store.Value[bool](tx, `SELECT 1 FROM admitted WHERE bot = ? AND kind = ? AND id = ?`, a.bot, kind, n)
}

// codeAlphabet omits letters and digits that look alike.
const codeAlphabet = "ABCDEFGHJKMNPQRSTVWXYZ23456789"

const codeLength = 8

// NewCode creates a one-time code and stores its hash. Whoever sends the bot /pair CODE before
// the code expires is admitted: in a direct chat the user, in a group the group. A running bridge
// accepts the code at once.
func NewCode(ctx context.Context, db *sql.DB, valid time.Duration) (string, error) {
	letters := make([]byte, codeLength)
	for i := range letters {
		n, err := rand.Int(rand.Reader, big.NewInt(int64(len(codeAlphabet))))
		if err != nil {
			return "", fmt.Errorf("making a code: %w", err)
		}
		letters[i] = codeAlphabet[n.Int64()]
	}
	code := string(letters[:4]) + "-" + string(letters[4:])
	return code, store.Autocommit(ctx, db, func(tx *store.Tx) {
		tx.Exec(`INSERT INTO codes (hash, expires_at) VALUES (?, ?)`, codeHash(code), time.Now().Add(valid).UnixMicro())
	})
}

// codeHash returns the stored form of a code. It ignores case, spaces and hyphens.
func codeHash(code string) string {
	plain := strings.ToUpper(strings.NewReplacer("-", "", " ", "").Replace(code))
	return digest("hubbub pairing " + plain)
}

// reject logs an update that is not admitted. It answers only a pairing code and, a few times a
// day, the question how to get access.
func (in *ingester) reject(tx *store.Tx, u *parsedUpdate) string {
	reason := fmt.Sprintf("chat %d is not admitted (--allow-chat, or /pair there)", u.chat.ID)
	direct := u.chat.Type == models.ChatTypePrivate
	if direct {
		reason = fmt.Sprintf("user %d is not admitted (--allow-user, or /pair)", u.user)
	}
	pairing := (u.command == "/pair" || u.command == "/start") && u.arguments != "" && !u.isQuestion()
	asking := u.command == "/pair" || direct && (u.command == "/start" || u.command == "/help")
	if !pairing && !asking {
		if c, known := in.load(tx, u.chat.ID); u.callback != "" && known {
			in.answerCallback(tx, c, u,
				"This bot is private and no longer serves this chat, so the button does nothing.")
		}
		if tx.Err() == nil {
			in.log.Info().Int64("chat", u.chat.ID).Int64("user", u.user).Msg("update rejected: " + reason)
		}
		return reason
	}
	c := in.ensureChat(tx, &u.chat)
	if pairing {
		in.pair(tx, c, u)
		return "the command " + u.command
	}
	sent := store.Value[int](tx,
		`SELECT count(*) FROM replies WHERE bot = ? AND chat = ? AND agent = '' AND received_at > ?`,
		in.bot, c.key, time.Now().Add(-24*time.Hour).UnixMicro())
	if sent >= maxNotices {
		return reason
	}
	who := fmt.Sprintf("you (user ID %d)", u.user)
	if !direct {
		who = fmt.Sprintf("this group (ID %d)", u.chat.ID)
	}
	in.notice(tx, c, u.thread, fmt.Sprintf("stranger:%d", u.message), fmt.Sprintf(
		"This bot is private. Ask whoever runs it to give access to %s. If they send you a one-time code (from "+
			"`hubbub pair`), send /pair CODE here.", who))
	return reason
}

// pair admits the user or the group that sends a valid code.
func (in *ingester) pair(tx *store.Tx, c *chat, u *parsedUpdate) {
	guesses := store.Value[int](tx, `SELECT count(*) FROM guesses WHERE bot = ? AND user = ? AND at > ?`,
		in.bot, u.user, time.Now().Add(-time.Hour).UnixMicro())
	if guesses >= maxGuessesPerHour {
		in.log.Warn().Int64("user", u.user).Msg("user sent too many wrong pairing codes; no answer is sent")
		return // an answer would help to guess on
	}
	used := tx.ExecCount(`UPDATE codes SET used_at = ?1 WHERE hash = ?2 AND used_at = 0 AND expires_at > ?1`,
		nowMicros(), codeHash(u.arguments))
	says := "This code isn't valid. It may have been used already, have expired, or be mistyped."
	if used == 0 {
		tx.Exec(`INSERT INTO guesses (bot, user, at) VALUES (?, ?, ?)`, in.bot, u.user, nowMicros())
	} else {
		kind, who := "chat", c.key
		says = "This group now has access. Everyone here can talk to the agent."
		if u.chat.Type == models.ChatTypePrivate {
			kind, who, says = "user", u.user, "You now have access. Write a message, and an agent will answer."
		}
		in.log.Info().Str("kind", kind).Int64("id", who).Int64("by", u.user).
			Msg("user or chat admitted by a one-time code")
		tx.Exec(`INSERT OR REPLACE INTO admitted (bot, kind, id, by, at) VALUES (?, ?, ?, ?, ?)`, in.bot, kind, who,
			u.user, nowMicros())
	}
	in.notice(tx, c, u.thread, fmt.Sprintf("pair:%d", u.message), says)
}

// An Admission is a user or a chat that was admitted by a code.
type Admission struct {
	Bot  int64     `json:"bot"`
	Kind string    `json:"kind"` // "user" or "chat"
	ID   int64     `json:"id"`
	By   int64     `json:"by"` // the user who sent the code
	At   time.Time `json:"at"`

	micro int64 // At in the database
}

// Admissions returns the users and chats admitted by a code, oldest first.
func Admissions(ctx context.Context, db *sql.DB) ([]Admission, error) {
	all, err := store.Read(ctx, db, func(tx *store.Tx) []Admission {
		return store.All(tx, func(a *Admission) []any { return []any{&a.Bot, &a.Kind, &a.ID, &a.By, &a.micro} },
			`SELECT bot, kind, id, by, at FROM admitted ORDER BY at`)
	})
	for i := range all {
		all[i].At = time.UnixMicro(all[i].micro)
	}
	return all, err
}

// Revoke removes the admission of a user or chat by code, and reports whether there was one. It
// does not affect what the bridge's flags admit.
func Revoke(ctx context.Context, db *sql.DB, who int64) (bool, error) {
	return store.Read(ctx, db, func(tx *store.Tx) bool {
		return tx.ExecCount(`DELETE FROM admitted WHERE id = ?`,
			who) > 0
	})
}
