package broker

import (
	"slices"
	"strings"

	"hubbub/peers/broker/rules"
	"hubbub/protocol"
	"hubbub/protocol/collab"
)

// A view is the state as a caller sees it: the meaning of a name depends on the caller.
type view struct {
	*state
	caller rules.Caller
}

// partyIn resolves a name for a record. A bare name that the record already shows means the same
// party again.
func (v *view) partyIn(r *rules.Record, s string) rules.Party {
	shown := map[protocol.PeerID]bool{}
	for _, f := range r.Parties() {
		if *f.Name == s && *f.ID != "" {
			shown[*f.ID] = true
		}
	}
	if ids := sortedKeys(shown); len(ids) == 1 {
		return rules.Party{Name: s, ID: ids[0]}
	}
	return v.partyOf(s, v.knownParties)
}

// partyOf resolves a name in params: an identity to itself, a label as in routing, and a bare
// name to the known party of that name, else to the agent with that alias, else to the agent of
// that name. It refuses an ambiguous name, and a label that fits no agent and cannot be a name.
func (v *view) partyOf(s string, known func(fits func(name string) bool) []rules.Party) rules.Party {
	s = strings.TrimSpace(s)
	bare, labelled := strings.CutPrefix(s, "@")
	if id := protocol.PeerID(bare); protocol.RoleOf(id) != protocol.RoleUnknown {
		return v.DisplayParty(id)
	}
	var st rules.Resolution
	if labelled {
		switch st = v.Resolve(s, v.LocalityOf(v.caller)); st.Failure {
		case "":
			return st.Party
		case collab.CodeAmbiguous:
			rules.FailUnroutable(st.Failure, s, st.Reason, st.Candidates, nil)
		}
	}
	list := known(func(name string) bool { return name == bare })
	if len(list) == 0 {
		list = known(func(name string) bool { return rules.Normalize(name) == rules.Normalize(bare) })
	}
	if len(list) == 0 && bare != "" {
		list = v.AliasedParties(bare)
	}
	switch {
	case bare == "":
		return rules.Party{}
	case len(list) == 0 && labelled && strings.ContainsAny(bare, ".:@#? "):
		rules.FailUnroutable(st.Failure, s, st.Reason, st.Candidates, nil)
	case len(list) == 0:
		return rules.Party{Name: bare, ID: protocol.AgentID(bare)}
	case len(list) > 1:
		rules.FailUnroutable(collab.CodeAmbiguous, s, rules.AmbiguityReason(list), rules.PartyOptions(list), nil)
	}
	return list[0]
}

// knownParties is state.known with the caller.
func (v *view) knownParties(fits func(name string) bool) []rules.Party {
	list := v.state.KnownParties(fits)
	if p := rules.PartyOf(v.caller.Identity); fits(p.Name) && !slices.Contains(list, p) {
		list = append(list, p)
	}
	return list
}

// agentParty is partyOf for names that can only mean an agent.
func (v *view) agentParty(s string) rules.Party {
	return v.partyOf(s, func(fits func(name string) bool) []rules.Party {
		return rules.Filter(v.knownParties(fits), func(p rules.Party) bool { return !protocol.IsPerson(p.ID) })
	})
}

// partyFilter returns a filter for a list. An identity or a label fits its party, a bare name
// every party of that name, and "" everybody.
func (v *view) partyFilter(s string) func(p rules.Party) bool {
	switch id := protocol.PeerID(strings.TrimPrefix(s, "@")); {
	case s == "":
		return func(rules.Party) bool { return true }
	case string(id) == s && protocol.RoleOf(id) == protocol.RoleUnknown:
		aliased := v.AliasedParties(s)
		return func(p rules.Party) bool { return p.Name == s || slices.Contains(aliased, p) }
	}
	meant := v.partyOf(s, v.knownParties)
	return func(p rules.Party) bool { return p.ID == meant.ID }
}
