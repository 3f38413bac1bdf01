package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hubbub/protocol"
	"hubbub/protocol/collab"
)

// Parties are the known parties.
type Parties struct {
	Endpoints map[string]*Endpoint
	ActsAs    map[protocol.PeerID]string // the name that an identity announced last
	People    map[protocol.PeerID]bool   // people that ever sent a request
	Agents    map[protocol.PeerID]bool   // agents that ever announced themselves, and the agents of their names
}

// Caller returns the caller with an identity, and with the names that the bus grants it. An
// announced name counts only while it is granted.
func (s *Parties) Caller(id protocol.PeerID, names []string) Caller {
	c := Caller{Identity: id, Name: BareName(string(id)), Person: protocol.IsPerson(id), Names: names}
	if c.Person {
		return c
	}
	if name := s.ActsAs[id]; name != "" && c.MayBeNamed(name) {
		c.Name = name
	}
	c.agent = protocol.AgentID(c.Name)
	return c
}

// KnownParties lists the parties whose names fit, among the agents that ever announced themselves and
// the people that ever sent a request.
func (s *Parties) KnownParties(fits func(name string) bool) (list []Party) {
	for _, ids := range []map[protocol.PeerID]bool{s.Agents, s.People} {
		for id := range ids {
			if p := PartyOf(id); fits(p.Name) {
				list = append(list, p)
			}
		}
	}
	slices.SortFunc(list, func(a, b Party) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// AliasedParties lists the agents that have an alias, which is not normalized.
func (s *Parties) AliasedParties(alias string) (list []Party) {
	for _, e := range s.EndpointsThat(func(e *Endpoint) bool { return e.hasAlias(Normalize(alias)) }) {
		if p := s.agentBehind(e); !slices.Contains(list, p) {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b Party) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// DisplayParty returns the party of an identity with the name that it announced, if it has
// endpoints, else with its own.
func (s *Parties) DisplayParty(id protocol.PeerID) Party {
	p := PartyOf(id)
	if own := s.EndpointsThat(func(e *Endpoint) bool { return e.Identity == p.ID }); len(own) > 0 {
		sortByLastSeen(own)
		p.Name = own[0].LogicalAgentID
	}
	return p
}

// IsOnline reports whether an endpoint of an agent is online.
func (s *Parties) IsOnline(id protocol.PeerID) bool {
	return slices.ContainsFunc(s.EndpointsOf(id), func(e *Endpoint) bool { return e.Status == collab.StatusOnline })
}

// A Resolution is the meaning of a label.
type Resolution struct {
	Party                  // the agent or person; empty if unknown or ambiguous
	Person     bool        // cannot be woken
	Endpoint   *Endpoint   // the chosen endpoint, if there is any
	Failure    collab.Code // unknown_target, ambiguous, or empty
	Reason     string
	Candidates []collab.Option // the possible endpoints
}

// A Locality is the place where a caller works.
type Locality struct{ Project, workspace string }

const endpointPrefix = "endpoint:"

// Resolve resolves a target: "endpoint:ID", a label, or an identity such as "agent:lead". It
// never guesses.
func (s *Parties) Resolve(target string, from Locality) Resolution {
	if id, ok := strings.CutPrefix(target, endpointPrefix); ok {
		e := s.Endpoints[id]
		if e == nil {
			return Resolution{Failure: collab.CodeUnknownTarget,
				Reason: fmt.Sprintf("no endpoint %q was announced", id)}
		}
		return Resolution{
			Party:      Party{e.LogicalAgentID, e.Identity},
			Endpoint:   e,
			Reason:     "the endpoint was named",
			Candidates: s.options([]*Endpoint{e}),
		}
	}
	name := strings.TrimPrefix(target, "@")
	if id := protocol.PeerID(name); protocol.RoleOf(id) != protocol.RoleUnknown {
		return s.resolveIdentity(s.DisplayParty(id), from)
	}
	name = strings.TrimPrefix(name, "role:")
	l, err := parseLabel(name)
	fit := s.endpointsNamed(name)
	if len(fit) == 0 && err != nil {
		fit = s.EndpointsThat(func(e *Endpoint) bool { return e.hasAlias(Normalize(name)) })
	}
	if len(fit) > 0 && (err != nil || !strings.HasPrefix(target, "@")) {
		return s.chooseNamed(fit, from) // as announced, with any characters
	}
	if err != nil {
		return Resolution{Failure: collab.CodeUnknownTarget, Reason: err.Error()}
	}
	return s.resolveLabel(l, from)
}

// resolveIdentity resolves a named identity.
func (s *Parties) resolveIdentity(p Party, from Locality) Resolution {
	st := s.ResolveParty(p, from)
	if st.Endpoint == nil && st.Failure == "" && !s.People[p.ID] && !s.Agents[p.ID] {
		st.Party, st.Failure = Party{}, collab.CodeUnknownTarget
	}
	return st
}

// resolveLabel resolves a label: to an agent, else to a person of that name, else to the party
// with that alias, else to the party with that role. Names come first, because everybody can claim
// an alias or a role.
func (s *Parties) resolveLabel(l label, from Locality) Resolution {
	named := s.EndpointsThat(func(e *Endpoint) bool { return Normalize(e.LogicalAgentID) == l.Name })
	if len(named) == 0 {
		if known := s.KnownParties(func(name string) bool { return Normalize(name) == l.Name }); len(known) > 0 {
			return s.resolveAbsent(l, known)
		}
		named = s.EndpointsThat(func(e *Endpoint) bool { return e.hasAlias(l.Name) })
	}
	if len(named) == 0 {
		named = s.EndpointsThat(func(e *Endpoint) bool { return e.hasRole(l.Name) })
	}
	fit := Filter(named, func(e *Endpoint) bool { return e.fits(l) })
	switch {
	case len(named) == 0:
		return Resolution{Failure: collab.CodeUnknownTarget,
			Reason: fmt.Sprintf("nobody announced the name, alias or role %s", l)}
	case len(fit) == 0:
		return Resolution{
			Failure: collab.CodeUnknownTarget, Candidates: s.options(named),
			Reason: fmt.Sprintf("no endpoint of that name fits %s", l),
		}
	}
	return s.chooseNamed(fit, from)
}

// resolveAbsent resolves a label that fits a known party without endpoints.
func (s *Parties) resolveAbsent(l label, known []Party) Resolution {
	people := Filter(known, func(p Party) bool { return protocol.IsPerson(p.ID) })
	switch {
	case len(people) == 0 || l != label{Name: l.Name}:
		return Resolution{Failure: collab.CodeUnknownTarget,
			Reason: fmt.Sprintf("%s no longer has endpoints", known[0].ID)}
	case len(people) > 1:
		return Resolution{Failure: collab.CodeAmbiguous, Reason: AmbiguityReason(people),
			Candidates: PartyOptions(people)}
	}
	return Resolution{Party: people[0], Person: true, Reason: people[0].Name + " is a person"}
}

// chooseNamed is choose for endpoints found by a name. Endpoints of several agents are ambiguous.
func (s *Parties) chooseNamed(fit []*Endpoint, from Locality) Resolution {
	sortByLastSeen(fit)
	first := fit[0]
	others := Filter(fit, func(e *Endpoint) bool { return e.AgentIdentity != first.AgentIdentity })
	if len(others) > 0 {
		meant := []Party{{ID: first.AgentIdentity}, {ID: others[0].AgentIdentity}}
		return Resolution{Failure: collab.CodeAmbiguous, Candidates: s.options(fit), Reason: AmbiguityReason(meant)}
	}
	st := s.choose(fit, "", from)
	if st.Failure == "" {
		st.Party = s.agentBehind(st.Endpoint)
	}
	return st
}

// agentBehind returns the party of an endpoint found by its name: the agent of that name or, if
// the name is also used in other workspaces, the identity that announced it.
func (s *Parties) agentBehind(e *Endpoint) Party {
	elsewhere := s.EndpointsThat(func(o *Endpoint) bool {
		return o.AgentIdentity == e.AgentIdentity && o.Identity != e.Identity && o.WorkspaceID != e.WorkspaceID
	})
	if len(elsewhere) > 0 {
		return Party{e.LogicalAgentID, e.Identity}
	}
	return Party{e.LogicalAgentID, e.AgentIdentity}
}

// choose chooses one endpoint of at least one. It prefers wakeable and online ones, then those
// announced by the meant identity, then those in the caller's project, then in its workspace,
// then the latest sign of life. Endpoints of different identities in different workspaces are
// ambiguous unless one of these rules decides.
func (s *Parties) choose(fit []*Endpoint, meant protocol.PeerID, from Locality) Resolution {
	sortByLastSeen(fit)
	st := Resolution{Candidates: s.options(fit)}
	pool, why := fit, "it has the latest sign of life"
	if len(fit) == 1 {
		why = "it is the only one"
	}
	for _, rule := range []struct {
		why  string
		keep func(e *Endpoint) bool
	}{
		{"", (*Endpoint).Wakeable},
		{"", func(e *Endpoint) bool { return e.Status == collab.StatusOnline }},
		{"", func(e *Endpoint) bool { return e.Identity == meant }},
		{
			"it is in the sender's project",
			func(e *Endpoint) bool { return from.Project != "" && e.ProjectPath == from.Project },
		},
		{
			"it is in the sender's workspace",
			func(e *Endpoint) bool { return from.workspace != "" && e.WorkspaceID == from.workspace },
		},
	} {
		kept := Filter(pool, rule.keep)
		if len(kept) == 0 || len(kept) == len(pool) {
			continue
		}
		pool, why = kept, cmp.Or(rule.why, why)
	}
	others := Filter(pool, func(e *Endpoint) bool {
		return e.Identity != pool[0].Identity && e.WorkspaceID != pool[0].WorkspaceID
	})
	if len(others) > 0 {
		st.Failure = collab.CodeAmbiguous
		st.Reason = fmt.Sprintf("the name is used in several workspaces: say %s or %s",
			s.uniqueLabel(pool[0]), s.uniqueLabel(others[0]))
		return st
	}
	st.Endpoint = pool[0]
	st.Reason = "endpoint " + pool[0].EndpointID + ": " + why
	return st
}

// sortByLastSeen sorts endpoints by their last sign of life, the latest first.
func sortByLastSeen(list []*Endpoint) {
	slices.SortFunc(list, func(a, b *Endpoint) int {
		return cmp.Or(cmp.Compare(b.Seq, a.Seq), cmp.Compare(a.EndpointID, b.EndpointID))
	})
}

// uniqueLabel returns the shortest label that means only the agent of an endpoint, or else the
// identity that announced it.
func (s *Parties) uniqueLabel(e *Endpoint) string {
	short := label{Name: Normalize(e.LogicalAgentID), Workspace: Normalize(e.WorkspaceID)}
	long := short
	long.Profile, long.Harness, long.Model, long.Node = Normalize(e.Profile), Normalize(e.HarnessType),
		Normalize(e.Model), Normalize(e.Node)
	for _, l := range []label{short, long} {
		others := s.EndpointsThat(func(o *Endpoint) bool {
			return Normalize(o.LogicalAgentID) == l.Name && o.fits(l) &&
				(o.Identity != e.Identity || o.AgentIdentity != e.AgentIdentity)
		})
		if len(others) == 0 {
			return l.String()
		}
	}
	return string(e.Identity)
}

// options describes the first maxOptions endpoints, in the order of their IDs.
func (s *Parties) options(list []*Endpoint) []collab.Option {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b *Endpoint) int { return cmp.Compare(a.EndpointID, b.EndpointID) })
	list = list[:min(len(list), maxOptions)]
	out := make([]collab.Option, 0, len(list))
	for _, e := range list {
		out = append(out, collab.Option{
			AgentID:    e.LogicalAgentID,
			Identity:   e.Identity,
			EndpointID: e.EndpointID,
			Label:      s.uniqueLabel(e),
			Status:     e.Status,
		})
	}
	return out
}

const maxOptions = 20

// ResolveParty resolves a party of a record by its identity, whatever its name means as a label.
func (s *Parties) ResolveParty(p Party, from Locality) Resolution {
	st := Resolution{Party: p}
	switch fit := s.EndpointsOf(p.ID); {
	case len(fit) > 0:
		st = s.choose(fit, p.ID, from)
		st.Party = p
	case protocol.IsPerson(p.ID):
		st.Person, st.Reason = true, p.Name+" is a person"
	case s.Agents[p.ID]:
		st.Reason = string(p.ID) + " no longer has endpoints"
	default:
		st.Reason = p.Name + " has never announced itself"
	}
	return st
}

// EndpointsOf returns the endpoints that act for an identity.
func (s *Parties) EndpointsOf(id protocol.PeerID) []*Endpoint {
	return s.EndpointsThat(func(e *Endpoint) bool { return e.ActsFor(id) })
}

// endpointsNamed returns the endpoints announced under exactly that name.
func (s *Parties) endpointsNamed(name string) []*Endpoint {
	return s.EndpointsThat(func(e *Endpoint) bool { return e.LogicalAgentID == name })
}

// EndpointsThat returns the endpoints that satisfy keep, in any order.
func (s *Parties) EndpointsThat(keep func(e *Endpoint) bool) (list []*Endpoint) {
	for _, e := range s.Endpoints {
		if keep(e) {
			list = append(list, e)
		}
	}
	return list
}

// LocalityOf returns the place of the caller's endpoint with the latest sign of life.
func (s *Parties) LocalityOf(c Caller) Locality {
	own := s.EndpointsThat(func(e *Endpoint) bool { return e.Identity == c.Identity })
	if len(own) == 0 {
		return Locality{}
	}
	last := slices.MaxFunc(own, func(a, b *Endpoint) int { return cmp.Compare(a.Seq, b.Seq) })
	return Locality{last.ProjectPath, last.WorkspaceID}
}

// Filter returns the elements that satisfy keep, in order.
func Filter[T any](list []T, keep func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(list), func(v T) bool { return !keep(v) })
}
