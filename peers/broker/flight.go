package broker

import (
	"cmp"

	"hubbub/peers/broker/rules"
	"hubbub/protocol/collab"
)

// invoke asks an agent to do something: it makes an invocation, its flight, and a delivery that
// wakes the agent.
func (t flightHandler) invoke(p collab.InvocationParams) collab.Result {
	rules.MustBeText("targetAgentId", p.TargetAgentID, rules.MaxName)
	rules.MustBeText("text", p.Text, rules.MaxText)
	t.mustFindPlace(p.ConversationID, p.WorkItemID)
	id := t.nonBlankID(p.ID, "inv_")
	if old := t.invocations.get(id); old != nil {
		t.mustRepeat("invocation:"+id, "invocation", id)
		return collab.Result{Invocation: *old, Flight: *t.flights.get(old.FlightID), Duplicate: true}
	}
	return t.start(id, p, identityHandler(t).mustFindAgent(p.TargetAgentID))
}

func (t flightHandler) start(id string, p collab.InvocationParams, st rules.Resolution) collab.Result {
	now := formatTime(t.now)
	deliveryID := t.newID("dlv_")
	inv := collab.Invocation{
		ID:                  id,
		RequestedByID:       t.caller.Name,
		RequestedByIdentity: t.caller.Party().ID,
		TargetAgentID:       st.Name,
		TargetIdentity:      st.ID,
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
	dec := rules.Invoked(st.Party)
	dec.Candidates = append(dec.Candidates, collab.Candidate{
		AgentID:  st.Name,
		Identity: st.ID,
		Rule:     collab.RuleExplicit,
		Chosen:   true,
		Reason:   "was invoked",
	})
	rules.ApplyResolution(&dec, st)
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
		rules.FailUnroutable(collab.CodeUnavailable, p.TargetAgentID, dec.Reason, dec.Options, struct {
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
	rules.MustBeOneOf("state", p.State, collab.FlightQueued, collab.FlightWaking, collab.FlightRunning, collab.FlightWaiting,
		collab.FlightCompleted, collab.FlightFailed, collab.FlightCancelled)
	cancels := t.caller.Is(old.RequestedByIdentity) && p.State == collab.FlightCancelled
	if !cancels && !t.caller.ActsFor(old.TargetIdentity) {
		rules.Fail(collab.CodeForbidden, "flight %s belongs to %s", p.ID, old.TargetAgentID)
	}
	rules.MustAllowTransition("flight", rules.FlightMoves, old.State, p.State)
	rules.MustFit("output", p.Output, rules.MaxText)
	rules.MustFit("error", p.Error, rules.MaxTitle)
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
		deliveryHandler(t).change(rules.WithStatus(*d, status), nil)
	}
	old := t.records.get(f.WorkItemID)
	if old == nil || f.State != collab.FlightCompleted || old.Terminal() || old.State == collab.WorkReview {
		return
	}
	r := *old
	r.State, r.AcceptanceState, r.WaitingOn = collab.WorkReview, collab.AcceptancePending, nil
	by := cmp.Or(r.Requester(), rules.Party{Name: f.RequestedByID, ID: f.RequestedByIdentity})
	r.RequestedByID, r.RequestedByIdentity = by.Name, by.ID
	r.SetNextMove(by)
	recordHandler(t).update(old, &r)
}

func (t flightHandler) get(p collab.IDParams) collab.Result {
	f := mustFind(t.flights, "flight", p.ID)
	return collab.Result{Flight: *f, Invocation: *t.invocations.get(f.InvocationID)}
}

// bind links an external object to an agent. Agents bind only themselves.
func (t conversationHandler) bind(p collab.BindingParams) collab.BindingResult {
	rules.MustBeText("surface", p.Surface, rules.MaxName)
	rules.MustBeText("externalId", p.ExternalID, rules.MaxName)
	rules.MustBeText("agentId", p.AgentID, rules.MaxName)
	agent := t.agentParty(p.AgentID)
	if !t.caller.ActsFor(agent.ID) {
		rules.Fail(collab.CodeForbidden, "%s may bind only itself", t.caller.Identity)
	}
	if old := t.bindings.get(bindingKey(p.Surface, p.ExternalID)); old != nil {
		vouches := string(t.caller.Identity) == p.ExternalID &&
			old.SetByIdentity != t.caller.Identity // for an agent that bound itself
		if old.Identity == agent.ID && !vouches {
			return collab.BindingResult{Binding: *old}
		}
		if !t.caller.ActsFor(old.Identity) {
			rules.Fail(collab.CodeForbidden, "%s %s is bound to %s", p.Surface, p.ExternalID, old.AgentID)
		}
	}
	b := collab.Binding{
		Surface:       p.Surface,
		ExternalID:    p.ExternalID,
		AgentID:       agent.Name,
		Identity:      agent.ID,
		SetByID:       t.caller.Name,
		SetByIdentity: t.caller.Party().ID,
		UpdatedAt:     formatTime(t.now),
	}
	emit(t.tx, collab.EventBinding, "binding:"+p.Surface+":"+p.ExternalID, b, nil)
	return collab.BindingResult{Binding: b}
}

// bindingKey returns the id of a binding.
func bindingKey(surface, externalID string) string {
	return string(rules.MustEncode([2]string{surface, externalID}))
}

func (t conversationHandler) getBinding(p collab.BindingParams) collab.BindingResult {
	b := t.bindings.get(bindingKey(p.Surface, p.ExternalID))
	if b == nil {
		rules.FailNotFound("binding", p.Surface+" "+p.ExternalID)
	}
	return collab.BindingResult{Binding: *b}
}
