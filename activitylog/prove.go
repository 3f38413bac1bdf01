package activitylog

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/tlog"
	"zombiezen.com/go/sqlite"
)

// proofHeader begins a proof of c2sp.org/tlog-proof.
const proofHeader = "c2sp.org/tlog-proof@v1\n"

// A Proof proves that rows of a message are in a log: those that one commit stored.
type Proof struct {
	Log   string // path
	Index int64  // of the entry in the tree
	Size  int64  // of the tree that was signed
	Key   string // the verifier key of who signed it
	Rows  []byte // the entry: a JSON object a line
	Text  []byte // as c2sp.org/tlog-proof has it; its extra data are the rows
}

// errUnsigned is the error of a row after the last checkpoint.
var errUnsigned = errors.New("its rows are later than the last signed checkpoint: try again in some seconds, while " +
	"the bus runs")

// Prove returns the proofs of a message, in the order of its rows: one for each commit that
// stored some of them. A checkpoint that was kept elsewhere may be given; otherwise each
// proof ends with the first one that covers its rows.
func (r *Reader) Prove(ctx context.Context, messageID, kept string) (proofs []Proof, err error) {
	var held *checkpoint
	if kept != "" {
		c, err := parseCheckpoint(kept)
		if err != nil {
			return nil, err
		}
		held = &c
	}
	found, unhashed := false, false
	for _, s := range r.sources {
		err := s.with(ctx, func(l *snapshot) {
			p := &prover{path: s.path, log: l, held: held}
			for i, part := range l.parts {
				ids := l.rowsOf(part, messageID)
				if found = found || len(ids) > 0; len(ids) > 0 && l.err == nil {
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
		return nil, fmt.Errorf("%w: %s", ErrUnknownMessage, messageID)
	case len(proofs) == 0 && unhashed:
		return nil, errors.New("nothing proves its rows: they are not in the tree")
	}
	return proofs, nil
}

// rowsOf returns the ids of a message's rows in one file.
func (r *snapshot) rowsOf(p *part, messageID string) (ids []int64) {
	v := r.open(p)
	v.rowsOf(messageID, "SELECT id FROM activity", "", 1<<20, func(s *sqlite.Stmt) bool {
		ids = append(ids, s.ColumnInt64(0))
		return true
	})
	r.check(v)
	slices.Sort(ids)
	r.release(p)
	return ids
}

// A prover makes proofs from one log.
type prover struct {
	path   string
	log    *snapshot
	held   *checkpoint
	ranges []hashRange
}

// A hashRange is where the leaves of one file are.
type hashRange struct {
	start  tree
	load   func() []byte
	leaves []byte
}

// part makes the proofs of rows of one file; false if that has no hashes of them.
func (p *prover) part(at int, ids []int64) (proofs []Proof, hashed bool) {
	v := p.log.open(p.log.parts[at])
	start, first, ok := v.treeStart()
	if !ok {
		return nil, false
	}
	done := int64(0)
	for _, id := range ids {
		if id < first || p.log.err != nil {
			continue
		}
		hashed = true
		c := v.commitOf(id)
		n, _ := v.int64("SELECT coalesce(sum(length(leaves)), 0) / 32 FROM batch WHERE first >= ? AND first < ?", first,
			c.low)
		for i, e := range v.entries(c.window) {
			index := start.size + n + int64(i)
			if !slices.ContainsFunc(e.rows, func(r hashedRow) bool { return r.id == id }) || index < done {
				continue
			}
			done = index + 1
			proof, err := p.prove(at, index, e)
			if err != nil {
				p.log.fail(fmt.Errorf("row %d: %w", id, err))
				return nil, true
			}
			proofs = append(proofs, proof)
		}
		p.log.check(v)
	}
	return proofs, hashed
}

// prove makes the proof of one entry.
func (p *prover) prove(at int, index int64, e *hashedEntry) (proof Proof, err error) {
	c, err := p.checkpointAfter(at, index)
	if err != nil {
		return proof, err
	}
	path, err := tlog.ProveRecord(c.size, index, tlog.HashReaderFunc(p.hashes))
	if err != nil {
		return proof, err
	}
	if err := tlog.CheckRecord(path, c.size, c.root, index, leafOf(e.bytes)); err != nil {
		return proof, errors.New("it is not what was signed: hubbub log verify says more")
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%sextra %s\nindex %d\n", proofHeader, base64.StdEncoding.EncodeToString(e.bytes[1:]), index)
	for _, h := range path {
		fmt.Fprintln(&b, h)
	}
	fmt.Fprintf(&b, "\n%s", c.note)
	return Proof{Log: p.path, Index: index, Size: c.size, Key: c.key, Rows: e.bytes[1:], Text: b.Bytes()}, nil
}

// checkpointAfter returns the first checkpoint that covers an entry of a file.
func (p *prover) checkpointAfter(at int, index int64) (c checkpoint, err error) {
	if p.held != nil {
		if p.held.size <= index {
			return c, errors.New("it is later than the checkpoint that was given")
		}
		return *p.held, nil
	}
	for _, part := range p.log.parts[at:] {
		v, ok := p.log.open(part), false
		v.checkpoints(fmt.Sprintf(" WHERE size > %d ORDER BY size LIMIT 1", index),
			func(found checkpoint, _ int64) { c, ok = found, true })
		if !p.log.check(v) || ok {
			return c, v.err
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
		if err = errors.Join(err, p.log.err); err != nil {
			return nil, err
		}
		list = append(list, h)
	}
	return list, nil
}

// findRanges looks where the leaves are: in the files, and beside those that were removed.
func (p *prover) findRanges() {
	for _, name := range keptTrees(p.path) {
		if k, leaves, err := readTree(name); err == nil && k.Log == p.log.log {
			p.ranges = append(p.ranges, hashRange{start: tree{size: k.Size}, leaves: leaves})
		}
	}
	for _, part := range p.log.parts {
		closed := part.view == nil
		if start, first, ok := p.log.open(part).treeStart(); ok {
			p.ranges = append(p.ranges, hashRange{start: start, load: func() (leaves []byte) {
				closed, v := part.view == nil, p.log.open(part)
				v.commits(first, func(c *commitRecord) { leaves = append(leaves, c.leaves...) })
				if p.log.check(v); closed {
					p.log.release(part)
				}
				return leaves
			}})
		}
		if closed {
			p.log.release(part)
		}
	}
}

// hash returns the hash of 1<<level entries, the n-th such. Where a file begins, those of
// the parts before it are at hand.
func (p *prover) hash(level int, n int64) (h tlog.Hash, err error) {
	low := n << level
	for _, r := range p.ranges {
		if h, ok := r.start.peak(level, low); ok {
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
		if r.start.size > n {
			continue
		}
		if r.leaves == nil && r.load != nil {
			r.leaves, r.load = r.load(), nil
		}
		if at := tlog.HashSize * (n - r.start.size); at+tlog.HashSize <= int64(len(r.leaves)) {
			return tlog.Hash(r.leaves[at : at+tlog.HashSize]), nil
		}
	}
	return h, fmt.Errorf("the hash of entry %d is missing: a file of the log was removed, and not by its retention", n)
}

// peak returns the hash of 1<<level entries from low on, if it is one of the largest whole
// parts of the tree.
func (t tree) peak(level int, low int64) (h tlog.Hash, ok bool) {
	if t.size>>level&1 == 0 || t.size>>(level+1)<<(level+1) != low {
		return h, false
	}
	at := 0 // the larger ones come first
	for n := t.size >> (level + 1); n > 0; n &= n - 1 {
		at++
	}
	if at >= len(t.peaks) {
		return h, false
	}
	return t.peaks[at], true
}
