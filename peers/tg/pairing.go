package tg

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/go-telegram/bot/models"
)

// codeLetters leaves out what looks alike.
const codeLetters = "ABCDEFGHJKMNPQRSTVWXYZ23456789"

const codeLength = 8

// NewCode makes a one-time code and stores its hash. Whoever sends it to the bot
// as /pair CODE before it expires is admitted: the user in a direct chat, the
// group in a group. A running bridge takes it at once.
func NewCode(ctx context.Context, db *sql.DB, valid time.Duration) (string, error) {
	letters := make([]byte, codeLength)
	for i := range letters {
		letters[i] = codeLetters[randomBelow(len(codeLetters))]
	}
	code := string(letters[:4]) + "-" + string(letters[4:])
	err := exec(ctx, db, `INSERT INTO codes (hash, expires_at) VALUES (?, ?)`, codeHash(code), time.Now().Add(valid).UnixMicro())
	if err != nil {
		return "", fmt.Errorf("storing the code: %w", err)
	}
	return code, nil
}

// randomBelow picks evenly: bytes that would favour the first letters are thrown
// away.
func randomBelow(n int) int {
	var one [1]byte
	for {
		if _, err := rand.Read(one[:]); err != nil {
			panic(err) // never: it ends the program itself
		}
		if int(one[0]) < 256-256%n {
			return int(one[0]) % n
		}
	}
}

// codeHash is how a code is kept. Case, spaces and hyphens do not matter.
func codeHash(code string) string {
	plain := strings.ToUpper(strings.NewReplacer("-", "", " ", "").Replace(code))
	sum := sha256.Sum256([]byte("hubbub pairing " + plain))
	return hex.EncodeToString(sum[:])
}

// pair lets whoever knows a code in.
func (b *Bridge) pair(ctx context.Context, tx *sql.Tx, c *chat, h *happening) error {
	key := fmt.Sprintf("pair:%d", h.message)
	say := func(text string) error { return b.notice(ctx, tx, c, h.thread, key, text) }
	var guesses int
	hourAgo := time.Now().Add(-time.Hour).UnixMicro()
	err := tx.QueryRowContext(ctx, `SELECT count(*) FROM guesses WHERE bot = ? AND user = ? AND at > ?`, b.bot, h.user, hourAgo).Scan(&guesses)
	if err != nil {
		return err
	}
	if guesses >= guessesPerHour {
		b.log.Warn().Int64("user", h.user).Msg("too many wrong pairing codes")
		return nil // no answer that could be used to go on guessing
	}
	result, err := tx.ExecContext(ctx, `UPDATE codes SET used_at = ?1 WHERE hash = ?2 AND used_at = 0 AND expires_at > ?1`, now(), codeHash(h.arguments))
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		if err := exec(ctx, tx, `INSERT INTO guesses (bot, user, at) VALUES (?, ?, ?)`, b.bot, h.user, now()); err != nil {
			return err
		}
		return say("This code is not valid: it was used already, it expired, or it is mistyped.")
	}
	kind, who, welcome := "chat", c.key, "This group is admitted. Everybody here can talk to the agent now."
	if h.chat.Type == models.ChatTypePrivate {
		kind, who, welcome = "user", h.user, "You are admitted. Write a message, and an agent will answer."
	}
	b.log.Info().Str("kind", kind).Int64("id", who).Int64("by", h.user).Msg("admitted by a one-time code")
	if err := exec(ctx, tx, `INSERT OR REPLACE INTO admitted (bot, kind, id, by, at) VALUES (?, ?, ?, ?, ?)`, b.bot, kind, who, h.user, now()); err != nil {
		return err
	}
	return say(welcome)
}

// An Admission is somebody who was let in by a code.
type Admission struct {
	Bot  int64     `json:"bot"`
	Kind string    `json:"kind"` // "user" or "chat"
	ID   int64     `json:"id"`
	By   int64     `json:"by"` // the user who sent the code
	At   time.Time `json:"at"`
}

// Admissions lists who was let in by a code, oldest first.
func Admissions(ctx context.Context, db *sql.DB) ([]Admission, error) {
	rows, err := db.QueryContext(ctx, `SELECT bot, kind, id, by, at FROM admitted ORDER BY at`)
	if err != nil {
		return nil, fmt.Errorf("reading who is admitted: %w", err)
	}
	defer rows.Close()
	var out []Admission
	for rows.Next() {
		var a Admission
		var micro int64
		if err := rows.Scan(&a.Bot, &a.Kind, &a.ID, &a.By, &micro); err != nil {
			return nil, err
		}
		a.At = time.UnixMicro(micro)
		out = append(out, a)
	}
	return out, rows.Err()
}

// Revoke takes back an admission by code, of a user or a chat. It reports
// whether there was one. What the bridge's own flags allow it cannot take back.
func Revoke(ctx context.Context, db *sql.DB, who int64) (bool, error) {
	result, err := db.ExecContext(ctx, `DELETE FROM admitted WHERE id = ?`, who)
	if err != nil {
		return false, fmt.Errorf("revoking: %w", err)
	}
	n, err := result.RowsAffected()
	return n > 0, err
}
