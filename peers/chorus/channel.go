package chorus

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"hubbub/protocol"
	"hubbub/protocol/text"
)

// An InboxName is the name of an inbox: at most 64 letters, digits, '_' and '-'.
type InboxName string

// An AgentName is the name of an external agent: its bus identity without "agent:".
type AgentName string

// ID returns the agent's identity on the bus.
func (n AgentName) ID() protocol.PeerID { return protocol.AgentID(string(n)) }

var (
	inboxNameRule = text.Pattern(`^[A-Za-z0-9_-]{1,64}$`)
	agentNameRule = text.Pattern(`^[a-z0-9][a-z0-9_-]{0,47}$`)
)

// CheckInboxName returns why a name is invalid for an inbox, or nil.
func CheckInboxName(name string) error {
	if !inboxNameRule().MatchString(name) {
		return fmt.Errorf("%q is not a valid inbox name: use 1 to 64 letters, digits, _ or -", name)
	}
	return nil
}

// CheckAgentName returns why a name is invalid for an external agent, or nil.
func CheckAgentName(name string) error {
	if !agentNameRule().MatchString(name) {
		return fmt.Errorf(
			"%q is not a valid agent name: use 1 to 48 lower-case letters, digits, _ or -, starting with a letter or "+
				"digit",
			name,
		)
	}
	if name == protocol.PeerSystem.Name() {
		return fmt.Errorf("%q is the spawner's name: choose another", name)
	}
	return nil
}

// A ChannelID is a Chorus service's ID of a channel. It is opaque.
type ChannelID string

// ChannelPeer returns the bus identity of an inbox's channel: "chorus:<inbox>.<channel id>".
// Bytes other than letters, digits, '_' and '-' in the channel ID are written %XX. An identity
// that would be too long to grant ends in '~' and a hash of the whole ID; no other identity
// contains '~'.
func ChannelPeer(inbox InboxName, channel ChannelID) protocol.PeerID {
	prefix := "chorus:" + string(inbox) + "."
	escaped := escapeName(string(channel))
	if len(prefix)+len(escaped) <= protocol.MaxPattern {
		return protocol.PeerID(prefix + escaped)
	}
	sum := sha256.Sum256([]byte(channel))
	tail := "~" + hex.EncodeToString(sum[:16])
	return protocol.PeerID(prefix + escaped[:protocol.MaxPattern-len(prefix)-len(tail)] + tail)
}

// escapeName writes every byte other than letters, digits, '_' and '-' as %XX.
func escapeName(s string) string {
	const hexDigits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-':
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(hexDigits[c>>4])
			b.WriteByte(hexDigits[c&15])
		}
	}
	return b.String()
}

// pathSegment replaces '%' in an escaped name, since HTTP clients tend to interpret it. '.'
// occurs in no escaped name.
func pathSegment(escaped string) string { return strings.ReplaceAll(escaped, "%", ".") }
