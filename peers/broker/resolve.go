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
	if known := s.resolveExact(name, from); known != nil {
		return *known
	}
	l, err := ParseLabel(name)
	if err != nil {
		return Standing{Failure: collab.CodeUnknownTarget, Reason: err.Error()}
	}
	return s.resolveLabel(l, from)
}

// resolveExact finds a name written exactly as it was announced, whatever
// characters it has.
func (s *state) resolveExact(name string, from locality) *Standing {
	fit := s.endpointsOf(name)
	if len(fit) == 0 {
		return nil
	}
	st := choose(fit, from)
	return &st
}

func (s *state) resolveLabel(l Label, from locality) Standing {
	var named, roled []*endpoint
	for _, e := range s.endpoints {
		if normal(e.LogicalAgentID) == l.Name {
			named = append(named, e)
		}
		if e.hasRole(l.Name) {
			roled = append(roled, e)
		}
	}
	if len(named) == 0 {
		named = roled
	}
	if len(named) == 0 {
		return s.resolvePerson(l)
	}
	var fit []*endpoint
	for _, e := range named {
		if e.fits(l) {
			fit = append(fit, e)
		}
	}
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
	if other := differs(fit, func(a, b *endpoint) bool { return a.LogicalAgentID != b.LogicalAgentID }); other != nil {
		st.Failure = collab.CodeAmbiguous
		st.Reason = fmt.Sprintf("the label fits %s and %s", fit[0].LogicalAgentID, other.LogicalAgentID)
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
		kept := slices.DeleteFunc(slices.Clone(pool), func(e *endpoint) bool { return !rule.keep(e) })
		if len(kept) == 0 || len(kept) == len(pool) {
			continue
		}
		pool = kept
		if rule.why != "" {
			why = rule.why
		}
	}
	other := differs(pool, func(a, b *endpoint) bool { return a.Identity != b.Identity && a.WorkspaceID != b.WorkspaceID })
	if other != nil {
		st.Failure, st.AgentID = collab.CodeAmbiguous, ""
		st.Reason = fmt.Sprintf("the name is used in several workspaces: say %s or %s", pool[0].label(), other.label())
		return st
	}
	st.Endpoint = pool[0]
	st.Reason = "endpoint " + pool[0].EndpointID + ": " + why
	return st
}

// differs returns the first endpoint that differs from the first of the list.
func differs(list []*endpoint, differ func(a, b *endpoint) bool) *endpoint {
	for _, e := range list[1:] {
		if differ(list[0], e) {
			return e
		}
	}
	return nil
}

func options(list []*endpoint) []collab.Option {
	out := make([]collab.Option, 0, len(list))
	for _, e := range list {
		out = append(out, collab.Option{AgentID: e.LogicalAgentID, EndpointID: e.EndpointID, Label: e.label(), Status: e.Status})
	}
	slices.SortFunc(out, func(a, b collab.Option) int { return cmp.Compare(a.EndpointID, b.EndpointID) })
	if len(out) > maxOptions {
		out = out[:maxOptions]
	}
	return out
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
	var fit []*endpoint
	for _, e := range s.endpoints {
		if e.LogicalAgentID == name {
			fit = append(fit, e)
		}
	}
	return fit
}

// localityOf returns where a caller works: the place of the endpoint that was heard
// of last.
func (s *state) localityOf(c Caller) locality {
	var last *endpoint
	for _, e := range s.endpoints {
		if e.Identity == c.Identity && (last == nil || e.seq > last.seq) {
			last = e
		}
	}
	if last == nil {
		return locality{}
	}
	return locality{last.ProjectPath, last.WorkspaceID}
}
