package chorus

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"

	"hubbub/protocol/datafolder"
)

// The prefix of a secret tells its purpose.
const (
	inboxPrefix    = "sk_"  // of a connection string
	callbackPrefix = "cb_"  // of a callback URL
	toolPrefix     = "mcp_" // a bearer token for an MCP endpoint
)

// random256 returns 256 random bits.
func random256() []byte {
	b := make([]byte, datafolder.KeyBytes)
	_, _ = rand.Read(b) // never fails
	return b
}

// newSecret makes a secret of 256 random bits.
func newSecret(prefix string) string {
	return prefix + base64.RawURLEncoding.EncodeToString(random256())
}

// hashSecret returns the SHA-256 of a secret in hex, as it is stored. Secrets are random, so a
// slow hash would add nothing.
func hashSecret(secret string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(secret))) }

// A sealer encrypts outgoing secrets with AES-256-GCM. Its key is stored next to the database.
type sealer struct{ aead cipher.AEAD }

// openSealer reads the key at path (chorus.key), creating it if necessary. It refuses a key that
// other users may read.
func openSealer(path string) (*sealer, error) {
	key, err := datafolder.Key(path)
	if errors.Is(err, datafolder.ErrNoKey) {
		err = fmt.Errorf("%w, or remove it and add every agent again", err)
	}
	if err != nil {
		return nil, fmt.Errorf("the key of the sealed secrets: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("using the key of the sealed secrets: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return &sealer{aead}, err
}

// seal encrypts a secret. The label names its kind and its owner; a sealed secret can be opened
// only with the same label. The result begins with a random nonce.
func (s *sealer) seal(label, secret string) []byte {
	return s.aead.Seal(nil, nil, []byte(secret), []byte(label))
}

// errCannotUnseal means that this key does not open a sealed secret.
var errCannotUnseal = errors.New("a sealed secret cannot be opened: it was sealed with another chorus.key")

func (s *sealer) open(label string, sealed []byte) (string, error) {
	secret, err := s.aead.Open(nil, nil, sealed, []byte(label))
	if err != nil {
		return "", errCannotUnseal
	}
	return string(secret), nil
}
