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

// newRecord completes a record with what the params say and checks it. The broker's
// clock and the caller stand in the record; what the params say of them is only
// checked.
func (t *tx) newRecord(r record, p collab.WorkParams) *record {
	r.State, r.AcceptanceState = collab.WorkOpen, collab.AcceptanceNone
	r.CreatedAt = stamp(t.now)
	r.UpdatedAt = r.CreatedAt
	if p.Kind != "" && p.Kind != r.Kind {
		invalid("kind %q is not %s", text.Clip(p.Kind, 40), r.Kind)
	}
	r.ID = t.newID(p.ID, kinds[r.Kind].prefix)
	t.takeOver(&r, p)
	r.CreatedByID, r.CreatedByIdentity = t.caller.Name, t.caller.party().id
	checked := r
	if p.CreatedByID != nil && strings.TrimSpace(*p.CreatedByID) == "" {
		checked.CreatedByID = ""
	}
	if p.CreatedAt != nil && p.UpdatedAt != nil {
		checked.CreatedAt, checked.UpdatedAt = stamp(p.CreatedAt.Time), stamp(p.UpdatedAt.Time)
	}
	checked.check()
	t.checkAcceptance(&r, &r)
	t.checkCycles(&r)
	return &r
}

// takeOver writes the members that the params have into the record.
func (t *tx) takeOver(r *record, p collab.WorkParams) {
	before := *r
	for _, f := range []struct {
		what string
		from *string
		to   *string
		id   *protocol.PeerID // beside a name
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
			checkLength(f.what, *f.from, maxTitle)
		default:
			checkName(f.what, *f.from)
		}
		if f.what == "conversationId" && *f.from != "" && *f.from != r.ConversationID {
			known(t.conversations, "conversation", *f.from)
		}
		*f.to = *f.from
		if f.id != nil {
			who := t.partyIn(&before, *f.from)
			*f.to, *f.id = who.name, who.id
		}
	}
	if on := p.WaitingOn; on != nil {
		checkNames("waitingOn.kind", on.Kind, "waitingOn.targetId", on.TargetID)
		checkLength("waitingOn.label", on.Label, maxTitle)
		r.WaitingOn = &collab.WaitingOn{Kind: on.Kind, Label: on.Label, TargetID: on.TargetID}
		if on.TargetID != "" && t.records.get(on.TargetID) == nil && kinds[on.Kind] == nil && !on.External() {
			r.WaitingOn.TargetIdentity = t.partyIn(&before, on.TargetID).id
		}
	}
	checkName("onBehalfOf", p.OnBehalfOf)
	r.OnBehalfOf = p.OnBehalfOf
	r.State = cmp.Or(p.State, r.State)
	r.AcceptanceState = cmp.Or(p.AcceptanceState, r.AcceptanceState)
}

// checkAcceptance refuses that somebody accepts or rejects work, or takes away who requested
// it, who does not review it. Reviewers are who requested it and, while it is in review, who
// has the next move, but never the owner, unless nobody else is named. Other people may act for
// a reviewer.
func (t *tx) checkAcceptance(old, r *record) {
	verdict := r.AcceptanceState == collab.AcceptanceAccepted || r.AcceptanceState == collab.AcceptanceRejected
	judges := verdict && (old == r || old.AcceptanceState != r.AcceptanceState)
	reviewers := []party{old.requester()}
	if old.State == collab.WorkReview {
		reviewers = append(reviewers, old.next())
	}
	reviewers = filter(reviewers, func(p party) bool { return p.name != "" && p != old.owner() })
	if len(reviewers) == 0 && old.RequestedByID != "" {
		reviewers = []party{old.requester()} // its owner, and nobody else is named
	}
	other := t.caller.Person && !t.caller.is(old.OwnerIdentity)
	if len(reviewers) == 0 || other || slices.ContainsFunc(reviewers, func(p party) bool { return t.caller.is(p.id) }) {
		return
	}
	if judges || old.RequestedByID != "" && old.requester() != r.requester() {
		refuse(collab.CodeForbidden, "%s does not review %s: that is for %s", t.caller.Name, r.name(), reviewers[0].ref())
	}
}

// handIn gives the next move to who requested work where an agent that neither requested nor owns
// it leaves it with itself in review: nobody makes themselves the reviewer.
func (t *tx) handIn(old, r *record, named bool) {
	own := t.caller.is(r.NextMoveOwnerIdentity) && !t.caller.is(r.OwnerIdentity) && !t.caller.is(r.RequestedByIdentity)
	if t.caller.Person || r.State != collab.WorkReview || r.RequestedByID == "" || !own ||
		old.State == r.State && old.owner() == r.owner() && old.next() == r.next() {
		return
	}
	if named {
		refuse(collab.CodeForbidden, "%s does not make itself the reviewer of %s: that is for %s", t.caller.Name, r.name(), r.requester().ref())
	}
	r.giveTo(r.requester())
}

// checkCycles refuses a record that would be its own parent, or wait for itself, by way of
// others.
func (s *state) checkCycles(r *record) {
	s.checkCycle(r, "parentId", func(r *record) string { return r.ParentID })
	s.checkCycle(r, "waitingOn", func(r *record) string {
		if r.WaitingOn == nil || r.State != collab.WorkWaiting {
			return ""
		}
		return r.WaitingOn.TargetID
	})
}

func (s *state) checkCycle(r *record, what string, next func(r *record) string) {
	path := []string{r.ID}
	for id := next(r); id != ""; {
		if path = append(path, id); id == r.ID {
			invalid("%s leads back to %s itself: %s", what, r.ID, text.Clip(strings.Join(path, " -> "), maxName))
		}
		other := s.records.get(id)
		if other == nil {
			return
		}
		id = next(other)
	}
}

// create stores a record, unless the same request has made it before. With wake it
// wakes the one responsible too.
func (t *tx) create(r *record, wake bool) collab.Result {
	old := t.records.get(r.ID)
	switch {
	case old == nil:
		t.put(nil, r)
		return t.result(r.ID, wake)
	case old.Kind != r.Kind:
		refuse(collab.CodeConflict, "%s is the id of a %s", r.ID, kinds[old.Kind].name)
	}
	t.repeats(r.target(), kinds[r.Kind].name, r.ID)
	return t.repeated(r.ID)
}

// put emits the event about a new version of a record; old is nil for a new one.
func (t *tx) put(old, r *record) {
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
		e = emit(t, collab.EventQuestionCreated, r.target(), r.question(), meta)
		if collab.IsEscalationQuestion(r.ID) && protocol.IsPerson(r.AskedOfIdentity) { // who asks could not show it to them
			tellPerson(t, "", r.AskedOfIdentity, e)
		}
	case r.isQuestion() && step == collab.StepAnswered:
		e = emit(t, collab.EventQuestionAnswered, r.target(), r.question(), meta)
	case r.isQuestion():
		e = emit(t, collab.EventQuestionUpdated, r.target(), r.question(), meta)
		if step == collab.StepDeclined && protocol.RoleOf(r.AskedByIdentity) == protocol.RoleAgent {
			t.sends = append(t.sends, sending{to: r.AskedByIdentity, event: e})
		}
	case old == nil:
		e = emit(t, collab.EventWorkCreated, r.target(), r.WorkItem, meta)
	default:
		e = emit(t, collab.EventWorkUpdated, r.target(), r.WorkItem, meta)
	}
	tellChat(t, r.ConversationID, e)
}

// change brings a record from one version to the next, and cancels the wakes that
// nobody needs any more. It refuses what the machine or the rules do not allow.
func (t *tx) change(old, r *record) {
	checkMove(kinds[r.Kind].name, kinds[r.Kind].moves, old.State, r.State)
	r.UpdatedAt = stamp(t.now)
	r.check()
	t.checkCycles(r)
	t.put(old, r)
	t.cancelObsolete(old, r)
}

// cancelObsolete cancels the wakes still owed for a record that ended or a question
// that moved, and for work those of whom the next move was taken from.
func (t *tx) cancelObsolete(old, r *record) {
	for _, d := range t.owed(r.ID) {
		switch {
		case r.isQuestion(), !old.Terminal() && r.Terminal():
			t.cancelDelivery(d, r.name()+" is "+string(r.State))
		case old.next() != r.next() && d.MessageID == "" && d.InvocationID == "" && d.TargetIdentity == old.NextMoveOwnerIdentity:
			t.cancelDelivery(d, "the next move went to "+r.NextMoveOwnerID)
		}
	}
}

// owed lists the deliveries about a record that wait for their agent to
// announce itself.
func (t *tx) owed(recordID string) (list []collab.Delivery) {
	for _, id := range t.openAbout[recordID] {
		if d := t.deliveries.get(id); d.Wake == collab.WakeWanted || d.Wake == collab.WakeMissed {
			list = append(list, *d)
		}
	}
	return list
}

// result answers with a record; with wake it also wakes the one whose move it is.
func (t *tx) result(id string, wake bool) (out collab.Result) {
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

// repeated answers with a record for a request that changes nothing, as it was made before.
func (t *tx) repeated(id string) collab.Result {
	out := t.result(id, false)
	out.Duplicate = true
	return out
}

// wakeInto wakes the one responsible for a record, and adds the wake to a result.
func (t *tx) wakeInto(out *collab.Result, r *record) collab.Decision {
	dec, d := t.wakeFor(r, t.caller)
	out.Decision, out.Delivery, out.Wake = &dec, d, collab.AskedWake{Asked: true, Made: dec.Summary()}
	return dec
}

// record returns a record of a kind.
func (s *state) record(kind, id string) *record {
	r := s.records.get(id)
	if r == nil || r.Kind != kind {
		notFound(kinds[kind].name, id)
	}
	return r
}

// recordToMove is record for a caller that moves it: no agent that has nothing to do with it.
func (v *view) recordToMove(kind, id string) *record {
	r := v.record(kind, id)
	concerned := []protocol.PeerID{r.CreatedByIdentity, r.OwnerIdentity, r.AskedOfIdentity, r.NextMoveOwnerIdentity}
	if !slices.ContainsFunc(concerned, v.caller.actsFor) {
		refuse(collab.CodeForbidden, kinds[kind].denied, v.caller.Name, r.ID)
	}
	return r
}

// openRecords lists the records of a kind about which something is owed, oldest first.
func (s *state) openRecords(kind string) (list []*record) {
	for _, id := range s.records.open() {
		if r := s.records.get(id); r.Kind == kind {
			list = append(list, r)
		}
	}
	slices.SortStableFunc(list, func(a, b *record) int { return cmp.Compare(a.CreatedAt, b.CreatedAt) })
	return list
}

// recordsOf lists the records of a kind that fit, oldest first. Empty conditions
// fit all.
func (v *view) recordsOf(kind string, state collab.WorkState, owner, next string) (list []*record) {
	ownedBy, movedBy := v.shownAs(owner), v.shownAs(next)
	for _, r := range v.records.list(kind, "", math.MaxInt) {
		if (state == "" || r.State == state) && ownedBy(r.owner()) && movedBy(r.next()) {
			list = append(list, r)
		}
	}
	return list
}
