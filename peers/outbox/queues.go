package outbox

import (
	"context"
	"database/sql"
	"fmt"
)

// Queues returns the names (Options.Name) of the queues that a database has items
// of, in order: none where it has no outbox at all.
func Queues(ctx context.Context, db *sql.DB) (names []string, err error) {
	var tables int
	err = db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'outbox'`).Scan(&tables)
	if err != nil || tables == 0 {
		return nil, wrapQueues(err)
	}
	rows, err := db.QueryContext(ctx, `SELECT DISTINCT queue FROM outbox ORDER BY queue`)
	if err != nil {
		return nil, wrapQueues(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, wrapQueues(err)
		}
		names = append(names, name)
	}
	return names, wrapQueues(rows.Err())
}

func wrapQueues(err error) error {
	if err != nil {
		return fmt.Errorf("looking for queues: %w", err)
	}
	return nil
}
