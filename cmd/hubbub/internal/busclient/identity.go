package busclient

import (
	"crypto/rand"
	"strings"

	"hubbub/protocol"
)

// NewID makes a unique identity for one run of a command.
func NewID(name string) protocol.PeerID {
	return protocol.PeerID("cli:" + name + "-" + strings.ToLower(rand.Text()[:10]))
}

// PersonName makes a name for records out of a user's name.
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

// AgentID returns the identity of an agent that is given by name or identity.
func AgentID(s string) string {
	if strings.Contains(s, ":") {
		return s
	}
	return "agent:" + s
}
