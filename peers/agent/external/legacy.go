package external

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"strings"

	"hubbub/peers/store"
)

// legacy copies, step by step, what the gateway of an earlier version had of an
// agent, and forgets it there.
//
//go:embed legacy.sql
var legacy string

// takeOver moves what an earlier version left of the agent into its own database. A
// step that was cut short is done again at the next start: what was copied is copied
// once, and forgotten after that.
func takeOver(ctx context.Context, db *sql.DB, s *Spec) (err error) {
	if s.Legacy == "" {
		return nil
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err := conn.ExecContext(ctx, `ATTACH DATABASE ? AS old`, s.Legacy); err != nil {
		return err
	}
	defer func() {
		_, failed := conn.ExecContext(context.WithoutCancel(ctx), `DETACH DATABASE old`)
		err = errors.Join(err, failed)
	}()
	for _, step := range strings.Split(legacy, "-- then\n") {
		if err := store.InTx(ctx, conn, func(tx *store.Tx) { tx.Exec(step, sql.Named("agent", s.Name)) }); err != nil {
			return err
		}
	}
	return nil
}
