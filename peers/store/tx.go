package store

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"zombiezen.com/go/sqlite"

	"hubbub/protocol/text"
)

// A Tx runs statements in the transaction of InTx, or one by one in Autocommit and Read.
// It remembers its first error, which begins with the statement, and does nothing after
// it. Callers therefore check Err once, before they act on what they read. A Tx is for
// one goroutine.
type Tx struct {
	ctx      context.Context
	db       *DB
	c        *connection // of the transaction; nil outside
	err      error
	onCommit []func()
}

// InTx calls do in one transaction. If tx has no error then, the transaction commits, and
// the functions given to OnCommit run. Otherwise it rolls back, and InTx returns the
// error unchanged. Transactions that run at the same time may share a commit; do must not
// wait for another one.
func InTx(ctx context.Context, db *DB, do func(tx *Tx)) error { return inTx(ctx, db, true, do) }

// InTxUnsynced is InTx for what need not survive a power cut at once. It survives the
// end of the program as soon as InTxUnsynced returns, and a power cut a second later, or
// once InTx has returned for another transaction.
func InTxUnsynced(ctx context.Context, db *DB, do func(tx *Tx)) error {
	return inTx(ctx, db, false, do)
}

func inTx(ctx context.Context, db *DB, synced bool, do func(tx *Tx)) error {
	tx := &Tx{ctx: ctx, db: db}
	err := db.inTx(ctx, synced, func(c *connection) error {
		tx.c = c
		do(tx)
		return tx.err
	})
	if err != nil {
		return err
	}
	for _, f := range tx.onCommit {
		f()
	}
	return nil
}

// InTxAhead is InTx for a transaction whose effects need not wait for the disk, because its
// sender repeats it until InTxAhead has returned. The functions given to OnCommit run before the
// wait. The wait is longer than that of InTx, and often shares the sync of a later transaction.
func InTxAhead(ctx context.Context, db *DB, do func(tx *Tx)) error {
	if err := inTx(ctx, db, false, do); err != nil {
		return err
	}
	if err := db.awaitSync(); err != nil {
		return fmt.Errorf("syncing a transaction: %w", err)
	}
	return nil
}

// Autocommit calls do outside any transaction: each statement takes effect on its own.
// It returns the first error.
func Autocommit(ctx context.Context, db *DB, do func(tx *Tx)) error {
	tx := &Tx{ctx: ctx, db: db}
	do(tx)
	return tx.err
}

// Read returns what do reads, outside any transaction. After an error it returns the
// zero value.
func Read[T any](ctx context.Context, db *DB, do func(tx *Tx) T) (T, error) {
	tx := &Tx{ctx: ctx, db: db}
	v := do(tx)
	if tx.err != nil {
		var zero T
		return zero, tx.err
	}
	return v, nil
}

// ReadValue is Value outside any transaction.
func ReadValue[T any](ctx context.Context, db *DB, query string, args ...any) (T, error) {
	return Read(ctx, db, func(tx *Tx) T { return Value[T](tx, query, args...) })
}

// ReadAll is All outside any transaction.
func ReadAll[T any](ctx context.Context, db *DB, columns func(*T) []any, query string, args ...any) ([]T, error) {
	return Read(ctx, db, func(tx *Tx) []T { return All(tx, columns, query, args...) })
}

// Exec is Tx.Exec outside any transaction.
func Exec(ctx context.Context, db *DB, query string, args ...any) error {
	return Autocommit(ctx, db, func(tx *Tx) { tx.Exec(query, args...) })
}

// On returns a Tx outside any transaction, for a caller that returns its Err. Read and
// Autocommit return the error themselves.
func On(ctx context.Context, db *DB) *Tx { return &Tx{ctx: ctx, db: db} }

// Context returns the context that tx was begun with.
func (tx *Tx) Context() context.Context { return tx.ctx }

// Err returns the first error.
func (tx *Tx) Err() error { return tx.err }

// Fail sets the error of tx, unless err is nil or tx has an error already.
func (tx *Tx) Fail(err error) {
	if tx.err == nil {
		tx.err = err
	}
}

// Annotate calls do, and prefixes the error that do leaves with a description.
func (tx *Tx) Annotate(what string, do func()) {
	if tx.err != nil {
		return
	}
	if do(); tx.err != nil {
		tx.err = fmt.Errorf("%s: %w", what, tx.err)
	}
}

// OnCommit calls f after the transaction has committed. Outside a transaction it calls f
// immediately.
func (tx *Tx) OnCommit(f func()) {
	if tx.c == nil {
		f()
		return
	}
	tx.onCommit = append(tx.onCommit, f)
}

// Exec runs a statement.
func (tx *Tx) Exec(query string, args ...any) { tx.ExecCount(query, args...) }

// ExecCount runs a statement and returns the number of rows that it changed, 0 after an
// error.
func (tx *Tx) ExecCount(query string, args ...any) (n int64) {
	tx.use(query, false, func(c *connection) error {
		err := c.run(tx.ctx, query, args, nil)
		if err == nil {
			n = int64(c.conn.Changes())
		}
		return err
	})
	return n
}

// One reads the first row of a query. columns returns the destinations of its columns.
// If there is no row, or tx has an error, One returns the zero value and false.
func One[T any](tx *Tx, columns func(*T) []any, query string, args ...any) (v T, found bool) {
	read(tx, query, args, func(s *sqlite.Stmt) error {
		found = true
		if err := scan(s, columns(&v)); err != nil {
			return err
		}
		return errEnough
	})
	if tx.err != nil {
		var zero T
		return zero, false
	}
	return v, found
}

// All reads all rows of a query, in order. It returns nil if tx has an error.
func All[T any](tx *Tx, columns func(*T) []any, query string, args ...any) (all []T) {
	read(tx, query, args, func(s *sqlite.Stmt) error {
		var v T
		err := scan(s, columns(&v))
		all = append(all, v)
		return err
	})
	if tx.err != nil {
		return nil
	}
	return all
}

var errEnough = errors.New("no further row is wanted")

func read(tx *Tx, query string, args []any, row func(s *sqlite.Stmt) error) {
	reads := !strings.Contains(query, "RETURNING")
	tx.use(query, reads, func(c *connection) error {
		if err := c.run(tx.ctx, query, args, row); err != errEnough {
			return err
		}
		return nil
	})
}

// use calls do with the connection of the transaction. Outside, it calls do with a
// connection for reading, or in a transaction of its own.
func (tx *Tx) use(query string, reads bool, do func(c *connection) error) {
	if tx.err != nil {
		return
	}
	var err error
	switch {
	case tx.c != nil:
		err = do(tx.c)
	case reads:
		err = tx.db.read(do)
	default:
		err = tx.db.inTx(tx.ctx, true, do)
	}
	tx.err = wrap(query, err)
}

// Value reads the only column of the first row of a query, or the zero value if there is
// no row.
func Value[T any](tx *Tx, query string, args ...any) T {
	v, _ := One(tx, Scalar[T], query, args...)
	return v
}

// Scalar returns the destination of a row with one column.
func Scalar[T any](v *T) []any { return []any{v} }

// wrap prefixes an error with its statement, so that callers need not describe it.
func wrap(query string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", text.Clip(text.OneLine(query), 60), err)
}
