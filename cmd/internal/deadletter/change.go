package deadletter

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
	return f.change(ctx, name, (*outbox.Outbox).Retry)
}

// Drop gives an item up.
func (f Folder) Drop(ctx context.Context, name string) error {
	return f.change(ctx, name, (*outbox.Outbox).Drop)
}

func (f Folder) change(ctx context.Context, name string, do func(*outbox.Outbox, context.Context, int64) error) error {
	program, number, err := Parse(name)
	if err != nil {
		return err
	}
	var holders []keeper
	for _, k := range f.keepers(program) {
		err := k.each(ctx, func(q *tg.Queue) error {
			item, err := find(ctx, q, number)
			if item != nil {
				holders = append(holders, k)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	switch len(holders) {
	case 0:
		return fmt.Errorf("item %s: %w", name, outbox.ErrNotFound)
	case 1:
	default:
		return fmt.Errorf("item %s: two agents of that name have one; --data %s chooses that of the agent there", name, filepath.Dir(holders[1].database))
	}
	return holders[0].each(ctx, func(q *tg.Queue) error {
		item, err := find(ctx, q, number)
		if err != nil || item == nil {
			return err
		}
		if s := item.State; program != bridge && s != outbox.StateDead && s != outbox.StateUnknown {
			return fmt.Errorf("item %s is %s: only what needs a person, dead or unknown, can be retried or dropped from here", name, s)
		}
		return do(q.Outbox, ctx, number)
	})
}

// find returns the item of that number, or nil where a queue has none.
func find(ctx context.Context, q *tg.Queue, number int64) (*outbox.Item, error) {
	items, err := q.List(ctx, &outbox.Filter{After: number - 1, Limit: 1})
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
