package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hubbub/protocol"
	"hubbub/protocol/collab"
)

// BareName returns the name of an identity in records. "agent:lead" is "lead", and so is "lead".
// "cli:will.7f3a" is "will": the part after the dot only distinguishes runs of the command line.
func BareName(id string) string {
	p := protocol.PeerID(id)
	switch protocol.RoleOf(p) {
	case protocol.RoleUnknown:
		return id
	case protocol.RoleCLI:
		name, _, _ := strings.Cut(p.Name(), ".")
		return cmp.Or(name, p.Name())
	}
	return p.Name()
}

// Principal returns the identity of a peer in records. It leaves out what distinguishes runs of
// the command line.
func Principal(id protocol.PeerID) protocol.PeerID {
	if protocol.RoleOf(id) == protocol.RoleCLI {
		return protocol.PeerID("cli:" + BareName(string(id)))
	}
	return id
}

// A Party is somebody in records: the displayed name, and the identity on which all decisions are
// based.
type Party struct {
	Name string
	ID   protocol.PeerID
}

// PartyOf returns the party of an identity.
func PartyOf(id protocol.PeerID) Party { return Party{BareName(string(id)), Principal(id)} }

// Ref returns the value that means the party in params.
func (p Party) Ref() string { return cmp.Or(string(p.ID), p.Name) }

// A Caller is the sender of a request: its identity, for which the bus vouches, and its name in
// records.
type Caller struct {
	Identity protocol.PeerID
	Name     string
	Person   bool            // acts for people: not an agent's identity
	agent    protocol.PeerID // the agent of that name, for which it also acts; empty for people
	Names    []string        // patterns of further names that the bus lets it announce
}

// Party returns the caller as a party of records.
func (c *Caller) Party() Party { return Party{c.Name, Principal(c.Identity)} }

// Is reports whether the caller has an identity, or acts under its name.
func (c *Caller) Is(id protocol.PeerID) bool {
	return id != "" && (id == Principal(c.Identity) || id == c.agent)
}

// ActsFor reports whether the caller may act for an identity.
func (c *Caller) ActsFor(id protocol.PeerID) bool { return c.Person || c.Is(id) }

// MayBeNamed reports whether the caller may use a name.
func (c *Caller) MayBeNamed(name string) bool {
	return name == c.Identity.Name() ||
		slices.ContainsFunc(c.Names, func(p string) bool { return protocol.Pattern(p).Matches(protocol.Topic(name)) })
}

// BrokerCaller is the caller of the broker's own changes.
var BrokerCaller = Caller{Identity: protocol.PeerBroker, Name: "broker"}

// Kind returns the caller's surface, whatever the caller claims.
func (c Caller) Kind() string {
	if c.Person {
		return collab.SurfaceHuman
	}
	return collab.SurfaceAgent
}

// AmbiguityReason explains how to distinguish parties of one name.
func AmbiguityReason(list []Party) string {
	return fmt.Sprintf("the name means %s and %s: say %[1]s or %[2]s", list[0].ID, list[1].ID)
}

// PartyOptions describes parties regardless of their endpoints.
func PartyOptions(list []Party) (out []collab.Option) {
	for _, p := range list {
		out = append(out, collab.Option{AgentID: p.Name, Identity: p.ID, Label: string(p.ID)})
	}
	return out
}
