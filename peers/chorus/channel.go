package chorus

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"hubbub/protocol"
)

// An InboxName names one inbox: letters, digits, '_' and '-', at most 64.
type InboxName string

// An AgentName names one external agent. It is the bus identity without
// "agent:", and follows the rule for agents' names.
type AgentName string

// ID returns the agent's identity on the bus.
func (n AgentName) ID() protocol.PeerID { return protocol.AgentID(string(n)) }

var (
	inboxNameRule = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	agentNameRule = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,47}$`)
)

// CheckInboxName says why a name cannot be an inbox's, or nil.
func CheckInboxName(name string) error {
	if !inboxNameRule.MatchString(name) {
		return fmt.Errorf("%q cannot name an inbox: use 1 to 64 letters, digits, _ or -", name)
	}
	return nil
}

// CheckAgentName says why a name cannot be an external agent's, or nil.
func CheckAgentName(name string) error {
	if !agentNameRule.MatchString(name) {
		return fmt.Errorf("%q cannot name an agent: use 1 to 48 lower-case letters, digits, _ or -, beginning with a letter or digit", name)
	}
	if name == protocol.PeerSystem.Name() {
		return fmt.Errorf("%q is the spawner's name: choose another", name)
	}
	return nil
}

// A ChannelID is how a Chorus service names its channel: opaque, ours only to
// compare and to escape.
type ChannelID string

// ChannelPeer is the identity of an inbox's channel on the bus:
// "chorus:<inbox>.<channel id>". Every byte of the channel id but letters,
// digits, '_' and '-' is written %XX. An identity that would be too long for an agent
// to be granted it ends in '~' and a hash of the whole id instead; '~' occurs in no
// other.
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

// escapeName writes every byte but letters, digits, '_' and '-' as %XX.
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

// pathSegment writes an escaped name without '%', which HTTP clients like to
// interpret: '.' stands for it, since it occurs in no escaped name.
func pathSegment(escaped string) string { return strings.ReplaceAll(escaped, "%", ".") }
