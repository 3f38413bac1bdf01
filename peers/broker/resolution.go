package broker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hubbub/protocol"
	"hubbub/protocol/collab"
)

// A resolution is the meaning of a label.
type resolution struct {
	party                  // the agent or person; empty if unknown or ambiguous
	Person     bool        // cannot be woken
	Endpoint   *endpoint   // the chosen endpoint, if there is any
	Failure    collab.Code // unknown_target, ambiguous, or empty
	Reason     string
	Candidates []collab.Option // the possible endpoints
}

// A locality is the place where a caller works.
type locality struct{ project, workspace string }

const endpointPrefix = "endpoint:"

// resolve resolves a target: "endpoint:ID", a label, or an identity such as "agent:lead". It
// never guesses.
func (s *state) resolve(target string, from locality) resolution {
	if id, ok := strings.CutPrefix(target, endpointPrefix); ok {
		e := s.endpoints[id]
		if e == nil {
			return resolution{Failure: collab.CodeUnknownTarget,
				Reason: fmt.Sprintf("no endpoint %q was announced", id)}
		}
		return resolution{
			party:      party{e.LogicalAgentID, e.Identity},
			Endpoint:   e,
			Reason:     "the endpoint was named",
			Candidates: s.options([]*endpoint{e}),
		}
	}
	name := strings.TrimPrefix(target, "@")
	if id := protocol.PeerID(name); protocol.RoleOf(id) != protocol.RoleUnknown {
		return s.resolveIdentity(s.displayParty(id), from)
	}
	name = strings.TrimPrefix(name, "role:")
	l, err := parseLabel(name)
	fit := s.endpointsNamed(name)
	if len(fit) == 0 && err != nil {
		fit = s.endpointsThat(func(e *endpoint) bool { return e.hasAlias(normalize(name)) })
	}
	if len(fit) > 0 && (err != nil || !strings.HasPrefix(target, "@")) {
		return s.chooseNamed(fit, from) // as announced, with any characters
	}
	if err != nil {
		return resolution{Failure: collab.CodeUnknownTarget, Reason: err.Error()}
	}
	return s.resolveLabel(l, from)
}

// resolveIdentity resolves a named identity.
func (s *state) resolveIdentity(p party, from locality) resolution {
	st := s.resolveParty(p, from)
	if st.Endpoint == nil && st.Failure == "" && !s.people[p.id] && !s.agents[p.id] {
		st.party, st.Failure = party{}, collab.CodeUnknownTarget
	}
	return st
}

// resolveLabel resolves a label: to an agent, else to a person of that name, else to the party
// with that alias, else to the party with that role. Names come first, because everybody can claim
// an alias or a role.
func (s *state) resolveLabel(l label, from locality) resolution {
	named := s.endpointsThat(func(e *endpoint) bool { return normalize(e.LogicalAgentID) == l.Name })
	if len(named) == 0 {
		if known := s.knownParties(func(name string) bool { return normalize(name) == l.Name }); len(known) > 0 {
			return s.resolveAbsent(l, known)
		}
		named = s.endpointsThat(func(e *endpoint) bool { return e.hasAlias(l.Name) })
	}
	if len(named) == 0 {
		named = s.endpointsThat(func(e *endpoint) bool { return e.hasRole(l.Name) })
	}
	fit := filter(named, func(e *endpoint) bool { return e.fits(l) })
	switch {
	case len(named) == 0:
		return resolution{Failure: collab.CodeUnknownTarget,
			Reason: fmt.Sprintf("nobody announced the name, alias or role %s", l)}
	case len(fit) == 0:
		return resolution{
			Failure: collab.CodeUnknownTarget, Candidates: s.options(named),
			Reason: fmt.Sprintf("no endpoint of that name fits %s", l),
		}
	}
	return s.chooseNamed(fit, from)
}

// resolveAbsent resolves a label that fits a known party without endpoints.
func (s *state) resolveAbsent(l label, known []party) resolution {
	people := filter(known, func(p party) bool { return protocol.IsPerson(p.id) })
	switch {
	case len(people) == 0 || l != label{Name: l.Name}:
		return resolution{Failure: collab.CodeUnknownTarget,
			Reason: fmt.Sprintf("%s has no endpoints any more", known[0].id)}
	case len(people) > 1:
		return resolution{Failure: collab.CodeAmbiguous, Reason: ambiguityReason(people),
			Candidates: partyOptions(people)}
	}
	return resolution{party: people[0], Person: true, Reason: people[0].name + " is a person"}
}

// chooseNamed is choose for endpoints found by a name. Endpoints of several agents are ambiguous.
func (s *state) chooseNamed(fit []*endpoint, from locality) resolution {
	sortByLastSeen(fit)
	first := fit[0]
	others := filter(fit, func(e *endpoint) bool { return e.AgentIdentity != first.AgentIdentity })
	if len(others) > 0 {
		meant := []party{{id: first.AgentIdentity}, {id: others[0].AgentIdentity}}
		return resolution{Failure: collab.CodeAmbiguous, Candidates: s.options(fit), Reason: ambiguityReason(meant)}
	}
	st := s.choose(fit, "", from)
	if st.Failure == "" {
		st.party = s.agentBehind(st.Endpoint)
	}
	return st
}

// agentBehind returns the party of an endpoint found by its name: the agent of that name or, if
// the name is also used in other workspaces, the identity that announced it.
func (s *state) agentBehind(e *endpoint) party {
	elsewhere := s.endpointsThat(func(o *endpoint) bool {
		return o.AgentIdentity == e.AgentIdentity && o.Identity != e.Identity && o.WorkspaceID != e.WorkspaceID
	})
	if len(elsewhere) > 0 {
		return party{e.LogicalAgentID, e.Identity}
	}
	return party{e.LogicalAgentID, e.AgentIdentity}
}

// choose chooses one endpoint of at least one. It prefers wakeable and online ones, then those
// announced by the meant identity, then those in the caller's project, then in its workspace,
// then the latest sign of life. Endpoints of different identities in different workspaces are
// ambiguous unless one of these rules decides.
func (s *state) choose(fit []*endpoint, meant protocol.PeerID, from locality) resolution {
	sortByLastSeen(fit)
	st := resolution{Candidates: s.options(fit)}
	pool, why := fit, "it has the latest sign of life"
	if len(fit) == 1 {
		why = "it is the only one"
	}
	for _, rule := range []struct {
		why  string
		keep func(e *endpoint) bool
	}{
		{"", (*endpoint).wakeable},
		{"", func(e *endpoint) bool { return e.Status == collab.StatusOnline }},
		{"", func(e *endpoint) bool { return e.Identity == meant }},
		{
			"it is in the sender's project",
			func(e *endpoint) bool { return from.project != "" && e.ProjectPath == from.project },
		},
		{
			"it is in the sender's workspace",
			func(e *endpoint) bool { return from.workspace != "" && e.WorkspaceID == from.workspace },
		},
	} {
		kept := filter(pool, rule.keep)
		if len(kept) == 0 || len(kept) == len(pool) {
			continue
		}
		pool, why = kept, cmp.Or(rule.why, why)
	}
	others := filter(pool, func(e *endpoint) bool {
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
func sortByLastSeen(list []*endpoint) {
	slices.SortFunc(list, func(a, b *endpoint) int {
		return cmp.Or(cmp.Compare(b.seq, a.seq), cmp.Compare(a.EndpointID, b.EndpointID))
	})
}

// uniqueLabel returns the shortest label that means only the agent of an endpoint, or else the
// identity that announced it.
func (s *state) uniqueLabel(e *endpoint) string {
	short := label{Name: normalize(e.LogicalAgentID), Workspace: normalize(e.WorkspaceID)}
	long := short
	long.Profile, long.Harness, long.Model, long.Node = normalize(e.Profile), normalize(e.HarnessType),
		normalize(e.Model), normalize(e.Node)
	for _, l := range []label{short, long} {
		others := s.endpointsThat(func(o *endpoint) bool {
			return normalize(o.LogicalAgentID) == l.Name && o.fits(l) &&
				(o.Identity != e.Identity || o.AgentIdentity != e.AgentIdentity)
		})
		if len(others) == 0 {
			return l.String()
		}
	}
	return string(e.Identity)
}

// filter returns the elements that satisfy keep, in order.
func filter[T any](list []T, keep func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(list), func(v T) bool { return !keep(v) })
}

func (s *state) options(list []*endpoint) []collab.Option {
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
	slices.SortFunc(out, func(a, b collab.Option) int { return cmp.Compare(a.EndpointID, b.EndpointID) })
	return out[:min(len(out), maxOptions)]
}

const maxOptions = 20

// resolveParty resolves a party of a record by its identity, whatever its name means as a label.
func (s *state) resolveParty(p party, from locality) resolution {
	st := resolution{party: p}
	switch fit := s.endpointsOf(p.id); {
	case len(fit) > 0:
		st = s.choose(fit, p.id, from)
		st.party = p
	case protocol.IsPerson(p.id):
		st.Person, st.Reason = true, p.name+" is a person"
	case s.agents[p.id]:
		st.Reason = string(p.id) + " has no endpoints any more"
	default:
		st.Reason = p.name + " has never announced itself"
	}
	return st
}

// endpointsOf returns the endpoints that act for an identity.
func (s *state) endpointsOf(id protocol.PeerID) []*endpoint {
	return s.endpointsThat(func(e *endpoint) bool { return e.actsFor(id) })
}

// endpointsNamed returns the endpoints announced under exactly that name.
func (s *state) endpointsNamed(name string) []*endpoint {
	return s.endpointsThat(func(e *endpoint) bool { return e.LogicalAgentID == name })
}

// endpointsThat returns the endpoints that satisfy keep, in any order.
func (s *state) endpointsThat(keep func(e *endpoint) bool) (list []*endpoint) {
	for _, e := range s.endpoints {
		if keep(e) {
			list = append(list, e)
		}
	}
	return list
}

// localityOf returns the place of the caller's endpoint with the latest sign of life.
func (s *state) localityOf(c caller) locality {
	own := s.endpointsThat(func(e *endpoint) bool { return e.Identity == c.Identity })
	if len(own) == 0 {
		return locality{}
	}
	last := slices.MaxFunc(own, func(a, b *endpoint) int { return cmp.Compare(a.seq, b.seq) })
	return locality{last.ProjectPath, last.WorkspaceID}
}
