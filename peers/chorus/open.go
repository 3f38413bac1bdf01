package chorus

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"path/filepath"
	"time"

	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/peers/surface"
)

// The schema, and what later versions changed in it.
var (
	//go:embed schema.sql
	schema string
	//go:embed surface.sql
	toSurface string // how channels find their agents
	//go:embed agents.sql
	toAgents string // external agents have databases of their own
)

// Files in the gateway's data folder.
const (
	databaseFile = "chorus.db"
	keyFile      = "chorus.key"
	agentsFolder = "chorus" // of the external agents' own databases
)

// A Store is the gateway's data folder: its database and the key of its sealed
// secrets. The gateway and the command line use it at the same time; what one
// commits the other sees at once.
type Store struct {
	folder string
	db     *sql.DB
	seal   *sealer
	now    func() time.Time
}

// OpenStore opens the data folder of a gateway, creating it if it is missing.
func OpenStore(folder string) (*Store, error) {
	seal, err := openSealer(filepath.Join(folder, keyFile))
	if err != nil {
		return nil, err
	}
	db, err := store.Open(filepath.Join(folder, databaseFile), versions())
	if err != nil {
		return nil, err
	}
	return &Store{folder: folder, db: db, seal: seal, now: time.Now}, nil
}

func versions() []string {
	return []string{schema + outbox.Schema, surface.Schema + toSurface, toAgents}
}

// OpenStoreBeside opens the data folder for an operator's command. It refuses one of
// an earlier version: a gateway of that version may be running, and would fail on what
// the command makes of it.
func OpenStoreBeside(folder string) (*Store, error) {
	path := filepath.Join(folder, databaseFile)
	older, err := store.Older(path, versions())
	if err != nil {
		return nil, err
	}
	if older {
		return nil, fmt.Errorf("%s is of an earlier version: restart hubbub-chorus, which brings it up to date, and then try again", path)
	}
	return OpenStore(folder)
}

// agentFolder returns the path of an external agent's own folder.
func (s *Store) agentFolder(name string) string { return filepath.Join(s.folder, agentsFolder, name) }

// Close closes the database.
func (s *Store) Close() error { return s.db.Close() }

// inTx runs do in one transaction, which holds the write lock from the start.
func (s *Store) inTx(ctx context.Context, do func(tx *sql.Tx) error) error {
	return store.InTx(ctx, s.db, do)
}

// publicURL is the name of the setting under which the gateway records where
// the outside reaches it.
const publicURL = "public_url"

// SetPublicURL records where the outside reaches the gateway.
func (s *Store) SetPublicURL(ctx context.Context, url string) error {
	return store.Exec(ctx, s.db, `INSERT INTO setting (name, value) VALUES (?, ?)
		ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE value != excluded.value`, publicURL, url)
}

// PublicURL returns where the outside reaches the gateway, and nothing if no gateway
// has recorded it yet.
func (s *Store) PublicURL(ctx context.Context) (string, error) {
	url, _, err := store.One(ctx, s.db, store.Column[string], `SELECT value FROM setting WHERE name = ?`, publicURL)
	return url, err
}

func micros(t time.Time) int64 { return t.UnixMicro() }
