package chorus

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"hubbub/protocol/datafolder"
)

// The prefix of a secret tells what it opens.
const (
	inboxPrefix    = "sk_"  // a connection string's secret
	callbackPrefix = "cb_"  // the secret of a callback URL
	toolPrefix     = "mcp_" // the bearer token of an MCP endpoint
)

const keyBytes = 32

// random256 returns 256 random bits.
func random256() []byte {
	b := make([]byte, keyBytes)
	_, _ = rand.Read(b) // never fails
	return b
}

// newSecret makes a secret of 256 random bits.
func newSecret(prefix string) string {
	return prefix + base64.RawURLEncoding.EncodeToString(random256())
}

// hashSecret returns the SHA-256 of a secret in hex, as which it is stored. The secrets
// are random, so a slow hash would add nothing.
func hashSecret(secret string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(secret))) }

// A sealer encrypts secrets that must go out again, with AES-256-GCM under a
// key that lies beside the database.
type sealer struct{ aead cipher.AEAD }

// openSealer reads the key at path (chorus.key), making it on first use. It
// refuses a key that others on the machine may read.
func openSealer(path string) (*sealer, error) {
	if err := createKey(path); err != nil {
		return nil, fmt.Errorf("creating the key of the sealed secrets: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("reading the key of the sealed secrets: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s can be read by others on this machine: run chmod 600 on it", path)
	}
	key, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the key of the sealed secrets: %w", err)
	}
	if len(key) != keyBytes {
		return nil, fmt.Errorf("%s is not a key of %d bytes: restore it from a backup, or remove it and add every agent anew", path, keyBytes)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("using the key of the sealed secrets: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return &sealer{aead}, err
}

// createKey makes the key if there is none. Two programs may do so at once: both use
// the one that came first.
func createKey(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := datafolder.MkdirAll(filepath.Dir(path)); err != nil {
		return err
	}
	return datafolder.WriteNew(path, random256())
}

// seal encrypts a secret. The label names its kind and its owner: a sealed secret does
// not open under another label. The nonce is random and stands before the rest.
func (s *sealer) seal(label, secret string) []byte {
	return s.aead.Seal(nil, nil, []byte(secret), []byte(label))
}

// errCannotUnseal means that a sealed secret does not open with this key.
var errCannotUnseal = errors.New("a sealed secret does not open: chorus.key is not the one it was sealed with")

func (s *sealer) open(label string, sealed []byte) (string, error) {
	secret, err := s.aead.Open(nil, nil, sealed, []byte(label))
	if err != nil {
		return "", errCannotUnseal
	}
	return string(secret), nil
}
