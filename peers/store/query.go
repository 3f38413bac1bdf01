package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"hubbub/protocol/text"
)

// A Querier is a database or a transaction.
type Querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// A Row is what a scan function reads the columns of one row from.
type Row interface{ Scan(dest ...any) error }

// InTx runs do in one transaction, which commits if do returns nil and is rolled
// back otherwise. It returns do's error as it is.
func InTx(ctx context.Context, db *sql.DB, do func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("beginning a transaction: %w", err)
	}
	defer tx.Rollback() //nolint:errcheck // a no-op once committed
	if err := do(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("committing: %w", err)
	}
	return nil
}

// Exec runs a statement. Its error, as that of every function here, begins with
// the statement, so callers need not say again what they wanted.
func Exec(ctx context.Context, q Querier, query string, args ...any) error {
	_, err := q.ExecContext(ctx, query, args...)
	return about(query, err)
}

// Changed runs a statement and returns the number of rows that it changed.
func Changed(ctx context.Context, q Querier, query string, args ...any) (int64, error) {
	result, err := q.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, about(query, err)
	}
	n, err := result.RowsAffected()
	return n, about(query, err)
}

// One reads the first row of a query with scan. It reports false, with the zero
// value, where there is no row.
func One[T any](ctx context.Context, q Querier, scan func(Row) (T, error), query string, args ...any) (T, bool, error) {
	v, err := scan(q.QueryRowContext(ctx, query, args...))
	if err != nil {
		var zero T
		if errors.Is(err, sql.ErrNoRows) {
			err = nil
		}
		return zero, false, about(query, err)
	}
	return v, true, nil
}

// All reads every row of a query with scan, in order. The rows are closed when it
// returns, so that a transaction may go on with what they say.
func All[T any](ctx context.Context, q Querier, scan func(Row) (T, error), query string, args ...any) (all []T, err error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, about(query, err)
	}
	defer func() { err = errors.Join(err, about(query, rows.Close())) }()
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, about(query, err)
		}
		all = append(all, v)
	}
	return all, about(query, rows.Err())
}

// Column scans the one column of a row, for One and All.
func Column[T any](row Row) (v T, err error) {
	err = row.Scan(&v)
	return v, err
}

func about(query string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", text.Clip(text.Line(query), 60), err)
}
