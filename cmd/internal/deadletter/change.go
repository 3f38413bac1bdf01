package deadletter

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"hubbub/peers/bridge"
	"hubbub/peers/outbox"
)

// Retry sends an item again unless it was sent. If its delivery is uncertain, it may arrive
// twice.
func (f Folder) Retry(ctx context.Context, name string) error {
	return f.change(ctx, name, (*outbox.Outbox).Retry)
}

// Drop discards an item.
func (f Folder) Drop(ctx context.Context, name string) error {
	return f.change(ctx, name, (*outbox.Outbox).Drop)
}

func (f Folder) change(ctx context.Context, name string, do func(*outbox.Outbox, context.Context, int64) error) error {
	program, number, err := ParseName(name)
	if err != nil {
		return err
	}
	var holders []programFiles
	for _, k := range f.programs(program) {
		err := k.each(ctx, func(q *bridge.Queue) error {
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
		return fmt.Errorf(
			"item %s: two agents have this name and such an item; choose one with --data %s",
			name,
			filepath.Dir(holders[1].database),
		)
	}
	return holders[0].each(ctx, func(q *bridge.Queue) error {
		item, err := find(ctx, q, number)
		if err != nil || item == nil {
			return err
		}
		if s := item.State; program != telegram && s != outbox.StateDead && s != outbox.StateUnknown {
			return fmt.Errorf("item %s is %s: only dead and unknown items can be retried or dropped here", name, s)
		}
		return do(q.Outbox, ctx, number)
	})
}

// find returns the item with a number, or nil if the queue has none.
func find(ctx context.Context, q *bridge.Queue, number int64) (*outbox.Item, error) {
	items, err := q.List(ctx, &outbox.Filter{After: number - 1, Limit: 1})
	if err != nil || len(items) == 0 || items[0].ID != number {
		return nil, err
	}
	return &items[0], nil
}

// ParseName splits the name of an item into program and number.
func ParseName(name string) (program string, number int64, err error) {
	program, digits, ok := strings.Cut(name, ":")
	if !ok {
		program, digits = telegram, name
	}
	number, err = strconv.ParseInt(digits, 10, 64)
	if err != nil || number <= 0 || program == "" {
		return "", 0, fmt.Errorf("%q is not an item; see hubbub outbox list", name)
	}
	return program, number, nil
}
