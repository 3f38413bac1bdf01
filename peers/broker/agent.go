package broker

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

type announceParams struct {
	LogicalAgentID string   `json:"logicalAgentId"`
	EndpointID     string   `json:"endpointId"`
	HarnessType    string   `json:"harnessType"`
	WorkspaceID    string   `json:"workspaceId"`
	ProjectPath    string   `json:"projectPath"`
	Profile        string   `json:"profile"`
	Model          string   `json:"model"`
	Node           string   `json:"node"`
	Roles          []string `json:"roles"`
	WakePolicy     string   `json:"wakePolicy"`
}

// announce takes note of an endpoint, and wakes its agent for what waited.
func (t *turn) announce(p announceParams) (any, error) {
	p.LogicalAgentID = cmp.Or(bareName(p.LogicalAgentID), bareName(string(t.caller.Identity)))
	p.WakePolicy = cmp.Or(p.WakePolicy, WakeAuto)
	if err := t.checkAnnounce(p); err != nil {
		return nil, err
	}
	now := stamp(t.now)
	e := Endpoint{
		LogicalAgentID: p.LogicalAgentID, EndpointID: p.EndpointID, Identity: t.caller.Identity,
		HarnessType: p.HarnessType, WorkspaceID: p.WorkspaceID, ProjectPath: strings.TrimRight(p.ProjectPath, "/"),
		Profile: p.Profile, Model: p.Model, Node: p.Node, Roles: p.Roles, WakePolicy: p.WakePolicy,
		Status: StatusOnline, AnnouncedAt: now, LastHeartbeatAt: now,
	}
	t.emit(EventOnline, "agent:"+e.LogicalAgentID, e, nil)
	t.caller = t.state.caller(t.caller.Identity)
	if err := t.wakeWaiting(e.LogicalAgentID); err != nil {
		return nil, err
	}
	return map[string]any{"identity": t.endpoints[e.EndpointID]}, nil
}

func (t *turn) checkAnnounce(p announceParams) error {
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
	if err := checkOneOf("wakePolicy", p.WakePolicy, WakeAuto, WakeManual); err != nil {
		return err
	}
	if old := t.endpoints[p.EndpointID]; old != nil && old.Identity != t.caller.Identity {
		return refuse(CodeForbidden, "endpoint %s was announced by %s: an identity announces endpoints only for itself", p.EndpointID, old.Identity)
	}
	return t.checkName(p.LogicalAgentID)
}

// checkName refuses to take the name of another agent that goes by its own.
func (t *turn) checkName(name string) error {
	if bareName(string(t.caller.Identity)) == name {
		return nil
	}
	for identity, announced := range t.actsAs {
		if announced == name && bareName(string(identity)) == name && identity != t.caller.Identity {
			return refuse(CodeForbidden, "the name %s is that of %s: an identity announces endpoints only for itself", name, identity)
		}
	}
	return nil
}

// heartbeat keeps an endpoint online. A sign of life is stored when it changes
// something: the endpoint was offline, it is not the one heard of last, or
// the last one stored is a tenth of the timeout old.
func (t *turn) heartbeat(p struct {
	EndpointID string `json:"endpointId"`
}) (any, error) {
	e := t.endpoints[p.EndpointID]
	switch {
	case e == nil:
		return nil, refuse(CodeNotFound, "endpoint %q is not known: announce it with identity.announce", clip(p.EndpointID, 80))
	case e.Identity != t.caller.Identity:
		return nil, refuse(CodeForbidden, "endpoint %s was announced by %s", p.EndpointID, e.Identity)
	}
	if e.Status == StatusOnline && t.heardLast(e) && t.now.Sub(parseTime(e.LastHeartbeatAt)) < t.endpointTimeout/10 {
		return map[string]any{"identity": e}, nil
	}
	back := e.Status != StatusOnline
	beat := *e
	beat.Status, beat.LastHeartbeatAt = StatusOnline, stamp(t.now)
	if back {
		t.emit(EventOnline, "agent:"+e.LogicalAgentID, beat, nil)
		if err := t.wakeWaiting(e.LogicalAgentID); err != nil {
			return nil, err
		}
	} else {
		t.emit(EventHeartbeat, "agent:"+e.LogicalAgentID, beat, nil)
	}
	return map[string]any{"identity": t.endpoints[e.EndpointID]}, nil
}

func (t *turn) heardLast(e *Endpoint) bool {
	for _, other := range t.endpointsOf(e.LogicalAgentID) {
		if other.seq > e.seq {
			return false
		}
	}
	return true
}

// listIdentities answers with every endpoint, by agent and endpoint.
func (t *turn) listIdentities(p pageParams) (any, error) {
	list := slices.SortedFunc(maps.Values(t.endpoints), func(a, b *Endpoint) int {
		return cmp.Or(cmp.Compare(a.LogicalAgentID, b.LogicalAgentID), cmp.Compare(a.EndpointID, b.EndpointID))
	})
	return pageOf("identities", list, func(e *Endpoint) string { return e.EndpointID }, p)
}

// resolveIdentity answers with the endpoint that a label means now.
func (t *turn) resolveIdentity(p struct {
	Label string `json:"label"`
}) (any, error) {
	if strings.TrimSpace(p.Label) == "" || len(p.Label) > maxLabel {
		return nil, invalid("label is required, with at most %d bytes", maxLabel)
	}
	st := t.resolve(p.Label, t.localityOf(t.caller))
	switch {
	case st.Failure != "":
		return nil, routingError(st.Failure, p.Label, st.Reason, st.Candidates, nil)
	case st.Endpoint == nil:
		return nil, routingError(CodeUnknownTarget, p.Label, st.Reason+", not an agent", st.Candidates, nil)
	}
	return map[string]any{"identity": st.Endpoint, "reason": st.Reason}, nil
}

// routingError says why a label led to nobody. More is added to its details.
func routingError(code Code, label, reason string, candidates []Option, more map[string]any) *Error {
	if candidates == nil {
		candidates = []Option{}
	}
	details := map[string]any{"askedLabel": label, "candidates": candidates}
	maps.Copy(details, more)
	e := refuse(code, "%s: %s", label, reason)
	e.Details = details
	return e
}

// setOffline notes that an endpoint is gone.
func (t *turn) setOffline(e *Endpoint, why string) {
	gone := *e
	gone.Status = StatusOffline
	t.emit(EventOffline, "agent:"+e.LogicalAgentID, gone, map[string]string{"reason": why})
}

// expireEndpoints takes endpoints offline that were silent for too long, and
// forgets those that were for retireAfter.
func (t *turn) expireEndpoints() {
	for _, id := range slices.Sorted(maps.Keys(t.endpoints)) {
		e := t.endpoints[id]
		heard := parseTime(e.LastHeartbeatAt)
		switch {
		case e.Status == StatusOnline && !t.now.Before(heard.Add(t.endpointTimeout)):
			t.setOffline(e, fmt.Sprintf("no heartbeat for %s", t.endpointTimeout))
		case e.Status == StatusOffline && !t.now.Before(heard.Add(t.retireAfter)):
			t.emit(EventAgentRetired, "agent:"+e.LogicalAgentID, e, nil)
		}
	}
}

// sooner returns the earlier of two times; the zero time is never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
