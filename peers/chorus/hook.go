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

// A HookName is the name of a hook: at most 64 letters, digits, '_' and '-'.
type HookName string

// CheckHookName returns why a name is invalid for a hook, or nil.
func CheckHookName(name string) error {
	if !inboxNameRule().MatchString(name) {
		return fmt.Errorf("%q is not a valid hook name: use 1 to 64 letters, digits, _ or -", name)
	}
	return nil
}

// A Hook is an address to which other programs POST for a chat.
type Hook struct {
	Name       HookName        `json:"name"`
	Chat       protocol.PeerID `json:"chat"`
	Oblige     bool            `json:"oblige"` // the chat's agent must answer each post
	CreatedAt  time.Time       `json:"createdAt"`
	ChangedAt  time.Time       `json:"changedAt"` // created or rotated
	Posts      int             `json:"posts"`     // in the last 30 days
	Waiting    int             `json:"waiting"`   // posts that wait for their chat
	Lost       int             `json:"lost"`      // posts that their chat did not take
	LostWhy    string          `json:"lostWhy,omitempty"`
	RefusedAt  time.Time       `json:"refusedAt,omitzero"`
	RefusedWhy string          `json:"refusedWhy,omitempty"` // of the last refused post
}

// hookSecret is the prefix of a hook's secret in Standard Webhooks; base64 follows.
const hookSecret = "whsec_"

func newHookSecret() string { return hookSecret + base64.StdEncoding.EncodeToString(random256()) }

func hookLabel(name HookName) string { return "hook:" + string(name) }

// AddHook makes a hook and returns the secret with which posts must be signed. It fails with
// ErrExists if the name is in use.
func (s *Store) AddHook(
	ctx context.Context,
	name HookName,
	chat protocol.PeerID,
	oblige bool,
) (secret string, err error) {
	if err := CheckHookName(string(name)); err != nil {
		return "", err
	}
	secret = newHookSecret()
	return secret, s.change(
		ctx,
		fmt.Sprintf("adding the hook %s", name),
		ErrExists,
		`INSERT INTO hook (name, chat, oblige, secret, created_at, changed_at) VALUES (?1, ?2, ?3, ?4, ?5, ?5) ON CONFLICT DO NOTHING`,
		name,
		chat,
		oblige,
		s.seal.seal(hookLabel(name), secret),
		micros(s.now()),
	)
}

// RotateHook gives a hook a new secret. When it returns, signatures with the old one are refused.
func (s *Store) RotateHook(ctx context.Context, name HookName) (secret string, err error) {
	secret = newHookSecret()
	return secret, s.change(
		ctx,
		fmt.Sprintf("rotating the hook %s", name),
		ErrNotFound,
		`UPDATE hook SET secret = ?, changed_at = ? WHERE name = ?`,
		s.seal.seal(hookLabel(name), secret),
		micros(s.now()),
		name,
	)
}

// RemoveHook removes a hook. Accepted posts still reach its chat.
func (s *Store) RemoveHook(ctx context.Context, name HookName) error {
	return s.change(
		ctx,
		fmt.Sprintf("removing the hook %s", name),
		ErrNotFound,
		`DELETE FROM hook WHERE name = ?`,
		name,
	)
}

// Hooks lists the hooks by name.
func (s *Store) Hooks(ctx context.Context) ([]Hook, error) {
	type row struct {
		Hook
		refused int64
	}
	rows, err := store.ReadAll(ctx, s.db, func(r *row) []any {
		return []any{
			&r.Name,
			&r.Chat,
			&r.Oblige,
			store.Micros{Time: &r.CreatedAt},
			store.Micros{Time: &r.ChangedAt},
			&r.refused,
			&r.RefusedWhy,
			&r.Posts,
			&r.Waiting,
			&r.Lost,
			&r.LostWhy,
		}
	}, `SELECT name, chat, oblige, created_at, changed_at, refused_at, refused_why,
		(SELECT count(*) FROM hook_post WHERE hook = name),
		(SELECT count(*) FROM outbox WHERE queue = ?1 AND destination = chat AND state IN ('pending', 'sending') AND `+keyOfHook+`),
		(SELECT count(*) FROM outbox WHERE queue = ?1 AND destination = chat AND state = 'dead' AND `+keyOfHook+`),
		coalesce((SELECT error FROM outbox WHERE queue = ?1 AND destination = chat AND state IN ('dead', 'pending') AND `+keyOfHook+` ORDER BY id DESC LIMIT 1), '')
		FROM hook ORDER BY name`, hookQueue)
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

// keyOfHook selects the items of a hook. Names contain no colon.
const keyOfHook = `substr(key, 1, length(name) + 6) = 'hook:' || name || ':'`

// HookURL returns the address to which programs POST.
func HookURL(publicURL string, name HookName) string {
	return strings.TrimRight(publicURL, "/") + hookPath + string(name)
}

// hookOf returns a hook and its secret. It fails with errNoHook if there is none.
func (s *Store) hookOf(ctx context.Context, name string) (h Hook, secret string, err error) {
	var sealed []byte
	h, err = readOne(ctx, s.db,
		errNoHook, func(h *Hook) []any { return []any{&h.Name, &h.Chat, &h.Oblige, &sealed} },
		`SELECT name, chat, oblige, secret FROM hook WHERE name = ?`, name)
	if err != nil {
		return h, "", err
	}
	secret, err = s.seal.open(hookLabel(h.Name), sealed)
	return h, secret, err
}

// recordRefusal stores why a post was refused, for the owner of the hook. It stores at most one
// refusal per second, since strangers may also POST.
func (s *Store) recordRefusal(ctx context.Context, name HookName, why string) error {
	now := s.now()
	return store.Exec(ctx, s.db,
		`UPDATE hook SET refused_at = ?1, refused_why = ?2 WHERE name = ?3 AND refused_at NOT BETWEEN ?4 AND ?1`,
		micros(now),
		why,
		name,
		micros(now.Add(-time.Second)))
}

// Trouble returns what is wrong with a hook, or "".
func (h *Hook) Trouble() string {
	switch {
	case h.Lost > 0, h.Waiting > 0 && h.LostWhy != "":
		return cmp.Or(h.LostWhy, "its chat did not accept a post")
	case !h.RefusedAt.IsZero():
		return "refused at " + h.RefusedAt.UTC().Format("2006-01-02 15:04 MST") + ": " + h.RefusedWhy
	}
	return ""
}
