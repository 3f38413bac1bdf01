package broker

import (
	"cmp"

	"hubbub/protocol/collab"
)

// invoke asks an agent to do something: it makes an invocation, its flight, and a delivery that
// wakes the agent.
func (t flightHandler) invoke(p collab.InvocationParams) collab.Result {
	mustBeText("targetAgentId", p.TargetAgentID, maxName)
	mustBeText("text", p.Text, maxText)
	t.mustFindPlace(p.ConversationID, p.WorkItemID)
	id := t.nonBlankID(p.ID, "inv_")
	if old := t.invocations.get(id); old != nil {
		t.mustRepeat("invocation:"+id, "invocation", id)
		return collab.Result{Invocation: *old, Flight: *t.flights.get(old.FlightID), Duplicate: true}
	}
	return t.start(id, p, identityHandler(t).mustFindAgent(p.TargetAgentID))
}

func (t flightHandler) start(id string, p collab.InvocationParams, st resolution) collab.Result {
	now := formatTime(t.now)
	deliveryID := t.newID("dlv_")
	inv := collab.Invocation{
		ID:                  id,
		RequestedByID:       t.caller.Name,
		RequestedByIdentity: t.caller.party().id,
		TargetAgentID:       st.name,
		TargetIdentity:      st.id,
		ConversationID:      p.ConversationID,
		WorkItemID:          p.WorkItemID,
		FlightID:            t.newID("flt_"),
		Text:                p.Text,
		CreatedAt:           now,
	}
	flight := collab.Flight{
		ID:                  inv.FlightID,
		InvocationID:        inv.ID,
		DeliveryID:          deliveryID,
		RequestedByID:       inv.RequestedByID,
		RequestedByIdentity: inv.RequestedByIdentity,
		TargetAgentID:       inv.TargetAgentID,
		TargetIdentity:      inv.TargetIdentity,
		WorkItemID:          inv.WorkItemID,
		State:               collab.FlightQueued,
		CreatedAt:           now,
		UpdatedAt:           now,
	}
	dec := collab.Decision{
		Rule:           collab.RuleExplicit,
		TargetAgentID:  st.name,
		TargetIdentity: st.id,
		Reason:         st.name + ": was invoked",
		Candidates: []collab.Candidate{{
			AgentID:  st.name,
			Identity: st.id,
			Rule:     collab.RuleExplicit,
			Chosen:   true,
			Reason:   "was invoked",
		}},
	}
	applyResolution(&dec, st)
	emit(t.tx, collab.EventInvocation, "invocation:"+inv.ID, inv, collab.StepMetadata{Digest: t.digest})
	emit(t.tx, collab.EventFlight, "flight:"+flight.ID, flight, nil)
	if inv.WorkItemID != "" {
		emit(t.tx, collab.EventWakeDecided, "work_item:"+inv.WorkItemID, collab.WakeDecided{
			RecordID:   inv.WorkItemID,
			RecordKind: collab.KindWorkItem,
			SenderID:   inv.RequestedByID,
			Decision:   dec,
		}, nil)
	}
	d := wakeHandler(t).request(deliveryID, collab.Delivery{
		TargetAgentID:  inv.TargetAgentID,
		TargetIdentity: inv.TargetIdentity,
		Reason:         collab.ReasonInvocation,
		Policy:         collab.PolicyMustAck,
		AskedLabel:     p.TargetAgentID,
		InvocationID:   inv.ID,
		WorkItemID:     inv.WorkItemID,
		ConversationID: inv.ConversationID,
	}, dec, subject{invocation: &inv, record: t.records.get(inv.WorkItemID)})
	out := collab.Result{
		Invocation: inv,
		Flight:     *t.flights.get(flight.ID),
		Delivery:   &d,
		Wake:       collab.AskedWake{Asked: true, Made: dec.Summary()},
	}
	if dec.Outcome != collab.OutcomeWoken {
		failUnroutable(collab.CodeUnavailable, p.TargetAgentID, dec.Reason, dec.Options, struct {
			collab.Result
			InvocationID string `json:"invocationId"`
			FlightID     string `json:"flightId"`
		}{out, inv.ID, flight.ID})
	}
	return out
}

// mustFindPlace fails if the conversation or the work item of a request is given and does not
// exist.
func (t *tx) mustFindPlace(conversationID, workItemID string) {
	if conversationID != "" {
		mustFind(t.conversations, "conversation", conversationID)
	}
	if workItemID != "" {
		t.mustFindRecord(collab.KindWorkItem, workItemID)
	}
}

// update changes the state of a flight. Its agent and people may do so, and its requester may
// cancel it. A completed flight moves its work to review.
func (t flightHandler) update(p collab.FlightParams) (out collab.Result) {
	old := mustFind(t.flights, "flight", p.ID)
	t.mustAllow(old, p)
	f := *old
	f.State, f.UpdatedAt = p.State, formatTime(t.now)
	f.Output, f.Error = cmp.Or(p.Output, f.Output), cmp.Or(p.Error, f.Error)
	if f.State == old.State && f.Output == old.Output && f.Error == old.Error {
		return collab.Result{Flight: *old} // a repetition
	}
	emit(t.tx, collab.EventFlight, "flight:"+f.ID, f, map[string]string{"from": string(old.State)})
	t.onEnd(f, old.State)
	if r := t.records.get(f.WorkItemID); r != nil && p.Wake && f.State == collab.FlightCompleted {
		out = recordHandler(t).result(r.ID, true)
	}
	out.Flight = *t.flights.get(f.ID)
	return out
}

func (t flightHandler) mustAllow(old *collab.Flight, p collab.FlightParams) {
	mustBeOneOf("state", p.State, collab.FlightQueued, collab.FlightWaking, collab.FlightRunning, collab.FlightWaiting,
		collab.FlightCompleted, collab.FlightFailed, collab.FlightCancelled)
	cancels := t.caller.is(old.RequestedByIdentity) && p.State == collab.FlightCancelled
	if !cancels && !t.caller.actsFor(old.TargetIdentity) {
		fail(collab.CodeForbidden, "flight %s belongs to %s", p.ID, old.TargetAgentID)
	}
	mustAllowTransition("flight", flightMoves, old.State, p.State)
	mustFit("output", p.Output, maxText)
	mustFit("error", p.Error, maxTitle)
}

// onEnd finishes the delivery of a flight that ended, and moves its work to review.
func (t flightHandler) onEnd(f collab.Flight, from collab.FlightState) {
	if !f.Terminal() || from == f.State {
		return
	}
	if d := t.deliveries.get(f.DeliveryID); d != nil && !d.Terminal() {
		status := collab.DeliveryAcknowledged
		if f.State == collab.FlightCancelled {
			status = collab.DeliveryCancelled
		}
		deliveryHandler(t).change(withStatus(*d, status), nil)
	}
	old := t.records.get(f.WorkItemID)
	if old == nil || f.State != collab.FlightCompleted || old.Terminal() || old.State == collab.WorkReview {
		return
	}
	r := *old
	r.State, r.AcceptanceState, r.WaitingOn = collab.WorkReview, collab.AcceptancePending, nil
	by := cmp.Or(r.requester(), party{f.RequestedByID, f.RequestedByIdentity})
	r.RequestedByID, r.RequestedByIdentity = by.name, by.id
	r.setNextMove(by)
	recordHandler(t).update(old, &r)
}

func (t flightHandler) get(p collab.IDParams) collab.Result {
	f := mustFind(t.flights, "flight", p.ID)
	return collab.Result{Flight: *f, Invocation: *t.invocations.get(f.InvocationID)}
}

// bind links an external object to an agent. Agents bind only themselves.
func (t conversationHandler) bind(p collab.BindingParams) collab.BindingResult {
	mustBeText("surface", p.Surface, maxName)
	mustBeText("externalId", p.ExternalID, maxName)
	mustBeText("agentId", p.AgentID, maxName)
	agent := t.agentParty(p.AgentID)
	if !t.caller.actsFor(agent.id) {
		fail(collab.CodeForbidden, "%s may bind only itself", t.caller.Identity)
	}
	if old := t.bindings.get(bindingKey(p.Surface, p.ExternalID)); old != nil {
		vouches := string(t.caller.Identity) == p.ExternalID &&
			old.SetByIdentity != t.caller.Identity // for an agent that bound itself
		if old.Identity == agent.id && !vouches {
			return collab.BindingResult{Binding: *old}
		}
		if !t.caller.actsFor(old.Identity) {
			fail(collab.CodeForbidden, "%s %s is bound to %s", p.Surface, p.ExternalID, old.AgentID)
		}
	}
	b := collab.Binding{
		Surface:       p.Surface,
		ExternalID:    p.ExternalID,
		AgentID:       agent.name,
		Identity:      agent.id,
		SetByID:       t.caller.Name,
		SetByIdentity: t.caller.party().id,
		UpdatedAt:     formatTime(t.now),
	}
	emit(t.tx, collab.EventBinding, "binding:"+p.Surface+":"+p.ExternalID, b, nil)
	return collab.BindingResult{Binding: b}
}

// bindingKey returns the id of a binding.
func bindingKey(surface, externalID string) string {
	return string(mustEncode([2]string{surface, externalID}))
}

func (t conversationHandler) getBinding(p collab.BindingParams) collab.BindingResult {
	b := t.bindings.get(bindingKey(p.Surface, p.ExternalID))
	if b == nil {
		failNotFound("binding", p.Surface+" "+p.ExternalID)
	}
	return collab.BindingResult{Binding: *b}
}
