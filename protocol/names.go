package protocol

import (
	"errors"
	"fmt"
	"strings"

	"hubbub/protocol/jsonrpc"
	"hubbub/protocol/text"
)

// A PeerID is the identity of a participant, such as "tg:42" or "agent:lead".
// A peer chooses it in initialize; the bus checks it against the credential.
type PeerID string

// A Topic is a concrete destination, such as "tg:42" or "system:spawn". It is never treated as a
// pattern.
type Topic string

// A MessageID identifies a message. The sender chooses it. Hubbub uses ULIDs with the prefix
// "msg_"; other programs may use any non-empty string of at most 256 bytes that is a
// clean name (text.IsCleanName).
type MessageID string

// Limits on names, in bytes.
const (
	MaxPeerID    = 256
	MaxTopic     = 256
	MaxMessageID = 256
	MaxPattern   = 128
	MaxStars     = 8
)

// CheckPeerID returns nil if id can be a clientId, or the reason why not.
func CheckPeerID(id string) error { return checkName("clientId", id, MaxPeerID) }

// CheckTopic returns nil if topic can be a destination, or the reason why not.
func CheckTopic(topic string) error { return checkName("topic", topic, MaxTopic) }

// CheckRequestID returns nil if the activity log can store the id of a request, or the reason why
// not.
func CheckRequestID(id jsonrpc.ID) error {
	if jsonrpc.IsString(id) && !text.IsCleanName(jsonrpc.UnquoteBytes(id)) {
		return errors.New(`"id" must be ` + text.NameRule)
	}
	return nil
}

func checkName[T string | []byte](what string, s T, limit int) error {
	switch {
	case len(s) == 0:
		return fmt.Errorf("%s must be a non-empty string", what)
	case len(s) > limit:
		return fmt.Errorf("%s is %d bytes long; at most %d are allowed", what, len(s), limit)
	case !text.IsCleanName(s):
		return fmt.Errorf("%s must be %s", what, text.NameRule)
	}
	return nil
}

// Family returns the part of an identity before the first colon: "tg" for
// "tg:42". It returns "" if there is no colon.
func (id PeerID) Family() string {
	family, _, ok := strings.Cut(string(id), ":")
	if !ok {
		return ""
	}
	return family
}

// AgentID returns the identity of the agent with a name.
func AgentID(name string) PeerID { return PeerID("agent:" + name) }

// IdentityOf returns an identity as it is. A bare name is an agent's.
func IdentityOf(s string) PeerID {
	if strings.Contains(s, ":") {
		return PeerID(s)
	}
	return AgentID(s)
}

// Name returns the part of an identity after the first colon: "42" for "tg:42".
func (id PeerID) Name() string {
	_, name, _ := strings.Cut(string(id), ":")
	return name
}

// Topic returns the topic on which the peer itself is addressed.
func (id PeerID) Topic() Topic { return Topic(id) }

// Well-known topics (section 6 and Hubbub's extensions).
const (
	TopicSpawn        Topic = "system:spawn"     // requests for an agent
	TopicRoute        Topic = "system:route"     // routing control events
	TopicAgents       Topic = "system:agents"    // announcements of agents that are online
	TopicAttention    Topic = "system:attention" // attention decisions and dispositions
	TopicBroker       Topic = "collab:broker"    // requests to the collaboration broker
	TopicCollabEvents Topic = "collab:events"    // facts published by the broker
	TopicPresence     Topic = "bus:presence"     // joining and leaving peers, reported by the bus; only for observers
)

// Well-known identities.
const (
	PeerSystem PeerID = "agent:system"
	PeerBroker PeerID = "collab:broker"
)
