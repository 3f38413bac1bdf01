package busclient

import (
	"crypto/rand"
	"strings"

	"hubbub/protocol"
)

// NewID returns a unique identity for one run of a command.
func NewID(name string) protocol.PeerID {
	return protocol.PeerID("cli:" + name + "-" + strings.ToLower(rand.Text()[:10]))
}

// PersonName turns the name of a user into a name for records.
func PersonName(user string) string {
	name := strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '-'
	}, user)
	if name = strings.Trim(name, "-"); name == "" {
		return "operator"
	}
	return name[:min(len(name), 48)]
}

// AgentID returns the identity of an agent that is given by name or by identity.
func AgentID(s string) string {
	return string(protocol.IdentityOf(s))
}
