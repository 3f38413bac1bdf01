package activitylog

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// A tree is the Merkle tree of RFC 6962 over the first entries of a log, as much of it as
// is needed to add the next one: the hashes of its largest whole parts, the largest first.
type tree struct {
	size  int64
	peaks []tlog.Hash
}

func (t tree) clone() tree { return tree{t.size, slices.Clone(t.peaks)} }

// add adds an entry.
func (t *tree) add(h tlog.Hash) {
	for n := t.size; n&1 == 1; n >>= 1 {
		last := len(t.peaks) - 1
		h, t.peaks = tlog.NodeHash(t.peaks[last], h), t.peaks[:last]
	}
	t.peaks = append(t.peaks, h)
	t.size++
}

// addAll adds entries whose hashes stand one behind another.
func (t *tree) addAll(hashes []byte) {
	for h := range slices.Chunk(hashes, tlog.HashSize) {
		t.add(tlog.Hash(h))
	}
}

// root returns the hash of the whole tree.
func (t tree) root() tlog.Hash {
	if t.size == 0 {
		return sha256.Sum256(nil)
	}
	last := len(t.peaks) - 1
	h := t.peaks[last]
	for _, peak := range slices.Backward(t.peaks[:last]) {
		h = tlog.NodeHash(peak, h)
	}
	return h
}

// blob returns the peaks as a file stores them.
func (t tree) blob() []byte {
	b := make([]byte, 0, tlog.HashSize*len(t.peaks))
	for _, h := range t.peaks {
		b = append(b, h[:]...)
	}
	return b
}

func treeFrom(size int64, peaks []byte) tree {
	t := tree{size: size}
	for h := range slices.Chunk(peaks[:len(peaks)/tlog.HashSize*tlog.HashSize], tlog.HashSize) {
		t.peaks = append(t.peaks, tlog.Hash(h))
	}
	return t
}

// originOf is the name under which others know a log: each log is one of its own.
func originOf(log string) string { return "hubbub/" + log }

// A checkpoint is a signed root of a log's tree, in the format of c2sp.org/tlog-checkpoint.
type checkpoint struct {
	origin string
	size   int64
	root   tlog.Hash
	note   string // as it was signed
	key    string // the verifier key of whoever signed it
}

// sign makes the checkpoint of a tree.
func (k *signingKey) sign(t tree) (c checkpoint, err error) {
	c = checkpoint{origin: k.signer.Name(), size: t.size, root: t.root(), key: k.verifier}
	signed, err := note.Sign(&note.Note{Text: fmt.Sprintf("%s\n%d\n%s\n", c.origin, c.size, c.root)}, k.signer)
	c.note = string(signed)
	return c, err
}

// parseCheckpoint reads the checkpoint that a text ends with, a proof for instance, without
// a look at its signatures.
func parseCheckpoint(text string) (c checkpoint, err error) {
	if strings.HasPrefix(text, proofHeader) {
		_, text, _ = strings.Cut(text, "\n\n")
	}
	lines := strings.SplitN(text, "\n", 4)
	bad := errors.New("this is no checkpoint of a log (c2sp.org/tlog-checkpoint)")
	if len(lines) < 4 {
		return c, bad
	}
	c = checkpoint{origin: lines[0], note: text}
	if c.size, err = strconv.ParseInt(lines[1], 10, 64); err != nil || c.size < 0 {
		return c, bad
	}
	root, err := base64.StdEncoding.DecodeString(lines[2])
	if err != nil || len(root) != tlog.HashSize {
		return c, bad
	}
	c.root = tlog.Hash(root)
	return c, nil
}

// signedBy returns nil if the owner of a verifier key has signed the checkpoint.
func (c *checkpoint) signedBy(key string) error {
	v, err := note.NewVerifier(key)
	if err != nil {
		return fmt.Errorf("%q is no verifier key: %w", key, err)
	}
	n, err := note.Open([]byte(c.note), note.VerifierList(v))
	if err != nil {
		return err
	}
	if said, err := parseCheckpoint(n.Text + "\n"); err != nil || v.Name() != said.origin {
		return fmt.Errorf("%s has signed for %s", v.Name(), said.origin)
	}
	return nil
}
