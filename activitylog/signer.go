package activitylog

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

// A signingKey signs the checkpoints of one log.
type signingKey struct {
	signer   note.Signer
	verifier string // the key by which others verify
}

// keyPath returns the file with the signing key of the log at path.
func keyPath(path string) string { return strings.TrimSuffix(path, ".db") + ".key" }

// checkpointPath returns the file with the newest checkpoint of the log at path. Copies of it can
// be kept elsewhere.
func checkpointPath(path string) string { return strings.TrimSuffix(path, ".db") + ".checkpoint" }

// VerifierKey returns the key that verifies the bus's checkpoints, in the format of
// golang.org/x/mod/sumdb/note.
func VerifierKey(path string) (string, error) {
	k, err := readKey(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("%w: %s does not exist; a bus makes it when it begins the log", ErrNoLog, keyPath(path))
	case err != nil:
		return "", err
	}
	return k.verifier, nil
}

func readKey(path string) (k *signingKey, err error) {
	text, err := os.ReadFile(keyPath(path))
	if err != nil {
		return nil, err
	}
	if k, err = parseKey(strings.TrimSpace(string(text))); err != nil { // the error must not reveal the content
		return nil, fmt.Errorf("%s is no signing key of a log: move it away, and the bus makes another one when it "+
			"starts", keyPath(path))
	}
	return k, nil
}

// parseKey reads a key as note.GenerateKey wrote it.
func parseKey(text string) (k *signingKey, err error) {
	k = &signingKey{}
	if k.signer, err = note.NewSigner(text); err != nil {
		return nil, err
	}
	parts := strings.SplitN(text, "+", 5) // PRIVATE, KEY, name, hash, kind and seed
	secret, err := base64.StdEncoding.DecodeString(parts[4])
	if err != nil {
		return nil, err
	}
	public := ed25519.NewKeyFromSeed(secret[1:]).Public().(ed25519.PublicKey)
	k.verifier, err = note.NewEd25519VerifierKey(k.signer.Name(), public)
	return k, err
}

// openKey returns the key for an origin. It makes one if there is none, and reports that. The key
// of another log, one that was moved away, is renamed.
func openKey(path, origin string) (k *signingKey, made bool, err error) {
	k, err = readKey(path)
	switch {
	case err == nil && k.signer.Name() == origin:
		return k, false, nil
	case err == nil:
		aside := keyPath(path) + "." + time.Now().UTC().Format("20060102T150405.000000")
		if err := datafolder.Rename(keyPath(path), aside); err != nil {
			return nil, false, err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, false, err
	}
	if err := makeKey(keyPath(path), origin); err != nil {
		return nil, false, fmt.Errorf("making the key that signs the activity log: %w", err)
	}
	k, err = readKey(path)
	return k, true, err
}

// makeKey makes a signing key. The caller syncs the folder.
func makeKey(path, origin string) error {
	secret, _, err := note.GenerateKey(rand.Reader, origin)
	if err != nil {
		return err
	}
	temporary := path + ".new"
	if err := os.WriteFile(temporary, []byte(secret+"\n"), 0o600); err != nil {
		return err
	}
	if err := syncFile(temporary); err != nil {
		return err
	}
	return datafolder.RenameUnsynced(temporary, path)
}
