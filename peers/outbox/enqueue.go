package outbox

import (
	"context"
	"database/sql"
	"fmt"
)

// Enqueue stores an item and wakes the outbox. It reports false, without an
// error, when the destination already has or had an item of this key.
func (o *Outbox) Enqueue(ctx context.Context, destination, key string, body []byte) (fresh bool, err error) {
	err = o.inTx(ctx, func(tx *sql.Tx) error {
		fresh, err = o.EnqueueTx(ctx, tx, destination, key, body)
		return err
	})
	if err != nil {
		return false, err
	}
	o.Wake()
	return fresh, nil
}

// EnqueueTx is Enqueue inside the caller's transaction, so that the item and
// what caused it become durable together. Call Wake after the commit.
func (o *Outbox) EnqueueTx(ctx context.Context, tx *sql.Tx, destination, key string, body []byte) (fresh bool, err error) {
	if err := o.checkSize(destination, key, body); err != nil {
		return false, err
	}
	known, err := exists(ctx, tx, o.opts.Name, destination, key)
	if err != nil || known {
		return false, err
	}
	if err := o.checkRoom(ctx, tx, destination); err != nil {
		return false, err
	}
	if body == nil {
		body = []byte{}
	}
	now := o.opts.Now()
	_, err = tx.ExecContext(ctx, `INSERT INTO outbox
		(queue, destination, key, body, state, enqueued_at, not_before, expires_at)
		VALUES (?, ?, ?, ?, 'pending', ?, ?, ?)`,
		o.opts.Name, destination, key, body, now.UnixMicro(), now.UnixMicro(), now.Add(o.opts.MaxAge).UnixMicro())
	if err != nil {
		return false, fmt.Errorf("storing an item for %s: %w", destination, err)
	}
	return true, nil
}

func (o *Outbox) checkSize(destination, key string, body []byte) error {
	switch {
	case len(body) > o.opts.MaxBody:
		return fmt.Errorf("%w: the body is %d bytes, at most %d are allowed", ErrTooLarge, len(body), o.opts.MaxBody)
	case len(destination) > maxName || len(key) > maxName:
		return fmt.Errorf("%w: destination and key may have %d bytes each", ErrTooLarge, maxName)
	}
	return nil
}

func exists(ctx context.Context, tx *sql.Tx, queue, destination, key string) (known bool, err error) {
	err = tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM outbox WHERE queue = ? AND destination = ? AND key = ?)`,
		queue, destination, key).Scan(&known)
	if err != nil {
		return false, fmt.Errorf("looking for an item of the same key: %w", err)
	}
	return known, nil
}

// checkRoom enforces the bounds on open items.
func (o *Outbox) checkRoom(ctx context.Context, tx *sql.Tx, destination string) error {
	var all, here int
	err := tx.QueryRowContext(ctx, `SELECT
		(SELECT count(*) FROM outbox WHERE queue = ?1 AND state IN ('pending','sending')),
		(SELECT count(*) FROM outbox WHERE queue = ?1 AND destination = ?2 AND state IN ('pending','sending'))`,
		o.opts.Name, destination).Scan(&all, &here)
	switch {
	case err != nil:
		return fmt.Errorf("counting open items: %w", err)
	case all >= o.opts.MaxPending:
		return fmt.Errorf("%w: %d items wait and at most %d may; see why they are not sent, or drop some", ErrFull, all, o.opts.MaxPending)
	case here >= o.opts.MaxPerDestination:
		return fmt.Errorf("%w: %d items wait for %s and at most %d may; see why they are not sent, or drop some",
			ErrFull, here, destination, o.opts.MaxPerDestination)
	}
	return nil
}

func (o *Outbox) inTx(ctx context.Context, do func(tx *sql.Tx) error) error {
	tx, err := o.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("opening a transaction of the outbox: %w", err)
	}
	defer tx.Rollback() //nolint:errcheck // a no-op once committed
	if err := do(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("committing to the outbox: %w", err)
	}
	return nil
}
