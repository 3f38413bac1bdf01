package broker

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"hubbub/peers/attention"
	"hubbub/peers/broker/rules"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/text"
)

// announce stores an endpoint, and wakes its agent for what waited.
func (t identityHandler) announce(p collab.AnnounceParams) collab.IdentityResult {
	if t.caller.Person || protocol.IsPerson(protocol.PeerID(p.LogicalAgentID)) {
		rules.Fail(collab.CodeForbidden, "nobody announces a person: %s is known as soon as it sends a request",
			cmp.Or(p.LogicalAgentID, string(t.caller.Identity)))
	}
	p.LogicalAgentID = cmp.Or(rules.BareName(p.LogicalAgentID), t.caller.Identity.Name())
	p.WakePolicy = cmp.Or(p.WakePolicy, collab.WakeAuto)
	t.mustAllowAnnounce(p)
	now := formatTime(t.now)
	e := collab.Endpoint{
		LogicalAgentID:  p.LogicalAgentID,
		EndpointID:      p.EndpointID,
		Identity:        t.caller.Identity,
		AgentIdentity:   protocol.AgentID(p.LogicalAgentID),
		HarnessType:     p.HarnessType,
		WorkspaceID:     p.WorkspaceID,
		ProjectPath:     strings.TrimRight(p.ProjectPath, "/"),
		Profile:         p.Profile,
		Model:           p.Model,
		Node:            p.Node,
		Aliases:         p.Aliases,
		Roles:           p.Roles,
		WakePolicy:      p.WakePolicy,
		Status:          collab.StatusOnline,
		AnnouncedAt:     now,
		LastHeartbeatAt: now,
	}
	before := t.endPredecessors(e)
	emit(t.tx, collab.EventOnline, "agent:"+e.LogicalAgentID, e, nil)
	t.presence.onAnnounce(e.Identity)
	t.caller = t.state.Caller(t.caller.Identity, t.caller.Names)
	wakeHandler(t).parkUnanswered(&e, before)
	wakeHandler(t).wakeWaiting(&e)
	return t.result(e.EndpointID)
}

func (t identityHandler) result(endpointID string) collab.IdentityResult {
	return collab.IdentityResult{Identity: t.Endpoints[endpointID].Endpoint, Watched: t.presence.watching()}
}

func (t identityHandler) mustAllowAnnounce(p collab.AnnounceParams) {
	rules.MustBeNames("logicalAgentId", p.LogicalAgentID, "endpointId", p.EndpointID, "harnessType", p.HarnessType,
		"workspaceId", p.WorkspaceID, "profile", p.Profile, "model", p.Model, "node", p.Node)
	switch {
	case strings.TrimSpace(p.EndpointID) == "":
		rules.FailInvalid("endpointId is required")
	case strings.ContainsFunc(p.LogicalAgentID, isInvalidNameRune) || rules.Normalize(p.LogicalAgentID) == "":
		rules.FailInvalid("logicalAgentId %q must be a name without dots, colons, @ and spaces", p.LogicalAgentID)
	case len(p.ProjectPath) > rules.MaxTitle:
		rules.FailInvalid("projectPath has at most %d bytes", rules.MaxTitle)
	case len(p.Roles) > 64 || len(p.Aliases) > 64:
		rules.FailInvalid("an endpoint has at most 64 roles and 64 aliases")
	}
	for _, name := range slices.Concat(p.Roles, p.Aliases) {
		rules.MustBeName("a role or alias", name)
		switch name = rules.Normalize(strings.TrimPrefix(name, "role:")); {
		case name == "":
			rules.FailInvalid("a role or alias needs a letter or digit")
		case attention.MeansEverybody(name):
			rules.FailInvalid("%q means everybody, and everybody is never woken", name)
		}
	}
	rules.MustBeOneOf("wakePolicy", p.WakePolicy, collab.WakeAuto, collab.WakeManual)
	if old := t.Endpoints[p.EndpointID]; old != nil && old.Identity != t.caller.Identity {
		rules.Fail(collab.CodeForbidden, "endpoint %s was announced by %s: an identity announces endpoints only for itself",
			p.EndpointID, old.Identity)
	}
	t.mustAllowName(p.LogicalAgentID)
}

// isInvalidNameRune reports whether a rune is not allowed in a name: it belongs to the syntax of
// labels, or is invisible.
func isInvalidNameRune(r rune) bool {
	return strings.ContainsRune(".:@", r) || unicode.IsSpace(r) || !unicode.IsGraphic(r) || text.IsInvisible(r)
}

// mustAllowName refuses a name that the caller may not announce. Several agents may have a name
// that their credentials grant. A grant of all names, as on an open bus, does not include the
// name of an agent that has announced itself.
func (t identityHandler) mustAllowName(name string) {
	if name == t.caller.Identity.Name() {
		return
	}
	if !t.caller.MayBeNamed(name) {
		rules.Fail(collab.CodeForbidden,
			"the name %s is not that of %s: an agent announces its own name, or one that its credential grants"+
				" (names = [%q] in the bus's credentials.toml)", name, t.caller.Identity, name)
	}
	for id := range t.People {
		if rules.Normalize(rules.BareName(string(id))) == rules.Normalize(name) {
			rules.Fail(collab.CodeForbidden, "the name %s is that of %s: nobody announces a person", name, id)
		}
	}
	if id := protocol.AgentID(name); t.ActsAs[id] == name && !slices.Contains(t.caller.Names, name) {
		rules.Fail(collab.CodeForbidden, "the name %s is that of %s: an identity announces endpoints only for itself", name,
			id)
	}
}

// leave takes a stopping endpoint offline. Its wakes wait from now on.
func (t identityHandler) leave(p collab.EndpointParams) collab.IdentityResult {
	e := t.Endpoints[p.EndpointID]
	switch {
	case e == nil:
		rules.FailNotFound("endpoint", p.EndpointID)
	case e.Identity != t.caller.Identity:
		rules.Fail(collab.CodeForbidden, "endpoint %s was announced by %s", p.EndpointID, e.Identity)
	case e.Status == collab.StatusOnline:
		t.setOffline(e, "it is stopping")
	}
	return t.result(e.EndpointID)
}

// endPredecessors takes offline the endpoints that a new one replaces: those of the same identity,
// workspace and project. It returns their ids.
func (t identityHandler) endPredecessors(e collab.Endpoint) (before []string) {
	for _, id := range sortedKeys(t.Endpoints) {
		old := t.Endpoints[id]
		if old.Identity != e.Identity || id == e.EndpointID || old.WorkspaceID != e.WorkspaceID ||
			old.ProjectPath != e.ProjectPath {
			continue
		}
		before = append(before, id)
		t.presence.setLost(id, false)
		if old.Status == collab.StatusOnline {
			t.setOffline(old, e.EndpointID+" replaced it")
		}
	}
	return before
}

// heartbeat keeps an endpoint online. It makes no event unless the endpoint was offline. After a
// restart the timeout of every online endpoint starts again.
func (t identityHandler) heartbeat(p collab.EndpointParams) collab.IdentityResult {
	e := t.Endpoints[p.EndpointID]
	switch {
	case e == nil:
		rules.Fail(collab.CodeNotFound, "endpoint %q is not known: announce it with identity.announce",
			text.Clip(p.EndpointID, 80))
	case e.Identity != t.caller.Identity:
		rules.Fail(collab.CodeForbidden, "endpoint %s was announced by %s", p.EndpointID, e.Identity)
	case !t.caller.MayBeNamed(e.LogicalAgentID):
		rules.Fail(collab.CodeNotFound, "the name %s is no longer granted to %s: announce endpoint %q under another",
			e.LogicalAgentID, e.Identity, p.EndpointID)
	}
	if e.Status == collab.StatusOnline {
		t.touch(e, t.now)
		return t.result(e.EndpointID)
	}
	t.setOnline(e)
	return t.result(e.EndpointID)
}

// setOnline takes an offline endpoint online, and wakes its agent for what waited.
func (t identityHandler) setOnline(e *rules.Endpoint) {
	back := e.Endpoint
	back.Status, back.LastHeartbeatAt = collab.StatusOnline, formatTime(t.now)
	emit(t.tx, collab.EventOnline, "agent:"+e.LogicalAgentID, back, nil)
	wakeHandler(t).wakeWaiting(&back)
}

// list returns every endpoint, sorted by agent and endpoint.
func (t identityHandler) list(p collab.PageParams) collab.Page[collab.Endpoint] {
	key := func(e *rules.Endpoint) string { return e.LogicalAgentID + " " + e.EndpointID }
	list := slices.SortedFunc(maps.Values(t.Endpoints), func(a, b *rules.Endpoint) int {
		return cmp.Compare(key(a), key(b))
	})
	return pageOf(cutAfter(list, key, p.After), key,
		func(e *rules.Endpoint) collab.Endpoint { return e.Endpoint }, p.Limit)
}

// resolveLabel returns the endpoint that a label means now.
func (t identityHandler) resolveLabel(p collab.LabelParams) collab.IdentityResult {
	if strings.TrimSpace(p.Label) == "" || len(p.Label) > rules.MaxLabel {
		rules.FailInvalid("label is required, with at most %d bytes", rules.MaxLabel)
	}
	rules.MustBeName("label", p.Label)
	st := t.mustFindAgent(p.Label)
	if st.Endpoint == nil { // all its endpoints are removed
		rules.FailUnroutable(collab.CodeUnknownTarget, p.Label, st.Reason, st.Candidates, nil)
	}
	return collab.IdentityResult{Identity: st.Endpoint.Endpoint, Reason: st.Reason}
}

// mustFindAgent returns the agent that a label means to the caller.
func (t identityHandler) mustFindAgent(label string) rules.Resolution {
	st := t.Resolve(label, t.LocalityOf(t.caller))
	switch {
	case st.Failure != "":
		rules.FailUnroutable(st.Failure, label, st.Reason, st.Candidates, nil)
	case st.Person:
		rules.FailUnroutable(collab.CodeUnknownTarget, label, st.Reason+", not an agent", st.Candidates, nil)
	}
	return st
}

// setOffline takes an endpoint offline.
func (t identityHandler) setOffline(e *rules.Endpoint, why string) {
	gone := e.Endpoint
	gone.Status = collab.StatusOffline
	emit(t.tx, collab.EventOffline, "agent:"+e.LogicalAgentID, gone, map[string]string{"reason": why})
}

// expireAll takes offline the endpoints that were silent for EndpointTimeout, and removes those that
// were silent for RetireAfter. An endpoint is not silent while its identity is on the bus.
func (t identityHandler) expireAll() {
	for _, id := range slices.Sorted(maps.Keys(t.Endpoints)) {
		e := t.Endpoints[id]
		heard := collab.ParseTime(e.LastHeartbeatAt)
		switch {
		case e.Status == collab.StatusOnline && t.presence.isOnline(e.Identity):
			e.LastHeartbeatAt = formatTime(t.now)
		case e.Status == collab.StatusOnline && !t.now.Before(heard.Add(t.opts.EndpointTimeout)):
			t.setOffline(e, fmt.Sprintf("no heartbeat for %s", t.opts.EndpointTimeout))
		case e.Status == collab.StatusOffline && !t.now.Before(heard.Add(t.opts.RetireAfter)):
			t.presence.setLost(id, false)
			emit(t.tx, collab.EventAgentRetired, "agent:"+e.LogicalAgentID, e.Endpoint, nil)
		}
	}
}
