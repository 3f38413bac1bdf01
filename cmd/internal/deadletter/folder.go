package deadletter

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"hubbub/peers/bridge"
	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/peers/tg"
)

// The bridges, as named by their databases.
const (
	telegram = "tg" // its items are named by their number only
	matrix   = "matrix"
)

// A Folder is a data folder.
type Folder string

// HasBridge reports whether a bridge of Telegram or Matrix has used the folder.
func (f Folder) HasBridge() bool { return len(f.programs(telegram))+len(f.programs(matrix)) > 0 }

// programFiles is a program with a database in the folder.
type programFiles struct{ name, database string }

// databases match the databases that have outboxes: those of the bridges first, of agents last.
var databases = []string{
	telegram + ".db", matrix + ".db", "broker.db", "chorus.db", "system.db", "agent-*.db", "agents/*/agent-*.db",
	"chorus/*/agent-*.db",
}

// programs returns the programs with a name, or all if name is empty: the bridges first, the
// agents last. Two agents can have the same name: the database of a person's agent is in the
// folder itself, the database of the spawner's or gateway's agent is in a folder below it.
func (f Folder) programs(name string) (found []programFiles) {
	for _, pattern := range databases {
		files, _ := fs.Glob(os.DirFS(string(f)), pattern) // sorted; the only possible error is a bad pattern
		for _, file := range files {
			k := programFiles{strings.TrimSuffix(path.Base(file), ".db"), filepath.Join(string(f), file)}
			if name == "" || name == k.name {
				found = append(found, k)
			}
		}
	}
	return found
}

// An Agent is an agent whose mailbox is in the folder.
type Agent struct {
	Name     string // such as agent-lead
	Database string // path
}

// Agents returns the agents of the spawner, of the gateway and of people.
func (f Folder) Agents() (list []Agent) {
	for _, k := range f.programs("") {
		if strings.HasPrefix(k.name, "agent-") {
			list = append(list, Agent{k.name, k.database})
		}
	}
	return list
}

// each calls do for each queue of a program.
func (k programFiles) each(ctx context.Context, do func(*bridge.Queue) error) (err error) {
	db, err := store.OpenExisting(k.database)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // removed meanwhile
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

func (k programFiles) queues(ctx context.Context, db *store.DB) ([]bridge.Queue, error) {
	if k.name == telegram {
		return tg.Queues(ctx, db)
	}
	names, err := store.Read(ctx, db, outbox.QueueNames)
	queues := make([]bridge.Queue, len(names))
	for i, name := range names {
		queues[i] = bridge.Queue{Outbox: outbox.New(db, nil, &outbox.Options{Name: name}), Name: name, DB: db}
	}
	return queues, err
}
