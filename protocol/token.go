package protocol

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
)

// A pass shows at one address that its holder has a token of the bus, and is worth nothing
// at another: who asks for it need not be trusted with the token. The bus, which knows
// tokens by their hash, says whose a pass for an address is (GET /whoami?for=ADDRESS).

// derivedNameLen is how many characters of a pass say whose it is.
const derivedNameLen = len("pass_") + 32

// NewDerivedToken returns the pass of a token for an address.
func NewDerivedToken(token, address string) string {
	hash := sha256.Sum256([]byte(token))
	return NewDerivedTokenOf(hex.EncodeToString(hash[:]), address)
}

// NewDerivedTokenOf is NewDerivedToken for a token of which only the SHA-256 is known, in lowercase hex.
func NewDerivedTokenOf(tokenHash, address string) string {
	return "pass_" + keyed(tokenHash, "name")[:32] + keyed(tokenHash, "at "+address)
}

// DerivedTokenName returns the part of a pass that is the same at all addresses; empty if it is none.
func DerivedTokenName(pass string) string {
	if len(pass) != derivedNameLen+2*sha256.Size {
		return ""
	}
	return pass[:derivedNameLen]
}

func keyed(key, text string) string {
	sum := hmac.New(sha256.New, []byte(key))
	sum.Write([]byte(text))
	return hex.EncodeToString(sum.Sum(nil))
}
