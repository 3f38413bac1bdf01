package chorus

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"hubbub/peers/store"
	"hubbub/protocol"
)

// A HookName names one hook: letters, digits, '_' and '-', at most 64.
type HookName string

// CheckHookName says why a name cannot be a hook's, or nil.
func CheckHookName(name string) error {
	if !inboxNameRule.MatchString(name) {
		return fmt.Errorf("%q cannot name a hook: use 1 to 64 letters, digits, _ or -", name)
	}
	return nil
}

// A Hook is where a program elsewhere POSTs what a chat is to hear.
type Hook struct {
	Name       HookName        `json:"name"`
	Chat       protocol.PeerID `json:"chat"`
	Oblige     bool            `json:"oblige"` // the chat's agent must answer each post
	CreatedAt  time.Time       `json:"createdAt"`
	ChangedAt  time.Time       `json:"changedAt"` // created or rotated
	Posts      int             `json:"posts"`     // within the last 30 days
	Waiting    int             `json:"waiting"`   // of them, for their chat
	Lost       int             `json:"lost"`      // that their chat did not take
	LostWhy    string          `json:"lostWhy,omitempty"`
	RefusedAt  time.Time       `json:"refusedAt,omitzero"`
	RefusedWhy string          `json:"refusedWhy,omitempty"` // the last post that was refused
}

// hookSecret begins the secret of a hook, as senders of Standard Webhooks know it; base64
// follows.
const hookSecret = "whsec_"

func newHookSecret() string { return hookSecret + base64.StdEncoding.EncodeToString(random256()) }

func hookLabel(name HookName) string { return "hook:" + string(name) }

// AddHook makes a hook and returns the secret with which posts to it are signed. It fails with
// ErrExists if there is one of that name.
func (s *Store) AddHook(ctx context.Context, name HookName, chat protocol.PeerID, oblige bool) (secret string, err error) {
	if err := CheckHookName(string(name)); err != nil {
		return "", err
	}
	secret = newHookSecret()
	return secret, s.change(ctx, fmt.Sprintf("adding the hook %s", name), ErrExists,
		`INSERT INTO hook (name, chat, oblige, secret, created_at, changed_at) VALUES (?1, ?2, ?3, ?4, ?5, ?5) ON CONFLICT DO NOTHING`,
		name, chat, oblige, s.seal.seal(hookLabel(name), secret), micros(s.now()))
}

// RotateHook gives a hook a new secret; what is signed with the old one is refused when it
// returns.
func (s *Store) RotateHook(ctx context.Context, name HookName) (secret string, err error) {
	secret = newHookSecret()
	return secret, s.change(ctx, fmt.Sprintf("rotating the hook %s", name), ErrNotFound,
		`UPDATE hook SET secret = ?, changed_at = ? WHERE name = ?`, s.seal.seal(hookLabel(name), secret), micros(s.now()), name)
}

// RemoveHook removes a hook. What was accepted before still reaches its chat.
func (s *Store) RemoveHook(ctx context.Context, name HookName) error {
	return s.change(ctx, fmt.Sprintf("removing the hook %s", name), ErrNotFound, `DELETE FROM hook WHERE name = ?`, name)
}

// Hooks lists the hooks by name.
func (s *Store) Hooks(ctx context.Context) ([]Hook, error) {
	type row struct {
		Hook
		refused int64
	}
	rows, err := store.Read(ctx, s.db, func(tx *store.Tx) []row {
		return store.All(tx, func(r *row) []any {
			return []any{&r.Name, &r.Chat, &r.Oblige, (*moment)(&r.CreatedAt), (*moment)(&r.ChangedAt), &r.refused, &r.RefusedWhy, &r.Posts, &r.Waiting, &r.Lost, &r.LostWhy}
		}, `SELECT name, chat, oblige, created_at, changed_at, refused_at, refused_why,
		(SELECT count(*) FROM hook_post WHERE hook = name),
		(SELECT count(*) FROM outbox WHERE queue = ?1 AND destination = chat AND state IN ('pending', 'sending') AND `+keyOfHook+`),
		(SELECT count(*) FROM outbox WHERE queue = ?1 AND destination = chat AND state = 'dead' AND `+keyOfHook+`),
		coalesce((SELECT error FROM outbox WHERE queue = ?1 AND destination = chat AND state IN ('dead', 'pending') AND `+keyOfHook+` ORDER BY id DESC LIMIT 1), '')
		FROM hook ORDER BY name`, hookQueue)
	})
	if err != nil {
		return nil, err
	}
	hooks := []Hook{}
	for _, r := range rows {
		if r.refused > 0 {
			r.RefusedAt = time.UnixMicro(r.refused).UTC()
		}
		hooks = append(hooks, r.Hook)
	}
	return hooks, nil
}

// keyOfHook selects the items of a hook: names hold no colon.
const keyOfHook = `substr(key, 1, length(name) + 6) = 'hook:' || name || ':'`

// HookURL is where programs elsewhere POST.
func HookURL(publicURL string, name HookName) string {
	return strings.TrimRight(publicURL, "/") + hookPath + string(name)
}

// hookOf returns a hook with its secret. It fails with errNoHook if there is none.
func (s *Store) hookOf(ctx context.Context, name string) (h Hook, secret string, err error) {
	var sealed []byte
	h, err = store.Read(ctx, s.db, func(tx *store.Tx) Hook {
		return one(tx, errNoHook, func(h *Hook) []any { return []any{&h.Name, &h.Chat, &h.Oblige, &sealed} },
			`SELECT name, chat, oblige, secret FROM hook WHERE name = ?`, name)
	})
	if err != nil {
		return h, "", err
	}
	secret, err = s.seal.open(hookLabel(h.Name), sealed)
	return h, secret, err
}

// recordRefusal keeps why a post was refused, for whoever set the hook up: once a second at most,
// since strangers may POST, too.
func (s *Store) recordRefusal(ctx context.Context, name HookName, why string) error {
	now := s.now()
	return store.Autocommit(ctx, s.db, func(tx *store.Tx) {
		tx.Exec(`UPDATE hook SET refused_at = ?1, refused_why = ?2 WHERE name = ?3 AND refused_at NOT BETWEEN ?4 AND ?1`,
			micros(now), why, name, micros(now.Add(-time.Second)))
	})
}

// Trouble says what is the matter with a hook, "" if nothing is.
func (h *Hook) Trouble() string {
	switch {
	case h.Lost > 0, h.Waiting > 0 && h.LostWhy != "":
		return cmp.Or(h.LostWhy, "its chat did not take a post")
	case !h.RefusedAt.IsZero():
		return "refused at " + h.RefusedAt.Format("2006-01-02 15:04") + ": " + h.RefusedWhy
	}
	return ""
}
