package chorus

import "hubbub/peers/outbox"

// SchemaBefore is the database of the gateways before channels found their agents
// by peers/surface.
var SchemaBefore = []string{schema + outbox.Schema}

// SealOfTurn seals a secret as versions have done that kept turns here.
func SealOfTurn(s *Store, id int64, secret string) []byte {
	return s.seal.seal(turnLabel(id), secret)
}

// CheckSignature is how a post to a hook is checked.
var CheckSignature = checkSignature
