package store

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// checkShape refuses a database that says it is of the newest version and lacks
// a table or a column of it: a program between two releases wrote it, or somebody
// else did. Without this, each statement that needs the column would fail at a
// time of its own.
func checkShape(db *sql.DB, path string, steps []string) error {
	want, err := shapeOf(steps)
	if err != nil {
		return fmt.Errorf("checking %s: %w", path, err)
	}
	has, err := columns(db)
	if err != nil {
		return fmt.Errorf("checking %s: %w", path, err)
	}
	found := map[column]bool{}
	for _, c := range has {
		found[c] = true
	}
	for _, c := range want {
		if !found[c] {
			return fmt.Errorf("%s says that it has schema version %d, and lacks the column %s of the table %s: no release wrote it; "+
				"move the file away, or use the program that wrote it", path, len(steps), c.name, c.table)
		}
	}
	return nil
}

type column struct{ table, name string }

// shapes are the columns that new databases have, by their steps: a gateway opens the
// databases of many agents.
var shapes sync.Map

// shapeOf returns the columns that a new database has.
func shapeOf(steps []string) ([]column, error) {
	key := strings.Join(steps, "\x00")
	if known, ok := shapes.Load(key); ok {
		return known.([]column), nil
	}
	list, err := newShape(steps)
	if err == nil {
		shapes.Store(key, list)
	}
	return list, err
}

func newShape(steps []string) (list []column, err error) {
	db, err := sql.Open("sqlite", "file::memory:")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1) // each connection would have a memory of its own
	for _, statements := range steps {
		if _, err := db.Exec(statements); err != nil {
			return nil, err
		}
	}
	return columns(db)
}

func columns(db *sql.DB) (list []column, err error) {
	rows, err := db.Query("SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table'")
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
