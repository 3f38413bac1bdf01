package chorus

import (
	"context"
	_ "embed"
	"fmt"
	"path/filepath"
	"time"

	"hubbub/peers/bridge"
	"hubbub/peers/outbox"
	"hubbub/peers/store"
)

//go:embed schema.sql
var schema string

// Files in the gateway's data folder.
const (
	databaseFile = "chorus.db"
	keyFile      = "chorus.key"
	agentsFolder = "chorus" // the external agents' databases
)

// A Store is the gateway's data folder: its database and the key of its sealed secrets. The
// gateway and the command line use it concurrently.
type Store struct {
	folder string
	db     *store.DB
	seal   *sealer
	now    func() time.Time
}

// OpenStore opens the data folder of a gateway, creating it if necessary.
func OpenStore(folder string) (*Store, error) {
	seal, err := openSealer(filepath.Join(folder, keyFile))
	if err != nil {
		return nil, err
	}
	db, err := store.Open(filepath.Join(folder, databaseFile), schema+outbox.Schema+bridge.Schema)
	if err != nil {
		return nil, err
	}
	return &Store{folder: folder, db: db, seal: seal, now: time.Now}, nil
}

// agentFolder returns the path of an external agent's folder.
func (s *Store) agentFolder(name string) string { return filepath.Join(s.folder, agentsFolder, name) }

// Close closes the database.
func (s *Store) Close() error { return s.db.Close() }

// publicURL is the name of the setting with the gateway's public address.
const publicURL = "public_url"

// setPublicURL stores the gateway's public address.
func (s *Store) setPublicURL(ctx context.Context, url string) error {
	return store.Exec(ctx, s.db, `INSERT INTO setting (name, value) VALUES (?, ?)
			ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE value != excluded.value`, publicURL, url)
}

// PublicURL returns the gateway's public address, or "" if no gateway has stored it yet.
func (s *Store) PublicURL(ctx context.Context) (string, error) {
	return store.ReadValue[string](ctx, s.db, `SELECT value FROM setting WHERE name = ?`, publicURL)
}

// change runs a statement that must change a row. It fails with the error none if no row changed;
// doing describes the operation in errors.
func (s *Store) change(ctx context.Context, doing string, none error, query string, args ...any) error {
	err := store.Autocommit(ctx, s.db, func(tx *store.Tx) {
		if tx.ExecCount(query, args...) == 0 {
			tx.Fail(none)
		}
	})
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// one reads the first row of a query. If there is none, tx fails with the error none.
func one[T any](tx *store.Tx, none error, columns func(*T) []any, query string, args ...any) T {
	v, found := store.One(tx, columns, query, args...)
	if !found {
		tx.Fail(none)
	}
	return v
}

// readOne is one outside any transaction.
func readOne[T any](
	ctx context.Context,
	db *store.DB,
	none error,
	columns func(*T) []any,
	query string,
	args ...any,
) (T, error) {
	return store.Read(ctx, db, func(tx *store.Tx) T { return one(tx, none, columns, query, args...) })
}

func micros(t time.Time) int64 { return t.UnixMicro() }
