package chorus

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
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
	res, err := s.db.ExecContext(ctx, `INSERT INTO inbox (name, secret_sha256, created_at, changed_at) VALUES (?1, ?2, ?3, ?3)
		ON CONFLICT (name) DO UPDATE SET secret_sha256 = excluded.secret_sha256, changed_at = excluded.changed_at
		WHERE secret_sha256 IS NULL`, name, hashSecret(secret), now)
	if err := changedOne(res, err, ErrExists); err != nil {
		return "", fmt.Errorf("creating the inbox %s: %w", name, err)
	}
	return secret, nil
}

// RotateInbox gives an inbox a new secret; the old one is dead when it returns.
func (s *Store) RotateInbox(ctx context.Context, name InboxName) (secret string, err error) {
	secret = newSecret(inboxPrefix)
	res, err := s.db.ExecContext(ctx, `UPDATE inbox SET secret_sha256 = ?, changed_at = ? WHERE name = ? AND secret_sha256 IS NOT NULL`,
		hashSecret(secret), micros(s.now()), name)
	if err := changedOne(res, err, ErrNotFound); err != nil {
		return "", fmt.Errorf("rotating the inbox %s: %w", name, err)
	}
	return secret, nil
}

// RevokeInbox closes an inbox: its secret is dead when it returns. What was
// accepted before is still answered.
func (s *Store) RevokeInbox(ctx context.Context, name InboxName) error {
	res, err := s.db.ExecContext(ctx, `UPDATE inbox SET secret_sha256 = NULL, changed_at = ? WHERE name = ? AND secret_sha256 IS NOT NULL`,
		micros(s.now()), name)
	if err := changedOne(res, err, ErrNotFound); err != nil {
		return fmt.Errorf("revoking the inbox %s: %w", name, err)
	}
	return nil
}

// Inboxes lists the inboxes by name, revoked ones included.
func (s *Store) Inboxes(ctx context.Context) ([]Inbox, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT name, secret_sha256 IS NULL, created_at, changed_at,
		(SELECT count(*) FROM channel WHERE channel.inbox = inbox.name) FROM inbox ORDER BY name`)
	if err != nil {
		return nil, fmt.Errorf("listing inboxes: %w", err)
	}
	defer rows.Close()
	list := []Inbox{}
	for rows.Next() {
		var in Inbox
		var created, changed int64
		if err := rows.Scan(&in.Name, &in.Revoked, &created, &changed, &in.Channels); err != nil {
			return nil, fmt.Errorf("listing inboxes: %w", err)
		}
		in.CreatedAt, in.ChangedAt = time.UnixMicro(created).UTC(), time.UnixMicro(changed).UTC()
		list = append(list, in)
	}
	return list, rows.Err()
}

// inboxOf returns the inbox that a secret opens. Unknown, wrong, rotated and
// revoked secrets take the same path: one hash, one look-up that finds nothing.
func (s *Store) inboxOf(ctx context.Context, secret string) (InboxName, bool, error) {
	var name InboxName
	err := s.db.QueryRowContext(ctx, `SELECT name FROM inbox WHERE secret_sha256 = ?`, hashSecret(secret)).Scan(&name)
	if errors.Is(err, sql.ErrNoRows) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("looking for an inbox: %w", err)
	}
	return name, true, nil
}

// ConnectionString is what an owner hands to a Chorus service.
func ConnectionString(publicURL, secret string) string {
	return strings.TrimRight(publicURL, "/") + inboxPath + secret
}

// changedOne turns "no row changed" into an error of its own.
func changedOne(res sql.Result, err, none error) error {
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	if err == nil && n == 0 {
		err = none
	}
	return err
}
