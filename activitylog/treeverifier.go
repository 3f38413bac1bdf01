package activitylog

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/tlog"
)

// An Audit is what Verify finds about the tree of one log.
type Audit struct {
	Log      string      `json:"log"`
	Origin   string      `json:"origin"`
	Entries  int64       `json:"entries"`  // of the tree
	Signed   int64       `json:"signed"`   // of these, those that a checkpoint covers
	LastRow  int64       `json:"lastRow"`  // that a checkpoint covers
	Unhashed int64       `json:"unhashed"` // rows that an older program wrote: nothing proves them
	Removed  int64       `json:"removed"`  // entries whose rows are not kept any more, but their hashes
	Keys     []SignedKey `json:"keys"`
}

// A SignedKey is a verifier key, and the first checkpoint that its owner signed.
type SignedKey struct {
	Key  string `json:"key"`
	From int64  `json:"fromRow"` // the last row that this checkpoint covers
	last checkpoint
}

// An treeVerifier walks through the tree of one log, the oldest entry first.
type treeVerifier struct {
	checker *checker
	audit   *Audit
	tree    tree
	begun   bool
	next    int64        // id of the next row; 0 if unknown
	signed  int64        // the last row of the last checkpoint that fits
	lost    bool         // a checkpoint does not fit: the later ones tell no more
	held    []checkpoint // from elsewhere, by size
}

// auditLog compares a log with its tree, and both with checkpoints that were kept elsewhere.
func (r *Reader) auditLog(ctx context.Context, s *source, c *checker, o *VerifyOptions) error {
	a := &treeVerifier{checker: c, audit: &Audit{Log: s.path, Keys: []SignedKey{}}}
	c.verdict.Audits = append(c.verdict.Audits, a.audit)
	held := heldCheckpoints(s.path, o.Checkpoints) // before the log is read: that only grows
	return s.with(ctx, func(l *snapshot) {
		a.audit.Origin = originOf(l.log)
		a.addHeld(held)
		a.removed(s.path, l)
		for _, p := range l.parts {
			v := l.open(p)
			if v.conn == nil {
				a.kept(treePath(p.path), l.log) // it was just removed
				continue
			}
			a.file(v, p.path)
			l.check(v)
			l.release(p)
		}
		if l.err == nil {
			a.end(o.Key)
		}
	})
}

func (a *treeVerifier) problem(path string, id int64, format string, args ...any) {
	a.checker.problem(Problem{Log: path, ID: id, What: fmt.Sprintf(format, args...)})
}

// file checks one file: its rows against their hashes, these against the checkpoints.
func (a *treeVerifier) file(v *view, path string) {
	start, first, ok := v.treeStart()
	switch {
	case !ok && a.tree.size > 0:
		a.problem(path, v.span().first, "its rows have no hashes, though older rows have them: the file was replaced")
		return
	case !ok:
		a.audit.Unhashed += v.rows()
		return
	case a.begun && !bytes.Equal(start.blob(), a.tree.blob()), !a.begun && start.size > 0:
		a.problem(path, first,
			"what comes before this row is not what was hashed: %d entries are there, where %d were; a file was "+
				"removed or replaced", a.tree.size, start.size)
	}
	a.begun, a.tree, a.next = true, start.clone(), first
	before, _ := v.int64("SELECT count(*) FROM event WHERE id < ?", first)
	a.audit.Unhashed += before
	var points []pointAfter
	v.checkpoints(" ORDER BY size", func(c checkpoint, last int64) { points = append(points, pointAfter{c, last}) })
	signed := func() {
		for len(points) > 0 && points[0].size <= a.tree.size {
			a.point(points[0], path)
			points = points[1:]
		}
	}
	signed() // a stop before the first row of this file signs what is before it
	v.commits(first, func(c *commitRecord) {
		a.checkMissing(v, path, c.low)
		if a.next = c.high + 1; c.low <= c.high {
			a.rows(v, path, c)
		}
		for h := range slices.Chunk(c.leaves, tlog.HashSize) {
			a.add(tlog.Hash(h), path, c.high)
			signed()
		}
	})
	if len(points) > 0 && v.err == nil && points[0].size > a.tree.size {
		a.problem(path, a.next,
			"this row and later ones were removed: a checkpoint counts %d entries, and %d are there",
			points[len(points)-1].size, a.tree.size)
	}
	if id, ok := v.int64("SELECT min(id) FROM event WHERE id > (SELECT coalesce(max(last), 0) FROM batch)"); ok {
		a.problem(path, id, "this row was added: no commit has it")
	}
}

// checkMissing checks that no row is missing before the next commit, and none too many.
func (a *treeVerifier) checkMissing(v *view, path string, low int64) {
	if a.next == low {
		return
	}
	if id, ok := v.int64("SELECT min(id) FROM event WHERE id >= ? AND id < ?", a.next, low); ok {
		a.problem(path, id, "this row belongs to no commit")
		return
	}
	a.problem(path, a.next, "rows %d to %d were removed, and their hashes with them", a.next, low-1)
}

// rows checks the rows of one commit.
func (a *treeVerifier) rows(v *view, path string, c *commitRecord) {
	entries := v.entries(c.window)
	if v.err != nil {
		return
	}
	if slices.EqualFunc(entries, slices.Collect(slices.Chunk(c.leaves, tlog.HashSize)),
		func(e *hashedEntry, leaf []byte) bool {
			h := leafOf(e.bytes)
			return bytes.Equal(h[:], leaf)
		}) {
		a.index(v, path, c)
		return
	}
	id, what := culprit(entries, c)
	a.problem(path, id, "%s", what)
}

// culprit names the first row of a commit that is not what was hashed.
func culprit(entries []*hashedEntry, c *commitRecord) (id int64, what string) {
	rows := map[int64][]byte{}
	for _, e := range entries {
		for _, r := range e.rows {
			rows[r.id] = e.row(r)
		}
	}
	bad := func(id int64) bool {
		at := markSize * int(id-c.low)
		return at+markSize > len(c.marks) || rows[id] == nil ||
			markOf(rows[id]) != binary.BigEndian.Uint16(c.marks[at:])
	}
	for id := c.low; id <= c.high; id++ {
		if !bad(id) {
			continue
		}
		for other := id + 1; other <= c.high && len(c.marks) >= markSize*int(c.high-c.low+1); other++ {
			if rows[other] != nil && bad(other) &&
				markOf(underID(rows[other], id)) == binary.BigEndian.Uint16(c.marks[markSize*int(id-c.low):]) {
				return id, fmt.Sprintf("this row was moved: it is row %d now", other)
			}
		}
		if rows[id] == nil {
			return id, "this row was removed"
		}
		return id, "this row was altered"
	}
	for i, e := range entries { // the marks were changed with it, or are the same by chance
		if h := leafOf(e.bytes); tlog.HashSize*(i+1) > len(c.leaves) ||
			!bytes.Equal(h[:], c.leaves[tlog.HashSize*i:tlog.HashSize*(i+1)]) {
			return e.rows[0].id, "this row, or one of the same message in its commit, was altered, or their hashes"
		}
	}
	return c.low, "a hash of this commit was added: it has no row"
}

// underID returns a row as it would be hashed under another id.
func underID(row []byte, id int64) []byte {
	_, rest, _ := bytes.Cut(row, []byte(","))
	return append(append(appendNumber(nil, 0, id), ','), rest...)
}

// add adds an entry, one of the commit that ends with a row.
func (a *treeVerifier) add(h tlog.Hash, path string, last int64) {
	a.tree.add(h)
	for len(a.held) > 0 && a.held[0].size <= a.tree.size {
		if a.held[0].root != a.tree.root() {
			a.problem(path, a.signed+1,
				"rows from here to %d are not those that a checkpoint signed that was kept (%d entries): they were "+
					"rewritten, or put back and written anew", last, a.held[0].size)
			a.held = nil
			return
		}
		a.held = a.held[1:]
	}
}

// A pointAfter is a checkpoint in a file, and the last row that it covers.
type pointAfter struct {
	checkpoint
	last int64
}

// point holds the tree against a checkpoint of as many entries.
func (a *treeVerifier) point(c pointAfter, path string) {
	switch {
	case a.lost:
	case c.origin != a.audit.Origin:
		a.lost = true
		a.problem(path, a.signed+1, "the checkpoint after row %d is of another log, %q", c.last, c.origin)
	case c.size != a.tree.size || c.root != a.tree.root():
		a.lost = true
		a.problem(path, a.signed+1,
			"rows from here to %d are not those that were signed: some were changed together with their hashes", c.last)
	default:
		a.signed, a.audit.Signed, a.audit.LastRow = c.last, c.size, c.last
		if n := len(a.audit.Keys); n == 0 || a.audit.Keys[n-1].Key != c.key {
			a.audit.Keys = append(a.audit.Keys, SignedKey{Key: c.key, From: c.last})
		}
		a.audit.Keys[len(a.audit.Keys)-1].last = c.checkpoint
	}
}

// end checks the signatures: for each key, that of the last checkpoint, whose tree has all
// that the earlier ones have.
func (a *treeVerifier) end(trusted string) {
	a.audit.Entries = a.tree.size
	path, found := a.audit.Log, false
	for _, k := range a.audit.Keys {
		if err := k.last.signedBy(k.Key); err != nil {
			a.problem(path, 0, "the checkpoint of %d entries is not signed by the key beside it: %v", k.last.size, err)
		} else if k.Key == trusted {
			found = true
		}
	}
	if trusted != "" && !found && strings.HasPrefix(trusted, a.audit.Origin+"+") {
		a.problem(path, 0, "no checkpoint is signed by the key %s", trusted)
	}
	for _, c := range a.held {
		a.problem(path, a.next,
			"the log was cut before this row, or an older copy was put back: a checkpoint that was kept counts %d "+
				"entries, and %d are there", c.size, a.tree.size)
	}
}

// addHeld takes the checkpoints of this log among those that were kept.
func (a *treeVerifier) addHeld(list []checkpoint) {
	for _, c := range list {
		if c.origin == a.audit.Origin && c.size > 0 {
			a.held = append(a.held, c)
		}
	}
	slices.SortFunc(a.held, func(x, y checkpoint) int { return int(min(1, max(-1, x.size-y.size))) })
}

// heldCheckpoints returns the checkpoints that were given, and those that lie beside a log.
func heldCheckpoints(path string, given []string) (list []checkpoint) {
	beside, _ := filepath.Glob(checkpointPath(path) + "*") // the pattern is well formed, or matches nothing
	for _, name := range beside {
		if text, err := os.ReadFile(name); err == nil {
			given = append(given[:len(given):len(given)], string(text))
		}
	}
	for _, text := range given {
		if c, err := parseCheckpoint(text); err == nil {
			list = append(list, c)
		}
	}
	return list
}

// reportForeign finds the checkpoints that are of none of the logs.
func (c *checker) reportForeign(given []string) {
	for _, text := range given {
		held, _ := parseCheckpoint(text) // it was parsed before
		if !slices.ContainsFunc(c.verdict.Audits, func(a *Audit) bool { return a.Origin == held.origin }) {
			c.problem(Problem{Log: c.paths[0],
				What: fmt.Sprintf("the checkpoint that was given is of another log, %q: a new one has begun, or this "+
					"is not the right one", held.origin)})
		}
	}
}

// A keptTree begins the file that keeps the leaves of a sealed file that was removed; they
// follow it.
type keptTree struct {
	Log   string `json:"log"`
	Size  int64  `json:"size"` // of the tree before them
	First int64  `json:"first"`
	Last  int64  `json:"last"`
}

// treePath returns the file that keeps the leaves of a sealed file.
func treePath(segment string) string { return strings.TrimSuffix(segment, ".db") + treeSuffix }

const treeSuffix = ".tree"

// tree returns what is kept of a file that is about to be removed: its leaves. It is nil if it
// has none.
func (v *view) tree() ([]byte, error) {
	start, first, ok := v.treeStart()
	if !ok {
		return nil, v.err
	}
	place, _, _ := v.lastRun()
	var leaves []byte
	v.commits(first, func(c *commitRecord) { leaves = append(leaves, c.leaves...) })
	head, err := json.Marshal(keptTree{place.log, start.size, first, v.lastID()})
	return append(append(head, '\n'), leaves...), errors.Join(err, v.err)
}

// readTree reads such a file.
func readTree(path string) (k keptTree, leaves []byte, err error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return k, nil, err
	}
	head, leaves, _ := bytes.Cut(content, []byte("\n"))
	if err := json.Unmarshal(head, &k); err != nil || len(leaves)%tlog.HashSize != 0 {
		return k, nil, fmt.Errorf("%s does not have the hashes of a file of the log", path)
	}
	return k, leaves, nil
}

// keptTrees lists the files with leaves of removed files, the oldest first.
func keptTrees(path string) []string {
	names, _ := filepath.Glob(strings.TrimSuffix(path, ".db") + "-*" + treeSuffix)
	slices.Sort(names)
	return names
}

// removed begins with the entries whose rows were removed before.
func (a *treeVerifier) removed(path string, l *snapshot) {
	for _, name := range keptTrees(path) {
		if len(l.parts) > 0 && treePath(l.parts[0].path) <= name && !l.parts[0].active {
			return
		}
		a.kept(name, l.log)
	}
}

// kept adds the leaves of a removed file.
func (a *treeVerifier) kept(name, log string) {
	k, leaves, err := readTree(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return
	case err != nil:
		a.problem(name, 0, "%v", err)
		return
	case k.Log != log:
		return // of a log that was moved away
	case k.Size != a.tree.size:
		a.problem(name, k.First,
			"the hashes of removed rows do not follow those before: %d entries are there, where %d were", a.tree.size,
			k.Size)
	}
	for h := range slices.Chunk(leaves, tlog.HashSize) {
		a.add(tlog.Hash(h), name, k.Last)
		a.audit.Removed++
	}
	a.begun, a.next = true, k.Last+1
}
