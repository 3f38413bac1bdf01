package outbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"
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
	rows, err := o.db.QueryContext(ctx, `SELECT `+columns+` FROM outbox
		WHERE queue = ?1 AND id > ?2 AND (?3 = '' OR destination = ?3)
		AND (json_array_length(?4) IS 0 OR ?4 = 'null' OR state IN (SELECT value FROM json_each(?4)))
		ORDER BY id LIMIT ?5`, o.opts.Name, f.After, f.Destination, string(states), limit)
	if err != nil {
		return nil, fmt.Errorf("listing the outbox: %w", err)
	}
	defer rows.Close()
	var items []Item
	for rows.Next() {
		item, err := scanItem(rows)
		if err != nil {
			return nil, fmt.Errorf("reading an item: %w", err)
		}
		items = append(items, item)
	}
	return items, rows.Err()
}

// Dead returns the items that need a person: dead letters and those whose
// outcome is unknown.
func (o *Outbox) Dead(ctx context.Context) ([]Item, error) {
	return o.List(ctx, &Filter{States: []State{StateDead, StateUnknown}})
}

// Count returns how many items there are in each state.
func (o *Outbox) Count(ctx context.Context) (map[State]int, error) {
	rows, err := o.db.QueryContext(ctx, `SELECT state, count(*) FROM outbox WHERE queue = ? GROUP BY state`, o.opts.Name)
	if err != nil {
		return nil, fmt.Errorf("counting the outbox: %w", err)
	}
	defer rows.Close()
	counts := map[State]int{}
	for rows.Next() {
		var s State
		var n int
		if err := rows.Scan(&s, &n); err != nil {
			return nil, fmt.Errorf("counting the outbox: %w", err)
		}
		counts[s] = n
	}
	return counts, rows.Err()
}

// Retry makes an item due now. A dead, unknown or dropped one is open again,
// with its old place before younger items, a new age and its backoff begun anew;
// a waiting one loses its delay. ErrSettled refuses one that was sent, ErrBusy
// one that is being sent, ErrNotFound an unknown id.
func (o *Outbox) Retry(ctx context.Context, id int64) error {
	now := o.opts.Now()
	err := o.inTx(ctx, func(tx *sql.Tx) error {
		item, err := o.find(ctx, tx, id)
		if err != nil {
			return err
		}
		if item.State == StateSent {
			return ErrSettled
		}
		_, err = tx.ExecContext(ctx, `UPDATE outbox SET state = 'pending', not_before = ?1, paced = 0, settled_at = 0,
			attempt = CASE WHEN state = 'pending' THEN attempt ELSE 0 END,
			expires_at = CASE WHEN state = 'pending' THEN expires_at ELSE ?2 END WHERE id = ?3`,
			now.UnixMicro(), now.Add(o.opts.MaxAge).UnixMicro(), id)
		return err
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
	err := o.inTx(ctx, func(tx *sql.Tx) (err error) {
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
	item, err := scanItem(tx.QueryRowContext(ctx,
		`SELECT `+columns+` FROM outbox WHERE queue = ? AND id = ?`, o.opts.Name, id))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return item, ErrNotFound
	case err != nil:
		return item, err
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
			res, err := o.db.ExecContext(ctx, `DELETE FROM outbox WHERE id IN (SELECT id FROM outbox
				WHERE queue = ? AND state = ? AND settled_at < ? LIMIT 500)`, o.opts.Name, string(state), now.Add(-age).UnixMicro())
			if err != nil {
				return total, fmt.Errorf("pruning the outbox: %w", err)
			}
			n, err := res.RowsAffected()
			if err != nil {
				return total, fmt.Errorf("pruning the outbox: %w", err)
			}
			total += int(n)
			if n < 500 {
				break
			}
		}
	}
	return total, nil
}
