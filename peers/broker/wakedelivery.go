package broker

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"hubbub/peers/broker/rules"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/text"
)

// A subject is the subject of a wake.
type subject struct {
	message    *collab.Message
	record     *rules.Record
	invocation *collab.Invocation
	sweep      bool
}

// request stores a delivery, and its wake if the decision woke somebody. It returns the current
// delivery.
func (t wakeHandler) request(id string, d collab.Delivery, dec collab.Decision, about subject) collab.Delivery {
	d.ID, d.CreatedAt = id, formatTime(t.now)
	d.UpdatedAt, d.Status = d.CreatedAt, collab.DeliveryPending
	if !about.sweep {
		d.SenderID, d.SenderIdentity, d.SenderKind = t.caller.Name, t.caller.Party().ID, t.caller.Kind()
	}
	d.EndpointID = dec.EndpointID
	if dec.Outcome == collab.OutcomeUnavailable {
		d.Wake = collab.WakeWanted
	}
	emit(t.tx, collab.EventDelivery, "agent:"+d.TargetAgentID, d,
		map[string]any{"rule": dec.Rule, "reason": dec.Reason})
	switch dec.Outcome {
	case collab.OutcomeWoken:
		t.wake(d, dec, about)
	case collab.OutcomeUnavailable:
		t.requestSpawn(d)
	}
	return *t.deliveries.get(d.ID)
}

// wake emits the event that wakes an agent and queues it for the identity that announced the
// endpoint.
func (t wakeHandler) wake(d collab.Delivery, dec collab.Decision, about subject) {
	w := collab.Wake{
		DeliveryID:     d.ID,
		TargetAgentID:  d.TargetAgentID,
		TargetIdentity: d.TargetIdentity,
		EndpointID:     dec.EndpointID,
		Rule:           dec.Rule,
		Reason:         dec.Reason,
		Candidates:     dec.Candidates,
		SenderID:       d.SenderID,
		SenderIdentity: d.SenderIdentity,
		SenderKind:     d.SenderKind,
		Sweep:          about.sweep,
		Message:        about.message,
		Invocation:     about.invocation,
	}
	switch r := about.record; {
	case r == nil:
	case r.IsQuestion():
		w.Question = new(r.Question())
	default:
		w.WorkItem = &r.WorkItem
	}
	if c := t.conversations.get(d.ConversationID); c != nil {
		short := *c
		short.MemberIDs, short.MemberIdentities = nil, nil
		w.Conversation = &short
	}
	if i := about.invocation; i != nil && i.TargetIdentity != d.TargetIdentity {
		w.Invocation = nil // it is for another agent
	} else if i != nil {
		f := t.flights.get(about.invocation.FlightID)
		if f.State == collab.FlightQueued {
			moving := *f
			moving.State, moving.UpdatedAt = collab.FlightWaking, formatTime(t.now)
			emit(t.tx, collab.EventFlight, "flight:"+f.ID, moving, nil)
		}
		w.Flight = t.flights.get(f.ID)
	}
	e := emit(t.tx, collab.EventWoken, "agent:"+d.TargetAgentID, w, nil)
	if ep := t.Endpoints[dec.EndpointID]; ep != nil {
		t.sends = append(t.sends, sending{to: ep.Identity, event: e, deliveryID: d.ID})
	}
}

// openFor returns the open deliveries to the agent of an endpoint.
func (s *state) openFor(e *collab.Endpoint) []string {
	open := slices.Clone(s.openByTarget[e.AgentIdentity])
	if e.Identity != e.AgentIdentity {
		open = append(open, s.openByTarget[e.Identity]...)
	}
	return open
}

// parkUnanswered parks the wakes that went to earlier endpoints of an agent and were not
// acknowledged: the agent ended with them.
func (t wakeHandler) parkUnanswered(e *collab.Endpoint, earlier []string) {
	for _, id := range t.openFor(e) {
		d := t.deliveries.get(id)
		if d.Status == collab.DeliveryPending && slices.Contains(earlier, d.EndpointID) {
			t.park(id)
		}
	}
}

// wakeWaiting wakes the agent of an endpoint once for each waiting delivery, and cancels the
// obsolete ones.
func (t wakeHandler) wakeWaiting(e *collab.Endpoint) {
	for _, id := range t.openFor(e) {
		d := rules.CurrentDelivery(t.deliveries.get(id), t.now)
		if d.Status != collab.DeliveryPending || d.Wake != collab.WakeWanted && d.Wake != collab.WakeMissed {
			continue
		}
		if why := t.obsolete(d); why != "" {
			deliveryHandler(t).cancelWithFlight(d, why)
			continue
		}
		st := t.resolveTarget(d)
		if st.Endpoint == nil || !st.Endpoint.Wakeable() {
			continue
		}
		if d.Wake == collab.WakeMissed {
			t.wakeAgain(d, st)
		} else {
			t.wakeNow(d, st)
		}
	}
}

// resolveTarget resolves the current target of a delivery: by its label, unless that now means
// somebody else.
func (s *state) resolveTarget(d collab.Delivery) rules.Resolution {
	if d.AskedLabel != "" {
		st := s.Resolve(d.AskedLabel, rules.Locality{})
		if st.Failure == collab.CodeUnknownTarget || st.Endpoint != nil && st.Endpoint.ActsFor(d.TargetIdentity) {
			return st
		}
	}
	return s.ResolveParty(rules.Party{Name: d.TargetAgentID, ID: d.TargetIdentity}, rules.Locality{})
}

// wakeNow makes the wake of a waiting delivery.
func (t wakeHandler) wakeNow(d collab.Delivery, st rules.Resolution) {
	about := subject{
		record:     t.records.get(cmp.Or(d.WorkItemID, d.QuestionID)),
		invocation: t.invocations.get(d.InvocationID),
	}
	w := collab.WakeDecided{ConversationID: d.ConversationID}
	var dec collab.Decision
	switch {
	case d.MessageID != "":
		m, meta := t.message(d.MessageID)
		about.message, dec, w.RecordID, w.RecordKind = &m, meta.Wake, m.ID, kindMessage
	case d.InvocationID != "":
		w.RecordID, w.RecordKind = about.invocation.FlightID, "flight"
		dec = rules.Invoked(rules.Party{Name: about.invocation.TargetAgentID, ID: about.invocation.TargetIdentity})
	default:
		w.RecordID, w.RecordKind = about.record.ID, about.record.Kind
	}
	about.sweep = d.SenderID == ""
	since := t.wakes.get(wakeKey(w.RecordKind, w.RecordID)).Seq > 0
	if since && dec.TargetIdentity != d.TargetIdentity {
		dec = t.lastDecision(wakeKey(w.RecordKind, w.RecordID))
	}
	if dec.TargetIdentity != d.TargetIdentity { // somebody else was reminded since
		dec = rules.DecisionFor(dec, rules.Party{Name: d.TargetAgentID, ID: d.TargetIdentity})
	}
	dec.Outcome, dec.EndpointID = collab.OutcomeWoken, st.Endpoint.EndpointID
	dec.Reason = fmt.Sprintf("%s; woken when %s announced itself", dec.Reason, st.Endpoint.EndpointID)
	if since && t.lastDecision(wakeKey(w.RecordKind, w.RecordID)).TargetIdentity != d.TargetIdentity {
		w.Decision = dec
		emit(t.tx, collab.EventWakeDecided, w.RecordKind+":"+w.RecordID, w, nil)
	}
	t.wake(d, dec, about)
	if d.SenderKind == collab.SurfaceHuman {
		t.notifySender(d)
	}
}

// wakeAgain sends a parked wake again, to the current endpoint. It is the same event, so that the
// agent recognizes a repetition.
func (t wakeHandler) wakeAgain(d collab.Delivery, st rules.Resolution) {
	e := t.event(t.wokenBy.get(d.ID))
	var w collab.Wake
	rules.Must(json.Unmarshal(e.Payload, &w))
	w.EndpointID = st.Endpoint.EndpointID
	e.Payload = rules.MustEncode(w)
	d.Wake, d.EndpointID = collab.WakeWoken, st.Endpoint.EndpointID
	deliveryHandler(t).change(d, nil)
	t.notifySender(d)
	t.sends = append(t.sends, sending{to: st.Endpoint.Identity, event: e, deliveryID: d.ID, again: t.seq})
}

// missed handles a wake whose receiver was absent. It parks the wake and takes the receiver's
// endpoints offline. If the receiver has announced itself since the wake was sent, it is woken
// again instead.
func (t wakeHandler) missed(deliveryID string, to protocol.PeerID, sentAt string) {
	d, parked := t.park(deliveryID)
	if !parked {
		return
	}
	online := t.EndpointsThat(func(e *rules.Endpoint) bool {
		return e.Identity == to && e.Status == collab.StatusOnline
	})
	newer := func(e *rules.Endpoint) bool { return e.AnnouncedAt > sentAt && e.ActsFor(d.TargetIdentity) }
	if i := slices.IndexFunc(online, newer); i >= 0 {
		t.wakeWaiting(&online[i].Endpoint)
		return
	}
	slices.SortFunc(online, func(a, b *rules.Endpoint) int { return cmp.Compare(a.EndpointID, b.EndpointID) })
	for _, e := range online {
		identityHandler(t).setOffline(e, "a wake found "+string(to)+" absent from the bus")
		t.presence.setLost(e.EndpointID, true)
	}
	t.requestSpawn(d)
}

// park makes a wake wait until the next announcement. It reports whether the wake was parked: a
// finished delivery needs none.
func (t wakeHandler) park(deliveryID string) (collab.Delivery, bool) {
	stored := t.deliveries.get(deliveryID)
	if stored == nil || stored.Terminal() || stored.Wake != collab.WakeWoken {
		return collab.Delivery{}, false
	}
	d := *stored
	d.Wake = collab.WakeMissed
	deliveryHandler(t).change(d, nil)
	t.notifySender(d)
	return d, true
}

// notifySender sends the last event to the sender of a delivery: to an agent itself, or to the
// chat of a person.
func (t wakeHandler) notifySender(d collab.Delivery) {
	e := t.events[len(t.events)-1]
	switch d.SenderKind {
	case collab.SurfaceAgent:
		t.sends = append(t.sends, sending{to: d.SenderIdentity, event: e})
	case collab.SurfaceHuman:
		notifyPerson(t.tx, d.ConversationID, d.SenderIdentity, e)
	}
}

// A spawnRequest is an absent agent for which a delivery waits.
type spawnRequest struct {
	agent      protocol.PeerID
	deliveryID string
	seq        int64 // the event that caused the request
}

// requestSpawn requests an absent agent for which a delivery waits.
func (t wakeHandler) requestSpawn(d collab.Delivery) {
	id := d.TargetIdentity
	for _, e := range t.EndpointsThat(func(e *rules.Endpoint) bool { return e.ActsFor(id) }) {
		if e.Status == collab.StatusOnline {
			return // it refuses wakes, or did not take its wake
		}
		if e.AgentIdentity == id {
			id = e.Identity // announced itself under that name
		}
	}
	if protocol.RoleOf(id) == protocol.RoleAgent {
		t.spawnRequests = append(t.spawnRequests, spawnRequest{id, d.ID, t.seq})
	}
}

// obsolete returns why a delivery is no longer needed, or "".
func (s *state) obsolete(d collab.Delivery) string {
	if r := s.records.get(cmp.Or(d.WorkItemID,
		d.QuestionID)); r != nil && r.Terminal() &&
		r.UpdatedAt >= d.CreatedAt { // otherwise the delivery was made after the end
		return r.Name() + " is " + string(r.State)
	}
	if i := s.invocations.get(d.InvocationID); i != nil && s.flights.get(i.FlightID).Terminal() {
		return "flight " + i.FlightID + " is " + string(s.flights.get(i.FlightID).State)
	}
	if _, kept := s.messages.find(d.MessageID); d.MessageID != "" && !kept {
		return "its message was deleted"
	}
	return ""
}

func (t deliveryHandler) cancel(d collab.Delivery, why string) {
	t.change(rules.WithStatus(d, collab.DeliveryCancelled), map[string]string{"reason": why})
}

// cancelWithFlight cancels a delivery that is no longer needed, and its flight unless that has begun.
func (t deliveryHandler) cancelWithFlight(d collab.Delivery, why string) {
	t.cancel(d, why)
	i := t.invocations.get(d.InvocationID)
	if i == nil {
		return
	}
	f := *t.flights.get(i.FlightID)
	if f.DeliveryID == d.ID && (f.State == collab.FlightQueued || f.State == collab.FlightWaking) {
		f.State, f.UpdatedAt = collab.FlightCancelled, formatTime(t.now)
		emit(t.tx, collab.EventFlight, "flight:"+f.ID, f, map[string]string{"reason": why})
	}
}

// lastDecision reads the last wake decision about a record.
func (t wakeHandler) lastDecision(recordID string) collab.Decision {
	ref, ok := t.wakes.find(recordID)
	if !ok {
		rules.Fail(collab.CodeNotFound, "no wake was decided for %q", text.Clip(recordID, 80))
	}
	e := t.event(ref.Seq)
	if e.Type == collab.EventMessagePosted.Name {
		_, meta, err := readMessage(e)
		rules.Must(err)
		return meta.Wake
	}
	var w collab.WakeDecided
	rules.Must(json.Unmarshal(e.Payload, &w))
	return w.Decision
}

// explain returns the stored decision of a message, or the last one of a record.
func (t wakeHandler) explain(p collab.ExplainParams) (out collab.Explanation) {
	key := cmp.Or(p.WorkItemID, p.QuestionID)
	switch {
	case p.MessageID != "":
		_, meta := t.message(p.MessageID)
		out.Decision, key = meta.Wake, wakeKey(kindMessage, p.MessageID)
		if t.wakes.get(key).Seq > 0 { // a sweep has decided since
			out.Decision = t.lastDecision(key)
		}
	case key != "":
		out.Decision = t.lastDecision(key)
	default:
		rules.FailInvalid("messageId or workItemId is required")
	}
	out.Sweep = len(t.wakes.get(key).Reminded) > 0
	t.addCurrentOutcome(&out.Decision, p)
	out.Wake = out.Summary()
	return out
}

// addCurrentOutcome adds to a decision the later outcome of its wake: that it reached nobody, and
// where it was sent then.
func (t wakeHandler) addCurrentOutcome(dec *collab.Decision, p collab.ExplainParams) {
	var d *collab.Delivery
	for _, one := range t.deliveries.list(string(dec.TargetIdentity), "", math.MaxInt) {
		record := one.MessageID == "" && cmp.Or(p.WorkItemID, p.QuestionID) == cmp.Or(one.WorkItemID, one.QuestionID)
		if fits := p.MessageID != "" && one.MessageID == p.MessageID ||
			p.MessageID == "" && record; fits && (d == nil || one.UpdatedAt >= d.UpdatedAt) {
			d = one
		}
	}
	switch {
	case d == nil, dec.Outcome != collab.OutcomeWoken && dec.Outcome != collab.OutcomeUnavailable:
	case d.Wake == collab.WakeMissed && d.Status == collab.DeliveryPending:
		dec.Outcome = collab.OutcomeMissed
		dec.Reason += "; the wake reached nobody, and is sent again when " + d.TargetAgentID + " announces itself"
	case d.Wake == collab.WakeWoken && (d.EndpointID != dec.EndpointID || dec.Outcome != collab.OutcomeWoken):
		dec.Outcome, dec.EndpointID = collab.OutcomeWoken, d.EndpointID
		dec.Reason += "; woken at " + d.EndpointID + ", which came later"
	}
	if d != nil && d.Wake == collab.WakeWoken && d.Status == collab.DeliveryPending &&
		t.now.Sub(collab.ParseTime(d.UpdatedAt)) >= ackPatience {
		dec.Reason += "; " + d.TargetAgentID + " has not acknowledged that wake yet, and may be stuck"
	}
}

// ackPatience is how long an agent may take to acknowledge a wake before explanations mention it.
// Agents acknowledge a wake when they have stored it, and a frozen process does not.
const ackPatience = 3 * time.Second

// wakeRecord decides whom a record wakes, stores the decision and makes the wake. The delivery is
// nil if it wakes nobody.
func (t wakeHandler) wakeRecord(r *rules.Record, sender rules.Caller) (collab.Decision, *collab.Delivery) {
	dec := t.choose(rules.Situation{Sender: sender, Record: r}, rules.Locality{})
	emit(t.tx, collab.EventWakeDecided, r.Target(), collab.WakeDecided{
		RecordID:       r.ID,
		RecordKind:     r.Kind,
		ConversationID: r.ConversationID,
		SenderID:       sender.Name,
		Decision:       dec,
	}, nil)
	if dec.Outcome != collab.OutcomeWoken && dec.Outcome != collab.OutcomeUnavailable {
		return dec, nil
	}
	d := collab.Delivery{
		TargetAgentID:  dec.TargetAgentID,
		TargetIdentity: dec.TargetIdentity,
		Reason:         collab.ReasonInvocation,
		Policy:         collab.PolicyMustAck,
		ConversationID: r.ConversationID,
	}
	if r.IsQuestion() {
		d.QuestionID = r.ID
	} else {
		d.WorkItemID = r.ID
	}
	d = t.request(t.newID("dlv_"), d, dec, subject{record: r})
	return dec, &d
}

// choose makes a decision and resolves its target: by the label that named it, else by the party.
func (t wakeHandler) choose(s rules.Situation, from rules.Locality, named ...namedTarget) collab.Decision {
	if s.Record != nil {
		s.Dependency = t.dependency(s.Record)
	}
	dec := rules.ChooseWake(s)
	if dec.TargetAgentID == "" {
		return dec
	}
	st := t.ResolveParty(rules.Party{Name: dec.TargetAgentID, ID: dec.TargetIdentity}, from)
	for _, n := range named {
		if dec.Rule == collab.RuleExplicit && n.resolution.ID == dec.TargetIdentity {
			st = n.resolution // the endpoint of its label
		}
	}
	rules.ApplyResolution(&dec, st)
	return dec
}

// dependency returns the party that holds what a record waits for. It returns nobody if that is
// external, an unknown agent, or cannot be determined.
func (s *state) dependency(r *rules.Record) rules.Party {
	on := r.WaitingOn
	if r.State != collab.WorkWaiting || on == nil {
		return rules.Party{}
	}
	other := s.records.get(on.TargetID)
	switch {
	case other != nil && other.Terminal():
		return rules.Party{}
	case other != nil:
		return other.Next()
	case rules.Kinds[on.Kind] != nil, on.External():
		return rules.Party{}
	case protocol.RoleOf(on.TargetIdentity) == protocol.RoleAgent && !s.Agents[on.TargetIdentity] &&
		len(s.EndpointsOf(on.TargetIdentity)) == 0:
		return rules.Party{}
	}
	return rules.Party{Name: rules.BareName(on.TargetID), ID: on.TargetIdentity}
}
