package store

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"zombiezen.com/go/sqlite"
)

// maxStatements limits the prepared statements of a connection.
const maxStatements = 128

// settings are those of each connection. SQLite's default for the cache is 2 MiB of
// memory that the Go runtime does not account for.
const settings = `PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA cache_size = -200; PRAGMA temp_store = MEMORY`

// A connection prepares each statement once. It is for one goroutine at a time.
type connection struct {
	conn       *sqlite.Conn
	statements *simplelru.LRU[string, *sqlite.Stmt]
}

// connect opens an existing database.
func connect(path string) (*connection, error) {
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", path, err)
	}
	conn.SetBusyTimeout(busyTimeout)
	finalize := func(_ string, s *sqlite.Stmt) { s.Finalize() } //nolint:errcheck // repeats the error of its last step
	statements, err := simplelru.NewLRU(maxStatements, finalize)
	c := &connection{conn: conn, statements: statements}
	if err == nil {
		err = c.exec(context.Background(), settings, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", path, errors.Join(err, conn.Close()))
	}
	return c, nil
}

func (c *connection) close() error {
	c.statements.Purge()
	return c.conn.Close()
}

// changes returns the number of rows that the connection has changed so far.
func (c *connection) changes() (n int64) {
	err := c.run(context.Background(), "SELECT total_changes()", nil, func(s *sqlite.Stmt) error {
		n = s.ColumnInt64(0)
		return nil
	})
	if err != nil {
		return 0
	}
	return n
}

// writePage writes a page, though nothing changes. A commit that writes no page does not wait for the
// disk, whatever its mode. An UPDATE to what a row holds already counts as a change, but writes none.
func (c *connection) writePage() error {
	var version int
	err := c.run(context.Background(), "PRAGMA user_version", nil,
		func(s *sqlite.Stmt) error { return scan(s, []any{&version}) })
	if err != nil {
		return err
	}
	return c.run(context.Background(), fmt.Sprintf("PRAGMA user_version = %d", version), nil, nil)
}

// emptyLog copies SQLite's log to the database and empties it. It returns an error if another program
// prevents that.
func (c *connection) emptyLog() error {
	return c.run(context.Background(), "PRAGMA wal_checkpoint(TRUNCATE)", nil, func(s *sqlite.Stmt) error {
		if s.ColumnInt64(0) != 0 {
			return errors.New("another program reads the log of the database")
		}
		return nil
	})
}

// run runs one statement and calls row, which may be nil, for each of its rows.
func (c *connection) run(ctx context.Context, query string, args []any, row func(s *sqlite.Stmt) error) error {
	s, err := c.prepare(query)
	if err != nil {
		return err
	}
	return step(ctx, s, args, row)
}

// keepPlan makes an expression of each LIMIT and OFFSET that is a parameter. SQLite plans by
// the value of a bare parameter, so it would prepare the statement again for every run, which
// takes ten times as long as the run.
var keepPlan = strings.NewReplacer("LIMIT ?", "LIMIT 0 + ?", "OFFSET ?", "OFFSET 0 + ?").Replace

// prepare returns a statement, which it prepares unless the connection has it.
func (c *connection) prepare(query string) (*sqlite.Stmt, error) {
	if s, ok := c.statements.Get(query); ok {
		return s, nil
	}
	planned := keepPlan(query)
	s, trailing, err := c.conn.PrepareTransient(planned)
	if err != nil {
		return nil, err
	}
	if trailing > 0 && strings.TrimSpace(planned[len(planned)-trailing:]) != "" {
		return nil, errors.Join(errors.New("more than one statement"), s.Finalize())
	}
	c.statements.Add(query, s)
	return s, nil
}

// exec runs one or more statements, each with as many of args as it has parameters. It
// prepares a single statement once.
func (c *connection) exec(ctx context.Context, statements string, args []any) error {
	if !strings.Contains(strings.TrimRight(statements, "; \t\n"), ";") {
		return c.run(ctx, statements, args, nil)
	}
	return c.execUncached(ctx, statements, args)
}

// execUncached is exec for statements that must be prepared each time. SQLite runs some
// PRAGMAs while it prepares them.
func (c *connection) execUncached(ctx context.Context, statements string, args []any) error {
	for strings.Trim(statements, "; \t\n") != "" {
		s, trailing, err := c.conn.PrepareTransient(statements)
		if err != nil {
			return err
		}
		err = step(ctx, s, args[:min(len(args), s.BindParamCount())], nil)
		if s.Finalize(); err != nil { //nolint:errcheck // repeats err
			return err
		}
		statements = statements[len(statements)-trailing:]
	}
	return nil
}

// step runs a statement to its end. It looks at ctx between rows: one step takes no
// longer than SQLite needs to find the next row.
func step(ctx context.Context, s *sqlite.Stmt, args []any, row func(s *sqlite.Stmt) error) (err error) {
	if n := s.BindParamCount(); n != len(args) {
		return fmt.Errorf("the statement has %d parameters, not %d", n, len(args))
	}
	for i, arg := range args {
		if err := bind(s, i+1, arg); err != nil {
			return fmt.Errorf("parameter %d: %w", i+1, err)
		}
	}
	defer func() {
		if reset := s.Reset(); err == nil {
			err = reset
		}
	}()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		more, err := s.Step()
		if err != nil || !more {
			return err
		}
		if row == nil {
			continue
		}
		if err := row(s); err != nil {
			return err
		}
	}
}
