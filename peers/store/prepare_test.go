package store

import (
	"fmt"
	"testing"

	"zombiezen.com/go/sqlite"
)

// TestRead_PreparesOnce counts the calls of an authorizer, which SQLite calls while it prepares.
func TestRead_PreparesOnce(t *testing.T) {
	for query, c := range map[string]struct {
		args []any
		want string
	}{
		`SELECT i FROM n ORDER BY i LIMIT ?`:                                      {[]any{2}, "[1 2]"},
		`SELECT i FROM n WHERE i > ?1 ORDER BY i LIMIT ?2 OFFSET ?3`:              {[]any{0, 2, 1}, "[2 3]"},
		`SELECT i FROM n ORDER BY i LIMIT -1 OFFSET ?`:                            {[]any{2}, "[3 4]"},
		`SELECT i FROM (SELECT i FROM n ORDER BY i LIMIT ?1) ORDER BY i LIMIT ?2`: {[]any{3, 5}, "[1 2 3]"},
		`SELECT ?1 FROM n WHERE i = ?1 LIMIT ?2`:                                  {[]any{4, 1}, "[4]"},
		`SELECT i FROM n ORDER BY i LIMIT 1`:                                      {nil, "[1]"},
	} {
		t.Run(query, func(t *testing.T) {
			db := openTable(t)
			if err := InTx(t.Context(), db, func(tx *Tx) { tx.Exec(`INSERT INTO n VALUES (1), (2), (3), (4)`) }); err != nil {
				t.Fatal(err)
			}
			calls := 0
			count := sqlite.AuthorizeFunc(func(sqlite.Action) sqlite.AuthResult { calls++; return sqlite.AuthResultOK })
			if err := db.writer.conn.SetAuthorizer(count); err != nil {
				t.Fatal(err)
			}
			var prepared int
			for i := range 3 {
				got, err := Read(t.Context(), db, func(tx *Tx) []int { return All(tx, Scalar[int], query, c.args...) })
				if err != nil || fmt.Sprint(got) != c.want {
					t.Errorf("%v, %v; want %s", got, err, c.want)
				}
				if i == 0 {
					prepared = calls
				}
			}
			if prepared == 0 || calls != prepared {
				t.Errorf("the authorizer was called %d times for the first run, %d times in all", prepared, calls)
			}
		})
	}
}
