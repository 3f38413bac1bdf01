package letters

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"hubbub/peers/outbox"
	"hubbub/peers/tg"
)

// Retry sends an item again, whatever became of it, unless it was sent. One whose
// outcome is unknown may arrive twice then.
func (f Folder) Retry(ctx context.Context, name string) error {
	return f.change(ctx, name, (*tg.Queues).Retry, (*outbox.Outbox).Retry)
}

// Drop gives an item up.
func (f Folder) Drop(ctx context.Context, name string) error {
	return f.change(ctx, name, (*tg.Queues).Drop, (*outbox.Outbox).Drop)
}

func (f Folder) change(ctx context.Context, name string, ofBridge func(*tg.Queues, context.Context, int64) error,
	do func(*outbox.Outbox, context.Context, int64) error,
) error {
	program, number, err := Parse(name)
	if err != nil {
		return err
	}
	databases := f.databases(program)
	if program == bridge && len(databases) > 0 {
		return asBridge(databases[0], func(q *tg.Queues) error { return ofBridge(q, ctx, number) })
	}
	holders, err := holding(ctx, databases, number)
	switch {
	case err != nil:
		return err
	case len(holders) == 0:
		return fmt.Errorf("item %s: %w", name, outbox.ErrNotFound)
	case len(holders) > 1:
		return fmt.Errorf("item %s: two agents of that name have one; --data %s chooses that of the agent there", name, filepath.Dir(holders[1]))
	}
	return each(ctx, holders[0], func(_ string, box *outbox.Outbox) error {
		item, err := find(ctx, box, number)
		if err != nil || item == nil {
			return err
		}
		if s := item.State; s != outbox.StateDead && s != outbox.StateUnknown {
			return fmt.Errorf("item %s is %s: only what needs a person, dead or unknown, can be retried or dropped from here", name, s)
		}
		return do(box, ctx, number)
	})
}

// holding returns those of the databases that have an item of that number.
func holding(ctx context.Context, databases []string, number int64) (found []string, err error) {
	for _, database := range databases {
		err := each(ctx, database, func(_ string, box *outbox.Outbox) error {
			item, err := find(ctx, box, number)
			if item != nil {
				found = append(found, database)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// find returns the item of that number, or nil where a queue has none.
func find(ctx context.Context, box *outbox.Outbox, number int64) (*outbox.Item, error) {
	items, err := box.List(ctx, &outbox.Filter{After: number - 1, Limit: 1})
	if err != nil || len(items) == 0 || items[0].ID != number {
		return nil, err
	}
	return &items[0], nil
}

// Parse takes the name of an item apart.
func Parse(name string) (program string, number int64, err error) {
	program, digits, ok := strings.Cut(name, ":")
	if !ok {
		program, digits = bridge, name
	}
	number, err = strconv.ParseInt(digits, 10, 64)
	if err != nil || number <= 0 || program == "" {
		return "", 0, fmt.Errorf("%q names no item; see hubbub outbox list", name)
	}
	return program, number, nil
}
