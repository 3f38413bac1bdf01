package store

import (
	"database/sql"
	"errors"
	"fmt"
	"sync"
)

// checkColumns refuses a database that claims the current version but lacks a table or
// column of it, such as one of a development build. Without this check, single
// statements would fail at run time.
func checkColumns(db *sql.DB, path, schema string) error {
	want, err := schemaColumns(schema)
	if err != nil {
		return fmt.Errorf("checking %s: %w", path, err)
	}
	has, err := columnsOf(db)
	if err != nil {
		return fmt.Errorf("checking %s: %w", path, err)
	}
	found := map[column]bool{}
	for _, c := range has {
		found[c] = true
	}
	for _, c := range want {
		if !found[c] {
			return fmt.Errorf("%s claims schema version %d, but its table %s has no column %s: no release wrote it; "+
				"move the file away, or use the program that wrote it", path, schemaVersion, c.table, c.name)
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
	db, err := sql.Open("sqlite", "file::memory:")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1) // every connection has a memory database of its own
	if _, err := db.Exec(schema); err != nil {
		return nil, err
	}
	if list, err = columnsOf(db); err == nil {
		columnCache.Store(schema, list)
	}
	return list, err
}

func columnsOf(db *sql.DB) (list []column, err error) {
	rows, err := db.Query("SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = " +
		"'table'")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var c column
		if err := rows.Scan(&c.table, &c.name); err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, rows.Err()
}
