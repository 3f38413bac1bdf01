package audit

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"hubbub/activitylog"
	"hubbub/activitylog/internal/merkle"
	"hubbub/activitylog/internal/segment"
	"hubbub/activitylog/read"

	"golang.org/x/mod/sumdb/tlog"
	"zombiezen.com/go/sqlite"
)

// A Proof proves that the rows of a message that one commit stored are in a log.
type Proof struct {
	Log   string // path
	Index int64  // of the entry in the tree
	Size  int64  // of the signed tree
	Key   string // the verifier key of the signer
	Rows  []byte // the entry: one JSON object per line
	Text  []byte // the proof in the format of c2sp.org/tlog-proof; its extra data are the rows
}

// errUnsigned is the error for a row after the last checkpoint.
var errUnsigned = errors.New("its rows are later than the last signed checkpoint: try again in a few seconds, while " +
	"the bus runs")

// Prove returns the proofs of a message, one for each commit that stored rows of it, in the order
// of the rows. Each proof ends with the checkpoint kept, unless that is empty, or with the first
// checkpoint in the log that covers its rows.
func Prove(ctx context.Context, r *read.Reader, messageID, kept string) (proofs []Proof, err error) {
	var held *merkle.Checkpoint
	if kept != "" {
		c, err := merkle.ParseCheckpoint(kept)
		if err != nil {
			return nil, err
		}
		held = &c
	}
	found, unhashed := false, false
	for _, s := range r.Logs() {
		err := s.With(ctx, func(l *segment.Snapshot) {
			p := &prover{path: s.Path, log: l, held: held}
			for i, part := range l.Parts {
				ids := rowIDs(l, part, messageID)
				if found = found || len(ids) > 0; len(ids) > 0 && l.Err == nil {
					list, hashed := p.part(i, ids)
					proofs, unhashed = append(proofs, list...), unhashed || !hashed
				}
			}
		})
		if err != nil {
			return nil, err
		}
	}
	switch {
	case !found:
		return nil, fmt.Errorf("%w: %s", read.ErrUnknownMessage, messageID)
	case len(proofs) == 0 && unhashed:
		return nil, errors.New("its rows cannot be proved: they are not in the tree")
	}
	return proofs, nil
}

// rowIDs returns the ids of a message's rows in one file, sorted.
func rowIDs(r *segment.Snapshot, p *segment.Part, messageID string) (ids []int64) {
	v := r.Open(p)
	v.RowsOf(messageID, "SELECT id FROM activity", "", 1<<20, func(s *sqlite.Stmt) bool {
		ids = append(ids, s.ColumnInt64(0))
		return true
	})
	r.Check(v)
	slices.Sort(ids)
	r.Release(p)
	return ids
}

// A prover makes proofs from one log.
type prover struct {
	path   string
	log    *segment.Snapshot
	held   *merkle.Checkpoint
	ranges []hashRange
}

// A hashRange is the leaves of one file.
type hashRange struct {
	start  merkle.Tree
	load   func() []byte
	leaves []byte
}

// part makes the proofs for rows of one file. It returns false if the file has no hashes of them.
func (p *prover) part(at int, ids []int64) (proofs []Proof, hashed bool) {
	v := p.log.Open(p.log.Parts[at])
	start, first, ok := v.TreeStart()
	if !ok {
		return nil, false
	}
	done := int64(0)
	for _, id := range ids {
		if id < first || p.log.Err != nil {
			continue
		}
		hashed = true
		c := v.CommitOf(id)
		n, _ := v.Int64("SELECT coalesce(sum(length(leaves)), 0) / 32 FROM batch WHERE first >= ? AND first < ?", first,
			c.Low)
		for i, e := range v.Entries(c.Window) {
			index := start.Size + n + int64(i)
			if !slices.ContainsFunc(e.Rows, func(r segment.HashedRow) bool { return r.Id == id }) || index < done {
				continue
			}
			done = index + 1
			proof, err := p.prove(at, index, e)
			if err != nil {
				p.log.Fail(fmt.Errorf("row %d: %w", id, err))
				return nil, true
			}
			proofs = append(proofs, proof)
		}
		p.log.Check(v)
	}
	return proofs, hashed
}

// prove makes the proof for one entry.
func (p *prover) prove(at int, index int64, e *segment.HashedEntry) (proof Proof, err error) {
	c, err := p.checkpointAfter(at, index)
	if err != nil {
		return proof, err
	}
	path, err := tlog.ProveRecord(c.Size, index, tlog.HashReaderFunc(p.hashes))
	if err != nil {
		return proof, err
	}
	if err := tlog.CheckRecord(path, c.Size, c.Root, index, segment.LeafHash(e.Bytes)); err != nil {
		return proof, errors.New("it differs from what was signed: run hubbub log verify for details")
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%sextra %s\nindex %d\n", merkle.ProofHeader, base64.StdEncoding.EncodeToString(e.Bytes[1:]), index)
	for _, h := range path {
		fmt.Fprintln(&b, h)
	}
	fmt.Fprintf(&b, "\n%s", c.Note)
	return Proof{Log: p.path, Index: index, Size: c.Size, Key: c.Key, Rows: e.Bytes[1:], Text: b.Bytes()}, nil
}

// checkpointAfter returns the kept checkpoint, or the first one that covers the entry.
func (p *prover) checkpointAfter(at int, index int64) (c merkle.Checkpoint, err error) {
	if p.held != nil {
		if p.held.Size <= index {
			return c, errors.New("it is later than the given checkpoint")
		}
		return *p.held, nil
	}
	for _, part := range p.log.Parts[at:] {
		v, ok := p.log.Open(part), false
		v.Checkpoints(fmt.Sprintf(" WHERE size > %d ORDER BY size LIMIT 1", index),
			func(found merkle.Checkpoint, _ int64) { c, ok = found, true })
		if !p.log.Check(v) || ok {
			return c, v.Err
		}
	}
	return c, errUnsigned
}

// hashes implements tlog.HashReader.
func (p *prover) hashes(indexes []int64) (list []tlog.Hash, err error) {
	if p.ranges == nil {
		p.findRanges()
	}
	for _, i := range indexes {
		level, n := tlog.SplitStoredHashIndex(i)
		h, err := p.hash(level, n)
		if err = errors.Join(err, p.log.Err); err != nil {
			return nil, err
		}
		list = append(list, h)
	}
	return list, nil
}

// findRanges finds the leaves of all entries, in the files of the log and in those kept for
// removed files.
func (p *prover) findRanges() {
	for _, name := range segment.KeptTrees(p.path) {
		if k, leaves, err := segment.ReadKeptTree(name); err == nil && k.Log == p.log.Log {
			p.ranges = append(p.ranges, hashRange{start: merkle.Tree{Size: k.Size}, leaves: leaves})
		}
	}
	for _, part := range p.log.Parts {
		closed := part.View == nil
		if start, first, ok := p.log.Open(part).TreeStart(); ok {
			p.ranges = append(p.ranges, hashRange{start: start, load: func() (leaves []byte) {
				closed, v := part.View == nil, p.log.Open(part)
				v.Commits(first, func(c *segment.Commit) { leaves = append(leaves, c.Leaves...) })
				if p.log.Check(v); closed {
					p.log.Release(part)
				}
				return leaves
			}})
		}
		if closed {
			p.log.Release(part)
		}
	}
}

// hash returns the n-th hash of a level of the tree, which covers 1<<level entries. The peaks at
// the start of each file save the walk over the files before it.
func (p *prover) hash(level int, n int64) (h tlog.Hash, err error) {
	low := n << level
	for _, r := range p.ranges {
		if h, ok := r.start.Peak(level, low); ok {
			return h, nil
		}
	}
	if level == 0 {
		return p.leaf(low)
	}
	left, err := p.hash(level-1, 2*n)
	if err != nil {
		return h, err
	}
	right, err := p.hash(level-1, 2*n+1)
	return tlog.NodeHash(left, right), err
}

// leaf returns the hash of one entry.
func (p *prover) leaf(n int64) (h tlog.Hash, err error) {
	for i := len(p.ranges) - 1; i >= 0; i-- {
		r := &p.ranges[i]
		if r.start.Size > n {
			continue
		}
		if r.leaves == nil && r.load != nil {
			r.leaves, r.load = r.load(), nil
		}
		if at := tlog.HashSize * (n - r.start.Size); at+tlog.HashSize <= int64(len(r.leaves)) {
			return tlog.Hash(r.leaves[at : at+tlog.HashSize]), nil
		}
	}
	return h, fmt.Errorf("the hash of entry %d is missing: a file of the log was removed, but not by its retention", n)
}

// VerifierKey returns the key that verifies the bus's checkpoints, in the format of
// golang.org/x/mod/sumdb/note.
func VerifierKey(path string) (string, error) {
	k, err := merkle.ReadKey(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("%w: %s does not exist; the bus creates it with the log", activitylog.ErrNoLog,
			merkle.KeyPath(path))
	case err != nil:
		return "", err
	}
	return k.Verifier, nil
}
