package broker

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"hubbub/protocol/collab"
	"hubbub/protocol/text"
)

// announce stores an endpoint, and wakes its agent for what waited.
func announce(t *tx, p collab.AnnounceParams) (out collab.IdentityResult, err error) {
	p.LogicalAgentID = cmp.Or(bareName(p.LogicalAgentID), bareName(string(t.caller.Identity)))
	p.WakePolicy = cmp.Or(p.WakePolicy, collab.WakeAuto)
	if err := t.checkAnnounce(p); err != nil {
		return out, err
	}
	now := stamp(t.now)
	e := collab.Endpoint{
		LogicalAgentID: p.LogicalAgentID, EndpointID: p.EndpointID, Identity: t.caller.Identity,
		HarnessType: p.HarnessType, WorkspaceID: p.WorkspaceID, ProjectPath: strings.TrimRight(p.ProjectPath, "/"),
		Profile: p.Profile, Model: p.Model, Node: p.Node, Roles: p.Roles, WakePolicy: p.WakePolicy,
		Status: collab.StatusOnline, AnnouncedAt: now, LastHeartbeatAt: now,
	}
	emit(t, collab.EventOnline, "agent:"+e.LogicalAgentID, e, nil)
	t.caller = t.state.caller(t.caller.Identity)
	err = t.wakeWaiting(e.LogicalAgentID)
	return t.identity(e.EndpointID), err
}

func (s *state) identity(endpointID string) collab.IdentityResult {
	return collab.IdentityResult{Identity: s.endpoints[endpointID].Endpoint}
}

func (t *tx) checkAnnounce(p collab.AnnounceParams) error {
	if err := checkNames("logicalAgentId", p.LogicalAgentID, "endpointId", p.EndpointID, "harnessType", p.HarnessType,
		"workspaceId", p.WorkspaceID, "profile", p.Profile, "model", p.Model, "node", p.Node); err != nil {
		return err
	}
	switch {
	case strings.TrimSpace(p.EndpointID) == "":
		return invalid("endpointId is required")
	case strings.ContainsAny(p.LogicalAgentID, ".:@ ") || normal(p.LogicalAgentID) == "":
		return invalid("logicalAgentId %q must be a name without dots, colons, @ and spaces", p.LogicalAgentID)
	case len(p.ProjectPath) > maxTitle:
		return invalid("projectPath may have %d bytes", maxTitle)
	case len(p.Roles) > 64:
		return invalid("an endpoint has at most 64 roles")
	}
	for _, role := range p.Roles {
		if err := checkName("a role", role); err != nil {
			return err
		}
	}
	if err := checkOneOf("wakePolicy", p.WakePolicy, collab.WakeAuto, collab.WakeManual); err != nil {
		return err
	}
	if old := t.endpoints[p.EndpointID]; old != nil && old.Identity != t.caller.Identity {
		return collab.Refuse(collab.CodeForbidden, "endpoint %s was announced by %s: an identity announces endpoints only for itself",
			p.EndpointID, old.Identity)
	}
	return t.checkName(p.LogicalAgentID)
}

// checkName refuses the name of another agent that announced itself by its own name.
func (t *tx) checkName(name string) error {
	if bareName(string(t.caller.Identity)) == name {
		return nil
	}
	for identity, announced := range t.actsAs {
		if announced == name && bareName(string(identity)) == name && identity != t.caller.Identity {
			return collab.Refuse(collab.CodeForbidden, "the name %s is that of %s: an identity announces endpoints only for itself", name, identity)
		}
	}
	return nil
}

// heartbeat keeps an endpoint online. It is stored only if it changes something: the
// endpoint was offline, another one was heard of since, or the last heartbeat
// stored is older than a tenth of the timeout.
func heartbeat(t *tx, p collab.EndpointParams) (out collab.IdentityResult, err error) {
	e := t.endpoints[p.EndpointID]
	switch {
	case e == nil:
		return out, collab.Refuse(collab.CodeNotFound, "endpoint %q is not known: announce it with identity.announce",
			text.Clip(p.EndpointID, 80))
	case e.Identity != t.caller.Identity:
		return out, collab.Refuse(collab.CodeForbidden, "endpoint %s was announced by %s", p.EndpointID, e.Identity)
	}
	if e.Status == collab.StatusOnline && t.heardLast(e) && t.now.Sub(collab.ParseTime(e.LastHeartbeatAt)) < t.opts.EndpointTimeout/10 {
		return t.identity(e.EndpointID), nil
	}
	beat := e.Endpoint
	beat.Status, beat.LastHeartbeatAt = collab.StatusOnline, stamp(t.now)
	if e.Status == collab.StatusOnline {
		emit(t, collab.EventHeartbeat, "agent:"+e.LogicalAgentID, beat, nil)
	} else {
		emit(t, collab.EventOnline, "agent:"+e.LogicalAgentID, beat, nil)
		err = t.wakeWaiting(e.LogicalAgentID)
	}
	return t.identity(e.EndpointID), err
}

func (s *state) heardLast(e *endpoint) bool {
	return !slices.ContainsFunc(s.endpointsOf(e.LogicalAgentID), func(other *endpoint) bool { return other.seq > e.seq })
}

// listIdentities answers with every endpoint, by agent and endpoint.
func listIdentities(t *tx, p collab.PageParams) (collab.Page[collab.Endpoint], error) {
	list := slices.SortedFunc(maps.Values(t.endpoints), func(a, b *endpoint) int {
		return cmp.Or(cmp.Compare(a.LogicalAgentID, b.LogicalAgentID), cmp.Compare(a.EndpointID, b.EndpointID))
	})
	return pageOf(list, func(e *endpoint) string { return e.EndpointID }, func(e *endpoint) collab.Endpoint { return e.Endpoint }, p)
}

// resolveIdentity answers with the endpoint that a label means now.
func resolveIdentity(t *tx, p collab.LabelParams) (out collab.IdentityResult, err error) {
	if strings.TrimSpace(p.Label) == "" || len(p.Label) > maxLabel {
		return out, invalid("label is required, with at most %d bytes", maxLabel)
	}
	st := t.resolve(p.Label, t.localityOf(t.caller))
	switch {
	case st.Failure != "":
		return out, routingError(st.Failure, p.Label, st.Reason, st.Candidates, nil)
	case st.Endpoint == nil:
		return out, routingError(collab.CodeUnknownTarget, p.Label, st.Reason+", not an agent", st.Candidates, nil)
	}
	return collab.IdentityResult{Identity: st.Endpoint.Endpoint, Reason: st.Reason}, nil
}

// routingError says why a label led to nobody. Its details have the members of more,
// which may be nil, as well.
func routingError(code collab.Code, label, reason string, candidates []collab.Option, more any) *collab.Error {
	details := map[string]any{}
	if raw, err := collab.Encode(more); err == nil {
		members := map[string]json.RawMessage{}
		_ = json.Unmarshal(raw, &members) // an object, as every result is
		for name, value := range members {
			details[name] = value
		}
	}
	if candidates == nil {
		candidates = []collab.Option{}
	}
	details["askedLabel"], details["candidates"] = label, candidates
	e := collab.Refuse(code, "%s: %s", label, reason)
	e.Details = details
	return e
}

// setOffline notes that an endpoint is gone.
func (t *tx) setOffline(e *endpoint, why string) {
	gone := e.Endpoint
	gone.Status = collab.StatusOffline
	emit(t, collab.EventOffline, "agent:"+e.LogicalAgentID, gone, map[string]string{"reason": why})
}

// expireEndpoints takes endpoints offline that were silent for EndpointTimeout, and
// forgets those that were silent for RetireAfter.
func (t *tx) expireEndpoints() {
	for _, id := range slices.Sorted(maps.Keys(t.endpoints)) {
		e := t.endpoints[id]
		heard := collab.ParseTime(e.LastHeartbeatAt)
		switch {
		case e.Status == collab.StatusOnline && !t.now.Before(heard.Add(t.opts.EndpointTimeout)):
			t.setOffline(e, fmt.Sprintf("no heartbeat for %s", t.opts.EndpointTimeout))
		case e.Status == collab.StatusOffline && !t.now.Before(heard.Add(t.opts.RetireAfter)):
			emit(t, collab.EventAgentRetired, "agent:"+e.LogicalAgentID, e.Endpoint, nil)
		}
	}
}

// sooner returns the earlier of two times, where the zero time means never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
