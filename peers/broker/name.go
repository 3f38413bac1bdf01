package broker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hubbub/protocol"
	"hubbub/protocol/collab"
)

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
		return cmp.Or(name, p.Name())
	}
	return p.Name()
}

// principal returns the identity by which somebody stands in records: a peer's own, of
// the command line without what tells its runs apart.
func principal(id protocol.PeerID) protocol.PeerID {
	if protocol.RoleOf(id) == protocol.RoleCLI {
		return protocol.PeerID("cli:" + bareName(string(id)))
	}
	return id
}

// A party is somebody as records have them: by the name that they show, and by the
// identity, with which everything is decided.
type party struct {
	name string
	id   protocol.PeerID
}

// partyOf returns the party of an identity.
func partyOf(id protocol.PeerID) party { return party{bareName(string(id)), principal(id)} }

// ref returns what means the party in params.
func (p party) ref() string { return cmp.Or(string(p.id), p.name) }

// A caller is who sent a request: its identity, for which the bus vouches, and the name
// under which it stands in records.
type caller struct {
	Identity protocol.PeerID
	Name     string
	Person   bool            // speaks for people: not an agent's identity
	agent    protocol.PeerID // the agent of that name, for which it acts too; of no person
	names    []string        // patterns of the names that the bus lets it announce besides its own
}

// party returns the caller as records have it.
func (c *caller) party() party { return party{c.Name, principal(c.Identity)} }

// is reports whether the caller is an identity, or acts under its name.
func (c *caller) is(id protocol.PeerID) bool {
	return id != "" && (id == principal(c.Identity) || id == c.agent)
}

// actsFor reports whether the caller may act for an identity.
func (c *caller) actsFor(id protocol.PeerID) bool { return c.Person || c.is(id) }

// mayBeNamed reports whether the caller may go by a name.
func (c *caller) mayBeNamed(name string) bool {
	return name == c.Identity.Name() ||
		slices.ContainsFunc(c.names, func(p string) bool { return protocol.Pattern(p).Matches(protocol.Topic(name)) })
}

// brokerCaller is the caller of what the broker does by itself.
var brokerCaller = caller{Identity: protocol.PeerBroker, Name: "broker"}

// caller returns who sends as an identity, with the names that the bus vouches for. What
// it announced counts as long as it is granted.
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

// kind returns the surface that the caller speaks from, whatever it claims.
func (c caller) kind() string {
	if c.Person {
		return collab.SurfaceHuman
	}
	return collab.SurfaceAgent
}

// A view is the state as a caller sees it: a name means what it means to the caller.
type view struct {
	*state
	caller caller
}

// partyIn finds whom a name means that is to stand in a record: a bare one that the record
// shows already means who it shows.
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
	return v.partyOf(s, v.known)
}

// partyOf finds whom a name in params means: an identity itself; a label whom it resolves
// to; and a bare name the one of those known whose it is, else the agent of that name. What
// means several is refused.
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

// known is that of the state, and the caller.
func (v *view) known(fits func(name string) bool) []party {
	list := v.state.known(fits)
	if p := partyOf(v.caller.Identity); fits(p.name) && !slices.Contains(list, p) {
		list = append(list, p)
	}
	return list
}

// agentParty is partyOf where only an agent can be meant.
func (v *view) agentParty(s string) party {
	return v.partyOf(s, func(fits func(name string) bool) []party {
		return filter(v.known(fits), func(p party) bool { return !protocol.IsPerson(p.id) })
	})
}

// partyFilter returns a condition for a list: an identity or a label fits who it means, a bare
// name whoever shows it, and "" everybody.
func (v *view) partyFilter(s string) func(p party) bool {
	switch id := protocol.PeerID(strings.TrimPrefix(s, "@")); {
	case s == "":
		return func(party) bool { return true }
	case string(id) == s && protocol.RoleOf(id) == protocol.RoleUnknown:
		return func(p party) bool { return p.name == s }
	}
	meant := v.partyOf(s, v.known)
	return func(p party) bool { return p.id == meant.id }
}

// known lists the agents that ever announced themselves, and the people who ever asked for
// something, whose names fit.
func (s *state) known(fits func(name string) bool) (list []party) {
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

// displayParty returns the party of an identity under the name that it has announced, if it has
// endpoints, else its own.
func (s *state) displayParty(id protocol.PeerID) party {
	p := partyOf(id)
	if own := s.endpointsThat(func(e *endpoint) bool { return e.Identity == p.id }); len(own) > 0 {
		sortByLastSeen(own)
		p.name = own[0].LogicalAgentID
	}
	return p
}

// ambiguityReason says how parties of one name are told apart.
func ambiguityReason(list []party) string {
	return fmt.Sprintf("the name means %s and %s: say %[1]s or %[2]s", list[0].id, list[1].id)
}

// partyOptions shows parties without regard to endpoints.
func partyOptions(list []party) (out []collab.Option) {
	for _, p := range list {
		out = append(out, collab.Option{AgentID: p.name, Identity: p.id, Label: string(p.id)})
	}
	return out
}
