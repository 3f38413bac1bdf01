package broker

import (
	"strings"

	"hubbub/peers/broker/rules"
	"hubbub/protocol"
	"hubbub/protocol/collab"
)

// assign gives a work item to somebody, after creating it if the params have a title. It asks an
// agent to begin. If the agent cannot be woken, the assignment stands and the decision has the
// outcome.
func (t recordHandler) assign(p collab.AssignParams) collab.Result {
	conversationHandler(t).openChat(p.ConversationID, p.Chat)
	if p.ID == nil {
		rules.FailInvalid("id is required")
	}
	rules.MustBeText("ownerId", p.OwnerID, rules.MaxName)
	rules.MustFit("text", p.Text, rules.MaxText)
	if strings.TrimSpace(p.Text) == "" {
		p.Text = ""
	}
	if p.InvocationID != nil && t.invocations.get(t.nonBlankID(p.InvocationID, "")) != nil {
		t.mustRepeat("invocation:"+*p.InvocationID, "invocation", *p.InvocationID)
		return t.assigned(t.duplicate(t.mustFindRecord(collab.KindWorkItem, *p.ID).ID))
	}
	t.mustAllowAssign(p)
	var out collab.Result
	if p.Title != nil {
		out = t.createWork(collab.WorkParams{
			ID:              p.ID,
			Title:           p.Title,
			OwnerID:         &p.OwnerID,
			NextMoveOwnerID: &p.OwnerID,
			RequestedByID:   new(t.caller.Party().Ref()),
			ConversationID:  &p.ConversationID,
		})
	} else {
		out = t.reassign(p)
	}
	switch {
	case protocol.RoleOf(out.WorkItem.OwnerIdentity) != protocol.RoleAgent:
		return out
	case out.Duplicate: // the first request has asked the agent
		return t.assigned(out)
	}
	if p.Text == "" {
		p.Text = out.WorkItem.Title
	}
	err := rules.Attempt(func() {
		invoked := flightHandler(t).invoke(collab.InvocationParams{
			ID:             p.InvocationID,
			TargetAgentID:  string(out.WorkItem.OwnerIdentity),
			ConversationID: p.ConversationID,
			WorkItemID:     out.WorkItem.ID,
			Text:           p.Text,
		})
		out.Invocation, out.Flight, out.Delivery, out.Wake = invoked.Invocation, invoked.Flight, invoked.Delivery,
			invoked.Wake
	})
	switch collab.Refusal(err) {
	case collab.CodeUnknownTarget: // the agent has not announced itself yet, and is woken when it does
		t.wakeInto(&out, t.records.get(out.WorkItem.ID))
	case collab.CodeUnavailable:
	default:
		rules.Must(err)
	}
	return t.assigned(out)
}

// mustAllowAssign refuses what the invocation of an assignment would refuse, before anything is stored.
func (t recordHandler) mustAllowAssign(p collab.AssignParams) {
	t.mustFindPlace(p.ConversationID, "")
	r := t.records.get(*p.ID)
	if r == nil {
		r = &rules.Record{}
	}
	owner := t.partyIn(r, p.OwnerID)
	rules.MustBeText("ownerId", string(owner.ID), rules.MaxName)
	if st := t.Resolve(string(owner.ID), t.LocalityOf(t.caller)); st.Failure == collab.CodeAmbiguous {
		rules.FailUnroutable(st.Failure, p.OwnerID, st.Reason, st.Candidates, nil)
	}
}

// reassign gives an existing work item to the owner in the params. An agent that had it before and
// has not taken its wake is not woken any more. The summary is the beginning of the text.
func (t recordHandler) reassign(p collab.AssignParams) collab.Result {
	change := collab.WorkParams{ID: p.ID, OwnerID: &p.OwnerID, NextMoveOwnerID: &p.OwnerID}
	if p.Text != "" {
		change.Summary = new(rules.Fitted(p.Text, rules.MaxTitle))
	}
	old := t.mustFindRecord(collab.KindWorkItem, *p.ID)
	switch {
	case old.State == collab.WorkReview:
		change.State, change.AcceptanceState = collab.WorkWorking, collab.AcceptanceRejected
	case old.Terminal():
		change.State, change.AcceptanceState = collab.WorkOpen, collab.AcceptanceNone
	}
	out := t.updateWork(change)
	for _, d := range t.waitingDeliveries(old.ID) {
		previous := d.TargetIdentity == old.OwnerIdentity || d.TargetIdentity == old.NextMoveOwnerIdentity
		if previous && d.InvocationID != "" && d.TargetIdentity != out.WorkItem.OwnerIdentity {
			deliveryHandler(t).cancelWithFlight(d, "the work went to "+out.WorkItem.OwnerID)
		}
	}
	return out
}

// assigned adds the wake decision about the work item to a result.
func (t recordHandler) assigned(out collab.Result) collab.Result {
	why := wakeHandler(t).explain(collab.ExplainParams{WorkItemID: out.WorkItem.ID})
	out.Decision = &why.Decision
	return out
}
