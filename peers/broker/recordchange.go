package broker

import (
	"cmp"
	"slices"
	"strings"

	"hubbub/peers/broker/rules"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/text"
)

// newRecord completes a record with the params and checks it. The broker sets the times and the
// creator; those in the params are only checked.
func (t recordHandler) newRecord(r rules.Record, p collab.WorkParams) *rules.Record {
	r.State, r.AcceptanceState = collab.WorkOpen, collab.AcceptanceNone
	r.CreatedAt = formatTime(t.now)
	r.UpdatedAt = r.CreatedAt
	if p.Kind != "" && p.Kind != r.Kind {
		rules.FailInvalid("kind %q is not %s", text.Clip(p.Kind, 40), r.Kind)
	}
	r.ID = t.recordID(p.ID, rules.Kinds[r.Kind].Prefix)
	t.applyParams(&r, p)
	r.CreatedByID, r.CreatedByIdentity = t.caller.Name, t.caller.Party().ID
	checked := r
	if p.CreatedByID != nil && strings.TrimSpace(*p.CreatedByID) == "" {
		checked.CreatedByID = ""
	}
	if p.CreatedAt != nil && p.UpdatedAt != nil {
		checked.CreatedAt, checked.UpdatedAt = formatTime(p.CreatedAt.Time), formatTime(p.UpdatedAt.Time)
	}
	checked.MustBeValid()
	r.MustAllowAcceptance(&r, &t.caller)
	r.MustHaveNoCycles(t.records.get)
	return &r
}

// applyParams copies the given params into the record.
func (t recordHandler) applyParams(r *rules.Record, p collab.WorkParams) {
	before := *r
	for _, f := range []struct {
		what string
		from *string
		to   *string
		id   *protocol.PeerID // of a name
	}{
		{"title", p.Title, &r.Title, nil}, {"summary", p.Summary, &r.Summary, nil},
		{"ownerId", p.OwnerID, &r.OwnerID, &r.OwnerIdentity},
		{"nextMoveOwnerId", p.NextMoveOwnerID, &r.NextMoveOwnerID, &r.NextMoveOwnerIdentity},
		{"requestedById", p.RequestedByID, &r.RequestedByID, &r.RequestedByIdentity},
		{"parentId", p.ParentID, &r.ParentID, nil}, {"conversationId", p.ConversationID, &r.ConversationID, nil},
		{"priority", p.Priority, &r.Priority, nil},
	} {
		switch {
		case f.from == nil:
			continue
		case f.what == "title", f.what == "summary":
			rules.MustFit(f.what, *f.from, rules.MaxTitle)
		default:
			rules.MustBeName(f.what, *f.from)
		}
		if f.what == "conversationId" && *f.from != "" && *f.from != r.ConversationID {
			mustFind(t.conversations, "conversation", *f.from)
		}
		*f.to = *f.from
		if f.id != nil {
			who := t.partyIn(&before, *f.from)
			*f.to, *f.id = who.Name, who.ID
		}
	}
	if on := p.WaitingOn; on != nil {
		rules.MustBeNames("waitingOn.kind", on.Kind, "waitingOn.targetId", on.TargetID)
		rules.MustFit("waitingOn.label", on.Label, rules.MaxTitle)
		r.WaitingOn = &collab.WaitingOn{Kind: on.Kind, Label: on.Label, TargetID: on.TargetID}
		if on.TargetID != "" && t.records.get(on.TargetID) == nil && rules.Kinds[on.Kind] == nil && !on.External() {
			r.WaitingOn.TargetIdentity = t.partyIn(&before, on.TargetID).ID
		}
	}
	rules.MustBeName("onBehalfOf", p.OnBehalfOf)
	r.OnBehalfOf = p.OnBehalfOf
	r.State = cmp.Or(p.State, r.State)
	r.AcceptanceState = cmp.Or(p.AcceptanceState, r.AcceptanceState)
}

// create stores a record, unless the same request has created it before. With wake it also wakes
// the responsible party.
func (t recordHandler) create(r *rules.Record, wake bool) collab.Result {
	old := t.records.get(r.ID)
	switch {
	case old == nil:
		t.store(nil, r)
		return t.result(r.ID, wake)
	case old.Kind != r.Kind:
		rules.Fail(collab.CodeConflict, "%s is the id of a %s", r.ID, rules.Kinds[old.Kind].Name)
	}
	t.mustRepeat(r.Target(), rules.Kinds[r.Kind].Name, r.ID)
	return t.duplicate(r.ID)
}

// store emits the event about a new version of a record. old is nil for a new record.
func (t recordHandler) store(old, r *rules.Record) {
	step := rules.StepOf(old, r)
	meta := collab.StepMetadata{RecordID: r.ID, RecordKind: r.Kind, Step: step, ActorID: t.caller.Name}
	if old == nil {
		meta.Digest = t.digest
	} else {
		meta.From = string(old.State)
	}
	var e collab.Event
	switch {
	case r.IsQuestion() && old == nil:
		e = emit(t.tx, collab.EventQuestionCreated, r.Target(), r.Question(), meta)
		if collab.IsEscalationQuestion(r.ID) &&
			protocol.IsPerson(r.AskedOfIdentity) { // the asking agent could not show it to them
			notifyPerson(t.tx, "", r.AskedOfIdentity, e)
		}
	case r.IsQuestion() && step == collab.StepAnswered:
		e = emit(t.tx, collab.EventQuestionAnswered, r.Target(), r.Question(), meta)
	case r.IsQuestion():
		e = emit(t.tx, collab.EventQuestionUpdated, r.Target(), r.Question(), meta)
		if step == collab.StepDeclined && protocol.RoleOf(r.AskedByIdentity) == protocol.RoleAgent {
			t.sends = append(t.sends, sending{to: r.AskedByIdentity, event: e})
		}
	case old == nil:
		e = emit(t.tx, collab.EventWorkCreated, r.Target(), r.WorkItem, meta)
	default:
		e = emit(t.tx, collab.EventWorkUpdated, r.Target(), r.WorkItem, meta)
	}
	notifyChat(t.tx, r.ConversationID, e)
}

// update stores the next version of a record, and cancels the wakes that are obsolete. It refuses
// what the state machine or the rules do not allow.
func (t recordHandler) update(old, r *rules.Record) {
	rules.MustAllowTransition(rules.Kinds[r.Kind].Name, rules.Kinds[r.Kind].Moves, old.State, r.State)
	r.UpdatedAt = formatTime(t.now)
	r.MustBeValid()
	r.MustHaveNoCycles(t.records.get)
	t.store(old, r)
	t.cancelObsolete(old, r)
}

// cancelObsolete cancels the waiting wakes for an ended record or a moved question, and for work
// those of the previous owner of the next move, except for invocations.
func (t recordHandler) cancelObsolete(old, r *rules.Record) {
	for _, d := range t.waitingDeliveries(r.ID) {
		switch {
		case r.IsQuestion(), !old.Terminal() && r.Terminal():
			deliveryHandler(t).cancelWithFlight(d, r.Name()+" is "+string(r.State))
		case old.Next() != r.Next() && d.MessageID == "" && d.InvocationID == "" &&
			d.TargetIdentity == old.NextMoveOwnerIdentity:
			deliveryHandler(t).cancel(d, "the next move went to "+r.NextMoveOwnerID)
		}
	}
}

// waitingDeliveries lists the deliveries about a record that wait for their agent to announce
// itself.
func (t recordHandler) waitingDeliveries(recordID string) (list []collab.Delivery) {
	for _, id := range t.openByRecord[recordID] {
		if d := t.deliveries.get(id); d.Wake == collab.WakeWanted || d.Wake == collab.WakeMissed {
			list = append(list, *d)
		}
	}
	return list
}

// result returns a record as a result. With wake it also wakes the party with the next move.
func (t recordHandler) result(id string, wake bool) (out collab.Result) {
	r := t.records.get(id)
	if r.IsQuestion() {
		out.Question = r.Question()
	} else {
		out.WorkItem = r.WorkItem
	}
	if wake && !r.Terminal() {
		t.wakeInto(&out, r)
	}
	return out
}

// duplicate returns a record for a repeated request, which changes nothing.
func (t recordHandler) duplicate(id string) collab.Result {
	out := t.result(id, false)
	out.Duplicate = true
	return out
}

// wakeInto wakes the party responsible for a record, and adds the wake to a result.
func (t recordHandler) wakeInto(out *collab.Result, r *rules.Record) collab.Decision {
	dec, d := wakeHandler(t).wakeRecord(r, t.caller)
	out.Decision, out.Delivery, out.Wake = &dec, d, collab.AskedWake{Asked: true, Made: dec.Summary()}
	return dec
}

// mustFindRecord returns a record of a kind.
func (s *state) mustFindRecord(kind, id string) *rules.Record {
	r := s.records.get(id)
	if r == nil || r.Kind != kind {
		rules.FailNotFound(rules.Kinds[kind].Name, id)
	}
	return r
}

// mustFindMovable returns a record that the caller may move. Agents may move only records that
// concern them.
func (v *view) mustFindMovable(kind, id string) *rules.Record {
	r := v.mustFindRecord(kind, id)
	concerned := []protocol.PeerID{r.CreatedByIdentity, r.OwnerIdentity, r.AskedOfIdentity, r.NextMoveOwnerIdentity}
	if !slices.ContainsFunc(concerned, v.caller.ActsFor) {
		rules.Fail(collab.CodeForbidden, rules.Kinds[kind].Denied, v.caller.Name, r.ID)
	}
	return r
}

// openRecords lists the open records of a kind, oldest first.
func (s *state) openRecords(kind string) (list []*rules.Record) {
	for _, id := range s.records.openIDs() {
		if r := s.records.get(id); r.Kind == kind {
			list = append(list, r)
		}
	}
	slices.SortStableFunc(list, func(a, b *rules.Record) int { return cmp.Compare(a.CreatedAt, b.CreatedAt) })
	return list
}

// recordsOf lists the records of a kind that match, oldest first, after a cursor. Empty conditions
// match all.
func (v *view) recordsOf(kind string, state collab.WorkState, owner, next, after string) (list []*rules.Record) {
	ownedBy, movedBy := v.partyFilter(owner), v.partyFilter(next)
	for _, r := range listAfter(v.records, kind, after) {
		if (state == "" || r.State == state) && ownedBy(r.Owner()) && movedBy(r.Next()) {
			list = append(list, r)
		}
	}
	return list
}
