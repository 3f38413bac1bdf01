package letters

import (
	"context"
	"fmt"
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
	database := f.database(program)
	if database == "" {
		return fmt.Errorf("item %s: %w", name, outbox.ErrNotFound)
	}
	if program == bridge {
		return f.asBridge(func(q *tg.Queues) error { return ofBridge(q, ctx, number) })
	}
	found := false
	err = each(ctx, database, func(_ string, box *outbox.Outbox) error {
		items, err := box.List(ctx, &outbox.Filter{After: number - 1, Limit: 1})
		if err != nil || len(items) == 0 || items[0].ID != number {
			return err
		}
		found = true
		if s := items[0].State; s != outbox.StateDead && s != outbox.StateUnknown {
			return fmt.Errorf("item %s is %s: only what needs a person, dead or unknown, can be retried or dropped from here", name, s)
		}
		return do(box, ctx, number)
	})
	if err == nil && !found {
		err = fmt.Errorf("item %s: %w", name, outbox.ErrNotFound)
	}
	return err
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
