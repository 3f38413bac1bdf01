package activitylog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"
	"time"

	"hubbub/protocol/datafolder"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// A merkleLog is the tree of the log, as it goes on in the live file. A commit stores its rows
// and their leaves in one transaction, so that no kill parts them.
type merkleLog struct {
	leafBuilder
	tree    tree
	pending tree // with the commit that is being made
	key     *signingKey
	stmt    *sqlite.Stmt
	signed  int64 // size of the tree at the last checkpoint
	signing int64 // the same, once the commit that is being made is done
	at      time.Time
}

// treeHeads are the trees that others see: the one that was committed, and the one that is
// durable, which may be signed.
type treeHeads struct {
	committed, durable atomic.Pointer[treeHead]
}

// A treeHead is the tree after a row.
type treeHead struct {
	tree
	last int64
}

// signEvery is the longest time between two checkpoints while the log is written.
var signEvery = 5 * time.Second

// openMerkleLog restores the tree at the end of the active segment. In a new file, the tree
// continues that of the file before it.
func (d *database) openMerkleLog(before *activeSegment) (err error) {
	end, err := sqlitex.ImmediateTransaction(d.conn)
	if err != nil {
		return err
	}
	defer end(&err)
	v := &view{conn: d.conn}
	start, first, ok := v.treeStart()
	if !ok && v.err == nil {
		if start, err = d.treeBefore(before); err != nil {
			return err
		}
		if first, ok = v.int64("SELECT min(first) FROM batch"); !ok {
			first = d.next
		}
		v.query("INSERT INTO tree (first, size, peaks) VALUES (?, ?, ?)", []any{first, start.size, start.blob()}, noRow)
	}
	d.tree = start
	v.commits(first, func(c *commitRecord) { d.tree.addAll(c.leaves) })
	d.signed, _ = v.int64("SELECT coalesce(max(size), 0) FROM checkpoint")
	if v.err != nil {
		return v.err
	}
	d.stmt, err = d.conn.Prepare("INSERT OR IGNORE INTO checkpoint (size, last, key, note) VALUES (?, ?, ?, ?)")
	d.committed.Store(&treeHead{d.tree.clone(), d.next - 1})
	d.durable.Store(&treeHead{})
	d.openKey()
	return err
}

// treeBefore returns the tree at the end of the file before the active segment.
func (d *database) treeBefore(before *activeSegment) (t tree, err error) {
	if before != nil {
		return before.tree.clone(), nil
	}
	numbers, err := segmentNumbers(d.path)
	if err != nil || len(numbers) == 0 {
		return t, err
	}
	v, err := openView(segmentPath(d.path, numbers[len(numbers)-1]))
	if err != nil {
		return t, err
	}
	t, first, _ := v.treeStart()
	v.commits(first, func(c *commitRecord) { t.addAll(c.leaves) })
	return t, errors.Join(v.err, v.conn.Close())
}

// openKey opens the signing key. A log without one is still written.
func (d *database) openKey() {
	k, made, err := openKey(d.path, originOf(d.run.log))
	switch {
	case err != nil:
		d.opts.Log.Warn().Str("path",
			d.path).Err(err).Msg("activity log: rows are not signed until the bus restarts with a key")
	case made && d.signed > 0:
		d.opts.Log.Warn().Str("path", d.path).Str("key",
			k.verifier).Msg("activity log: its signing key is missing; a new key signs from here on, and verifiers " +
			"need the new verifier key")
	}
	d.key = k
	text, err := os.ReadFile(checkpointPath(d.path))
	if err != nil {
		return
	}
	kept, err := parseCheckpoint(string(text))
	if err != nil || kept.origin == originOf(d.run.log) && kept.size <= d.tree.size {
		return
	}
	aside := checkpointPath(d.path) + "." + time.Now().UTC().Format("20060102T150405.000000")
	if err = datafolder.Rename(checkpointPath(d.path), aside); err == nil && kept.origin == originOf(d.run.log) {
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

// addLeaves adds the rows of a commit to the tree.
func (d *database) addLeaves(rows []Row) {
	d.pending, d.signing = d.tree.clone(), 0
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
	if d.key == nil || h.size <= d.signed {
		return nil
	}
	c, err := d.key.sign(h.tree)
	if err != nil {
		return fmt.Errorf("signing the activity log: %w", err)
	}
	d.stmt.BindInt64(1, c.size)
	d.stmt.BindInt64(2, h.last)
	d.stmt.BindText(3, c.key)
	d.stmt.BindText(4, c.note)
	if _, err := d.stmt.Step(); err != nil {
		return err
	}
	d.signing, d.at = c.size, time.Now()
	return d.stmt.Reset()
}

// idle implements sink.
func (d *database) idle() error {
	err := d.signDurable()
	d.signed = max(d.signed, d.signing)
	return err
}

// signAll stores a checkpoint of all committed rows, which the end of the file makes durable.
func (d *database) signAll() error {
	err := d.sign(d.committed.Load())
	d.signed = max(d.signed, d.signing)
	return err
}

// publishCheckpoint writes the newest checkpoint of the log at path to a file beside it, from
// which copies can be kept elsewhere.
func publishCheckpoint(path string) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	v, err := openView(path)
	if err != nil {
		if errors.Is(err, ErrNoLog) || isBusy(err) {
			return nil
		}
		return err
	}
	newest, ok := "", false
	v.checkpoints(" ORDER BY size DESC LIMIT 1", func(c checkpoint, last int64) { newest, ok = c.note, true })
	if err := errors.Join(v.err, v.conn.Close()); err != nil || !ok {
		return err
	}
	if text, err := os.ReadFile(checkpointPath(path)); err == nil && string(text) == newest {
		return nil
	}
	return datafolder.WriteFile(checkpointPath(path), []byte(newest))
}
