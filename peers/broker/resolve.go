package broker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hubbub/protocol/collab"
)

// A Standing is what a label was found to mean.
type Standing struct {
	AgentID    string      // the logical agent or person; empty when unknown or ambiguous
	Person     bool        // a person: nobody to wake
	Endpoint   *endpoint   // the endpoint chosen among those that fit, if there is any
	Failure    collab.Code // unknown_target, ambiguous, or empty
	Reason     string
	Candidates []collab.Option // the endpoints looked at
}

// A locality is where a caller works.
type locality struct{ project, workspace string }

const endpointPrefix = "endpoint:"

// resolve finds whom a target names. A target is "endpoint:ID", a label, or an
// identity such as "agent:lead". It never guesses.
func (s *state) resolve(target string, from locality) Standing {
	if id, ok := strings.CutPrefix(target, endpointPrefix); ok {
		e := s.endpoints[id]
		if e == nil {
			return Standing{Failure: collab.CodeUnknownTarget, Reason: fmt.Sprintf("no endpoint %q was announced", id)}
		}
		return Standing{AgentID: e.LogicalAgentID, Endpoint: e, Reason: "the endpoint was named", Candidates: options([]*endpoint{e})}
	}
	name := strings.TrimPrefix(bareName(strings.TrimPrefix(target, "@")), "role:")
	if fit := s.endpointsOf(name); len(fit) > 0 { // as it was announced, whatever characters it has
		return choose(fit, from)
	}
	l, err := ParseLabel(name)
	if err != nil {
		return Standing{Failure: collab.CodeUnknownTarget, Reason: err.Error()}
	}
	return s.resolveLabel(l, from)
}

func (s *state) resolveLabel(l Label, from locality) Standing {
	named := s.endpointsThat(func(e *endpoint) bool { return normal(e.LogicalAgentID) == l.Name })
	if len(named) == 0 {
		named = s.endpointsThat(func(e *endpoint) bool { return e.hasRole(l.Name) })
	}
	if len(named) == 0 {
		return s.resolvePerson(l)
	}
	fit := filter(named, func(e *endpoint) bool { return e.fits(l) })
	if len(fit) == 0 {
		return Standing{
			Failure: collab.CodeUnknownTarget, Candidates: options(named),
			Reason: fmt.Sprintf("no endpoint of that name fits %s", l),
		}
	}
	return choose(fit, from)
}

func (s *state) resolvePerson(l Label) Standing {
	var match []string
	for name := range s.people {
		if normal(name) == l.Name {
			match = append(match, name)
		}
	}
	if len(match) == 1 && l == (Label{Name: l.Name}) {
		return Standing{AgentID: match[0], Person: true, Reason: match[0] + " is a person"}
	}
	return Standing{Failure: collab.CodeUnknownTarget, Reason: fmt.Sprintf("nobody announced the name or role %s", l)}
}

// choose picks one endpoint of those that a label fits (at least one): live and
// wakeable ones before others, then those in the asker's project, then in its
// workspace, then the one heard of last. Endpoints of several agents are
// ambiguous; so are those of one name that different identities announced in
// different workspaces, unless the asker's own place decides.
func choose(fit []*endpoint, from locality) Standing {
	slices.SortFunc(fit, func(a, b *endpoint) int {
		return cmp.Or(cmp.Compare(b.seq, a.seq), cmp.Compare(a.EndpointID, b.EndpointID))
	})
	st := Standing{Candidates: options(fit)}
	if others := filter(fit, func(e *endpoint) bool { return e.LogicalAgentID != fit[0].LogicalAgentID }); len(others) > 0 {
		st.Failure = collab.CodeAmbiguous
		st.Reason = fmt.Sprintf("the label fits %s and %s", fit[0].LogicalAgentID, others[0].LogicalAgentID)
		return st
	}
	st.AgentID = fit[0].LogicalAgentID
	pool, why := fit, "it was heard of last"
	if len(fit) == 1 {
		why = "it is the only one"
	}
	for _, rule := range []struct {
		why  string
		keep func(e *endpoint) bool
	}{
		{"", (*endpoint).wakeable},
		{"", func(e *endpoint) bool { return e.Status == collab.StatusOnline }},
		{"it is in the sender's project", func(e *endpoint) bool { return from.project != "" && e.ProjectPath == from.project }},
		{"it is in the sender's workspace", func(e *endpoint) bool { return from.workspace != "" && e.WorkspaceID == from.workspace }},
	} {
		kept := filter(pool, rule.keep)
		if len(kept) == 0 || len(kept) == len(pool) {
			continue
		}
		pool, why = kept, cmp.Or(rule.why, why)
	}
	others := filter(pool, func(e *endpoint) bool { return e.Identity != pool[0].Identity && e.WorkspaceID != pool[0].WorkspaceID })
	if len(others) > 0 {
		st.Failure, st.AgentID = collab.CodeAmbiguous, ""
		st.Reason = fmt.Sprintf("the name is used in several workspaces: say %s or %s", pool[0].label(), others[0].label())
		return st
	}
	st.Endpoint = pool[0]
	st.Reason = "endpoint " + pool[0].EndpointID + ": " + why
	return st
}

// filter returns what keep holds of, in order.
func filter[T any](list []T, keep func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(list), func(v T) bool { return !keep(v) })
}

func options(list []*endpoint) []collab.Option {
	out := make([]collab.Option, 0, len(list))
	for _, e := range list {
		out = append(out, collab.Option{AgentID: e.LogicalAgentID, EndpointID: e.EndpointID, Label: e.label(), Status: e.Status})
	}
	slices.SortFunc(out, func(a, b collab.Option) int { return cmp.Compare(a.EndpointID, b.EndpointID) })
	return out[:min(len(out), maxOptions)]
}

const maxOptions = 20

// standing finds what a name in a record means: the agent of exactly that name,
// whatever a label would resolve to, a person, or a name not heard of yet.
func (s *state) standing(name string, from locality) Standing {
	if fit := s.endpointsOf(name); len(fit) > 0 {
		return choose(fit, from)
	}
	if s.people[name] {
		return Standing{AgentID: name, Person: true, Reason: name + " is a person"}
	}
	if st := s.resolve(name, from); st.Failure == "" || st.Failure == collab.CodeAmbiguous {
		return st
	}
	return Standing{AgentID: name, Reason: name + " has never announced itself"}
}

func (s *state) endpointsOf(name string) []*endpoint {
	return s.endpointsThat(func(e *endpoint) bool { return e.LogicalAgentID == name })
}

// endpointsThat returns the endpoints that keep holds of, in any order.
func (s *state) endpointsThat(keep func(e *endpoint) bool) (list []*endpoint) {
	for _, e := range s.endpoints {
		if keep(e) {
			list = append(list, e)
		}
	}
	return list
}

// localityOf returns where a caller works: the place of the endpoint that was heard
// of last.
func (s *state) localityOf(c Caller) locality {
	own := s.endpointsThat(func(e *endpoint) bool { return e.Identity == c.Identity })
	if len(own) == 0 {
		return locality{}
	}
	last := slices.MaxFunc(own, func(a, b *endpoint) int { return cmp.Compare(a.seq, b.seq) })
	return locality{last.ProjectPath, last.WorkspaceID}
}
