package broker

import (
	"cmp"
	"encoding/json"
	"strings"
)

type workParams struct {
	ID              *string    `json:"id"`
	Title           *string    `json:"title"`
	Summary         *string    `json:"summary"`
	CreatedByID     *string    `json:"createdById"`
	OwnerID         *string    `json:"ownerId"`
	NextMoveOwnerID *string    `json:"nextMoveOwnerId"`
	State           WorkState  `json:"state"`
	AcceptanceState Acceptance `json:"acceptanceState"`
	RequestedByID   *string    `json:"requestedById"`
	WaitingOn       *WaitingOn `json:"waitingOn"`
	ParentID        *string    `json:"parentId"`
	ConversationID  *string    `json:"conversationId"`
	Priority        *string    `json:"priority"`
	Kind            string     `json:"kind"`
	CreatedAt       *moment    `json:"createdAt"`
	UpdatedAt       *moment    `json:"updatedAt"`
	Wake            bool       `json:"wake"`
}

// createWork stores a work item. With wake it wakes the one responsible too.
func (t *turn) createWork(p workParams) (any, error) {
	w, err := t.newWork(p)
	if err != nil {
		return nil, err
	}
	if old := t.work[w.ID]; old != nil {
		if t.created["work_item:"+w.ID] != t.digest {
			return nil, refuse(CodeConflict, "work item %s exists with other content", w.ID)
		}
		return map[string]any{"work_item": old, "duplicate": true}, nil
	}
	if t.questions[w.ID] != nil {
		return nil, refuse(CodeConflict, "%s is the id of a question", w.ID)
	}
	if err := t.putWork(EventWorkCreated, StepCreated, nil, w); err != nil {
		return nil, err
	}
	return t.workResult(w.ID, p.Wake), nil
}

// newWork makes the record that the params describe and checks it. The broker's
// clock and the caller stand in the record; what the params say of them is only
// checked.
func (t *turn) newWork(p workParams) (WorkItem, error) {
	now := stamp(t.now)
	w := WorkItem{Kind: KindWorkItem, CreatedByID: t.caller.Name, State: WorkOpen, AcceptanceState: AcceptanceNone, CreatedAt: now, UpdatedAt: now}
	if p.Kind != "" && p.Kind != KindWorkItem {
		return w, invalid("kind %q is not work_item", clip(p.Kind, 40))
	}
	id, err := t.newID(p.ID, "wi_")
	if err != nil {
		return w, err
	}
	w.ID = id
	if err := t.takeOver(&w, p); err != nil {
		return w, err
	}
	checked := w
	if p.CreatedByID != nil && strings.TrimSpace(*p.CreatedByID) == "" {
		checked.CreatedByID = ""
	}
	if p.CreatedAt != nil && p.UpdatedAt != nil {
		checked.CreatedAt, checked.UpdatedAt = stamp(p.CreatedAt.Time), stamp(p.UpdatedAt.Time)
	}
	if wrong := checked.Validate(); len(wrong) > 0 {
		return w, invalidRecord(wrong)
	}
	return w, nil
}

func invalidRecord(wrong []string) *Error {
	e := invalid("%s", strings.Join(wrong, "; "))
	e.Details = map[string]any{"errors": wrong}
	return e
}

// takeOver writes the members that the params have into the record.
func (t *turn) takeOver(w *WorkItem, p workParams) error {
	for _, f := range []struct {
		what string
		from *string
		to   *string
		name bool // of somebody: stored bare
	}{
		{"title", p.Title, &w.Title, false}, {"summary", p.Summary, &w.Summary, false},
		{"ownerId", p.OwnerID, &w.OwnerID, true}, {"nextMoveOwnerId", p.NextMoveOwnerID, &w.NextMoveOwnerID, true},
		{"requestedById", p.RequestedByID, &w.RequestedByID, true}, {"parentId", p.ParentID, &w.ParentID, false},
		{"conversationId", p.ConversationID, &w.ConversationID, false}, {"priority", p.Priority, &w.Priority, false},
	} {
		if f.from == nil {
			continue
		}
		if f.what == "title" || f.what == "summary" {
			if err := checkLength(f.what, *f.from, maxTitle); err != nil {
				return err
			}
		} else if err := checkName(f.what, *f.from); err != nil {
			return err
		}
		*f.to = *f.from
		if f.name {
			*f.to = t.recordName(*f.from)
		}
	}
	if p.WaitingOn != nil {
		on := *p.WaitingOn
		if err := checkNames("waitingOn.kind", on.Kind, "waitingOn.targetId", on.TargetID); err != nil {
			return err
		}
		if err := checkLength("waitingOn.label", on.Label, maxTitle); err != nil {
			return err
		}
		w.WaitingOn = &on
	}
	w.State = cmp.Or(p.State, w.State)
	w.AcceptanceState = cmp.Or(p.AcceptanceState, w.AcceptanceState)
	return nil
}

// recordName is the form in which somebody stands in a record: bare, and for a
// label that means exactly one agent that agent's name.
func (t *turn) recordName(s string) string {
	s = strings.TrimSpace(s)
	if strings.HasPrefix(s, "@") {
		if st := t.resolve(s, t.localityOf(t.caller)); st.Failure == "" {
			return st.AgentID
		}
	}
	return bareName(strings.TrimPrefix(s, "@"))
}

// putWork emits an event about a work item, after checking the event itself.
func (t *turn) putWork(kind string, step Step, old *WorkItem, w WorkItem) error {
	meta := stepMetadata{StepEvent: StepEvent{RecordID: w.ID, RecordKind: KindWorkItem, Step: step, ActorID: t.caller.Name}}
	if old != nil {
		meta.From = string(old.State)
	} else {
		meta.Digest = t.digest
	}
	if wrong := meta.Validate(w.ID, w.Kind); len(wrong) > 0 {
		return invalidRecord(wrong)
	}
	t.emit(kind, "work_item:"+w.ID, w, meta)
	return nil
}

// workResult answers with a work item, and with the wake if one was asked for.
func (t *turn) workResult(id string, wake bool) map[string]any {
	out := map[string]any{"work_item": *t.work[id]}
	if wake && !t.work[id].Terminal() {
		w := *t.work[id]
		dec, d := t.wakeFor(subject{work: &w}, t.caller.Name)
		out["wake"], out["decision"] = dec.summary(), dec
		if d != nil {
			out["delivery"] = *d
		}
	}
	return out
}

// updateWork changes a work item. Who moves it without saying whom the next move
// belongs to keeps it where it is.
func (t *turn) updateWork(p workParams) (any, error) {
	if p.ID == nil {
		return nil, invalid("id is required")
	}
	old := t.work[*p.ID]
	if old == nil {
		return nil, t.noWork(*p.ID, p)
	}
	if !t.mayMove(old) {
		return nil, refuse(CodeForbidden, "%s is neither creator, owner nor next mover of %s", t.caller.Name, old.ID)
	}
	w := *old
	if err := t.takeOver(&w, p); err != nil {
		return nil, err
	}
	if err := checkMove("work item", workMoves, old.State, w.State); err != nil {
		return nil, err
	}
	if w.State != WorkWaiting && p.WaitingOn == nil {
		w.WaitingOn = nil // nothing is waited for any more
	}
	w.UpdatedAt = stamp(t.now)
	if wrong := w.Validate(); len(wrong) > 0 {
		return nil, invalidRecord(wrong)
	}
	if err := t.putWork(EventWorkUpdated, workStep(old, &w), old, w); err != nil {
		return nil, err
	}
	t.cancelObsolete(old, &w)
	return t.workResult(w.ID, p.Wake), nil
}

// noWork says why an id cannot be moved as a work item.
func (t *turn) noWork(id string, p workParams) error {
	if t.questions[id] != nil {
		step := cmp.Or(string(p.State), "update")
		return invalid("%s is a question: %s applies to work items only; use the question.* methods", id, step)
	}
	return notFound("work item", id)
}

func (t *turn) mayMove(w *WorkItem) bool {
	name := t.caller.Name
	return t.caller.Person || name == w.CreatedByID || name == w.OwnerID || name == w.NextMoveOwnerID
}

// cancelObsolete cancels the wakes still owed for a work item that ended, or
// whose next move went to somebody else.
func (t *turn) cancelObsolete(old, w *WorkItem) {
	ended := !old.Terminal() && w.Terminal()
	if !ended && old.NextMoveOwnerID == w.NextMoveOwnerID {
		return
	}
	for _, d := range t.owed(w.ID) {
		switch {
		case ended:
			t.cancelDelivery(d, "work item "+w.ID+" is "+string(w.State))
		case d.MessageID == "" && d.InvocationID == "" && d.TargetAgentID == old.NextMoveOwnerID:
			t.cancelDelivery(d, "the next move went to "+w.NextMoveOwnerID)
		}
	}
}

// owed lists the deliveries about a record that wait for their agent to
// announce itself.
func (t *turn) owed(recordID string) (list []Delivery) {
	for _, agent := range sortedKeys(t.openTo) {
		for _, id := range t.openTo[agent] {
			d := t.deliveries[id]
			if (d.WorkItemID == recordID || d.QuestionID == recordID) && (d.Wake == wakeWanted || d.Wake == wakeMissed) {
				list = append(list, *d)
			}
		}
	}
	return list
}

func (t *turn) getWork(p idParams) (any, error) {
	w := t.work[p.ID]
	if w == nil {
		return nil, notFound("work item", p.ID)
	}
	return map[string]any{"work_item": w}, nil
}

type workListParams struct {
	State           WorkState `json:"state"`
	OwnerID         string    `json:"ownerId"`
	NextMoveOwnerID string    `json:"nextMoveOwnerId"`
	pageParams
}

// listWork answers with the work items that fit, oldest first.
func (t *turn) listWork(p workListParams) (any, error) {
	if p.State != "" {
		if _, ok := workMoves[p.State]; !ok {
			return nil, invalid("state %q is not one of open, working, waiting, review, done, cancelled", clip(string(p.State), 40))
		}
	}
	var list []*WorkItem
	for _, id := range t.workOrder {
		w := t.work[id]
		if (p.State == "" || w.State == p.State) &&
			(p.OwnerID == "" || w.OwnerID == t.recordName(p.OwnerID)) &&
			(p.NextMoveOwnerID == "" || w.NextMoveOwnerID == t.recordName(p.NextMoveOwnerID)) {
			list = append(list, w)
		}
	}
	return pageOf("work_items", list, func(w *WorkItem) string { return w.ID }, p.pageParams)
}

// wakeWork wakes the one who is responsible for a work item now.
func (t *turn) wakeWork(p idParams) (any, error) {
	stored := t.work[p.ID]
	if stored == nil {
		return nil, notFound("work item", p.ID)
	}
	w := *stored
	dec, d := t.wakeFor(subject{work: &w}, t.caller.Name)
	out := map[string]any{"work_item": w, "wake": dec.summary(), "decision": dec}
	if d != nil {
		out["delivery"] = *d
	}
	switch dec.Outcome {
	case OutcomeUnavailable:
		return nil, routingError(CodeUnavailable, dec.TargetAgentID, dec.Reason, dec.Options, out)
	case OutcomeAmbiguous:
		return nil, routingError(CodeAmbiguous, dec.TargetAgentID, dec.Reason, dec.Options, out)
	}
	return out, nil
}

type explainParams struct {
	MessageID  string `json:"messageId"`
	WorkItemID string `json:"workItemId"`
	QuestionID string `json:"questionId"`
}

// explainWake answers with the stored decision of a message, or with the last one
// of a work item or a question.
func (t *turn) explainWake(p explainParams) (any, error) {
	var dec Decision
	switch {
	case p.MessageID != "":
		_, meta, err := t.message(p.MessageID)
		if err != nil {
			return nil, err
		}
		dec = meta.Wake
	case p.WorkItemID != "" || p.QuestionID != "":
		w, err := t.decided(cmp.Or(p.WorkItemID, p.QuestionID))
		if err != nil {
			return nil, err
		}
		dec = w.Decision
	default:
		return nil, invalid("messageId or workItemId is required")
	}
	raw, err := encode(dec)
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil, err
	}
	out["wake"] = dec.summary()
	return out, nil
}
