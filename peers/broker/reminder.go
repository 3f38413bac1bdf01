package broker

import (
	"cmp"
	"slices"

	"hubbub/peers/broker/rules"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/text"
)

// remindAll sends reminders of what has not changed for StaleAfter: work that is open, waiting or
// in review, open and answered questions, messages without their required acknowledgement, and
// flights that never began or whose agent is gone. Each causes one reminder per StaleAfter, to
// one responsible party after the other, and to a person last.
func (t reminderHandler) remindAll() {
	records := append(t.openRecords(collab.KindWorkItem), t.openRecords(collab.KindQuestion)...)
	stuck := t.stuckFlights()
	for _, r := range records {
		if rules.IsRemindableRecord(r) {
			t.ofRecord(r, stuck[r.ID])
		}
	}
	for _, id := range t.flights.openIDs() {
		if f := t.flights.get(id); stuck[f.WorkItemID].ID != id {
			t.ofFlight(*f)
		}
	}
	for _, d := range (deliveryHandler(t)).open() {
		if rules.IsRemindable(d) {
			t.ofMessage(d)
		}
	}
	t.dropOld()
}

// stuckFlights returns, by the id of its work item, each stuck flight whose agent has the next move
// on that work: one reminder covers both.
func (t reminderHandler) stuckFlights() map[string]collab.Flight {
	stuck := map[string]collab.Flight{}
	for _, id := range t.flights.openIDs() {
		f := t.flights.get(id)
		r := t.records.get(f.WorkItemID)
		if r != nil && rules.IsRemindableRecord(r) && r.NextMoveOwnerIdentity == f.TargetIdentity &&
			t.deliveries.get(f.DeliveryID) != nil &&
			t.invocations.get(f.InvocationID) != nil && !t.inProgress(f) {
			stuck[r.ID] = *f
		}
	}
	return stuck
}

// inProgress reports whether a flight seems to be executing.
func (t reminderHandler) inProgress(f *collab.Flight) bool {
	begun := t.deliveries.get(f.DeliveryID).Terminal() || f.State == collab.FlightRunning ||
		f.State == collab.FlightWaiting
	return begun && t.IsOnline(f.TargetIdentity)
}

// reminded returns the parties reminded of a subject since its last change, and whether the next
// reminder is due.
func (t reminderHandler) reminded(key, touched string) (before []protocol.PeerID, due bool) {
	last := collab.ParseTime(touched)
	if ref, ok := t.wakes.find(key); ok {
		if at := collab.ParseTime(ref.At); !at.Before(last) {
			last, before = at, ref.Reminded
		}
	}
	return before, t.now.Sub(last) >= t.opts.StaleAfter && !slices.ContainsFunc(before, protocol.IsPerson)
}

// A reminder is one subject that a sweep reminds a party about.
type reminder struct {
	id, kind     string // as in the decision
	title        string
	conversation string
	reminded     []protocol.PeerID
	situation    rules.Situation
	about        subject
	delivery     collab.Delivery // to a party that was not woken for it before
}

// remind reminds the next party. It stores the decision, and wakes an agent by again or, if that
// returns false, by a new delivery. A person is notified in a chat.
func (t reminderHandler) remind(r *reminder, again func(dec collab.Decision) bool) {
	for _, id := range r.reminded {
		r.situation.Exclude(id, "was reminded before")
	}
	dec := wakeHandler(t).choose(r.situation, rules.Locality{})
	if dec.TargetAgentID == "" {
		return // all parties were reminded
	}
	e := emit(t.tx, collab.EventWakeDecided, r.kind+":"+r.id, collab.WakeDecided{
		RecordID:       r.id,
		RecordKind:     r.kind,
		Title:          text.Clip(r.title, rules.MaxName),
		ConversationID: r.conversation,
		Sweep:          true,
		Decision:       dec,
		Reminded:       append(slices.Clone(r.reminded), dec.TargetIdentity),
	}, nil)
	if dec.Outcome != collab.OutcomeWoken {
		notifyPerson(t.tx, r.conversation, dec.TargetIdentity, e)
	}
	if again(dec) || dec.Outcome != collab.OutcomeWoken && dec.Outcome != collab.OutcomeUnavailable {
		return
	}
	r.about.sweep = true
	d := r.delivery
	d.TargetAgentID, d.TargetIdentity, d.ConversationID = dec.TargetAgentID, dec.TargetIdentity, r.conversation
	wakeHandler(t).request(t.newID("dlv_"), d, dec, r.about)
}

// rewake returns a function that wakes the target of a decision by an existing delivery. The
// function returns false if the delivery is for somebody else.
func (t reminderHandler) rewake(d collab.Delivery, about subject) func(dec collab.Decision) bool {
	return func(dec collab.Decision) bool {
		if dec.TargetIdentity != d.TargetIdentity {
			return false
		}
		if about.sweep = true; dec.Outcome == collab.OutcomeWoken {
			wakeHandler(t).wake(d, dec, about)
		}
		return true
	}
}

// ofRecord sends a reminder about a work item or a question: first to the party with the next
// move, then to the owner, the master of the conversation, and the requester. The agent of a
// stuck flight is woken for that flight.
func (t reminderHandler) ofRecord(r *rules.Record, f collab.Flight) {
	before, due := t.reminded(r.ID, r.UpdatedAt)
	if !due {
		return
	}
	n := reminder{
		id:           r.ID,
		kind:         r.Kind,
		title:        r.Title,
		conversation: r.ConversationID,
		reminded:     before,
		about:        subject{record: r},
	}
	n.delivery = collab.Delivery{Reason: collab.ReasonInvocation, Policy: collab.PolicyMustAck}
	n.situation = rules.Situation{
		Record: r,
		Master: t.masterOf(r.ConversationID),
		Asked:  cmp.Or(r.Requester(), r.Creator()),
	}
	if n.delivery.WorkItemID = r.ID; r.IsQuestion() {
		n.delivery.WorkItemID, n.delivery.QuestionID = "", r.ID
	}
	for _, d := range (recordHandler(t)).waitingDeliveries(r.ID) {
		n.situation.Exclude(d.TargetIdentity, "has not taken its wake")
	}
	again := func(collab.Decision) bool { return false }
	if f.ID != "" {
		d := *t.deliveries.get(f.DeliveryID)
		n.about.invocation = t.invocations.get(f.InvocationID)
		again = t.rewake(d, n.about)
		if !t.IsOnline(f.TargetIdentity) {
			n.situation.Exclude(f.TargetIdentity, "is away")
			wakeHandler(t).requestSpawn(d)
		}
	}
	t.remind(&n, again)
}

// ofFlight sends a reminder about a flight that never began: to its agent, and then to its
// requester. If the agent is gone, the spawner is asked for it. A flight for work that has ended
// since needs no reminder.
func (t reminderHandler) ofFlight(f collab.Flight) {
	before, due := t.reminded(f.ID, f.UpdatedAt)
	d, inv := t.deliveries.get(f.DeliveryID), t.invocations.get(f.InvocationID)
	if !due || d == nil || inv == nil || t.obsolete(*d) != "" {
		return
	}
	agent := rules.Party{Name: f.TargetAgentID, ID: f.TargetIdentity}
	if t.inProgress(&f) {
		return
	}
	about := subject{invocation: inv, record: t.records.get(f.WorkItemID)}
	n := reminder{
		id:           f.ID,
		kind:         "flight",
		title:        inv.Text,
		conversation: inv.ConversationID,
		reminded:     before,
		about:        about,
	}
	n.situation = rules.Situation{
		Explicit: []rules.Party{agent},
		Asked:    rules.Party{Name: f.RequestedByID, ID: f.RequestedByIdentity},
	}
	n.delivery = collab.Delivery{
		Reason:       collab.ReasonInvocation,
		Policy:       collab.PolicyDurable,
		InvocationID: inv.ID,
		WorkItemID:   f.WorkItemID,
	}
	switch {
	case !t.IsOnline(agent.ID):
		n.situation.Exclude(agent.ID, "is away")
		wakeHandler(t).requestSpawn(*d)
	case d.Wake != collab.WakeWoken:
		n.situation.Exclude(agent.ID, "has not taken its wake")
	}
	t.remind(&n, t.rewake(*d, about))
}

// ofMessage reminds the agent that has not acknowledged a message, then the master of the
// conversation, and the sender of a follow-up.
func (t reminderHandler) ofMessage(d collab.Delivery) {
	before, due := t.reminded(wakeKey(kindMessage, d.MessageID), d.CreatedAt)
	if !due || t.now.Sub(collab.ParseTime(d.UpdatedAt)) < t.opts.StaleAfter {
		return
	}
	m, _ := t.message(d.MessageID)
	about := subject{message: &m, record: t.records.get(m.WorkItemID)}
	n := reminder{
		id:           m.ID,
		kind:         kindMessage,
		title:        m.Text,
		conversation: m.ConversationID,
		reminded:     before,
		about:        about,
	}
	n.delivery = collab.Delivery{
		Reason:     collab.ReasonVisibility,
		Policy:     collab.PolicyDurable,
		MessageID:  m.ID,
		WorkItemID: m.WorkItemID,
	}
	n.situation = rules.Situation{Explicit: []rules.Party{{Name: d.TargetAgentID, ID: d.TargetIdentity}},
		Master: t.masterOf(m.ConversationID)}
	if m.FollowUp {
		n.situation.Asked = rules.Party{Name: m.AuthorID, ID: m.AuthorIdentity}
	}
	if d.Wake != collab.WakeWoken {
		n.situation.Exclude(d.TargetIdentity, "has not taken its wake")
	}
	t.remind(&n, t.rewake(d, about))
}

// kindMessage is the kind of messages in decisions.
const kindMessage = "message"

// wakeKey is the key of the last decision about a subject. A message may have the id of a record.
func wakeKey(kind, id string) string {
	if kind == kindMessage {
		return kind + "\n" + id
	}
	return id
}

// masterOf returns the party that answers for a conversation, if there is one.
func (t reminderHandler) masterOf(conversationID string) rules.Party {
	if t.conversations.get(conversationID) == nil {
		return rules.Party{}
	}
	return t.master(conversationID)
}
