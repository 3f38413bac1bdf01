package broker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hubbub/protocol"
	"hubbub/protocol/collab"
)

// bareName returns the name of an identity in records. "agent:lead" is "lead", and so is "lead".
// "cli:will.7f3a" is "will": the part after the dot only distinguishes runs of the command line.
func bareName(id string) string {
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

// principal returns the identity of a peer in records. It leaves out what distinguishes runs of
// the command line.
func principal(id protocol.PeerID) protocol.PeerID {
	if protocol.RoleOf(id) == protocol.RoleCLI {
		return protocol.PeerID("cli:" + bareName(string(id)))
	}
	return id
}

// A party is somebody in records: the displayed name, and the identity on which all decisions are
// based.
type party struct {
	name string
	id   protocol.PeerID
}

// partyOf returns the party of an identity.
func partyOf(id protocol.PeerID) party { return party{bareName(string(id)), principal(id)} }

// ref returns the value that means the party in params.
func (p party) ref() string { return cmp.Or(string(p.id), p.name) }

// A caller is the sender of a request: its identity, for which the bus vouches, and its name in
// records.
type caller struct {
	Identity protocol.PeerID
	Name     string
	Person   bool            // acts for people: not an agent's identity
	agent    protocol.PeerID // the agent of that name, for which it also acts; empty for people
	names    []string        // patterns of further names that the bus lets it announce
}

// party returns the caller as a party of records.
func (c *caller) party() party { return party{c.Name, principal(c.Identity)} }

// is reports whether the caller has an identity, or acts under its name.
func (c *caller) is(id protocol.PeerID) bool {
	return id != "" && (id == principal(c.Identity) || id == c.agent)
}

// actsFor reports whether the caller may act for an identity.
func (c *caller) actsFor(id protocol.PeerID) bool { return c.Person || c.is(id) }

// mayBeNamed reports whether the caller may use a name.
func (c *caller) mayBeNamed(name string) bool {
	return name == c.Identity.Name() ||
		slices.ContainsFunc(c.names, func(p string) bool { return protocol.Pattern(p).Matches(protocol.Topic(name)) })
}

// brokerCaller is the caller of the broker's own changes.
var brokerCaller = caller{Identity: protocol.PeerBroker, Name: "broker"}

// caller returns the caller with an identity, and with the names that the bus grants it. An
// announced name counts only while it is granted.
func (s *state) caller(id protocol.PeerID, names []string) caller {
	c := caller{Identity: id, Name: bareName(string(id)), Person: protocol.IsPerson(id), names: names}
	if c.Person {
		return c
	}
	if name := s.actsAs[id]; name != "" && c.mayBeNamed(name) {
		c.Name = name
	}
	c.agent = protocol.AgentID(c.Name)
	return c
}

// kind returns the caller's surface, whatever the caller claims.
func (c caller) kind() string {
	if c.Person {
		return collab.SurfaceHuman
	}
	return collab.SurfaceAgent
}

// A view is the state as a caller sees it: the meaning of a name depends on the caller.
type view struct {
	*state
	caller caller
}

// partyIn resolves a name for a record. A bare name that the record already shows means the same
// party again.
func (v *view) partyIn(r *record, s string) party {
	shown := map[protocol.PeerID]bool{}
	for _, f := range r.parties() {
		if *f.name == s && *f.id != "" {
			shown[*f.id] = true
		}
	}
	if ids := sortedKeys(shown); len(ids) == 1 {
		return party{s, ids[0]}
	}
	return v.partyOf(s, v.knownParties)
}

// partyOf resolves a name in params: an identity to itself, a label as in routing, and a bare
// name to the known party of that name, else to the agent with that alias, else to the agent of
// that name. It refuses an ambiguous name.
func (v *view) partyOf(s string, known func(fits func(name string) bool) []party) party {
	s = strings.TrimSpace(s)
	bare, labelled := strings.CutPrefix(s, "@")
	if id := protocol.PeerID(bare); protocol.RoleOf(id) != protocol.RoleUnknown {
		return v.displayParty(id)
	}
	if labelled {
		switch st := v.resolve(s, v.localityOf(v.caller)); st.Failure {
		case "":
			return st.party
		case collab.CodeAmbiguous:
			failUnroutable(st.Failure, s, st.Reason, st.Candidates, nil)
		}
	}
	list := known(func(name string) bool { return name == bare })
	if len(list) == 0 {
		list = known(func(name string) bool { return normalize(name) == normalize(bare) })
	}
	if len(list) == 0 && bare != "" {
		list = v.aliasedParties(bare)
	}
	switch {
	case bare == "":
		return party{}
	case len(list) == 0:
		return party{bare, protocol.AgentID(bare)}
	case len(list) > 1:
		failUnroutable(collab.CodeAmbiguous, s, ambiguityReason(list), partyOptions(list), nil)
	}
	return list[0]
}

// knownParties is state.known with the caller.
func (v *view) knownParties(fits func(name string) bool) []party {
	list := v.state.knownParties(fits)
	if p := partyOf(v.caller.Identity); fits(p.name) && !slices.Contains(list, p) {
		list = append(list, p)
	}
	return list
}

// agentParty is partyOf for names that can only mean an agent.
func (v *view) agentParty(s string) party {
	return v.partyOf(s, func(fits func(name string) bool) []party {
		return filter(v.knownParties(fits), func(p party) bool { return !protocol.IsPerson(p.id) })
	})
}

// partyFilter returns a filter for a list. An identity or a label fits its party, a bare name
// every party of that name, and "" everybody.
func (v *view) partyFilter(s string) func(p party) bool {
	switch id := protocol.PeerID(strings.TrimPrefix(s, "@")); {
	case s == "":
		return func(party) bool { return true }
	case string(id) == s && protocol.RoleOf(id) == protocol.RoleUnknown:
		aliased := v.aliasedParties(s)
		return func(p party) bool { return p.name == s || slices.Contains(aliased, p) }
	}
	meant := v.partyOf(s, v.knownParties)
	return func(p party) bool { return p.id == meant.id }
}

// knownParties lists the parties whose names fit, among the agents that ever announced themselves and
// the people that ever sent a request.
func (s *state) knownParties(fits func(name string) bool) (list []party) {
	for _, ids := range []map[protocol.PeerID]bool{s.agents, s.people} {
		for id := range ids {
			if p := partyOf(id); fits(p.name) {
				list = append(list, p)
			}
		}
	}
	slices.SortFunc(list, func(a, b party) int { return cmp.Compare(a.id, b.id) })
	return list
}

// aliasedParties lists the agents that have an alias, which is not normalized.
func (s *state) aliasedParties(alias string) (list []party) {
	for _, e := range s.endpointsThat(func(e *endpoint) bool { return e.hasAlias(normalize(alias)) }) {
		if p := s.agentBehind(e); !slices.Contains(list, p) {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b party) int { return cmp.Compare(a.id, b.id) })
	return list
}

// displayParty returns the party of an identity with the name that it announced, if it has
// endpoints, else with its own.
func (s *state) displayParty(id protocol.PeerID) party {
	p := partyOf(id)
	if own := s.endpointsThat(func(e *endpoint) bool { return e.Identity == p.id }); len(own) > 0 {
		sortByLastSeen(own)
		p.name = own[0].LogicalAgentID
	}
	return p
}

// ambiguityReason explains how to distinguish parties of one name.
func ambiguityReason(list []party) string {
	return fmt.Sprintf("the name means %s and %s: say %[1]s or %[2]s", list[0].id, list[1].id)
}

// partyOptions describes parties regardless of their endpoints.
func partyOptions(list []party) (out []collab.Option) {
	for _, p := range list {
		out = append(out, collab.Option{AgentID: p.name, Identity: p.id, Label: string(p.id)})
	}
	return out
}
