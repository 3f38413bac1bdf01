package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"hubbub/protocol/text"
)

// A Tx reads and writes a database: in the transaction of InTx or, for On, each
// statement for itself. It remembers its first error, which begins with the statement.
// From then on it finds and changes nothing, so a caller checks Err once, before it
// acts on what it read. It is for one goroutine.
type Tx struct {
	ctx   context.Context
	q     querier
	err   error
	after []func()
}

// A querier is a database or a transaction.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// A Beginner is a database, or one connection of it.
type Beginner interface {
	BeginTx(ctx context.Context, opts *sql.TxOptions) (*sql.Tx, error)
}

// On returns a Tx outside of any transaction: each statement takes effect for itself.
func On(ctx context.Context, db *sql.DB) *Tx { return &Tx{ctx: ctx, q: db} }

// InTx runs do in one transaction, which commits if tx has no error then, and is rolled
// back otherwise. It returns the error, unchanged. What do gave to After runs once it
// has committed.
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
	for _, f := range tx.after {
		f()
	}
	return nil
}

// Context returns the context that tx was begun with.
func (tx *Tx) Context() context.Context { return tx.ctx }

// Err returns the first error.
func (tx *Tx) Err() error { return tx.err }

// Fail makes err the error of tx, unless it is nil or tx has one already.
func (tx *Tx) Fail(err error) {
	if tx.err == nil {
		tx.err = err
	}
}

// Annotate runs do, and begins the error that it leaves with what was being done.
func (tx *Tx) Annotate(what string, do func()) {
	if tx.err != nil {
		return
	}
	if do(); tx.err != nil {
		tx.err = fmt.Errorf("%s: %w", what, tx.err)
	}
}

// OnCommit has f called once the transaction has committed, and at once outside of one.
func (tx *Tx) OnCommit(f func()) {
	if _, alone := tx.q.(*sql.DB); alone {
		f()
		return
	}
	tx.after = append(tx.after, f)
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

// One reads the first row of a query. columns returns where its columns go. One reports
// false, with the zero value, if there is no row or tx has an error.
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

// All reads every row of a query, in order. The rows are closed when it returns, so
// that the transaction may go on with what they say.
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

// Value reads the one column of the first row of a query, the zero value if there is
// none.
func Value[T any](tx *Tx, query string, args ...any) T {
	v, _ := One(tx, Scalar[T], query, args...)
	return v
}

// Scalar is where a row of one column goes.
func Scalar[T any](v *T) []any { return []any{v} }

// Micros scans a time that is stored in microseconds since 1970; 0 is no time.
type Micros struct{ *time.Time }

// Scan implements sql.Scanner.
func (m Micros) Scan(value any) error {
	n, ok := value.(int64)
	if !ok {
		return fmt.Errorf("a time in microseconds is a number, and this is %v", value)
	}
	*m.Time = time.Time{}
	if n != 0 {
		*m.Time = time.UnixMicro(n)
	}
	return nil
}

// wrap begins an error with its statement, so callers need not say again what they
// wanted.
func wrap(query string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", text.Clip(text.OneLine(query), 60), err)
}
