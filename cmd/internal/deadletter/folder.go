package deadletter

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/peers/tg"
)

// bridge is the program whose items have a number alone for a name.
const bridge = "tg"

// A Folder is a data folder.
type Folder string

// HasBridge reports whether a bridge has used the folder.
func (f Folder) HasBridge() bool { return len(f.keepers(bridge)) > 0 }

// A keeper is a program with a database in the folder.
type keeper struct{ name, database string }

// keepers returns the programs of a name, or all if it is empty: the bridge first,
// the agents last. There are two of an agent that a person and the spawner have
// started: that of a person has its database in the folder itself, one of the
// spawner or of the gateway has a folder below.
func (f Folder) keepers(name string) (found []keeper) {
	for _, pattern := range []string{bridge + ".db", "broker.db", "chorus.db", "system.db", "agent-*.db", "agents/*/agent-*.db", "chorus/*/agent-*.db"} {
		files, _ := fs.Glob(os.DirFS(string(f)), pattern) // sorted; the only error is that of a bad pattern
		for _, file := range files {
			k := keeper{strings.TrimSuffix(path.Base(file), ".db"), filepath.Join(string(f), file)}
			if name == "" || name == k.name {
				found = append(found, k)
			}
		}
	}
	return found
}

// An Agent is one whose mailbox lies in the folder.
type Agent struct {
	Name     string // agent-lead
	Database string // path
}

// Agents returns the agents of the folder: the spawner's, the gateway's and a person's.
func (f Folder) Agents() (list []Agent) {
	for _, k := range f.keepers("") {
		if strings.HasPrefix(k.name, "agent-") {
			list = append(list, Agent{k.name, k.database})
		}
	}
	return list
}

// each calls do for each queue of a program.
func (k keeper) each(ctx context.Context, do func(*tg.Queue) error) (err error) {
	db, err := store.OpenExisting(k.database)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // gone by now
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	queues, err := k.queues(ctx, db)
	if err != nil {
		return err
	}
	for i := range queues {
		if err := do(&queues[i]); err != nil {
			return err
		}
	}
	return nil
}

func (k keeper) queues(ctx context.Context, db *sql.DB) ([]tg.Queue, error) {
	if k.name == bridge {
		return tg.Queues(ctx, db)
	}
	tx := store.On(ctx, db)
	names := outbox.QueueNames(tx)
	queues := make([]tg.Queue, len(names))
	for i, name := range names {
		queues[i] = tg.Queue{Outbox: outbox.New(db, nil, &outbox.Options{Name: name}), Name: name}
	}
	return queues, tx.Err()
}
