package store

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"zombiezen.com/go/sqlite"
)

// checkColumns refuses a database that claims the current version but lacks a table or
// column of it, such as one of a development build. Without this check, single
// statements would fail at run time.
func checkColumns(c *connection, path, schema string) error {
	want, err := schemaColumns(schema)
	if err != nil {
		return fmt.Errorf("checking %s: %w", path, err)
	}
	has, err := columnsOf(c)
	if err != nil {
		return fmt.Errorf("checking %s: %w", path, err)
	}
	found := map[column]bool{}
	for _, column := range has {
		found[column] = true
	}
	for _, column := range want {
		if !found[column] {
			return fmt.Errorf("%s claims schema version %d, but its table %s has no column %s: no release wrote it; "+
				"move the file away, or use the program that wrote it", path, schemaVersion, column.table, column.name)
		}
	}
	return nil
}

type column struct{ table, name string }

// columnCache holds the columns of each schema, because a gateway opens the databases of
// many agents.
var columnCache sync.Map

// schemaColumns returns the columns that a new database has.
func schemaColumns(schema string) (list []column, err error) {
	if cached, ok := columnCache.Load(schema); ok {
		return cached.([]column), nil
	}
	c, err := connect(":memory:")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if err := c.exec(context.Background(), schema, nil); err != nil {
		return nil, err
	}
	if list, err = columnsOf(c); err == nil {
		columnCache.Store(schema, list)
	}
	return list, err
}

func columnsOf(c *connection) (list []column, err error) {
	err = c.run(context.Background(),
		"SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table'", nil,
		func(s *sqlite.Stmt) error {
			list = append(list, column{table: s.ColumnText(0), name: s.ColumnText(1)})
			return nil
		})
	return list, err
}
