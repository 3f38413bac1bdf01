package bridge

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"

	"hubbub/peers/store"

	"github.com/rs/zerolog"
)

// codeAlphabet omits letters and digits that look alike.
const codeAlphabet = "ABCDEFGHJKMNPQRSTVWXYZ23456789"

const (
	codeLength        = 8
	maxGuessesPerHour = 5
	codeRetention     = 24 * time.Hour // after it expired
)

// The kinds of admissions.
const (
	AdmitUser = "user" // a user and their direct chat
	AdmitChat = "chat" // a group with its members
)

// NewCode creates a one-time code and stores its hash in databases of bridges. The first user who
// sends it to a bridge before it expires is admitted there, or the group where they send it. A
// running bridge accepts the code at once.
func NewCode(ctx context.Context, valid time.Duration, databases ...*store.DB) (string, error) {
	letters := make([]byte, codeLength)
	for i := range letters {
		n, err := rand.Int(rand.Reader, big.NewInt(int64(len(codeAlphabet))))
		if err != nil {
			return "", fmt.Errorf("making a code: %w", err)
		}
		letters[i] = codeAlphabet[n.Int64()]
	}
	code := string(letters[:4]) + "-" + string(letters[4:])
	for _, db := range databases {
		err := store.Exec(ctx, db, `INSERT INTO bridge_codes (hash, expires_at) VALUES (?, ?)`, codeHash(code),
			time.Now().Add(valid).UnixMicro())
		if err != nil {
			return "", err
		}
	}
	return code, nil
}

// codeHash returns the stored form of a code. It ignores case, spaces and hyphens.
func codeHash(code string) string {
	plain := strings.ToUpper(strings.NewReplacer("-", "", " ", "").Replace(code))
	sum := sha256.Sum256([]byte("hubbub pairing " + plain))
	return hex.EncodeToString(sum[:])
}

// A Pairing admits the users and chats of one bridge by one-time codes.
type Pairing struct {
	Name string // that of the bridge's router
	Log  *zerolog.Logger
}

// HasOpenCode reports whether a code can still be used.
func (p *Pairing) HasOpenCode(tx *store.Tx) bool {
	return store.Value[bool](tx, `SELECT EXISTS (SELECT 1 FROM bridge_codes WHERE used_at = 0 AND expires_at > ?)`,
		time.Now().UnixMicro())
}

// IsPaired reports whether a user or chat was admitted by a code.
func (p *Pairing) IsPaired(tx *store.Tx, kind, id string) bool {
	return store.Value[bool](tx, `SELECT 1 FROM bridge_admitted WHERE bridge = ? AND kind = ? AND id = ?`,
		p.Name, kind, id)
}

// Pair admits a user or a chat if the user gave a valid code, and returns the text to show. The
// text is empty after too many wrong codes: an answer would help further guessing.
func (p *Pairing) Pair(tx *store.Tx, user, code, kind, id string) string {
	guesses := store.Value[int](tx, `SELECT count(*) FROM bridge_guesses WHERE bridge = ? AND user = ? AND at > ?`,
		p.Name, user, time.Now().Add(-time.Hour).UnixMicro())
	if guesses >= maxGuessesPerHour {
		p.Log.Warn().Str("user", user).Msg("user sent too many wrong pairing codes; no answer is sent")
		return ""
	}
	used := tx.ExecCount(`UPDATE bridge_codes SET used_at = ?1 WHERE hash = ?2 AND used_at = 0 AND expires_at > ?1`,
		time.Now().UnixMicro(), codeHash(code))
	if used == 0 {
		tx.Exec(`INSERT INTO bridge_guesses (bridge, user, at) VALUES (?, ?, ?)`, p.Name, user, time.Now().UnixMicro())
		return "This code isn't valid. It may have been used already, have expired, or be mistyped."
	}
	p.Log.Info().Str("kind", kind).Str("id", id).Str("by", user).Msg("user or chat admitted by a one-time code")
	p.admit(tx, kind, id, user)
	if kind == AdmitUser {
		return "You now have access. Write a message, and an agent will answer."
	}
	return "This group now has access. Everyone here can talk to the agent."
}

// admit admits a user or a chat because of what a user did.
func (p *Pairing) admit(tx *store.Tx, kind, id, by string) {
	tx.Exec(`INSERT OR REPLACE INTO bridge_admitted (bridge, kind, id, by, at) VALUES (?, ?, ?, ?, ?)`, p.Name,
		kind, id, by, time.Now().UnixMicro())
}

// An Account is the ID of a bot, user or chat in its chat system. In JSON it is a number where
// the chat system has numbers.
type Account string

// MarshalJSON implements json.Marshaler.
func (a Account) MarshalJSON() ([]byte, error) {
	if _, err := strconv.ParseInt(string(a), 10, 64); err == nil {
		return []byte(a), nil
	}
	return json.Marshal(string(a))
}

// An Admission is a user or a chat that was admitted by a code, or by an invitation.
type Admission struct {
	Bot  Account   `json:"bot"`
	Kind string    `json:"kind"` // AdmitUser or AdmitChat
	ID   Account   `json:"id"`
	By   Account   `json:"by"` // the user who sent the code, or invited the bot
	At   time.Time `json:"at"`
}

// Admissions returns the users and chats admitted by a code, oldest first.
func Admissions(ctx context.Context, db *store.DB) ([]Admission, error) {
	return store.ReadAll(ctx, db, func(a *Admission) []any {
		return []any{&a.Bot, &a.Kind, &a.ID, &a.By, store.Micros{Time: &a.At}}
	}, `SELECT bridge, kind, id, by, at FROM bridge_admitted ORDER BY at`)
}

// Revoke removes the admission of a user or chat by code, and reports whether there was one. It
// does not affect what the bridge's flags admit.
func Revoke(ctx context.Context, db *store.DB, id string) (bool, error) {
	return store.Read(ctx, db, func(tx *store.Tx) bool {
		return tx.ExecCount(`DELETE FROM bridge_admitted WHERE id = ?`, id) > 0
	})
}

// prune deletes old codes and guesses.
func (p *Pairing) prune(tx *store.Tx) {
	tx.Exec(`DELETE FROM bridge_guesses WHERE at < ?`, time.Now().Add(-time.Hour).UnixMicro())
	tx.Exec(`DELETE FROM bridge_codes WHERE expires_at < ?`, time.Now().Add(-codeRetention).UnixMicro())
}
