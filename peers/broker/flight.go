package broker

import "cmp"

type invocationParams struct {
	TargetAgentID  string  `json:"targetAgentId"`
	ConversationID string  `json:"conversationId"`
	WorkItemID     string  `json:"workItemId"`
	Text           string  `json:"text"`
	ID             *string `json:"id"`
}

// invoke asks an agent for work: an invocation, its flight, and a delivery that
// wakes the agent.
func (t *turn) invoke(p invocationParams) (any, error) {
	if err := t.checkInvocation(p); err != nil {
		return nil, err
	}
	id, err := t.newID(p.ID, "inv_")
	if err != nil {
		return nil, err
	}
	if old := t.invocations[id]; old != nil {
		if t.created["invocation:"+id] != t.digest {
			return nil, refuse(CodeConflict, "invocation %s exists with other content", id)
		}
		return map[string]any{"invocation": old, "flight": t.flights[old.FlightID], "duplicate": true}, nil
	}
	st := t.resolve(p.TargetAgentID, t.localityOf(t.caller))
	switch {
	case st.Failure != "":
		return nil, routingError(st.Failure, p.TargetAgentID, st.Reason, st.Candidates, nil)
	case st.Person:
		return nil, routingError(CodeUnknownTarget, p.TargetAgentID, st.Reason+", not an agent", st.Candidates, nil)
	}
	return t.startFlight(id, p, st)
}

func (t *turn) startFlight(id string, p invocationParams, st Standing) (any, error) {
	now := stamp(t.now)
	deliveryID := t.mint("dlv_")
	inv := Invocation{
		ID: id, RequestedByID: t.caller.Name, TargetAgentID: st.AgentID, ConversationID: p.ConversationID,
		WorkItemID: p.WorkItemID, FlightID: t.mint("flt_"), Text: p.Text, CreatedAt: now,
	}
	flight := Flight{
		ID: inv.FlightID, InvocationID: inv.ID, DeliveryID: deliveryID, RequestedByID: inv.RequestedByID,
		TargetAgentID: inv.TargetAgentID, WorkItemID: inv.WorkItemID, State: FlightQueued, CreatedAt: now, UpdatedAt: now,
	}
	dec := Decision{
		Rule: RuleExplicit, TargetAgentID: st.AgentID, Reason: st.AgentID + ": was invoked",
		Candidates: []Candidate{{AgentID: st.AgentID, Rule: RuleExplicit, Chosen: true, Reason: "was invoked"}},
	}
	dec.settle(st)
	t.emit(EventInvocation, "invocation:"+inv.ID, inv, stepMetadata{Digest: t.digest})
	t.emit(EventFlight, "flight:"+flight.ID, flight, nil)
	about := subject{invocation: &inv}
	if w := t.work[inv.WorkItemID]; w != nil {
		copied := *w
		about.work = &copied
	}
	d := t.requestAs(deliveryID, Delivery{
		TargetAgentID: inv.TargetAgentID, Reason: ReasonInvocation, Policy: PolicyMustAck, AskedLabel: p.TargetAgentID,
		InvocationID: inv.ID, WorkItemID: inv.WorkItemID, ConversationID: inv.ConversationID,
	}, dec, about)
	out := map[string]any{"invocation": inv, "flight": *t.flights[flight.ID], "delivery": d, "wake": dec.summary()}
	if dec.Outcome != OutcomeWoken {
		out["invocationId"], out["flightId"] = inv.ID, flight.ID
		return nil, routingError(CodeUnavailable, p.TargetAgentID, dec.Reason, dec.Options, out)
	}
	return out, nil
}

func (t *turn) checkInvocation(p invocationParams) error {
	if err := checkText("targetAgentId", p.TargetAgentID, maxName); err != nil {
		return err
	}
	if err := checkText("text", p.Text, maxText); err != nil {
		return err
	}
	if p.ConversationID != "" && t.conversations[p.ConversationID] == nil {
		return notFound("conversation", p.ConversationID)
	}
	if p.WorkItemID != "" && t.work[p.WorkItemID] == nil {
		return notFound("work item", p.WorkItemID)
	}
	return nil
}

type flightParams struct {
	ID     string      `json:"id"`
	State  FlightState `json:"state"`
	Output string      `json:"output"`
	Error  string      `json:"error"`
	Wake   bool        `json:"wake"`
}

// updateFlight moves a flight. Its agent and people may; its requester may
// cancel it. A completed flight brings its work to review.
func (t *turn) updateFlight(p flightParams) (any, error) {
	old := t.flights[p.ID]
	if old == nil {
		return nil, notFound("flight", p.ID)
	}
	if err := checkOneOf("state", string(p.State), "queued", "waking", "running", "waiting", "completed", "failed", "cancelled"); err != nil {
		return nil, err
	}
	mine := t.caller.speaksFor(old.TargetAgentID)
	if !mine && (t.caller.Name != old.RequestedByID || p.State != FlightCancelled) {
		return nil, refuse(CodeForbidden, "flight %s is flown by %s", p.ID, old.TargetAgentID)
	}
	if err := checkMove("flight", flightMoves, old.State, p.State); err != nil {
		return nil, err
	}
	if err := checkLength("output", p.Output, maxText); err != nil {
		return nil, err
	}
	if err := checkLength("error", p.Error, maxTitle); err != nil {
		return nil, err
	}
	f := *old
	f.State, f.UpdatedAt = p.State, stamp(t.now)
	f.Output, f.Error = cmp.Or(p.Output, f.Output), cmp.Or(p.Error, f.Error)
	if f.State == old.State && f.Output == old.Output && f.Error == old.Error {
		return map[string]any{"flight": old}, nil // said twice
	}
	t.emit(EventFlight, "flight:"+f.ID, f, map[string]string{"from": string(old.State)})
	if err := t.landed(f, old.State); err != nil {
		return nil, err
	}
	out := map[string]any{"flight": *t.flights[f.ID]}
	if w := t.work[f.WorkItemID]; w != nil && p.Wake && f.State == FlightCompleted {
		for key, value := range t.workResult(w.ID, true) {
			out[key] = value
		}
	}
	return out, nil
}

// landed settles what hung on a flight that ended.
func (t *turn) landed(f Flight, from FlightState) error {
	if !f.Terminal() || from == f.State {
		return nil
	}
	if d := t.deliveries[f.DeliveryID]; d != nil && !d.Terminal() {
		settled := *d
		settled.Status, settled.LeasedBy, settled.LeaseUntil = DeliveryAcknowledged, "", ""
		if f.State == FlightCancelled {
			settled.Status = DeliveryCancelled
		}
		t.changeDelivery(settled)
	}
	old := t.work[f.WorkItemID]
	if old == nil || f.State != FlightCompleted || old.Terminal() || old.State == WorkReview {
		return nil
	}
	w := *old
	w.State, w.AcceptanceState, w.WaitingOn = WorkReview, AcceptancePending, nil
	w.RequestedByID = cmp.Or(w.RequestedByID, f.RequestedByID)
	w.NextMoveOwnerID, w.UpdatedAt = w.RequestedByID, stamp(t.now)
	if err := t.putWork(EventWorkUpdated, StepReviewRequested, old, w); err != nil {
		return err
	}
	t.cancelObsolete(old, &w)
	return nil
}

func (t *turn) getFlight(p idParams) (any, error) {
	f := t.flights[p.ID]
	if f == nil {
		return nil, notFound("flight", p.ID)
	}
	return map[string]any{"flight": f, "invocation": t.invocations[f.InvocationID]}, nil
}

type bindingParams struct {
	Surface    string `json:"surface"`
	ExternalID string `json:"externalId"`
	AgentID    string `json:"agentId"`
}

// setBinding links something outside to an agent. Agents bind only themselves.
func (t *turn) setBinding(p bindingParams) (any, error) {
	for _, f := range [][2]string{{"surface", p.Surface}, {"externalId", p.ExternalID}, {"agentId", p.AgentID}} {
		if err := checkText(f[0], f[1], maxName); err != nil {
			return nil, err
		}
	}
	agent := t.recordName(p.AgentID)
	if !t.caller.speaksFor(agent) {
		return nil, refuse(CodeForbidden, "%s may bind only itself", t.caller.Identity)
	}
	b := Binding{Surface: p.Surface, ExternalID: p.ExternalID, AgentID: agent, SetByID: t.caller.Name, UpdatedAt: stamp(t.now)}
	if old := t.bindings[[2]string{p.Surface, p.ExternalID}]; old != nil {
		if old.AgentID == agent {
			return map[string]any{"binding": old}, nil
		}
		if !t.caller.speaksFor(old.AgentID) {
			return nil, refuse(CodeForbidden, "%s %s is bound to %s", p.Surface, p.ExternalID, old.AgentID)
		}
	}
	t.emit(EventBinding, "binding:"+p.Surface+":"+p.ExternalID, b, nil)
	return map[string]any{"binding": b}, nil
}

func (t *turn) getBinding(p bindingParams) (any, error) {
	b := t.bindings[[2]string{p.Surface, p.ExternalID}]
	if b == nil {
		return nil, notFound("binding", p.Surface+" "+p.ExternalID)
	}
	return map[string]any{"binding": b}, nil
}
