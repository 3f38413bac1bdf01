package letters

import (
	"context"
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
func (f Folder) HasBridge() bool { return len(f.databases(bridge)) > 0 }

// databases returns where a program keeps its messages: none, or one, or two of an
// agent that a person and the spawner have started.
func (f Folder) databases(program string) (found []string) {
	for _, p := range f.programs() {
		if p.name == program {
			found = append(found, p.database)
		}
	}
	return found
}

type keeper struct{ name, database string }

// programs are those with a database in the folder: the bridge first, the agents
// last. One that a person started has its database in the folder itself, one of
// the spawner or of the gateway has a folder below.
func (f Folder) programs() (found []keeper) {
	for _, pattern := range []string{bridge + ".db", "broker.db", "chorus.db", "system.db", "agent-*.db", "agents/*/agent-*.db", "chorus/*/agent-*.db"} {
		files, _ := fs.Glob(os.DirFS(string(f)), pattern) // sorted; the only error is that of a bad pattern
		for _, file := range files {
			found = append(found, keeper{strings.TrimSuffix(path.Base(file), ".db"), filepath.Join(string(f), file)})
		}
	}
	return found
}

func asBridge(database string, do func(*tg.Queues) error) error {
	db, err := store.Attach(database)
	if err != nil {
		return err
	}
	return errors.Join(do(tg.NewQueues(db)), db.Close())
}

// each calls do for each queue in the database of another program.
func each(ctx context.Context, database string, do func(queue string, box *outbox.Outbox) error) (err error) {
	db, err := store.Attach(database)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // gone by now
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	queues, err := outbox.Queues(ctx, db)
	if err != nil {
		return err
	}
	for _, queue := range queues {
		if err := do(queue, outbox.New(db, nil, &outbox.Options{Name: queue})); err != nil {
			return err
		}
	}
	return nil
}
