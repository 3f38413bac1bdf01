package broker

import (
	"encoding/json"
	"fmt"
	"slices"

	"hubbub/protocol"
)

// A subject is what a wake is about.
type subject struct {
	message    *Message
	work       *WorkItem
	question   *Question
	invocation *Invocation
	sweep      bool
}

// request stores a delivery; with a decision that woke somebody it stores the
// wake too, and has it sent. It returns the delivery as it stands then.
func (t *turn) request(d Delivery, dec Decision, about subject) Delivery {
	return t.requestAs(t.mint("dlv_"), d, dec, about)
}

// requestAs is request for a delivery whose id is known already.
func (t *turn) requestAs(id string, d Delivery, dec Decision, about subject) Delivery {
	d.ID, d.CreatedAt = id, stamp(t.now)
	d.UpdatedAt, d.Status = d.CreatedAt, DeliveryPending
	if !about.sweep {
		d.SenderID, d.SenderKind = t.caller.Name, t.caller.kind()
	}
	d.EndpointID = dec.EndpointID
	if dec.Outcome == OutcomeUnavailable {
		d.Wake = wakeWanted
	}
	t.emit(EventDelivery, "agent:"+d.TargetAgentID, d, map[string]any{"rule": dec.Rule, "reason": dec.Reason})
	if dec.Outcome == OutcomeWoken {
		t.woken(d, dec, about)
	}
	if stored := t.deliveries[d.ID]; stored != nil {
		return *stored
	}
	return d
}

// woken makes the fact that an agent is woken, and has it sent to the identity
// that announced the endpoint.
func (t *turn) woken(d Delivery, dec Decision, about subject) {
	w := Wake{
		DeliveryID: d.ID, TargetAgentID: d.TargetAgentID, EndpointID: dec.EndpointID,
		Rule: dec.Rule, Reason: dec.Reason, Candidates: dec.Candidates, SenderID: d.SenderID, SenderKind: d.SenderKind, Sweep: about.sweep,
		Message: about.message, WorkItem: about.work, Question: about.question, Invocation: about.invocation,
	}
	if c := t.conversations[d.ConversationID]; c != nil {
		short := *c
		short.MemberIDs = nil
		w.Conversation = &short
	}
	if about.invocation != nil {
		f := t.flights[about.invocation.FlightID]
		if f.State == FlightQueued {
			moving := *f
			moving.State, moving.UpdatedAt = FlightWaking, stamp(t.now)
			t.emit(EventFlight, "flight:"+f.ID, moving, nil)
		}
		w.Flight = t.flights[f.ID]
	}
	e := t.emit(EventWoken, "agent:"+d.TargetAgentID, w, nil)
	if ep := t.endpoints[dec.EndpointID]; ep != nil {
		t.sends = append(t.sends, sending{to: ep.Identity, event: e, deliveryID: d.ID})
	}
}

// wakeWaiting wakes an agent for the deliveries that could not wake it before,
// each once, and cancels those that nobody needs any more.
func (t *turn) wakeWaiting(agent string) error {
	for _, id := range slices.Clone(t.openTo[agent]) {
		d := t.deliveries[id].at(t.now)
		if d.Status != DeliveryPending || d.Wake != wakeWanted && d.Wake != wakeMissed {
			continue
		}
		if why := t.obsolete(d); why != "" {
			t.cancelDelivery(d, why)
			continue
		}
		st := t.standing(agent, locality{})
		if d.AskedLabel != "" {
			st = t.resolve(d.AskedLabel, locality{})
		}
		if st.Endpoint == nil || !st.Endpoint.wakeable() {
			continue
		}
		wake := t.wakeNow
		if d.Wake == wakeMissed {
			wake = t.wakeAgain
		}
		if err := wake(d, st); err != nil {
			return err
		}
	}
	return nil
}

// wakeNow makes the wake that a delivery waits for.
func (t *turn) wakeNow(d Delivery, st Standing) error {
	var about subject
	dec := Decision{Candidates: []Candidate{}}
	switch {
	case d.MessageID != "":
		m, meta, err := t.message(d.MessageID)
		if err != nil {
			return err
		}
		about.message, dec = &m, meta.Wake
		about.work = t.work[m.WorkItemID]
	case d.InvocationID != "":
		about.invocation = t.invocations[d.InvocationID]
		about.work = t.work[about.invocation.WorkItemID]
		dec.Rule, dec.Reason = RuleExplicit, d.TargetAgentID+": was invoked"
	default:
		recordID := d.WorkItemID + d.QuestionID // one of them is empty
		about.work, about.question = t.work[d.WorkItemID], t.questions[d.QuestionID]
		decided, err := t.decided(recordID)
		if err != nil {
			return err
		}
		dec = decided.Decision
	}
	dec.Outcome, dec.EndpointID = OutcomeWoken, st.Endpoint.EndpointID
	dec.Reason = fmt.Sprintf("%s; woken when %s announced itself", dec.Reason, st.Endpoint.EndpointID)
	t.woken(d, dec, about)
	return nil
}

// wakeAgain sends a wake once more that found its addressee absent: the same
// event, so that an agent which did get it can tell.
func (t *turn) wakeAgain(d Delivery, st Standing) error {
	e, err := t.event(t.wokenBy[d.ID])
	if err != nil {
		return err
	}
	d.Wake, d.EndpointID = wakeWoken, st.Endpoint.EndpointID
	t.changeDelivery(d)
	t.sends = append(t.sends, sending{to: st.Endpoint.Identity, event: e, deliveryID: d.ID, again: t.seq})
	return nil
}

// missed takes note that a wake found its addressee absent: its endpoints are
// offline, and the wake waits for the next announcement. One that came since
// the wake was sent counts.
func (t *turn) missed(deliveryID string, to protocol.PeerID, sentAt string) error {
	d, ok := t.putAside(deliveryID)
	if !ok {
		return nil
	}
	since := false
	for _, e := range t.endpoints {
		since = since || e.Identity == to && e.Status == StatusOnline && e.AnnouncedAt > sentAt
	}
	if since {
		return t.wakeWaiting(d.TargetAgentID)
	}
	for _, o := range t.endpointIDs(to) {
		if e := t.endpoints[o]; e.Status == StatusOnline {
			t.setOffline(e, "a wake found "+string(to)+" absent from the bus")
		}
	}
	return nil
}

// putAside has a wake wait for the next announcement; false when it need not.
func (t *turn) putAside(deliveryID string) (Delivery, bool) {
	stored := t.deliveries[deliveryID]
	if stored == nil || stored.Terminal() || stored.Wake != wakeWoken {
		return Delivery{}, false
	}
	d := *stored
	d.Wake = wakeMissed
	t.changeDelivery(d)
	return d, true
}

// endpointIDs returns the ids of an identity's endpoints, sorted.
func (s *state) endpointIDs(identity protocol.PeerID) []string {
	var ids []string
	for id, e := range s.endpoints {
		if e.Identity == identity {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// obsolete says why a delivery needs nobody any more, or nothing.
func (s *state) obsolete(d Delivery) string {
	if w := s.work[d.WorkItemID]; w != nil && w.Terminal() {
		return "work item " + w.ID + " is " + string(w.State)
	}
	if q := s.questions[d.QuestionID]; q != nil && q.Terminal() {
		return "question " + q.ID + " is " + string(q.State)
	}
	if i := s.invocations[d.InvocationID]; i != nil && s.flights[i.FlightID].Terminal() {
		return "flight " + i.FlightID + " is " + string(s.flights[i.FlightID].State)
	}
	return ""
}

func (t *turn) cancelDelivery(d Delivery, why string) {
	d.Status, d.LeasedBy, d.LeaseUntil, d.UpdatedAt = DeliveryCancelled, "", "", stamp(t.now)
	t.emit(EventDeliveryChanged, "agent:"+d.TargetAgentID, d, map[string]string{"reason": why})
}

// decided reads the last wake decision about a work item or a question.
func (t *turn) decided(recordID string) (WakeDecided, error) {
	var w WakeDecided
	ref, ok := t.wakes[recordID]
	if !ok {
		return w, refuse(CodeNotFound, "no wake was decided for %q", clip(recordID, 80))
	}
	e, err := t.event(ref.seq)
	if err != nil {
		return w, err
	}
	if e.Type == EventMessagePosted {
		var meta postMetadata
		err = json.Unmarshal(e.Metadata, &meta)
		w.RecordID, w.RecordKind, w.Decision = recordID, KindWorkItem, meta.Wake
	} else {
		err = json.Unmarshal(e.Payload, &w)
	}
	if err != nil {
		return w, fmt.Errorf("reading event %d: %w", ref.seq, err)
	}
	return w, nil
}

// wakeFor decides whom a work item or a question wakes, stores the decision and
// makes the wake. The delivery is nil when nobody is to be woken.
func (t *turn) wakeFor(about subject, sender string) (Decision, *Delivery) {
	s := Situation{Sender: sender, Work: about.work, Question: about.question}
	d := Delivery{Reason: ReasonInvocation, Policy: PolicyMustAck}
	record := WakeDecided{SenderID: sender, Sweep: about.sweep}
	if w := about.work; w != nil {
		s.Dependency = t.dependency(w)
		d.WorkItemID, d.ConversationID = w.ID, w.ConversationID
		record.RecordID, record.RecordKind = w.ID, KindWorkItem
	} else {
		q := about.question
		d.QuestionID, d.ConversationID = q.ID, q.ConversationID
		record.RecordID, record.RecordKind = q.ID, KindQuestion
	}
	dec := t.choose(s, locality{})
	record.Decision = dec
	t.emit(EventWakeDecided, record.RecordKind+":"+record.RecordID, record, nil)
	if dec.Outcome != OutcomeWoken && dec.Outcome != OutcomeUnavailable {
		return dec, nil
	}
	d.TargetAgentID = dec.TargetAgentID
	stored := t.request(d, dec, about)
	return dec, &stored
}

// choose makes a decision and completes it with what is known of its target.
func (t *turn) choose(s Situation, from locality) Decision {
	dec := ChooseWake(s)
	if dec.TargetAgentID != "" {
		st := t.standing(dec.TargetAgentID, from)
		if st.AgentID != "" {
			dec.TargetAgentID = st.AgentID
		}
		dec.settle(st)
	}
	return dec
}

// dependency finds who holds what a work item waits for; empty when the broker
// cannot tell.
func (t *turn) dependency(w *WorkItem) string {
	if w.State != WorkWaiting || w.WaitingOn == nil {
		return ""
	}
	on := w.WaitingOn
	if other := t.work[on.TargetID]; other != nil {
		if other.Terminal() {
			return ""
		}
		return other.NextMoveOwnerID
	}
	if q := t.questions[on.TargetID]; q != nil {
		return q.NextMoveOwnerID
	}
	switch on.Kind {
	case KindWorkItem, KindQuestion:
		return ""
	}
	return bareName(on.TargetID)
}
