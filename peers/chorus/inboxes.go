package chorus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"hubbub/peers/store"
)

// Errors of the registry of inboxes and agents.
var (
	ErrExists   = errors.New("it exists already")
	ErrNotFound = errors.New("there is no such name")
)

// An Inbox is where Chorus services POST to reach our agents.
type Inbox struct {
	Name      InboxName `json:"name"`
	Revoked   bool      `json:"revoked"`
	Channels  int       `json:"channels"`
	CreatedAt time.Time `json:"createdAt"`
	ChangedAt time.Time `json:"changedAt"` // created, rotated or revoked
}

// CreateInbox makes an inbox and returns its secret, which is nowhere kept. A
// revoked inbox comes back to life with a new secret; ErrExists otherwise.
func (s *Store) CreateInbox(ctx context.Context, name InboxName) (secret string, err error) {
	if err := CheckInboxName(string(name)); err != nil {
		return "", err
	}
	secret, now := newSecret(inboxPrefix), micros(s.now())
	err = changedOne(ctx, s.db, ErrExists, `INSERT INTO inbox (name, secret_sha256, created_at, changed_at) VALUES (?1, ?2, ?3, ?3)
		ON CONFLICT (name) DO UPDATE SET secret_sha256 = excluded.secret_sha256, changed_at = excluded.changed_at
		WHERE secret_sha256 IS NULL`, name, hashSecret(secret), now)
	if err != nil {
		return "", fmt.Errorf("creating the inbox %s: %w", name, err)
	}
	return secret, nil
}

// RotateInbox gives an inbox a new secret; the old one is dead when it returns.
func (s *Store) RotateInbox(ctx context.Context, name InboxName) (secret string, err error) {
	secret = newSecret(inboxPrefix)
	err = changedOne(ctx, s.db, ErrNotFound, `UPDATE inbox SET secret_sha256 = ?, changed_at = ? WHERE name = ? AND secret_sha256 IS NOT NULL`,
		hashSecret(secret), micros(s.now()), name)
	if err != nil {
		return "", fmt.Errorf("rotating the inbox %s: %w", name, err)
	}
	return secret, nil
}

// RevokeInbox closes an inbox: its secret is dead when it returns. What was
// accepted before is still answered.
func (s *Store) RevokeInbox(ctx context.Context, name InboxName) error {
	err := changedOne(ctx, s.db, ErrNotFound, `UPDATE inbox SET secret_sha256 = NULL, changed_at = ? WHERE name = ? AND secret_sha256 IS NOT NULL`,
		micros(s.now()), name)
	if err != nil {
		return fmt.Errorf("revoking the inbox %s: %w", name, err)
	}
	return nil
}

// Inboxes lists the inboxes by name, revoked ones included.
func (s *Store) Inboxes(ctx context.Context) ([]Inbox, error) {
	list, err := store.All(ctx, s.db, func(row store.Row) (in Inbox, err error) {
		var created, changed int64
		err = row.Scan(&in.Name, &in.Revoked, &created, &changed, &in.Channels)
		in.CreatedAt, in.ChangedAt = time.UnixMicro(created).UTC(), time.UnixMicro(changed).UTC()
		return in, err
	}, `SELECT name, secret_sha256 IS NULL, created_at, changed_at,
		(SELECT count(*) FROM channel WHERE channel.inbox = inbox.name) FROM inbox ORDER BY name`)
	return append([]Inbox{}, list...), err // an empty list in JSON, too
}

// inboxOf returns the inbox that a secret opens. Unknown, wrong, rotated and
// revoked secrets take the same path: one hash, one look-up that finds nothing.
func (s *Store) inboxOf(ctx context.Context, secret string) (InboxName, bool, error) {
	return store.One(ctx, s.db, store.Column[InboxName], `SELECT name FROM inbox WHERE secret_sha256 = ?`, hashSecret(secret))
}

// ConnectionString is what an owner hands to a Chorus service.
func ConnectionString(publicURL, secret string) string {
	return strings.TrimRight(publicURL, "/") + inboxPath + secret
}

// changedOne runs a statement that is to change a row, and returns none if it
// changed none.
func changedOne(ctx context.Context, q store.Querier, none error, query string, args ...any) error {
	n, err := store.Changed(ctx, q, query, args...)
	if err == nil && n == 0 {
		err = none
	}
	return err
}
