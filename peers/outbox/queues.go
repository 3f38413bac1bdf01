package outbox

import (
	"context"

	"hubbub/peers/store"
)

// Queues returns the names (Options.Name) of the queues that a database has items
// of, in order: none where it has no outbox at all.
func Queues(ctx context.Context, db store.Querier) ([]string, error) {
	_, found, err := store.One(ctx, db, store.Column[int], `SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'outbox'`)
	if err != nil || !found {
		return nil, err
	}
	return store.All(ctx, db, store.Column[string], `SELECT DISTINCT queue FROM outbox ORDER BY queue`)
}
