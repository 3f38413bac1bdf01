package broker

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/text"
)

// newRecord completes a record with the params and checks it. The broker sets the times and the
// creator; those in the params are only checked.
func (t recordHandler) newRecord(r record, p collab.WorkParams) *record {
	r.State, r.AcceptanceState = collab.WorkOpen, collab.AcceptanceNone
	r.CreatedAt = formatTime(t.now)
	r.UpdatedAt = r.CreatedAt
	if p.Kind != "" && p.Kind != r.Kind {
		failInvalid("kind %q is not %s", text.Clip(p.Kind, 40), r.Kind)
	}
	r.ID = t.recordID(p.ID, kinds[r.Kind].prefix)
	t.applyParams(&r, p)
	r.CreatedByID, r.CreatedByIdentity = t.caller.Name, t.caller.party().id
	checked := r
	if p.CreatedByID != nil && strings.TrimSpace(*p.CreatedByID) == "" {
		checked.CreatedByID = ""
	}
	if p.CreatedAt != nil && p.UpdatedAt != nil {
		checked.CreatedAt, checked.UpdatedAt = formatTime(p.CreatedAt.Time), formatTime(p.UpdatedAt.Time)
	}
	checked.mustBeValid()
	t.mustAllowAcceptance(&r, &r)
	t.mustHaveNoCycles(&r)
	return &r
}

// applyParams copies the given params into the record.
func (t recordHandler) applyParams(r *record, p collab.WorkParams) {
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
			mustFit(f.what, *f.from, maxTitle)
		default:
			mustBeName(f.what, *f.from)
		}
		if f.what == "conversationId" && *f.from != "" && *f.from != r.ConversationID {
			mustFind(t.conversations, "conversation", *f.from)
		}
		*f.to = *f.from
		if f.id != nil {
			who := t.partyIn(&before, *f.from)
			*f.to, *f.id = who.name, who.id
		}
	}
	if on := p.WaitingOn; on != nil {
		mustBeNames("waitingOn.kind", on.Kind, "waitingOn.targetId", on.TargetID)
		mustFit("waitingOn.label", on.Label, maxTitle)
		r.WaitingOn = &collab.WaitingOn{Kind: on.Kind, Label: on.Label, TargetID: on.TargetID}
		if on.TargetID != "" && t.records.get(on.TargetID) == nil && kinds[on.Kind] == nil && !on.External() {
			r.WaitingOn.TargetIdentity = t.partyIn(&before, on.TargetID).id
		}
	}
	mustBeName("onBehalfOf", p.OnBehalfOf)
	r.OnBehalfOf = p.OnBehalfOf
	r.State = cmp.Or(p.State, r.State)
	r.AcceptanceState = cmp.Or(p.AcceptanceState, r.AcceptanceState)
}

// mustAllowAcceptance refuses a caller that is no reviewer but accepts or rejects work, or
// removes its requester. Reviewers are the requester and, during a review, the party with the
// next move. The owner is a reviewer only if nobody else is named. Other people may act for a
// reviewer.
func (t recordHandler) mustAllowAcceptance(old, r *record) {
	verdict := r.AcceptanceState == collab.AcceptanceAccepted || r.AcceptanceState == collab.AcceptanceRejected
	judges := verdict && (old == r || old.AcceptanceState != r.AcceptanceState)
	reviewers := []party{old.requester()}
	if old.State == collab.WorkReview {
		reviewers = append(reviewers, old.next())
	}
	reviewers = filter(reviewers, func(p party) bool { return p.name != "" && p != old.owner() })
	if len(reviewers) == 0 && old.RequestedByID != "" {
		reviewers = []party{old.requester()} // the owner, and nobody else is named
	}
	other := t.caller.Person && !t.caller.is(old.OwnerIdentity)
	if len(reviewers) == 0 || other || slices.ContainsFunc(reviewers, func(p party) bool { return t.caller.is(p.id) }) {
		return
	}
	if judges || old.RequestedByID != "" && old.requester() != r.requester() {
		fail(collab.CodeForbidden, "%s does not review %s: that is for %s", t.caller.Name, r.name(), reviewers[0].ref())
	}
}

// assignReviewer gives the next move to the requester if an agent would make itself the reviewer:
// if it neither requested nor owns the work and keeps the next move in review.
func (t recordHandler) assignReviewer(old, r *record, named bool) {
	own := t.caller.is(r.NextMoveOwnerIdentity) && !t.caller.is(r.OwnerIdentity) && !t.caller.is(r.RequestedByIdentity)
	if t.caller.Person || r.State != collab.WorkReview || r.RequestedByID == "" || !own ||
		old.State == r.State && old.owner() == r.owner() && old.next() == r.next() {
		return
	}
	if named {
		fail(collab.CodeForbidden, "%s does not make itself the reviewer of %s: that is for %s", t.caller.Name,
			r.name(),
			r.requester().ref())
	}
	r.setNextMove(r.requester())
}

// mustHaveNoCycles refuses a record that is its own indirect parent, or waits for itself.
func (s *state) mustHaveNoCycles(r *record) {
	s.mustHaveNoCycle(r, "parentId", func(r *record) string { return r.ParentID })
	s.mustHaveNoCycle(r, "waitingOn", func(r *record) string {
		if r.WaitingOn == nil || r.State != collab.WorkWaiting {
			return ""
		}
		return r.WaitingOn.TargetID
	})
}

func (s *state) mustHaveNoCycle(r *record, what string, next func(r *record) string) {
	path := []string{r.ID}
	for id := next(r); id != ""; {
		if path = append(path, id); id == r.ID {
			failInvalid("%s leads back to %s itself: %s", what, r.ID, text.Clip(strings.Join(path, " -> "), maxName))
		}
		other := s.records.get(id)
		if other == nil {
			return
		}
		id = next(other)
	}
}

// create stores a record, unless the same request has created it before. With wake it also wakes
// the responsible party.
func (t recordHandler) create(r *record, wake bool) collab.Result {
	old := t.records.get(r.ID)
	switch {
	case old == nil:
		t.store(nil, r)
		return t.result(r.ID, wake)
	case old.Kind != r.Kind:
		fail(collab.CodeConflict, "%s is the id of a %s", r.ID, kinds[old.Kind].name)
	}
	t.mustRepeat(r.target(), kinds[r.Kind].name, r.ID)
	return t.duplicate(r.ID)
}

// store emits the event about a new version of a record. old is nil for a new record.
func (t recordHandler) store(old, r *record) {
	step := stepOf(old, r)
	meta := collab.StepMetadata{RecordID: r.ID, RecordKind: r.Kind, Step: step, ActorID: t.caller.Name}
	if old == nil {
		meta.Digest = t.digest
	} else {
		meta.From = string(old.State)
	}
	var e collab.Event
	switch {
	case r.isQuestion() && old == nil:
		e = emit(t.tx, collab.EventQuestionCreated, r.target(), r.question(), meta)
		if collab.IsEscalationQuestion(r.ID) &&
			protocol.IsPerson(r.AskedOfIdentity) { // the asking agent could not show it to them
			notifyPerson(t.tx, "", r.AskedOfIdentity, e)
		}
	case r.isQuestion() && step == collab.StepAnswered:
		e = emit(t.tx, collab.EventQuestionAnswered, r.target(), r.question(), meta)
	case r.isQuestion():
		e = emit(t.tx, collab.EventQuestionUpdated, r.target(), r.question(), meta)
		if step == collab.StepDeclined && protocol.RoleOf(r.AskedByIdentity) == protocol.RoleAgent {
			t.sends = append(t.sends, sending{to: r.AskedByIdentity, event: e})
		}
	case old == nil:
		e = emit(t.tx, collab.EventWorkCreated, r.target(), r.WorkItem, meta)
	default:
		e = emit(t.tx, collab.EventWorkUpdated, r.target(), r.WorkItem, meta)
	}
	notifyChat(t.tx, r.ConversationID, e)
}

// update stores the next version of a record, and cancels the wakes that are obsolete. It refuses
// what the state machine or the rules do not allow.
func (t recordHandler) update(old, r *record) {
	mustAllowTransition(kinds[r.Kind].name, kinds[r.Kind].moves, old.State, r.State)
	r.UpdatedAt = formatTime(t.now)
	r.mustBeValid()
	t.mustHaveNoCycles(r)
	t.store(old, r)
	t.cancelObsolete(old, r)
}

// cancelObsolete cancels the waiting wakes for an ended record or a moved question, and for work
// those of the previous owner of the next move.
func (t recordHandler) cancelObsolete(old, r *record) {
	for _, d := range t.waitingDeliveries(r.ID) {
		switch {
		case r.isQuestion(), !old.Terminal() && r.Terminal():
			deliveryHandler(t).cancel(d, r.name()+" is "+string(r.State))
		case old.next() != r.next() && d.MessageID == "" && d.InvocationID == "" &&
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
	if r.isQuestion() {
		out.Question = r.question()
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
func (t recordHandler) wakeInto(out *collab.Result, r *record) collab.Decision {
	dec, d := wakeHandler(t).wakeRecord(r, t.caller)
	out.Decision, out.Delivery, out.Wake = &dec, d, collab.AskedWake{Asked: true, Made: dec.Summary()}
	return dec
}

// mustFindRecord returns a record of a kind.
func (s *state) mustFindRecord(kind, id string) *record {
	r := s.records.get(id)
	if r == nil || r.Kind != kind {
		failNotFound(kinds[kind].name, id)
	}
	return r
}

// mustFindMovable returns a record that the caller may move. Agents may move only records that
// concern them.
func (v *view) mustFindMovable(kind, id string) *record {
	r := v.mustFindRecord(kind, id)
	concerned := []protocol.PeerID{r.CreatedByIdentity, r.OwnerIdentity, r.AskedOfIdentity, r.NextMoveOwnerIdentity}
	if !slices.ContainsFunc(concerned, v.caller.actsFor) {
		fail(collab.CodeForbidden, kinds[kind].denied, v.caller.Name, r.ID)
	}
	return r
}

// openRecords lists the open records of a kind, oldest first.
func (s *state) openRecords(kind string) (list []*record) {
	for _, id := range s.records.openIDs() {
		if r := s.records.get(id); r.Kind == kind {
			list = append(list, r)
		}
	}
	slices.SortStableFunc(list, func(a, b *record) int { return cmp.Compare(a.CreatedAt, b.CreatedAt) })
	return list
}

// recordsOf lists the records of a kind that match, oldest first. Empty conditions match all.
func (v *view) recordsOf(kind string, state collab.WorkState, owner, next string) (list []*record) {
	ownedBy, movedBy := v.partyFilter(owner), v.partyFilter(next)
	for _, r := range v.records.list(kind, "", math.MaxInt) {
		if (state == "" || r.State == state) && ownedBy(r.owner()) && movedBy(r.next()) {
			list = append(list, r)
		}
	}
	return list
}
