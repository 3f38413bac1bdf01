package system

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"hubbub/protocol"
)

// An AgentName is the part of an agent's identity after "agent:". It is safe in
// a path, a unit's name and an argument: it holds nothing but [a-z0-9-] and does
// not begin with a dash. This package mints it; see CheckName.
type AgentName string

// PeerID returns the identity of the agent.
func (n AgentName) PeerID() protocol.PeerID { return protocol.AgentID(string(n)) }

const maxName = 48

var (
	nameSyntax  = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,47}$`)
	plainTopic  = regexp.MustCompile(`^[a-z0-9]+:-?[a-z0-9]+$`)
	otherThanAZ = regexp.MustCompile(`[^a-z0-9]+`)
)

// CheckName says why name cannot be an agent that the spawner starts, or nil.
func CheckName(name string) error {
	switch {
	case !nameSyntax.MatchString(name):
		return fmt.Errorf("the agent name %.60q must be 1 to %d of a-z, 0-9 and '-', and must not begin with '-'", name, maxName)
	case AgentName(name).PeerID() == protocol.PeerSystem:
		return fmt.Errorf("%q is the spawner itself", protocol.PeerSystem)
	}
	return nil
}

// deriveNames returns the names that an agent of a topic may get, best first. The
// first free one is taken and stored. A plain topic such as "tg:42" or "tg:-100123" has a readable first
// name that no other topic derives; the others carry a hash of the topic.
func deriveNames(topic protocol.Topic) []AgentName {
	sum := sha256.Sum256([]byte(topic))
	hash := hex.EncodeToString(sum[:])
	var names []AgentName
	if plain := strings.Replace(string(topic), ":", "-", 1); plainTopic.MatchString(string(topic)) && CheckName(plain) == nil {
		names = append(names, AgentName(plain))
	}
	slug := strings.Trim(otherThanAZ.ReplaceAllString(strings.ToLower(string(topic)), "-"), "-")
	if slug == "" {
		slug = "chat"
	}
	for _, digits := range []int{8, 16, 32} {
		head := strings.Trim(slug[:min(len(slug), maxName-1-digits)], "-")
		names = append(names, AgentName(head+"-"+hash[:digits]))
	}
	return names
}

// checkTopic says why from may not have an agent spawned for a topic, or nil. A bridge
// may ask for its own family, an operator for any chat.
func checkTopic(topic protocol.Topic, from protocol.PeerID) error {
	if err := protocol.CheckTopic(string(topic)); err != nil {
		return err
	}
	if len(topic) > protocol.MaxPattern {
		return fmt.Errorf("the topic is %d bytes long; an agent can be granted at most %d", len(topic), protocol.MaxPattern)
	}
	if strings.ContainsAny(string(topic), `*?[]{}\`) {
		return fmt.Errorf("the topic %.60q holds one of * ? [ ] { } \\ and could not be granted to one agent alone", topic)
	}
	switch protocol.RoleOf(protocol.PeerID(topic)) {
	case protocol.RoleTG, protocol.RoleChorus, protocol.RoleCLI:
	default:
		return fmt.Errorf("%.60q is no chat; agents are spawned for topics such as tg:42", topic)
	}
	if protocol.RoleOf(from) != protocol.RoleCLI && from.Family() != protocol.PeerID(topic).Family() {
		return fmt.Errorf("%s may not ask for an agent of %.60q", from, topic)
	}
	return nil
}
