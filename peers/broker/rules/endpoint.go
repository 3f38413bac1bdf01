package rules

import (
	"slices"
	"strings"

	"hubbub/protocol"
	"hubbub/protocol/collab"
)

// An Endpoint is one process behind a logical agent.
type Endpoint struct {
	collab.Endpoint
	Seq int64 // counts the signs of life of all endpoints; the greatest is the latest
}

// Wakeable reports whether a wake sent now should arrive.
func (e *Endpoint) Wakeable() bool {
	return e.Status == collab.StatusOnline && e.WakePolicy == collab.WakeAuto
}

// ActsFor reports whether the endpoint acts for an identity: the one that announced it, or the
// agent of its name.
func (e *Endpoint) ActsFor(id protocol.PeerID) bool {
	return id != "" && (e.Identity == id || e.AgentIdentity == id)
}

func (e *Endpoint) fits(l label) bool {
	workspace := l.Workspace == "" || l.Workspace == Normalize(e.WorkspaceID) ||
		e.ProjectPath != "" && l.Workspace == Normalize(e.ProjectPath[strings.LastIndex(e.ProjectPath, "/")+1:])
	model := Normalize(e.Model)
	return workspace &&
		(l.Profile == "" || l.Profile == Normalize(e.Profile)) &&
		(l.Harness == "" || l.Harness == Normalize(e.HarnessType)) &&
		(l.Model == "" || strings.Contains("-"+model+"-", "-"+l.Model+"-")) &&
		(l.Node == "" || l.Node == Normalize(e.Node))
}

// hasAlias reports whether an alias of the endpoint has a normal form.
func (e *Endpoint) hasAlias(name string) bool {
	return slices.ContainsFunc(e.Aliases, func(a string) bool { return Normalize(a) == name })
}

func (e *Endpoint) hasRole(role string) bool {
	return slices.ContainsFunc(e.Roles, func(r string) bool {
		return Normalize(strings.TrimPrefix(r, "role:")) == role
	})
}
