package merkle

import (
	"crypto/sha256"
	"slices"

	"golang.org/x/mod/sumdb/tlog"
)

// A Tree is the Merkle tree of RFC 6962 over the first entries of a log. It keeps what is needed
// to add the next entry: the hashes of its largest complete subtrees, the largest first.
type Tree struct {
	Size  int64
	Peaks []tlog.Hash
}

// Clone returns an independent copy.
func (t Tree) Clone() Tree { return Tree{t.Size, slices.Clone(t.Peaks)} }

// Add adds an entry.
func (t *Tree) Add(h tlog.Hash) {
	for n := t.Size; n&1 == 1; n >>= 1 {
		last := len(t.Peaks) - 1
		h, t.Peaks = tlog.NodeHash(t.Peaks[last], h), t.Peaks[:last]
	}
	t.Peaks = append(t.Peaks, h)
	t.Size++
}

// AddAll adds entries, given their concatenated hashes.
func (t *Tree) AddAll(hashes []byte) {
	for h := range slices.Chunk(hashes, tlog.HashSize) {
		t.Add(tlog.Hash(h))
	}
}

// Root returns the hash of the whole tree.
func (t Tree) Root() tlog.Hash {
	if t.Size == 0 {
		return sha256.Sum256(nil)
	}
	last := len(t.Peaks) - 1
	h := t.Peaks[last]
	for _, peak := range slices.Backward(t.Peaks[:last]) {
		h = tlog.NodeHash(peak, h)
	}
	return h
}

// Blob returns the concatenated peaks, as files store them.
func (t Tree) Blob() []byte {
	b := make([]byte, 0, tlog.HashSize*len(t.Peaks))
	for _, h := range t.Peaks {
		b = append(b, h[:]...)
	}
	return b
}

// TreeFrom returns the tree with that many entries from its peaks, in the format of [Tree.Blob].
func TreeFrom(size int64, peaks []byte) Tree {
	t := Tree{Size: size}
	for h := range slices.Chunk(peaks[:len(peaks)/tlog.HashSize*tlog.HashSize], tlog.HashSize) {
		t.Peaks = append(t.Peaks, tlog.Hash(h))
	}
	return t
}

// Peak returns the hash of the 1<<level entries from low, if they are one of the largest complete
// subtrees.
func (t Tree) Peak(level int, low int64) (h tlog.Hash, ok bool) {
	if t.Size>>level&1 == 0 || t.Size>>(level+1)<<(level+1) != low {
		return h, false
	}
	at := 0 // larger subtrees come first
	for n := t.Size >> (level + 1); n > 0; n &= n - 1 {
		at++
	}
	if at >= len(t.Peaks) {
		return h, false
	}
	return t.Peaks[at], true
}
