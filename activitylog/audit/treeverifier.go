package audit

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"hubbub/activitylog/internal/merkle"
	"hubbub/activitylog/internal/segment"

	"golang.org/x/mod/sumdb/tlog"
)

// An Audit is the result of verifying the tree of one log.
type Audit struct {
	Log      string      `json:"log"`
	Origin   string      `json:"origin"`
	Entries  int64       `json:"entries"`  // in the tree
	Signed   int64       `json:"signed"`   // entries that a checkpoint covers
	LastRow  int64       `json:"lastRow"`  // last row that a checkpoint covers
	Unhashed int64       `json:"unhashed"` // rows without hashes, which cannot be proved
	Removed  int64       `json:"removed"`  // entries whose rows were removed and whose hashes were kept
	Keys     []SignedKey `json:"keys"`
}

// A SignedKey is a verifier key, and the first checkpoint that its owner signed.
type SignedKey struct {
	Key  string `json:"key"`
	From int64  `json:"fromRow"` // the last row that the checkpoint covers
	last merkle.Checkpoint
}

// A treeVerifier walks through the tree of one log, from the oldest entry.
type treeVerifier struct {
	checker *checker
	audit   *Audit
	tree    merkle.Tree
	begun   bool
	next    int64               // id of the next row; 0 if unknown
	signed  int64               // last row of the last valid checkpoint
	lost    bool                // a checkpoint was wrong, so later ones are not checked
	held    []merkle.Checkpoint // given or kept checkpoints, by size
}

// auditLog verifies a log against its tree, and the tree against its checkpoints and those that
// were kept elsewhere.
func auditLog(ctx context.Context, s *segment.Source, c *checker, o *VerifyOptions) error {
	a := &treeVerifier{checker: c, audit: &Audit{Log: s.Path, Keys: []SignedKey{}}}
	c.verdict.Audits = append(c.verdict.Audits, a.audit)
	held := a.heldCheckpoints(s.Path, o.Checkpoints) // read first, because the log may grow meanwhile
	return s.With(ctx, func(l *segment.Snapshot) {
		a.audit.Origin = merkle.Origin(l.Log)
		a.addHeld(held, lastKey(l))
		a.removed(s.Path, l)
		for _, p := range l.Parts {
			v := l.Open(p)
			if v.Conn == nil {
				a.kept(segment.KeptTreePath(p.Path), l.Log) // it was just removed
				continue
			}
			a.file(v, p.Path)
			l.Check(v)
			l.Release(p)
		}
		if l.Err == nil {
			a.end(o.Key)
		}
	})
}

func (a *treeVerifier) problem(path string, id int64, format string, args ...any) {
	a.checker.problem(Problem{Log: path, ID: id, What: fmt.Sprintf(format, args...)})
}

// file verifies the rows of one file against their hashes, and the hashes against the
// checkpoints.
func (a *treeVerifier) file(v *segment.View, path string) {
	start, first, ok := v.TreeStart()
	switch {
	case !ok && a.tree.Size > 0:
		a.problem(path, v.Span().First, "its rows have no hashes, though older rows have them: the file was replaced")
		return
	case !ok:
		a.audit.Unhashed += v.Rows()
		return
	case a.begun && !bytes.Equal(start.Blob(), a.tree.Blob()), !a.begun && start.Size > 0:
		a.problem(path, first,
			"the rows before this one do not match the hashes: %d entries were found, but %d were recorded; a file was "+
				"removed or replaced", a.tree.Size, start.Size)
	}
	a.begun, a.tree, a.next = true, start.Clone(), first
	before, _ := v.Int64("SELECT count(*) FROM event WHERE id < ?", first)
	a.audit.Unhashed += before
	var checkpoints []placedCheckpoint
	v.Checkpoints(" ORDER BY size", func(c merkle.Checkpoint,
		last int64) {
		checkpoints = append(checkpoints, placedCheckpoint{c, last})
	})
	signed := func() {
		for len(checkpoints) > 0 && checkpoints[0].Size <= a.tree.Size {
			a.compareCheckpoint(checkpoints[0], path)
			checkpoints = checkpoints[1:]
		}
	}
	signed() // a checkpoint written at a stop covers only entries of earlier files
	v.Commits(first, func(c *segment.Commit) {
		a.checkMissing(v, path, c.Low)
		if a.next = c.High + 1; c.Low <= c.High {
			a.rows(v, path, c)
		}
		for h := range slices.Chunk(c.Leaves, tlog.HashSize) {
			a.add(tlog.Hash(h), path, c.High)
			signed()
		}
	})
	if len(checkpoints) > 0 && v.Err == nil && checkpoints[0].Size > a.tree.Size {
		a.problem(path, a.next,
			"this row and later ones were removed: a checkpoint covers %d entries, but only %d exist",
			checkpoints[len(checkpoints)-1].Size, a.tree.Size)
	}
	if id, ok := v.Int64("SELECT min(id) FROM event WHERE id > (SELECT coalesce(max(last), 0) FROM batch)"); ok {
		a.problem(path, id, "this row was added: no commit has it")
	}
}

// checkMissing reports rows missing before the next commit, and rows that no commit has.
func (a *treeVerifier) checkMissing(v *segment.View, path string, low int64) {
	if a.next == low {
		return
	}
	if id, ok := v.Int64("SELECT min(id) FROM event WHERE id >= ? AND id < ?", a.next, low); ok {
		a.problem(path, id, "this row belongs to no commit")
		return
	}
	a.problem(path, a.next, "rows %d to %d were removed together with their hashes", a.next, low-1)
}

// rows checks the rows of one commit.
func (a *treeVerifier) rows(v *segment.View, path string, c *segment.Commit) {
	entries := v.Entries(c.Window)
	if v.Err != nil {
		return
	}
	if slices.EqualFunc(entries, slices.Collect(slices.Chunk(c.Leaves, tlog.HashSize)),
		func(e *segment.HashedEntry, leaf []byte) bool {
			h := segment.LeafHash(e.Bytes)
			return bytes.Equal(h[:], leaf)
		}) {
		a.index(v, path, c)
		return
	}
	id, what := firstMismatch(entries, c)
	a.problem(path, id, "%s", what)
}

// firstMismatch returns the first row of a commit that does not match its hash, and why.
func firstMismatch(entries []*segment.HashedEntry, c *segment.Commit) (id int64, what string) {
	rows := map[int64][]byte{}
	for _, e := range entries {
		for _, r := range e.Rows {
			rows[r.Id] = e.Row(r)
		}
	}
	mismatches := func(id int64) bool {
		at := segment.MarkSize * int(id-c.Low)
		return at+segment.MarkSize > len(c.Marks) || rows[id] == nil ||
			segment.Mark(rows[id]) != binary.BigEndian.Uint16(c.Marks[at:])
	}
	for id := c.Low; id <= c.High; id++ {
		if !mismatches(id) {
			continue
		}
		for other := id + 1; other <= c.High && len(c.Marks) >= segment.MarkSize*int(c.High-c.Low+1); other++ {
			if rows[other] != nil && mismatches(other) &&
				segment.Mark(underID(rows[other],
					id)) == binary.BigEndian.Uint16(c.Marks[segment.MarkSize*int(id-c.Low):]) {
				return id, fmt.Sprintf("this row was moved: it is row %d now", other)
			}
		}
		if rows[id] == nil {
			return id, "this row was removed"
		}
		return id, "this row was altered"
	}
	for i, e := range entries { // the marks were changed as well, or match by chance
		if h := segment.LeafHash(e.Bytes); tlog.HashSize*(i+1) > len(c.Leaves) ||
			!bytes.Equal(h[:], c.Leaves[tlog.HashSize*i:tlog.HashSize*(i+1)]) {
			return e.Rows[0].Id, "this row, another row of the same message in its commit, or their hash was altered"
		}
	}
	return c.Low, "a hash without a row was added to this commit"
}

// underID returns the bytes that would be hashed for the row under another id.
func underID(row []byte, id int64) []byte {
	_, rest, _ := bytes.Cut(row, []byte(","))
	return append(append(segment.AppendNumber(nil, 0, id), ','), rest...)
}

// add adds an entry to the tree. last is the last row of its commit.
func (a *treeVerifier) add(h tlog.Hash, path string, last int64) {
	a.tree.Add(h)
	for len(a.held) > 0 && a.held[0].Size <= a.tree.Size {
		if a.held[0].Root != a.tree.Root() {
			a.problem(path, a.signed+1,
				"rows from here to %d differ from those that a kept checkpoint (%d entries) covers: they were "+
					"rewritten, or an older copy was restored and continued", last, a.held[0].Size)
			a.held = nil
			return
		}
		a.held = a.held[1:]
	}
}

// A placedCheckpoint is a checkpoint in a file, and the last row that it covers.
type placedCheckpoint struct {
	merkle.Checkpoint
	last int64
}

// compareCheckpoint compares the tree with a checkpoint of the same size.
func (a *treeVerifier) compareCheckpoint(c placedCheckpoint, path string) {
	switch {
	case a.lost:
	case c.Origin != a.audit.Origin:
		a.lost = true
		a.problem(path, a.signed+1, "the checkpoint after row %d is of another log, %q", c.last, c.Origin)
	case c.Size != a.tree.Size || c.Root != a.tree.Root():
		a.lost = true
		a.problem(path, a.signed+1,
			"rows from here to %d differ from those that were signed: some were changed together with their hashes",
			c.last)
	default:
		a.signed, a.audit.Signed, a.audit.LastRow = c.last, c.Size, c.last
		if n := len(a.audit.Keys); n == 0 || a.audit.Keys[n-1].Key != c.Key {
			a.audit.Keys = append(a.audit.Keys, SignedKey{Key: c.Key, From: c.last})
		}
		a.audit.Keys[len(a.audit.Keys)-1].last = c.Checkpoint
	}
}

// end checks one signature for each key: that of its last checkpoint, whose tree contains the
// trees of all earlier checkpoints.
func (a *treeVerifier) end(trusted string) {
	a.audit.Entries = a.tree.Size
	path, found := a.audit.Log, false
	for _, k := range a.audit.Keys {
		if err := k.last.SignedBy(k.Key); err != nil {
			a.problem(path, 0, "the checkpoint of %d entries is not signed by the key beside it: %v", k.last.Size, err)
		} else if k.Key == trusted {
			found = true
		}
	}
	if trusted != "" && !found && strings.HasPrefix(trusted, a.audit.Origin+"+") {
		a.problem(path, 0, "no checkpoint is signed by the key %s", trusted)
	}
	for _, c := range a.held {
		a.problem(path, a.next,
			"the log was cut before this row, or an older copy was restored: a kept checkpoint covers %d "+
				"entries, but only %d exist", c.Size, a.tree.Size)
	}
}

// lastKey returns the verifier key of the newest checkpoint in the files of a log, or "".
func lastKey(l *segment.Snapshot) (key string) {
	for _, p := range slices.Backward(l.Parts) {
		v := l.Open(p)
		v.Checkpoints(" ORDER BY size DESC LIMIT 1", func(c merkle.Checkpoint, _ int64) { key = c.Key })
		l.Check(v)
		l.Release(p)
		if key != "" {
			break
		}
	}
	return key
}

// addHeld adds the kept checkpoints of this log, sorted by size. It reports checkpoints whose
// text is not what the log's key has signed.
func (a *treeVerifier) addHeld(list []heldCheckpoint, key string) {
	for _, c := range list {
		switch {
		case key != "" && c.IsAltered(key):
			a.reportDamaged(c)
		case c.Origin == a.audit.Origin && c.Size > 0:
			a.held = append(a.held, c.Checkpoint)
		}
	}
	slices.SortFunc(a.held, func(x, y merkle.Checkpoint) int { return int(min(1, max(-1, x.Size-y.Size))) })
}

// A heldCheckpoint is a checkpoint that was given, or that is in a file beside the log.
type heldCheckpoint struct {
	merkle.Checkpoint
	file string // empty if it was given
}

// heldCheckpoints returns the given checkpoints and those in files beside the log. It reports the
// file of the newest checkpoint if it is damaged, and ignores other files with similar names.
func (a *treeVerifier) heldCheckpoints(path string, given []string) (list []heldCheckpoint) {
	for _, name := range segment.FilesBeside(merkle.CheckpointPath(path)) {
		text, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		if c, err := merkle.ParseCheckpoint(string(text)); err == nil {
			list = append(list, heldCheckpoint{c, name})
		} else {
			a.reportDamaged(heldCheckpoint{file: name})
		}
	}
	for _, text := range given {
		c, _ := merkle.ParseCheckpoint(text) // it was parsed before
		list = append(list, heldCheckpoint{Checkpoint: c})
	}
	return list
}

// reportDamaged reports a damaged checkpoint, unless it is in a file of an unknown name.
func (a *treeVerifier) reportDamaged(c heldCheckpoint) {
	switch c.file {
	case "":
		a.checker.damaged = append(a.checker.damaged, c.Note)
		a.problem(a.audit.Log, 0, "the given checkpoint is damaged: its text is not what the key of the log has signed")
	case merkle.CheckpointPath(a.audit.Log):
		a.problem(c.file, 0, "it is damaged, so it cannot show whether the end of the log was cut off: run log "+
			"verify with "+
			"--checkpoint and a copy that was kept elsewhere, then start the bus, which writes it again")
	}
}

// reportForeign reports the given checkpoints that belong to none of the logs.
func (c *checker) reportForeign(given []string) {
	for _, text := range given {
		held, _ := merkle.ParseCheckpoint(text) // it was parsed before
		if !slices.Contains(c.damaged, held.Note) &&
			!slices.ContainsFunc(c.verdict.Audits, func(a *Audit) bool { return a.Origin == held.Origin }) {
			c.problem(Problem{Log: c.paths[0],
				What: fmt.Sprintf("the given checkpoint is of another log, %q: a new log was begun, or this "+
					"is not the right one", held.Origin)})
		}
	}
}

// removed adds the leaves of files that were removed before the first part.
func (a *treeVerifier) removed(path string, l *segment.Snapshot) {
	for _, name := range segment.KeptTrees(path) {
		if len(l.Parts) > 0 && segment.KeptTreePath(l.Parts[0].Path) <= name && !l.Parts[0].Active {
			return
		}
		a.kept(name, l.Log)
	}
}

// kept adds the leaves of a removed file.
func (a *treeVerifier) kept(name, log string) {
	k, leaves, err := segment.ReadKeptTree(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return
	case err != nil:
		a.problem(name, 0, "%v", err)
		return
	case k.Log != log:
		return // of a log that was moved away
	case k.Size != a.tree.Size:
		a.problem(name, k.First,
			"the hashes of removed rows do not follow those before: %d entries were found, but %d were recorded",
			a.tree.Size,
			k.Size)
	}
	for h := range slices.Chunk(leaves, tlog.HashSize) {
		a.add(tlog.Hash(h), name, k.Last)
		a.audit.Removed++
	}
	a.begun, a.next = true, k.Last+1
}
