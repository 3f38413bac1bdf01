package merkle

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"hubbub/protocol/datafolder"

	"golang.org/x/mod/sumdb/note"
)

// A SigningKey signs the checkpoints of one log.
type SigningKey struct {
	signer   note.Signer
	Verifier string // the verifier key
}

// KeyPath returns the path of the signing key of the log at path.
func KeyPath(path string) string { return strings.TrimSuffix(path, ".db") + ".key" }

// CheckpointPath returns the path of the newest checkpoint of the log at path. Operators can keep
// copies of it elsewhere.
func CheckpointPath(path string) string { return strings.TrimSuffix(path, ".db") + ".checkpoint" }

// ReadKey returns the signing key of the log at path. It returns [fs.ErrNotExist] if there is none.
func ReadKey(path string) (k *SigningKey, err error) {
	text, err := os.ReadFile(KeyPath(path))
	if err != nil {
		return nil, err
	}
	if k, err = ParseKey(strings.TrimSpace(string(text))); err != nil { // the error must not reveal the content
		return nil, fmt.Errorf("%s is not a signing key of a log: move it away, and the bus makes another one when it "+
			"starts", KeyPath(path))
	}
	return k, nil
}

// ParseKey parses a key that note.GenerateKey has made.
func ParseKey(text string) (k *SigningKey, err error) {
	k = &SigningKey{}
	if k.signer, err = note.NewSigner(text); err != nil {
		return nil, err
	}
	parts := strings.SplitN(text, "+", 5) // PRIVATE, KEY, name, hash, kind and seed
	secret, err := base64.StdEncoding.DecodeString(parts[4])
	if err != nil {
		return nil, err
	}
	public := ed25519.NewKeyFromSeed(secret[1:]).Public().(ed25519.PublicKey)
	k.Verifier, err = note.NewEd25519VerifierKey(k.signer.Name(), public)
	return k, err
}

// OpenKey returns the key for an origin. It creates one if there is none, and reports that. It
// renames the key of another log, which was moved away.
func OpenKey(path, origin string) (k *SigningKey, made bool, err error) {
	k, err = ReadKey(path)
	switch {
	case err == nil && k.signer.Name() == origin:
		return k, false, nil
	case err == nil:
		aside := KeyPath(path) + "." + time.Now().UTC().Format("20060102T150405.000000")
		if err := datafolder.Rename(KeyPath(path), aside); err != nil {
			return nil, false, err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, false, err
	}
	if err := makeKey(KeyPath(path), origin); err != nil {
		return nil, false, fmt.Errorf("making the key that signs the activity log: %w", err)
	}
	k, err = ReadKey(path)
	return k, true, err
}

// makeKey creates a signing key. The caller syncs the folder.
func makeKey(path, origin string) error {
	secret, _, err := note.GenerateKey(rand.Reader, origin)
	if err != nil {
		return err
	}
	temporary := path + ".new"
	if err := os.WriteFile(temporary, []byte(secret+"\n"), 0o600); err != nil {
		return err
	}
	if err := datafolder.SyncFile(temporary); err != nil {
		return err
	}
	return datafolder.RenameUnsynced(temporary, path)
}
