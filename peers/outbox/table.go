package outbox

import (
	"context"
	"fmt"
	"time"

	"hubbub/peers/store"
)

const columns = `id, destination, key, body, state, attempt, enqueued_at, not_before, expires_at, settled_at, error`

func itemColumns(it *Item) []any {
	return []any{&it.ID, &it.Destination, &it.Key, &it.Body, &it.State, &it.Attempt, store.Micros{Time: &it.EnqueuedAt},
		store.Micros{Time: &it.NotBefore}, store.Micros{Time: &it.ExpiresAt}, store.Micros{Time: &it.SettledAt},
		&it.Error}
}

// A head is the first open item of a destination. It is due when it may be attempted, or
// when it becomes too old.
type head struct {
	id          int64
	destination string
	due         time.Time
}

func headColumns(h *head) []any {
	return []any{&h.id, &h.destination, store.Micros{Time: &h.due}}
}

// selectHeads jumps from destination to destination in the index, so that a long queue
// costs no more than a short one. If a backoff ends later than any can (?3), the clock
// was set back since: the backoff counts as over.
const selectHeads = `
	WITH RECURSIVE dest(name) AS (
	  SELECT min(destination) FROM outbox WHERE queue = ?1 AND state IN ('pending','sending')
	  UNION ALL
	  SELECT (SELECT min(destination) FROM outbox
	          WHERE queue = ?1 AND state IN ('pending','sending') AND destination > dest.name)
	  FROM dest WHERE dest.name IS NOT NULL)
	SELECT o.id, o.destination, min(iif(o.paced = 0 AND o.not_before > ?3, 0, o.not_before), o.expires_at) AS due FROM dest
	JOIN outbox o ON o.id = (SELECT min(id) FROM outbox
	     WHERE queue = ?1 AND state IN ('pending','sending') AND destination = dest.name)
	WHERE dest.name IS NOT NULL AND o.state = 'pending'
	ORDER BY due, o.id LIMIT ?2`

// heads returns the pending first items of at most limit destinations, in the order in
// which they are due.
func (o *Outbox) heads(ctx context.Context, limit int) ([]head, error) {
	latest := o.opts.Now().Add(o.opts.MaxBackoff).UnixMicro()
	found, err := store.ReadAll(ctx, o.db, headColumns, selectHeads, o.opts.Name, limit, latest)
	if err != nil {
		return nil, fmt.Errorf("looking for due items: %w", err)
	}
	return found, nil
}

// selectUnsent reports whether a queue has items that are not sent. The first condition on the
// state of settled items lets SQLite use their index, and the second one skips the sent items.
const selectUnsent = `SELECT
	EXISTS (SELECT 1 FROM outbox WHERE queue = ?1 AND state IN ('pending','sending'))
	OR EXISTS (SELECT 1 FROM outbox WHERE queue = ?1 AND state IN ('sent','dead','unknown','dropped')
		AND state IN ('dead','unknown','dropped'))`

// markNext marks the first open item of a destination as being attempted, and returns it if it is
// due. The destination has no other item that is being attempted.
func (o *Outbox) markNext(tx *store.Tx, destination string) *Item {
	now := o.opts.Now()
	item, found := store.One(tx, itemColumns, `UPDATE outbox SET state = 'sending', attempt = attempt + (expires_at > ?3)
		WHERE id = (SELECT min(id) FROM outbox WHERE queue = ?1 AND destination = ?2 AND state IN ('pending','sending'))
		AND state = 'pending' AND min(iif(paced = 0 AND not_before > ?4, 0, not_before), expires_at) <= ?3
		RETURNING `+columns, o.opts.Name, destination, now.UnixMicro(), now.Add(o.opts.MaxBackoff).UnixMicro())
	if !found {
		return nil
	}
	return &item
}

// mayMarkUnsynced reports whether a power cut may undo the mark of an attempt that has started.
func (o *Outbox) mayMarkUnsynced() bool {
	return o.opts.OnInterrupted == Resend || o.opts.MayHaveSent != nil
}

// markSending marks items as being attempted, in one transaction, and returns
// them. An item that is no longer pending is left out. The mark need not survive a power
// cut if an interrupted attempt is repeated anyway, or if MayHaveSent knows.
func (o *Outbox) markSending(ctx context.Context, ids []int64, now time.Time) ([]Item, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	if err := o.crashAt("before mark"); err != nil {
		return nil, err
	}
	var items []Item
	inTx := store.InTx
	if o.mayMarkUnsynced() {
		inTx = store.InTxUnsynced
	}
	err := inTx(ctx, o.db, func(tx *store.Tx) {
		for _, id := range ids {
			items = append(items, store.All(tx, itemColumns, `UPDATE outbox SET state = 'sending',
				attempt = attempt + (expires_at > ?2) WHERE id = ?1 AND state = 'pending' RETURNING `+columns, id,
				now.UnixMicro())...)
		}
	})
	if err != nil {
		return nil, err
	}
	return items, o.crashAt("after mark")
}
