package merkle

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// ProofHeader is the first line of a proof of c2sp.org/tlog-proof.
const ProofHeader = "c2sp.org/tlog-proof@v1\n"

// Origin returns the name of a log in checkpoints. Each log has its own.
func Origin(log string) string { return "hubbub/" + log }

// A Checkpoint is a signed root of a log's tree, in the format of c2sp.org/tlog-checkpoint.
type Checkpoint struct {
	Origin string
	Size   int64
	Root   tlog.Hash
	Note   string // the signed note
	Key    string // the verifier key of the signer
}

// Sign returns a checkpoint of a tree.
func (k *SigningKey) Sign(t Tree) (c Checkpoint, err error) {
	c = Checkpoint{Origin: k.signer.Name(), Size: t.Size, Root: t.Root(), Key: k.Verifier}
	signed, err := note.Sign(&note.Note{Text: fmt.Sprintf("%s\n%d\n%s\n", c.Origin, c.Size, c.Root)}, k.signer)
	c.Note = string(signed)
	return c, err
}

// ParseCheckpoint parses the checkpoint at the end of a text, such as a proof. It does not verify
// signatures.
func ParseCheckpoint(text string) (c Checkpoint, err error) {
	if strings.HasPrefix(text, ProofHeader) {
		_, text, _ = strings.Cut(text, "\n\n")
	}
	lines := strings.SplitN(text, "\n", 4)
	bad := errors.New("this is not a checkpoint of a log (c2sp.org/tlog-checkpoint)")
	if len(lines) < 4 {
		return c, bad
	}
	c = Checkpoint{Origin: lines[0], Note: text}
	if c.Size, err = strconv.ParseInt(lines[1], 10, 64); err != nil || c.Size < 0 {
		return c, bad
	}
	root, err := base64.StdEncoding.DecodeString(lines[2])
	if err != nil || len(root) != tlog.HashSize {
		return c, bad
	}
	c.Root = tlog.Hash(root)
	return c, nil
}

// SignedBy returns nil if the checkpoint has a valid signature by a verifier key.
func (c *Checkpoint) SignedBy(key string) error {
	v, err := note.NewVerifier(key)
	if err != nil {
		return fmt.Errorf("%q is not a verifier key: %w", key, err)
	}
	n, err := note.Open([]byte(c.Note), note.VerifierList(v))
	if err != nil {
		return err
	}
	if said, err := ParseCheckpoint(n.Text + "\n"); err != nil || v.Name() != said.Origin {
		return fmt.Errorf("%s has signed for %s", v.Name(), said.Origin)
	}
	return nil
}

// IsAltered reports whether the checkpoint has a signature by a verifier key, but over another
// text. It is false for a checkpoint that another key signed.
func (c *Checkpoint) IsAltered(key string) bool {
	var invalid *note.InvalidSignatureError
	return errors.As(c.SignedBy(key), &invalid)
}
