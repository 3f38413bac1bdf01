package agent

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"hubbub/peers/store"
)

// Undecided reads from the database of an agent, which may run meanwhile, how many
// events wait for a decision, and since when. Nothing is decided while the harness
// cannot say what it takes, such as a program that ends as soon as it is started.
func Undecided(ctx context.Context, path string) (count int, since time.Time, err error) {
	db, err := store.Attach(path)
	if err != nil {
		return 0, since, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var first sql.NullInt64
	if err := db.QueryRowContext(ctx, `SELECT count(*), min(received_at) FROM events WHERE stage = ?`, stageStored).Scan(&count, &first); err != nil {
		return 0, since, fmt.Errorf("reading what waits for a decision: %w", err)
	}
	if count > 0 {
		since = time.UnixMicro(first.Int64)
	}
	return count, since, nil
}
