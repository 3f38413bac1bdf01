package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"hubbub/protocol/text"
)

// A Tx runs statements in the transaction of InTx, or one by one in Autocommit and Read.
// It remembers its first error, which begins with the statement, and does nothing after
// it. Callers therefore check Err once, before they act on what they read. A Tx is for
// one goroutine.
type Tx struct {
	ctx      context.Context
	q        querier
	err      error
	onCommit []func()
}

// A querier is a database or a transaction.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// A Beginner is a database or one connection of it.
type Beginner interface {
	BeginTx(ctx context.Context, opts *sql.TxOptions) (*sql.Tx, error)
}

// InTx calls do in one transaction. If tx has no error then, the transaction commits, and
// the functions given to OnCommit run. Otherwise it rolls back, and InTx returns the
// error unchanged.
func InTx(ctx context.Context, db Beginner, do func(tx *Tx)) error {
	begun, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("beginning a transaction: %w", err)
	}
	defer begun.Rollback() //nolint:errcheck // a no-op once committed
	tx := &Tx{ctx: ctx, q: begun}
	if do(tx); tx.err != nil {
		return tx.err
	}
	if err := begun.Commit(); err != nil {
		return fmt.Errorf("committing: %w", err)
	}
	for _, f := range tx.onCommit {
		f()
	}
	return nil
}

// Autocommit calls do outside any transaction: each statement takes effect on its own.
// It returns the first error.
func Autocommit(ctx context.Context, db *sql.DB, do func(tx *Tx)) error {
	tx := &Tx{ctx: ctx, q: db}
	do(tx)
	return tx.err
}

// Read returns what do reads, outside any transaction. After an error it returns the
// zero value.
func Read[T any](ctx context.Context, db *sql.DB, do func(tx *Tx) T) (T, error) {
	tx := &Tx{ctx: ctx, q: db}
	v := do(tx)
	if tx.err != nil {
		var zero T
		return zero, tx.err
	}
	return v, nil
}

// On returns a Tx outside any transaction, for a caller that returns its Err. Read and
// Autocommit return the error themselves.
func On(ctx context.Context, db *sql.DB) *Tx { return &Tx{ctx: ctx, q: db} }

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
	if _, ok := tx.q.(*sql.DB); ok {
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
	if tx.err != nil {
		return 0
	}
	result, err := tx.q.ExecContext(tx.ctx, query, args...)
	if err == nil {
		n, err = result.RowsAffected()
	}
	tx.err = wrap(query, err)
	return n
}

// One reads the first row of a query. columns returns the destinations of its columns.
// If there is no row, or tx has an error, One returns the zero value and false.
func One[T any](tx *Tx, columns func(*T) []any, query string, args ...any) (T, bool) {
	var v, zero T
	if tx.err != nil {
		return zero, false
	}
	err := tx.q.QueryRowContext(tx.ctx, query, args...).Scan(columns(&v)...)
	if errors.Is(err, sql.ErrNoRows) {
		return zero, false
	}
	if tx.err = wrap(query, err); err != nil {
		return zero, false
	}
	return v, true
}

// All reads all rows of a query, in order. It closes the rows before it returns, so the
// caller may run further statements.
func All[T any](tx *Tx, columns func(*T) []any, query string, args ...any) (all []T) {
	if tx.err != nil {
		return nil
	}
	rows, err := tx.q.QueryContext(tx.ctx, query, args...)
	if err != nil {
		tx.err = wrap(query, err)
		return nil
	}
	for err == nil && rows.Next() {
		var v T
		err = rows.Scan(columns(&v)...)
		all = append(all, v)
	}
	if tx.err = wrap(query, errors.Join(err, rows.Err(), rows.Close())); tx.err != nil {
		return nil
	}
	return all
}

// Value reads the only column of the first row of a query, or the zero value if there is
// no row.
func Value[T any](tx *Tx, query string, args ...any) T {
	v, _ := One(tx, Scalar[T], query, args...)
	return v
}

// Scalar returns the destination of a row with one column.
func Scalar[T any](v *T) []any { return []any{v} }

// Micros scans a time that is stored as microseconds since 1970. 0 is the zero time.
type Micros struct{ *time.Time }

// Scan implements sql.Scanner.
func (m Micros) Scan(value any) error {
	n, ok := value.(int64)
	if !ok {
		return fmt.Errorf("a time in microseconds must be a number, not %v", value)
	}
	*m.Time = time.Time{}
	if n != 0 {
		*m.Time = time.UnixMicro(n)
	}
	return nil
}

// wrap prefixes an error with its statement, so that callers need not describe it.
func wrap(query string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", text.Clip(text.OneLine(query), 60), err)
}
