package broker

import (
	"cmp"

	"hubbub/protocol/collab"
)

// invoke asks an agent for work: an invocation, its flight, and a delivery that
// wakes the agent.
func invoke(t *tx, p collab.InvocationParams) (out collab.Result, err error) {
	if err := t.checkInvocation(p); err != nil {
		return out, err
	}
	id, err := t.newID(p.ID, "inv_")
	if err != nil {
		return out, err
	}
	if old := t.invocations[id]; old != nil {
		out = collab.Result{Invocation: *old, Flight: *t.flights[old.FlightID], Duplicate: true}
		return out, t.madeBefore("invocation:"+id, "invocation", id)
	}
	st := t.resolve(p.TargetAgentID, t.localityOf(t.caller))
	switch {
	case st.Failure != "":
		return out, routingError(st.Failure, p.TargetAgentID, st.Reason, st.Candidates, nil)
	case st.Person:
		return out, routingError(collab.CodeUnknownTarget, p.TargetAgentID, st.Reason+", not an agent", st.Candidates, nil)
	}
	return t.startFlight(id, p, st)
}

func (t *tx) startFlight(id string, p collab.InvocationParams, st Standing) (out collab.Result, err error) {
	now := stamp(t.now)
	deliveryID := t.mint("dlv_")
	inv := collab.Invocation{
		ID: id, RequestedByID: t.caller.Name, TargetAgentID: st.AgentID, ConversationID: p.ConversationID,
		WorkItemID: p.WorkItemID, FlightID: t.mint("flt_"), Text: p.Text, CreatedAt: now,
	}
	flight := collab.Flight{
		ID: inv.FlightID, InvocationID: inv.ID, DeliveryID: deliveryID, RequestedByID: inv.RequestedByID,
		TargetAgentID: inv.TargetAgentID, WorkItemID: inv.WorkItemID, State: collab.FlightQueued, CreatedAt: now, UpdatedAt: now,
	}
	dec := collab.Decision{
		Rule: collab.RuleExplicit, TargetAgentID: st.AgentID, Reason: st.AgentID + ": was invoked",
		Candidates: []collab.Candidate{{AgentID: st.AgentID, Rule: collab.RuleExplicit, Chosen: true, Reason: "was invoked"}},
	}
	settle(&dec, st)
	emit(t, collab.EventInvocation, "invocation:"+inv.ID, inv, collab.StepMetadata{Digest: t.digest})
	emit(t, collab.EventFlight, "flight:"+flight.ID, flight, nil)
	d := t.requestAs(deliveryID, collab.Delivery{
		TargetAgentID: inv.TargetAgentID, Reason: collab.ReasonInvocation, Policy: collab.PolicyMustAck, AskedLabel: p.TargetAgentID,
		InvocationID: inv.ID, WorkItemID: inv.WorkItemID, ConversationID: inv.ConversationID,
	}, dec, subject{invocation: &inv, record: t.records[inv.WorkItemID]})
	out = collab.Result{
		Invocation: inv, Flight: *t.flights[flight.ID], Delivery: &d, Wake: collab.AskedWake{Asked: true, Made: dec.Summary()},
	}
	if dec.Outcome != collab.OutcomeWoken {
		return out, routingError(collab.CodeUnavailable, p.TargetAgentID, dec.Reason, dec.Options, struct {
			collab.Result
			InvocationID string `json:"invocationId"`
			FlightID     string `json:"flightId"`
		}{out, inv.ID, flight.ID})
	}
	return out, nil
}

func (t *tx) checkInvocation(p collab.InvocationParams) error {
	return cmp.Or(
		checkText("targetAgentId", p.TargetAgentID, maxName),
		checkText("text", p.Text, maxText),
		t.checkPlace(p.ConversationID, p.WorkItemID),
	)
}

// checkPlace refuses the conversation and the work item of a request if they are
// given and do not exist.
func (t *tx) checkPlace(conversationID, workItemID string) error {
	if conversationID != "" && t.conversations[conversationID] == nil {
		return notFound("conversation", conversationID)
	}
	if workItemID == "" {
		return nil
	}
	_, err := t.record(collab.KindWorkItem, workItemID)
	return err
}

// updateFlight moves a flight. Its agent and people may; its requester may
// cancel it. A completed flight brings its work to review.
func updateFlight(t *tx, p collab.FlightParams) (out collab.Result, err error) {
	old := t.flights[p.ID]
	if old == nil {
		return out, notFound("flight", p.ID)
	}
	if err := t.checkFlight(old, p); err != nil {
		return out, err
	}
	f := *old
	f.State, f.UpdatedAt = p.State, stamp(t.now)
	f.Output, f.Error = cmp.Or(p.Output, f.Output), cmp.Or(p.Error, f.Error)
	if f.State == old.State && f.Output == old.Output && f.Error == old.Error {
		return collab.Result{Flight: *old}, nil // said twice
	}
	emit(t, collab.EventFlight, "flight:"+f.ID, f, map[string]string{"from": string(old.State)})
	if err := t.landed(f, old.State); err != nil {
		return out, err
	}
	if r := t.records[f.WorkItemID]; r != nil && p.Wake && f.State == collab.FlightCompleted {
		out = t.result(r.ID, true)
	}
	out.Flight = *t.flights[f.ID]
	return out, nil
}

func (t *tx) checkFlight(old *collab.Flight, p collab.FlightParams) error {
	err := checkOneOf("state", p.State, collab.FlightQueued, collab.FlightWaking, collab.FlightRunning, collab.FlightWaiting,
		collab.FlightCompleted, collab.FlightFailed, collab.FlightCancelled)
	if err != nil {
		return err
	}
	cancels := t.caller.Name == old.RequestedByID && p.State == collab.FlightCancelled
	if !cancels && !t.caller.speaksFor(old.TargetAgentID) {
		return collab.Refuse(collab.CodeForbidden, "flight %s is flown by %s", p.ID, old.TargetAgentID)
	}
	if err := checkMove("flight", flightMoves, old.State, p.State); err != nil {
		return err
	}
	return cmp.Or(checkLength("output", p.Output, maxText), checkLength("error", p.Error, maxTitle))
}

// landed settles what hung on a flight that ended.
func (t *tx) landed(f collab.Flight, from collab.FlightState) error {
	if !f.Terminal() || from == f.State {
		return nil
	}
	if d := t.deliveries[f.DeliveryID]; d != nil && !d.Terminal() {
		status := collab.DeliveryAcknowledged
		if f.State == collab.FlightCancelled {
			status = collab.DeliveryCancelled
		}
		t.changeDelivery(settled(*d, status))
	}
	old := t.records[f.WorkItemID]
	if old == nil || f.State != collab.FlightCompleted || old.Terminal() || old.State == collab.WorkReview {
		return nil
	}
	r := *old
	r.State, r.AcceptanceState, r.WaitingOn = collab.WorkReview, collab.AcceptancePending, nil
	r.RequestedByID = cmp.Or(r.RequestedByID, f.RequestedByID)
	r.NextMoveOwnerID = r.RequestedByID
	return t.change(old, &r)
}

func getFlight(t *tx, p collab.IDParams) (out collab.Result, err error) {
	f := t.flights[p.ID]
	if f == nil {
		return out, notFound("flight", p.ID)
	}
	return collab.Result{Flight: *f, Invocation: *t.invocations[f.InvocationID]}, nil
}

// setBinding links something outside to an agent. Agents bind only themselves.
func setBinding(t *tx, p collab.BindingParams) (out collab.BindingResult, err error) {
	err = cmp.Or(
		checkText("surface", p.Surface, maxName), checkText("externalId", p.ExternalID, maxName), checkText("agentId", p.AgentID, maxName),
	)
	if err != nil {
		return out, err
	}
	agent := t.recordName(p.AgentID)
	if !t.caller.speaksFor(agent) {
		return out, collab.Refuse(collab.CodeForbidden, "%s may bind only itself", t.caller.Identity)
	}
	if old := t.bindings[[2]string{p.Surface, p.ExternalID}]; old != nil {
		if old.AgentID == agent {
			return collab.BindingResult{Binding: *old}, nil
		}
		if !t.caller.speaksFor(old.AgentID) {
			return out, collab.Refuse(collab.CodeForbidden, "%s %s is bound to %s", p.Surface, p.ExternalID, old.AgentID)
		}
	}
	b := collab.Binding{Surface: p.Surface, ExternalID: p.ExternalID, AgentID: agent, SetByID: t.caller.Name, UpdatedAt: stamp(t.now)}
	emit(t, collab.EventBinding, "binding:"+p.Surface+":"+p.ExternalID, b, nil)
	return collab.BindingResult{Binding: b}, nil
}

func getBinding(t *tx, p collab.BindingParams) (out collab.BindingResult, err error) {
	b := t.bindings[[2]string{p.Surface, p.ExternalID}]
	if b == nil {
		return out, notFound("binding", p.Surface+" "+p.ExternalID)
	}
	return collab.BindingResult{Binding: *b}, nil
}
