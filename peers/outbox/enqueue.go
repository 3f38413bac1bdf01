package outbox

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"hubbub/peers/store"
)

// Enqueue stores an item and wakes the outbox. It returns false and no error if the
// destination has or had an item with this key.
func (o *Outbox) Enqueue(ctx context.Context, destination, key string, body []byte) (fresh bool, err error) {
	err = store.InTx(ctx, o.db, func(tx *store.Tx) {
		fresh, err = o.EnqueueTx(tx, destination, key, body)
		tx.Fail(err)
	})
	return fresh && err == nil, err
}

// EnqueueTx is Enqueue in the caller's transaction, so the item and its cause become durable
// together. The outbox wakes after the commit. ErrFull and ErrTooLarge are only returned; any
// other error also fails tx.
func (o *Outbox) EnqueueTx(tx *store.Tx, destination, key string, body []byte) (fresh bool, err error) {
	return o.put(tx, destination, key, body, false)
}

// EnqueueHeld is EnqueueTx for an item that is not attempted until Move gives it another
// destination. It becomes a dead letter after Options.MaxAge.
func (o *Outbox) EnqueueHeld(tx *store.Tx, destination, key string, body []byte) (fresh bool, err error) {
	return o.put(tx, destination, key, body, true)
}

// put stores an item. While Run runs, the first open item of a destination is marked as being
// attempted at once, which spares a search and a transaction.
func (o *Outbox) put(tx *store.Tx, destination, key string, body []byte, parked bool) (fresh bool, err error) {
	if err := o.checkSize(destination, key, body); err != nil {
		return false, err
	}
	if body == nil {
		body = []byte{}
	}
	now := time.UnixMicro(o.opts.Now().UnixMicro())
	expires := now.Add(o.opts.MaxAge)
	due, run := now, o.run.current.Load()
	if parked {
		due = expires
	}
	item := &Item{Destination: destination, Key: key, Body: bytes.Clone(body), Attempt: 1,
		EnqueuedAt: now, NotBefore: now, ExpiresAt: expires}
	_, added := store.One(tx, func(*struct{}) []any { return []any{&item.ID, &item.State} }, `INSERT INTO outbox
		(queue, destination, key, body, state, attempt, enqueued_at, not_before, paced, expires_at)
		SELECT ?1, ?2, ?3, ?4, iif(marked, 'sending', 'pending'), marked, ?5, ?6, ?7, ?8 FROM (SELECT ?9 AND NOT EXISTS
			(SELECT 1 FROM outbox WHERE queue = ?1 AND destination = ?2 AND state IN ('pending','sending')) AS marked)
		WHERE true ON CONFLICT (queue, destination, key) DO NOTHING RETURNING id, state`,
		o.opts.Name, destination, key, body, now.UnixMicro(), due.UnixMicro(), parked, expires.UnixMicro(),
		!parked && run != nil && !run.full.Load() && o.mayMarkUnsynced())
	if !added || tx.Err() != nil {
		return false, tx.Err()
	}
	if err := o.checkRoom(tx, destination); err != nil {
		tx.Exec(`DELETE FROM outbox WHERE queue = ? AND destination = ? AND key = ?`, o.opts.Name, destination, key)
		return false, err
	}
	if item.State != StateSending {
		tx.OnCommit(func() { o.wakeFor(destination) })
		return tx.Err() == nil, tx.Err()
	}
	o.mark(tx, item)
	tx.OnCommit(func() {
		o.unmark(tx, destination)
		if item.State == StateSending {
			run.handOver(item)
		}
	})
	return tx.Err() == nil, tx.Err()
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

// checkRoom enforces the limits on open items, after an item was added.
func (o *Outbox) checkRoom(tx *store.Tx, destination string) error {
	type counts struct{ all, here int }
	open, _ := store.One(tx, func(c *counts) []any { return []any{&c.all, &c.here} }, `SELECT
		(SELECT count(*) FROM outbox WHERE queue = ?1 AND state IN ('pending','sending')),
		(SELECT count(*) FROM outbox WHERE queue = ?1 AND destination = ?2 AND state IN ('pending','sending'))`,
		o.opts.Name, destination)
	switch {
	case tx.Err() != nil:
		return tx.Err()
	case open.all > o.opts.MaxPending:
		return fmt.Errorf("%w: %d items wait and at most %d may; see why they are not sent, or drop some", ErrFull,
			open.all-1, o.opts.MaxPending)
	case open.here > o.opts.MaxPerDestination:
		return fmt.Errorf("%w: %d items wait for %s and at most %d may; see why they are not sent, or drop some",
			ErrFull, open.here-1, destination, o.opts.MaxPerDestination)
	}
	return nil
}
