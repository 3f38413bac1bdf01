package outbox

import (
	"context"
	"database/sql"
	"fmt"

	"hubbub/peers/store"
)

// Enqueue stores an item and wakes the outbox. It returns false and no error if the
// destination has or had an item with this key.
func (o *Outbox) Enqueue(ctx context.Context, destination, key string, body []byte) (fresh bool, err error) {
	err = store.InTx(ctx, o.db, func(tx *sql.Tx) error {
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
	known, _, err := store.One(ctx, tx, store.Column[bool], `SELECT EXISTS (SELECT 1 FROM outbox WHERE queue = ? AND destination = ? AND key = ?)`,
		o.opts.Name, destination, key)
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
	err = store.Exec(ctx, tx, `INSERT INTO outbox
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
