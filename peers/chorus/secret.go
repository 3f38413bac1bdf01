package chorus

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
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

// newSecret makes a secret of 256 random bits.
func newSecret(prefix string) string {
	var b [32]byte
	if _, err := rand.Read(b[:]); err != nil {
		panic("the system has no randomness: " + err.Error())
	}
	return prefix + base64.RawURLEncoding.EncodeToString(b[:])
}

// hashSecret returns the SHA-256 of a secret in hex, as which it is stored. The secrets
// are random, so a slow hash would add nothing.
func hashSecret(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// A sealer encrypts secrets that must go out again, with AES-256-GCM under a
// key that lies beside the database.
type sealer struct{ aead cipher.AEAD }

const keyBytes = 32

// openSealer reads the key at path (chorus.key), making it on first use. It
// refuses a key that others on the machine may read.
func openSealer(path string) (*sealer, error) {
	if err := createKey(path); err != nil {
		return nil, err
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
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("using the key of the sealed secrets: %w", err)
	}
	return &sealer{aead}, nil
}

// createKey makes the key if there is none. Two programs may do so at once: the link
// succeeds for one of them, and the other uses the file that it finds.
func createKey(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("creating the data folder: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".chorus-key-*") // mode 0600
	if err != nil {
		return fmt.Errorf("creating the key of the sealed secrets: %w", err)
	}
	defer os.Remove(f.Name())
	key := make([]byte, keyBytes)
	_, err = rand.Read(key)
	if err == nil {
		_, err = f.Write(key)
	}
	if err = errors.Join(err, datafolder.GiveToOwner(f), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("creating the key of the sealed secrets: %w", err)
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("creating the key of the sealed secrets: %w", err)
	}
	return syncFolder(filepath.Dir(path))
}

func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("syncing the data folder: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}

// seal encrypts a secret. The label names its kind and its owner: a sealed secret does
// not open under another label.
func (s *sealer) seal(label string, secret []byte) []byte {
	nonce := make([]byte, s.aead.NonceSize(), s.aead.NonceSize()+len(secret)+s.aead.Overhead())
	if _, err := rand.Read(nonce); err != nil {
		panic("the system has no randomness: " + err.Error())
	}
	return s.aead.Seal(nonce, nonce, secret, []byte(label))
}

// errSealed means that a sealed secret does not open with this key.
var errSealed = errors.New("a sealed secret does not open: chorus.key is not the one it was sealed with")

func (s *sealer) open(label string, sealed []byte) ([]byte, error) {
	n := s.aead.NonceSize()
	if len(sealed) < n {
		return nil, errSealed
	}
	secret, err := s.aead.Open(nil, sealed[:n], sealed[n:], []byte(label))
	if err != nil {
		return nil, errSealed
	}
	return secret, nil
}
