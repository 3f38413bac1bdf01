package broker

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"hubbub/peers/attention"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/text"
)

// An endpoint is one process behind a logical agent.
type endpoint struct {
	collab.Endpoint
	seq int64 // counts the signs of life of all endpoints; the greatest is the latest
}

// wakeable reports whether a wake sent now should arrive.
func (e *endpoint) wakeable() bool {
	return e.Status == collab.StatusOnline && e.WakePolicy == collab.WakeAuto
}

// actsFor reports whether the endpoint acts for an identity: the one that announced it, or the
// agent of its name.
func (e *endpoint) actsFor(id protocol.PeerID) bool {
	return id != "" && (e.Identity == id || e.AgentIdentity == id)
}

func (e *endpoint) fits(l label) bool {
	workspace := l.Workspace == "" || l.Workspace == normalize(e.WorkspaceID) ||
		e.ProjectPath != "" && l.Workspace == normalize(e.ProjectPath[strings.LastIndex(e.ProjectPath, "/")+1:])
	model := normalize(e.Model)
	return workspace &&
		(l.Profile == "" || l.Profile == normalize(e.Profile)) &&
		(l.Harness == "" || l.Harness == normalize(e.HarnessType)) &&
		(l.Model == "" || strings.Contains("-"+model+"-", "-"+l.Model+"-")) &&
		(l.Node == "" || l.Node == normalize(e.Node))
}

// hasAlias reports whether an alias of the endpoint has a normal form.
func (e *endpoint) hasAlias(name string) bool {
	return slices.ContainsFunc(e.Aliases, func(a string) bool { return normalize(a) == name })
}

func (e *endpoint) hasRole(role string) bool {
	return slices.ContainsFunc(e.Roles, func(r string) bool {
		return normalize(strings.TrimPrefix(r, "role:")) == role
	})
}

// announce stores an endpoint, and wakes its agent for what waited.
func (t identityHandler) announce(p collab.AnnounceParams) collab.IdentityResult {
	if t.caller.Person || protocol.IsPerson(protocol.PeerID(p.LogicalAgentID)) {
		fail(collab.CodeForbidden, "nobody announces a person: %s is known as soon as it sends a request",
			cmp.Or(p.LogicalAgentID, string(t.caller.Identity)))
	}
	p.LogicalAgentID = cmp.Or(bareName(p.LogicalAgentID), t.caller.Identity.Name())
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
	t.caller = t.state.caller(t.caller.Identity, t.caller.names)
	wakeHandler(t).parkUnanswered(&e, before)
	wakeHandler(t).wakeWaiting(&e)
	return t.result(e.EndpointID)
}

func (t identityHandler) result(endpointID string) collab.IdentityResult {
	return collab.IdentityResult{Identity: t.endpoints[endpointID].Endpoint, Watched: t.presence.watching()}
}

func (t identityHandler) mustAllowAnnounce(p collab.AnnounceParams) {
	mustBeNames("logicalAgentId", p.LogicalAgentID, "endpointId", p.EndpointID, "harnessType", p.HarnessType,
		"workspaceId", p.WorkspaceID, "profile", p.Profile, "model", p.Model, "node", p.Node)
	switch {
	case strings.TrimSpace(p.EndpointID) == "":
		failInvalid("endpointId is required")
	case strings.ContainsFunc(p.LogicalAgentID, isInvalidNameRune) || normalize(p.LogicalAgentID) == "":
		failInvalid("logicalAgentId %q must be a name without dots, colons, @ and spaces", p.LogicalAgentID)
	case len(p.ProjectPath) > maxTitle:
		failInvalid("projectPath has at most %d bytes", maxTitle)
	case len(p.Roles) > 64 || len(p.Aliases) > 64:
		failInvalid("an endpoint has at most 64 roles and 64 aliases")
	}
	for _, name := range slices.Concat(p.Roles, p.Aliases) {
		mustBeName("a role or alias", name)
		switch name = normalize(strings.TrimPrefix(name, "role:")); {
		case name == "":
			failInvalid("a role or alias needs a letter or digit")
		case slices.Contains(attention.DefaultWords().Groups, name):
			failInvalid("%q means everybody, and everybody is never woken", name)
		}
	}
	mustBeOneOf("wakePolicy", p.WakePolicy, collab.WakeAuto, collab.WakeManual)
	if old := t.endpoints[p.EndpointID]; old != nil && old.Identity != t.caller.Identity {
		fail(collab.CodeForbidden, "endpoint %s was announced by %s: an identity announces endpoints only for itself",
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
	if !t.caller.mayBeNamed(name) {
		fail(collab.CodeForbidden,
			"the name %s is not that of %s: an agent announces its own name, or one that its credential grants"+
				" (names = [%q] in the bus's credentials.toml)", name, t.caller.Identity, name)
	}
	for id := range t.people {
		if normalize(bareName(string(id))) == normalize(name) {
			fail(collab.CodeForbidden, "the name %s is that of %s: nobody announces a person", name, id)
		}
	}
	if id := protocol.AgentID(name); t.actsAs[id] == name && !slices.Contains(t.caller.names, name) {
		fail(collab.CodeForbidden, "the name %s is that of %s: an identity announces endpoints only for itself", name,
			id)
	}
}

// leave takes an endpoint offline that is stopping. Its wakes wait from now on.
func (t identityHandler) leave(p collab.EndpointParams) collab.IdentityResult {
	e := t.endpoints[p.EndpointID]
	switch {
	case e == nil:
		failNotFound("endpoint", p.EndpointID)
	case e.Identity != t.caller.Identity:
		fail(collab.CodeForbidden, "endpoint %s was announced by %s", p.EndpointID, e.Identity)
	case e.Status == collab.StatusOnline:
		t.setOffline(e, "it is stopping")
	}
	return t.result(e.EndpointID)
}

// endPredecessors takes the endpoints offline that a new one replaces: those of the same
// identity, workspace and project. It returns their ids.
func (t identityHandler) endPredecessors(e collab.Endpoint) (before []string) {
	for _, id := range sortedKeys(t.endpoints) {
		old := t.endpoints[id]
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
	e := t.endpoints[p.EndpointID]
	switch {
	case e == nil:
		fail(collab.CodeNotFound, "endpoint %q is not known: announce it with identity.announce",
			text.Clip(p.EndpointID, 80))
	case e.Identity != t.caller.Identity:
		fail(collab.CodeForbidden, "endpoint %s was announced by %s", p.EndpointID, e.Identity)
	case !t.caller.mayBeNamed(e.LogicalAgentID):
		fail(collab.CodeNotFound, "the name %s is no longer granted to %s: announce endpoint %q under another",
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
func (t identityHandler) setOnline(e *endpoint) {
	back := e.Endpoint
	back.Status, back.LastHeartbeatAt = collab.StatusOnline, formatTime(t.now)
	emit(t.tx, collab.EventOnline, "agent:"+e.LogicalAgentID, back, nil)
	wakeHandler(t).wakeWaiting(&back)
}

// list returns every endpoint, sorted by agent and endpoint.
func (t identityHandler) list(p collab.PageParams) collab.Page[collab.Endpoint] {
	list := slices.SortedFunc(maps.Values(t.endpoints), func(a, b *endpoint) int {
		return cmp.Or(cmp.Compare(a.LogicalAgentID, b.LogicalAgentID), cmp.Compare(a.EndpointID, b.EndpointID))
	})
	return pageOf(list, func(e *endpoint) string { return e.EndpointID },
		func(e *endpoint) collab.Endpoint { return e.Endpoint }, p)
}

// resolveLabel returns the endpoint that a label means now.
func (t identityHandler) resolveLabel(p collab.LabelParams) collab.IdentityResult {
	if strings.TrimSpace(p.Label) == "" || len(p.Label) > maxLabel {
		failInvalid("label is required, with at most %d bytes", maxLabel)
	}
	st := t.mustFindAgent(p.Label)
	if st.Endpoint == nil { // all its endpoints are removed
		failUnroutable(collab.CodeUnknownTarget, p.Label, st.Reason, st.Candidates, nil)
	}
	return collab.IdentityResult{Identity: st.Endpoint.Endpoint, Reason: st.Reason}
}

// mustFindAgent returns the agent that a label means to the caller.
func (t identityHandler) mustFindAgent(label string) resolution {
	st := t.resolve(label, t.localityOf(t.caller))
	switch {
	case st.Failure != "":
		failUnroutable(st.Failure, label, st.Reason, st.Candidates, nil)
	case st.Person:
		failUnroutable(collab.CodeUnknownTarget, label, st.Reason+", not an agent", st.Candidates, nil)
	}
	return st
}

// failUnroutable ends a method: the label resolves to nobody. The details include the members of
// more, which may be nil.
func failUnroutable(code collab.Code, label, reason string, candidates []collab.Option, more any) {
	details := map[string]json.RawMessage{}
	if more != nil {
		must(json.Unmarshal(mustEncode(more), &details))
	}
	details["askedLabel"], details["candidates"] = mustEncode(label),
		mustEncode(append([]collab.Option{}, candidates...))
	failWithDetails(details, code, "%s: %s", label, reason)
}

// setOffline takes an endpoint offline.
func (t identityHandler) setOffline(e *endpoint, why string) {
	gone := e.Endpoint
	gone.Status = collab.StatusOffline
	emit(t.tx, collab.EventOffline, "agent:"+e.LogicalAgentID, gone, map[string]string{"reason": why})
}

// expireAll takes endpoints offline that were silent for EndpointTimeout, and removes those that
// were silent for RetireAfter. An endpoint is not silent while its identity is on the bus.
func (t identityHandler) expireAll() {
	for _, id := range slices.Sorted(maps.Keys(t.endpoints)) {
		e := t.endpoints[id]
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
