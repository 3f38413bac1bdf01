package write

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/internal/merkle"
	"hubbub/activitylog/internal/segment"
	"hubbub/protocol/datafolder"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// A merkleLog is the tree of the log at the end of the active segment. A commit stores rows and
// their leaves in one transaction, so that a kill cannot separate them.
type merkleLog struct {
	leafBuilder
	tree    merkle.Tree
	pending merkle.Tree // the tree with the current commit
	key     *merkle.SigningKey
	stmt    *sqlite.Stmt
	signed  int64 // size of the tree at the last checkpoint
	signing int64 // signed, once the current commit is done
	at      time.Time
}

// treeHeads are the trees for other goroutines: the committed one, and the durable one, which may
// be signed.
type treeHeads struct {
	committed, durable atomic.Pointer[treeHead]
}

// A treeHead is the tree after the row last.
type treeHead struct {
	merkle.Tree
	last int64
}

// signEvery is the longest time between two checkpoints while rows are written.
var signEvery = 5 * time.Second

// openMerkleLog restores the tree at the end of the active segment. In a new file, the tree
// continues that of the file before it.
func (d *database) openMerkleLog(before *activeSegment) (err error) {
	end, err := sqlitex.ImmediateTransaction(d.conn)
	if err != nil {
		return err
	}
	defer end(&err)
	v := &segment.View{Conn: d.conn}
	start, first, ok := v.TreeStart()
	if !ok && v.Err == nil {
		if start, err = d.treeBefore(before); err != nil {
			return err
		}
		if first, ok = v.Int64("SELECT min(first) FROM batch"); !ok {
			first = d.next
		}
		v.Query("INSERT INTO tree (first, size, peaks) VALUES (?, ?, ?)", []any{first, start.Size, start.Blob()},
			segment.NoRow)
	}
	d.tree = start
	v.Commits(first, func(c *segment.Commit) { d.tree.AddAll(c.Leaves) })
	d.signed, _ = v.Int64("SELECT coalesce(max(size), 0) FROM checkpoint")
	if v.Err != nil {
		return v.Err
	}
	d.stmt, err = d.conn.Prepare("INSERT OR IGNORE INTO checkpoint (size, last, key, note) VALUES (?, ?, ?, ?)")
	d.committed.Store(&treeHead{d.tree.Clone(), d.next - 1})
	d.durable.Store(&treeHead{})
	d.openKey()
	return err
}

// treeBefore returns the tree at the end of the file before the active segment.
func (d *database) treeBefore(before *activeSegment) (t merkle.Tree, err error) {
	if before != nil {
		return before.tree.Clone(), nil
	}
	numbers, err := segment.Numbers(d.path)
	if err != nil || len(numbers) == 0 {
		return t, err
	}
	v, err := segment.Open(segment.Path(d.path, numbers[len(numbers)-1]))
	if err != nil {
		return t, err
	}
	t, first, _ := v.TreeStart()
	v.Commits(first, func(c *segment.Commit) { t.AddAll(c.Leaves) })
	return t, errors.Join(v.Err, v.Conn.Close())
}

// openKey opens the signing key. If that fails, the log is written without signatures.
func (d *database) openKey() {
	k, made, err := merkle.OpenKey(d.path, merkle.Origin(d.run.Log))
	switch {
	case err != nil:
		d.opts.Log.Warn().Str("path",
			d.path).Err(err).Msg("activity log: rows are not signed until the bus restarts with a key")
	case made && d.signed > 0:
		d.opts.Log.Warn().Str("path", d.path).Str("key",
			k.Verifier).Msg("activity log: its signing key was missing; a new key signs from now on, and verifiers " +
			"need the new verifier key")
	}
	d.key = k
	text, err := os.ReadFile(merkle.CheckpointPath(d.path))
	if err != nil {
		return
	}
	kept, err := merkle.ParseCheckpoint(string(text))
	if err == nil && k != nil && kept.IsAltered(k.Verifier) {
		err = errors.New("its text is not what the key of the log has signed")
	}
	if err != nil {
		d.opts.Log.Warn().Str("path",
			merkle.CheckpointPath(d.path)).Err(err).Msg("activity log: its checkpoint is damaged " +
			"and will be replaced; to check that no rows are missing, run hubbub log verify --checkpoint with a copy " +
			"of it that was kept elsewhere")
		return
	}
	if kept.Origin == merkle.Origin(d.run.Log) && kept.Size <= d.tree.Size {
		return
	}
	aside := merkle.CheckpointPath(d.path) + "." + time.Now().UTC().Format("20060102T150405.000000")
	if err = datafolder.Rename(merkle.CheckpointPath(d.path), aside); err == nil &&
		kept.Origin == merkle.Origin(d.run.Log) {
		d.opts.Log.Warn().Str("path", d.path).Str("checkpoint",
			aside).Msg("activity log: it has fewer rows than its checkpoint: its end was cut, or an older copy was " +
			"restored; run hubbub log verify")
	}
}

// advance is called after a commit.
func (d *database) advance() {
	d.tree, d.signed = d.pending, max(d.signed, d.signing)
	d.committed.Store(&treeHead{d.tree, d.next - 1})
}

// addLeaves adds the rows of a commit to the pending tree.
func (d *database) addLeaves(rows []activitylog.Row) {
	d.pending, d.signing = d.tree.Clone(), 0
	d.leaves(rows, d.next, &d.pending)
}

// signDurable stores a checkpoint of the durable tree when one is due.
func (d *database) signDurable() error {
	if h := d.durable.Load(); time.Since(d.at) >= signEvery {
		return d.sign(h)
	}
	return nil
}

// sign stores a checkpoint of h unless a later one exists.
func (d *database) sign(h *treeHead) error {
	if d.key == nil || h.Size <= d.signed {
		return nil
	}
	c, err := d.key.Sign(h.Tree)
	if err != nil {
		return fmt.Errorf("signing the activity log: %w", err)
	}
	d.stmt.BindInt64(1, c.Size)
	d.stmt.BindInt64(2, h.last)
	d.stmt.BindText(3, c.Key)
	d.stmt.BindText(4, c.Note)
	if _, err := d.stmt.Step(); err != nil {
		return err
	}
	d.signing, d.at = c.Size, time.Now()
	return d.stmt.Reset()
}

// idle implements sink.
func (d *database) idle() error {
	err := d.signDurable()
	d.signed = max(d.signed, d.signing)
	return err
}

// signAll stores a checkpoint of all committed rows. Closing the file makes it durable.
func (d *database) signAll() error {
	err := d.sign(d.committed.Load())
	d.signed = max(d.signed, d.signing)
	return err
}

// publishCheckpoint writes the newest checkpoint of the log at path to a file beside it, which
// operators can copy elsewhere.
func publishCheckpoint(path string) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	v, err := segment.Open(path)
	if err != nil {
		if errors.Is(err, activitylog.ErrNoLog) || segment.IsBusy(err) {
			return nil
		}
		return err
	}
	newest := "" // also of a damaged checkpoint
	v.Checkpoints(" ORDER BY size DESC LIMIT 1", func(c merkle.Checkpoint, last int64) { newest = c.Note })
	if err := errors.Join(v.Err, v.Conn.Close()); err != nil || newest == "" {
		return err
	}
	if text, err := os.ReadFile(merkle.CheckpointPath(path)); err == nil && string(text) == newest {
		return nil
	}
	return datafolder.WriteFile(merkle.CheckpointPath(path), []byte(newest))
}
