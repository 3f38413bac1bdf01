package outbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"hubbub/peers/store"
)

var errAlready = errors.New("dropped before")

// A Filter chooses items. Its zero value chooses every item.
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
	return store.All(ctx, o.db, scanItem, `SELECT `+columns+` FROM outbox
		WHERE queue = ?1 AND id > ?2 AND (?3 = '' OR destination = ?3)
		AND (json_array_length(?4) IS 0 OR ?4 = 'null' OR state IN (SELECT value FROM json_each(?4)))
		ORDER BY id LIMIT ?5`, o.opts.Name, f.After, f.Destination, string(states), limit)
}

// Group returns the items of a destination whose keys begin alike, in the order in
// which they were enqueued. q may be a transaction.
func (o *Outbox) Group(ctx context.Context, q store.Querier, destination, prefix string) ([]Item, error) {
	return store.All(ctx, q, scanItem, `SELECT `+columns+` FROM outbox WHERE queue = ? AND destination = ?
		AND key >= ?3 AND key < ?3 || char(1114111) ORDER BY id`, o.opts.Name, destination, prefix)
}

// Count returns how many items there are in the given states, or in any, for the
// destinations that match a pattern with "*". q is a transaction, or nil.
func (o *Outbox) Count(ctx context.Context, q store.Querier, destinations string, states ...State) (int, error) {
	chosen, err := json.Marshal(states)
	if err != nil {
		return 0, err
	}
	if q == nil {
		q = o.db
	}
	n, _, err := store.One(ctx, q, store.Column[int], `SELECT count(*) FROM outbox WHERE queue = ? AND destination GLOB ?
		AND (?3 = 'null' OR state IN (SELECT value FROM json_each(?3)))`, o.opts.Name, destinations, string(chosen))
	return n, err
}

// Move moves the waiting items of one destination to another, in the caller's
// transaction. They take their places there by age. An item that is being sent stays,
// and so does one whose key the other destination knows.
func (o *Outbox) Move(ctx context.Context, tx *sql.Tx, from, to string) error {
	return store.Exec(ctx, tx, `UPDATE OR IGNORE outbox SET destination = ? WHERE queue = ? AND destination = ? AND state = 'pending'`,
		to, o.opts.Name, from)
}

// Retry makes an item due now. A dead, unknown or dropped one is open again,
// with its old place before younger items, a new age and its backoff begun anew;
// a waiting one loses its delay. ErrSettled refuses one that was sent, ErrBusy
// one that is being sent, ErrNotFound an unknown id.
func (o *Outbox) Retry(ctx context.Context, id int64) error {
	now := o.opts.Now()
	err := store.InTx(ctx, o.db, func(tx *sql.Tx) error {
		item, err := o.find(ctx, tx, id)
		if err != nil {
			return err
		}
		if item.State == StateSent {
			return ErrSettled
		}
		return store.Exec(ctx, tx, `UPDATE outbox SET state = 'pending', not_before = ?1, paced = 0, settled_at = 0,
			attempt = CASE WHEN state = 'pending' THEN attempt ELSE 0 END,
			expires_at = CASE WHEN state = 'pending' THEN expires_at ELSE ?2 END WHERE id = ?3`,
			now.UnixMicro(), now.Add(o.opts.MaxAge).UnixMicro(), id)
	})
	if err != nil {
		return fmt.Errorf("retrying item %d: %w", id, err)
	}
	o.Wake()
	return nil
}

// Drop gives an item up: it is settled as dropped, and its key stays known.
func (o *Outbox) Drop(ctx context.Context, id int64) error {
	v := verdict{state: StateDropped, cause: errors.New("dropped by an operator")}
	var item Item
	err := store.InTx(ctx, o.db, func(tx *sql.Tx) (err error) {
		if item, err = o.find(ctx, tx, id); err != nil {
			return err
		}
		switch item.State {
		case StateSent:
			return ErrSettled
		case StateDropped:
			return errAlready
		}
		return o.settleTx(ctx, tx, &item, v)
	})
	if errors.Is(err, errAlready) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("dropping item %d: %w", id, err)
	}
	if o.opts.AfterSettled != nil {
		o.opts.AfterSettled(item, v.state, v.cause)
	}
	o.Wake()
	return nil
}

// find reads an item that an operator wants to change.
func (o *Outbox) find(ctx context.Context, tx *sql.Tx, id int64) (Item, error) {
	item, found, err := store.One(ctx, tx, scanItem, `SELECT `+columns+` FROM outbox WHERE queue = ? AND id = ?`, o.opts.Name, id)
	switch {
	case err != nil:
		return item, err
	case !found:
		return item, ErrNotFound
	case item.State == StateSending:
		return item, ErrBusy
	}
	return item, nil
}

// Prune forgets sent and dropped items older than Options.Retention, and dead
// and unknown ones older than Options.DeadRetention, counted from their
// settlement, and returns how many. Their keys may be enqueued again. Run does
// it every hour.
func (o *Outbox) Prune(ctx context.Context) (int, error) {
	now := o.opts.Now()
	ages := map[State]time.Duration{
		StateSent: o.opts.Retention, StateDropped: o.opts.Retention,
		StateDead: o.opts.DeadRetention, StateUnknown: o.opts.DeadRetention,
	}
	total := 0
	for state, age := range ages {
		for {
			n, err := store.Changed(ctx, o.db, `DELETE FROM outbox WHERE id IN (SELECT id FROM outbox
				WHERE queue = ? AND state = ? AND settled_at < ? LIMIT 500)`, o.opts.Name, string(state), now.Add(-age).UnixMicro())
			if err != nil {
				return total, err
			}
			total += int(n)
			if n < 500 {
				break
			}
		}
	}
	return total, nil
}
