package protocol

import (
	"fmt"
	"slices"
	"strings"
)

// A MessageType determines the content of a message (section 8).
type MessageType string

// The message types. Those after the blank line extend the specification.
const (
	TypeSpawnRequest   MessageType = "spawn_request"
	TypeSpawnResult    MessageType = "spawn_result"
	TypeRouteAssigned  MessageType = "route_assigned"
	TypeConfigure      MessageType = "configure"
	TypeTGMessage      MessageType = "tg_message"
	TypeTGReply        MessageType = "tg_reply"
	TypeDeliveryStatus MessageType = "delivery_status"
	TypeAgentEvent     MessageType = "agent_event"

	TypeChatMessage   MessageType = "chat_message"
	TypeChatReply     MessageType = "chat_reply"
	TypeCollabRequest MessageType = "collab_request"
	TypeCollabResult  MessageType = "collab_result"
	TypeCollabEvent   MessageType = "collab_event"

	TypePresence MessageType = "presence" // only from the bus
)

// AllTypes lists every message type that a peer may send.
var AllTypes = []MessageType{
	TypeSpawnRequest, TypeSpawnResult, TypeRouteAssigned, TypeConfigure,
	TypeTGMessage, TypeTGReply, TypeDeliveryStatus, TypeAgentEvent,
	TypeChatMessage, TypeChatReply, TypeCollabRequest, TypeCollabResult, TypeCollabEvent,
}

// A Role determines what an identity may send.
type Role string

// The roles. Every other identity has RoleUnknown: it may connect and subscribe, but send
// nothing.
const (
	RoleUnknown Role = ""
	RoleTG      Role = "tg"     // tg:{chat_id}
	RoleMX      Role = "mx"     // mx:{room_id}, in Matrix
	RoleSystem  Role = "system" // agent:system
	RoleAgent   Role = "agent"  // agent:{id}
	RoleChorus  Role = "chorus" // chorus:{channel}
	RoleBroker  Role = "broker" // collab:broker
	RoleCLI     Role = "cli"    // cli:{name}
)

// A Permission is one row of the authorization matrix (section 9).
type Permission struct {
	Role      Role
	Identity  string        // form of the identity, for messages and documents
	Sends     []MessageType // types that the role may send
	Receives  []MessageType // types that the role expects
	Extension []MessageType // the part of Sends that is not in the specification
}

// Matrix is the authorization matrix, the only definition of what each role may send. The bus
// enforces Sends; Receives only documents what to expect.
var Matrix = []Permission{
	{
		Role: RoleTG, Identity: "tg:{chat_id}",
		Sends: []MessageType{TypeSpawnRequest, TypeConfigure, TypeTGMessage, TypeDeliveryStatus, TypeCollabRequest},
		// chat_message comes from hooks
		Receives: []MessageType{TypeSpawnResult, TypeRouteAssigned, TypeTGReply, TypeDeliveryStatus, TypeAgentEvent,
			TypeCollabResult, TypeChatMessage},
		Extension: []MessageType{TypeCollabRequest},
	},
	{
		Role: RoleSystem, Identity: "agent:system",
		Sends:    []MessageType{TypeSpawnResult, TypeRouteAssigned, TypeAgentEvent},
		Receives: []MessageType{TypeSpawnRequest, TypeAgentEvent},
	},
	{
		Role: RoleAgent, Identity: "agent:{id}",
		Sends: []MessageType{TypeTGReply, TypeAgentEvent, TypeDeliveryStatus, TypeChatReply, TypeCollabRequest},
		Receives: []MessageType{TypeConfigure, TypeTGMessage, TypeAgentEvent, TypeDeliveryStatus, TypeChatMessage,
			TypeCollabResult, TypeCollabEvent},
		Extension: []MessageType{TypeChatReply, TypeCollabRequest},
	},
	{
		Role: RoleChorus, Identity: "chorus:{channel}",
		Sends: []MessageType{TypeSpawnRequest, TypeConfigure, TypeChatMessage, TypeDeliveryStatus,
			TypeCollabRequest},
		Receives: []MessageType{TypeSpawnResult, TypeRouteAssigned, TypeChatReply, TypeDeliveryStatus, TypeAgentEvent,
			TypeCollabResult, TypeChatMessage},
		Extension: []MessageType{TypeSpawnRequest, TypeConfigure, TypeChatMessage, TypeDeliveryStatus,
			TypeCollabRequest},
	},
	{
		Role: RoleMX, Identity: "mx:{room_id}",
		Sends: []MessageType{TypeSpawnRequest, TypeConfigure, TypeChatMessage, TypeDeliveryStatus,
			TypeCollabRequest},
		Receives: []MessageType{TypeSpawnResult, TypeRouteAssigned, TypeChatReply, TypeDeliveryStatus, TypeAgentEvent,
			TypeCollabResult, TypeChatMessage},
		Extension: []MessageType{TypeSpawnRequest, TypeConfigure, TypeChatMessage, TypeDeliveryStatus,
			TypeCollabRequest},
	},
	{
		Role: RoleBroker, Identity: "collab:broker",
		Sends:     []MessageType{TypeCollabEvent, TypeCollabResult, TypeAgentEvent},
		Receives:  []MessageType{TypeCollabRequest},
		Extension: []MessageType{TypeCollabEvent, TypeCollabResult, TypeAgentEvent},
	},
	{
		Role: RoleCLI, Identity: "cli:{name}",
		Sends:     AllTypes,
		Receives:  AllTypes,
		Extension: AllTypes,
	},
}

// IsPerson reports whether an identity belongs to a person: at the command line or on a chat
// surface.
func IsPerson(id PeerID) bool {
	return IsChat(id) || RoleOf(id) == RoleCLI
}

// IsChat reports whether an identity belongs to a chat system: Telegram, Matrix or Chorus. Its
// bridge has a name of the same family.
func IsChat(id PeerID) bool {
	switch RoleOf(id) {
	case RoleTG, RoleMX, RoleChorus:
		return true
	default:
		return false
	}
}

// CommandPrefix returns the prefix of commands in a chat: "!" in Matrix, because Matrix clients
// interpret "/" themselves, and "/" elsewhere.
func CommandPrefix(chat Topic) string {
	if RoleOf(PeerID(chat)) == RoleMX {
		return "!"
	}
	return "/"
}

// RoleOf returns the role of an identity.
func RoleOf(id PeerID) Role {
	family, name, ok := strings.Cut(string(id), ":")
	if !ok || name == "" {
		return RoleUnknown
	}
	switch family {
	case "tg":
		return RoleTG
	case "mx":
		return RoleMX
	case "agent":
		if id == PeerSystem {
			return RoleSystem
		}
		return RoleAgent
	case "chorus":
		return RoleChorus
	case "collab":
		if id == PeerBroker {
			return RoleBroker
		}
	case "cli":
		return RoleCLI
	}
	return RoleUnknown
}

// MaySend returns nil if an identity may send messages of type t, or the reason why
// not.
func MaySend(from PeerID, t MessageType) error {
	role := RoleOf(from)
	if role == RoleUnknown {
		return fmt.Errorf("%q has no role that may send: use tg:, mx:, agent:, chorus:, cli: or collab:broker", from)
	}
	if !slices.Contains(AllTypes, t) {
		return fmt.Errorf("unknown message type %.64q", t)
	}
	for i := range Matrix {
		if Matrix[i].Role == role && slices.Contains(Matrix[i].Sends, t) {
			return nil
		}
	}
	return fmt.Errorf("%s may not send %s", from, t)
}

// IsIdentity reports whether a topic has the form of an identity with a role. Such a topic has an
// addressee: the peer of that identity.
func IsIdentity(topic Topic) bool { return RoleOf(PeerID(topic)) != RoleUnknown }

// MaySendForFamily reports whether, on a bus without credentials, a session of identity id may
// send as any identity of its family. Bridges may, because one connection carries many chats.
func MaySendForFamily(id PeerID) bool { return IsChat(id) }
