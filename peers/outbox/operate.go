package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"hubbub/peers/store"
)

// A Filter selects items. Its zero value selects every item.
type Filter struct {
	States      []State // default: all
	Destination string  // default: all
	After       int64   // only ids greater than this
	Limit       int     // default 1000; negative: all
}

// List returns items in the order in which they were enqueued.
func (o *Outbox) List(ctx context.Context, f *Filter) ([]Item, error) {
	if f == nil {
		f = &Filter{}
	}
	limit := f.Limit
	if limit == 0 {
		limit = 1000
	}
	states, err := json.Marshal(f.States)
	if err != nil {
		return nil, err
	}
	return store.ReadAll(ctx, o.db, itemColumns, `SELECT `+columns+` FROM outbox
			WHERE queue = ?1 AND id > ?2 AND (?3 = '' OR destination = ?3)
			AND (json_array_length(?4) IS 0 OR ?4 = 'null' OR state IN (SELECT value FROM json_each(?4)))
			ORDER BY id LIMIT ?5`, o.opts.Name, f.After, f.Destination, string(states), limit)
}

// ListByPrefix returns the items of a destination whose keys have a prefix, in the order of
// enqueueing.
func (o *Outbox) ListByPrefix(tx *store.Tx, destination, prefix string) []Item {
	return store.All(tx, itemColumns, `SELECT `+columns+` FROM outbox WHERE queue = ? AND destination = ?
		AND key >= ?3 AND key < ?3 || char(1114111) ORDER BY id`, o.opts.Name, destination, prefix)
}

// Count returns the number of items in the given states, or in all states, for the destinations
// that match a pattern with "*".
func (o *Outbox) Count(tx *store.Tx, destinations string, states ...State) int {
	chosen, err := json.Marshal(states)
	tx.Fail(err)
	return store.Value[int](tx, `SELECT count(*) FROM outbox WHERE queue = ? AND destination GLOB ?
		AND (?3 = 'null' OR state IN (SELECT value FROM json_each(?3)))`, o.opts.Name, destinations, string(chosen))
}

// HasOpen reports whether a destination has items that are not settled.
func (o *Outbox) HasOpen(tx *store.Tx, destination string) bool {
	return store.Value[bool](tx,
		`SELECT EXISTS (SELECT 1 FROM outbox WHERE queue = ? AND destination = ? AND state IN ('pending', 'sending'))`,
		o.opts.Name, destination)
}

// Move moves the waiting items of one destination to another, in the caller's transaction. They
// are ordered by age there and are due immediately, because their delays belonged to the old
// destination. Move leaves an item that is being sent, and one whose key exists at the new
// destination.
func (o *Outbox) Move(tx *store.Tx, from, to string) {
	if item := o.unmark(tx, to); item != nil { // an older item may come first
		item.State = StatePending
		tx.Exec(`UPDATE outbox SET state = 'pending', attempt = 0 WHERE id = ?`, item.ID)
	}
	tx.Exec(`UPDATE OR IGNORE outbox SET destination = ?1, not_before = min(not_before, ?2), paced = 0
		WHERE queue = ?3 AND destination = ?4 AND state = 'pending'`, to, o.opts.Now().UnixMicro(), o.opts.Name, from)
	tx.OnCommit(o.Wake)
}

// Retry makes an item due now. It reopens a dead, unknown or dropped item with a new age and a
// new backoff, at its old place in the order. A waiting item loses its delay. Retry returns
// ErrSettled for a sent item, ErrBusy for one that is being sent, and ErrNotFound for an unknown
// id.
func (o *Outbox) Retry(ctx context.Context, id int64) error {
	now := o.opts.Now()
	return o.operate(ctx, "retrying", id, func(tx *store.Tx, item *Item) {
		tx.Exec(`UPDATE outbox SET state = 'pending', not_before = ?1, paced = 0, settled_at = 0,
			attempt = CASE WHEN state = 'pending' THEN attempt ELSE 0 END,
			expires_at = CASE WHEN state = 'pending' THEN expires_at ELSE ?2 END WHERE id = ?3`,
			now.UnixMicro(), now.Add(o.opts.MaxAge).UnixMicro(), id)
	})
}

// Drop settles an item as dropped. Its key stays known. It returns the errors of Retry.
func (o *Outbox) Drop(ctx context.Context, id int64) error {
	v := decision{state: StateDropped, cause: errors.New("dropped by an operator")}
	return o.operate(ctx, "dropping", id, func(tx *store.Tx, item *Item) {
		if item.State != StateDropped {
			o.settleTx(tx, item, v)
			tx.OnCommit(func() { o.opts.AfterSettled(*item, v.state, v.cause) })
		}
	})
}

// operate changes an item for an operator, unless the item is sent or being sent.
func (o *Outbox) operate(ctx context.Context, doing string, id int64, change func(tx *store.Tx, item *Item)) error {
	err := store.InTx(ctx, o.db, func(tx *store.Tx) {
		item, found := store.One(tx, itemColumns, `SELECT `+columns+` FROM outbox WHERE queue = ? AND id = ?`,
			o.opts.Name, id)
		switch {
		case !found:
			tx.Fail(ErrNotFound)
		case item.State == StateSending:
			tx.Fail(ErrBusy)
		case item.State == StateSent:
			tx.Fail(ErrSettled)
		default:
			change(tx, &item)
			tx.OnCommit(o.Wake)
		}
	})
	if err != nil {
		return fmt.Errorf("%s item %d: %w", doing, id, err)
	}
	return nil
}

// Prune forgets sent and dropped items Options.Retention after their settlement, and dead and
// unknown items after Options.DeadRetention. It returns how many. Their keys may be enqueued
// again. Run calls Prune every hour.
func (o *Outbox) Prune(ctx context.Context) (int, error) {
	now, total := o.opts.Now(), 0
	err := store.Autocommit(ctx, o.db, func(tx *store.Tx) {
		for state, age := range map[State]time.Duration{
			StateSent: o.opts.Retention, StateDropped: o.opts.Retention,
			StateDead: o.opts.DeadRetention, StateUnknown: o.opts.DeadRetention,
		} {
			for n := int64(500); n == 500; {
				n = tx.ExecCount(`DELETE FROM outbox WHERE id IN (SELECT id FROM outbox
					WHERE queue = ? AND state = ? AND settled_at < ? LIMIT 500)`, o.opts.Name, string(state),
					now.Add(-age).UnixMicro())
				total += int(n)
			}
		}
	})
	return total, err
}

// QueueNames returns the names (Options.Name) of all queues with items in a database, in order.
// It returns none if the database has no outbox.
func QueueNames(tx *store.Tx) []string {
	if !store.Value[bool](tx, `SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'outbox'`) {
		return nil
	}
	return store.All(tx, store.Scalar[string], `SELECT DISTINCT queue FROM outbox ORDER BY queue`)
}
