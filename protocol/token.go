package protocol

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
)

// derivedNameLen is the length of the part of a derived token that is the same at all addresses.
//
// A derived token proves to one address that its holder has a token of the bus, and is useless
// elsewhere: the holder need not trust the address with the token. The bus stores hashes of
// tokens, and can say who holds a derived token for an address (GET /whoami?for=ADDRESS).
const derivedNameLen = len("pass_") + 32

// NewDerivedToken returns the derived token of a token for an address.
func NewDerivedToken(token, address string) string {
	hash := sha256.Sum256([]byte(token))
	return NewDerivedTokenOf(hex.EncodeToString(hash[:]), address)
}

// NewDerivedTokenOf is like NewDerivedToken, but takes the SHA-256 of the token in lowercase hex.
func NewDerivedTokenOf(tokenHash, address string) string {
	return "pass_" + keyed(tokenHash, "name")[:32] + keyed(tokenHash, "at "+address)
}

// DerivedTokenName returns the part of a derived token that is the same at all addresses. It
// returns "" if the text is not a derived token.
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
