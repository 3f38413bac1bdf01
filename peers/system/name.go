package system

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"hubbub/protocol"
	"hubbub/protocol/text"
)

// An AgentName is an agent's identity without "agent:". It is safe in paths, unit names and
// arguments: it consists of [a-z0-9-] and does not begin with a dash. See CheckName.
type AgentName string

// PeerID returns the identity of the agent.
func (n AgentName) PeerID() protocol.PeerID { return protocol.AgentID(string(n)) }

const maxName = 48

var (
	nameSyntax  = text.Pattern(`^[a-z0-9][a-z0-9-]{0,47}$`)
	plainTopic  = text.Pattern(`^[a-z0-9]+:-?[a-z0-9]+$`)
	otherThanAZ = text.Pattern(`[^a-z0-9]+`)
)

// CheckName returns why the spawner cannot start an agent of this name, or nil.
func CheckName(name string) error {
	switch {
	case !nameSyntax().MatchString(name):
		return fmt.Errorf("the agent name %.60q must be 1 to %d of a-z, 0-9 and '-', and must not begin with '-'", name,
			maxName)
	case AgentName(name).PeerID() == protocol.PeerSystem:
		return fmt.Errorf("%q is the spawner itself", protocol.PeerSystem)
	}
	return nil
}

// deriveNames returns the possible names of a topic's agent, best first. The first free name is
// used and stored. A plain topic such as "tg:42" or "tg:-100123" has a readable first name that
// no other topic derives. The other names include a hash of the topic.
func deriveNames(topic protocol.Topic) []AgentName {
	sum := sha256.Sum256([]byte(topic))
	hash := hex.EncodeToString(sum[:])
	var names []AgentName
	if plain := strings.Replace(string(topic), ":", "-", 1); plainTopic().MatchString(string(topic)) &&
		CheckName(plain) == nil {
		names = append(names, AgentName(plain))
	}
	slug := strings.Trim(otherThanAZ().ReplaceAllString(strings.ToLower(string(topic)), "-"), "-")
	if slug == "" {
		slug = "chat"
	}
	for _, digits := range []int{8, 16, 32} {
		head := strings.Trim(slug[:min(len(slug), maxName-1-digits)], "-")
		names = append(names, AgentName(head+"-"+hash[:digits]))
	}
	return names
}

// checkTopic returns why from may not request an agent for a topic, or nil. A bridge may request
// agents for its own family, an operator for any chat.
func checkTopic(topic protocol.Topic, from protocol.PeerID) error {
	if err := protocol.CheckTopic(string(topic)); err != nil {
		return err
	}
	if len(topic) > protocol.MaxPattern {
		return fmt.Errorf("the topic is %d bytes long; an agent can be granted at most %d", len(topic),
			protocol.MaxPattern)
	}
	if strings.ContainsAny(string(topic), `*?[]{}\`) {
		return fmt.Errorf("the topic %.60q contains one of * ? [ ] { } \\ and cannot be granted to one agent only",
			topic)
	}
	switch protocol.RoleOf(protocol.PeerID(topic)) {
	case protocol.RoleTG, protocol.RoleMX, protocol.RoleChorus, protocol.RoleCLI:
	default:
		return fmt.Errorf("%.60q is not a chat; agents are spawned for topics such as tg:42", topic)
	}
	if protocol.RoleOf(from) != protocol.RoleCLI && from.Family() != protocol.PeerID(topic).Family() {
		return fmt.Errorf("%s may not request an agent for %.60q", from, topic)
	}
	return nil
}
