package broker

import (
	"slices"
	"strings"

	"hubbub/protocol"
	"hubbub/protocol/collab"
)

// An endpoint is one process behind a logical agent.
type endpoint struct {
	collab.Endpoint
	seq int64 // of the event that last heard of it: the finest order of heartbeats
}

// wakeable reports whether a wake sent now can be expected to arrive.
func (e *endpoint) wakeable() bool {
	return e.Status == collab.StatusOnline && e.WakePolicy == collab.WakeAuto
}

// label returns the shortest label by which a person can name the endpoint's agent.
func (e *endpoint) label() string {
	return Label{Name: normal(e.LogicalAgentID), Workspace: normal(e.WorkspaceID)}.String()
}

func (e *endpoint) fits(l Label) bool {
	workspace := l.Workspace == "" || l.Workspace == normal(e.WorkspaceID) ||
		e.ProjectPath != "" && l.Workspace == normal(e.ProjectPath[strings.LastIndex(e.ProjectPath, "/")+1:])
	model := normal(e.Model)
	return workspace &&
		(l.Profile == "" || l.Profile == normal(e.Profile)) &&
		(l.Harness == "" || l.Harness == normal(e.HarnessType)) &&
		(l.Model == "" || strings.Contains("-"+model+"-", "-"+l.Model+"-")) &&
		(l.Node == "" || l.Node == normal(e.Node))
}

func (e *endpoint) hasRole(role string) bool {
	return slices.ContainsFunc(e.Roles, func(r string) bool { return normal(strings.TrimPrefix(r, "role:")) == role })
}

// bareName returns the name under which an identity stands in records:
// "agent:lead" is "lead", "cli:will.7f3a" is "will" (what follows the dot only
// tells two runs of the command line apart), and "lead" is "lead".
func bareName(id string) string {
	p := protocol.PeerID(id)
	switch protocol.RoleOf(p) {
	case protocol.RoleUnknown:
		return id
	case protocol.RoleCLI:
		name, _, _ := strings.Cut(p.Name(), ".")
		if name != "" {
			return name
		}
	}
	return p.Name()
}

// A Caller is who sent a request: its identity, and the name that it acts as.
type Caller struct {
	Identity protocol.PeerID
	Name     string
	Person   bool // speaks for people: not an agent's identity
}

// brokerItself is the caller of what the broker does by itself.
var brokerItself = Caller{Identity: protocol.PeerBroker, Name: "broker"}

func isPerson(id protocol.PeerID) bool {
	switch protocol.RoleOf(id) {
	case protocol.RoleTG, protocol.RoleChorus, protocol.RoleCLI:
		return true
	}
	return false
}

func (s *state) caller(id protocol.PeerID) Caller {
	name, announced := s.actsAs[id]
	if !announced {
		name = bareName(string(id))
	}
	return Caller{Identity: id, Name: name, Person: isPerson(id)}
}

// kind returns the surface that the caller speaks from, whatever it claims.
func (c Caller) kind() string {
	if c.Person {
		return collab.SurfaceHuman
	}
	return collab.SurfaceAgent
}

// speaksFor reports whether the caller may act for the agent of that name.
func (c Caller) speaksFor(agent string) bool { return c.Person || c.Name == agent }
