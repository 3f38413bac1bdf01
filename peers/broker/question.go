package broker

import (
	"cmp"
	"strings"
)

type questionParams struct {
	ID              *string       `json:"id"`
	Title           string        `json:"title"`
	ConversationID  string        `json:"conversationId"`
	AskedOfID       string        `json:"askedOfId"`
	NextMoveOwnerID string        `json:"nextMoveOwnerId"`
	State           QuestionState `json:"state"`
	AcceptanceState Acceptance    `json:"acceptanceState"`
	AskedByID       *string       `json:"askedById"`
	CreatedByID     *string       `json:"createdById"`
	Answer          string        `json:"answer"`
	ParentID        string        `json:"parentId"`
	Kind            string        `json:"kind"`
	CreatedAt       *moment       `json:"createdAt"`
	UpdatedAt       *moment       `json:"updatedAt"`
}

// ask stores a question and wakes the one it is asked of.
func (t *turn) ask(p questionParams) (any, error) {
	q, err := t.newQuestion(p)
	if err != nil {
		return nil, err
	}
	if old := t.questions[q.ID]; old != nil {
		if t.created["question:"+q.ID] != t.digest {
			return nil, refuse(CodeConflict, "question %s exists with other content", q.ID)
		}
		return map[string]any{"question": old, "duplicate": true}, nil
	}
	if t.work[q.ID] != nil {
		return nil, refuse(CodeConflict, "%s is the id of a work item", q.ID)
	}
	if err := t.putQuestion(EventQuestionCreated, StepCreated, nil, q); err != nil {
		return nil, err
	}
	return t.questionResult(q.ID, q.State == QuestionOpen), nil
}

func (t *turn) newQuestion(p questionParams) (Question, error) {
	now := stamp(t.now)
	q := Question{
		Kind: KindQuestion, Title: p.Title, CreatedByID: t.caller.Name, AskedByID: t.caller.Name,
		AskedOfID: t.recordName(p.AskedOfID), NextMoveOwnerID: t.recordName(cmp.Or(p.NextMoveOwnerID, p.AskedOfID)),
		State: cmp.Or(p.State, QuestionOpen), AcceptanceState: cmp.Or(p.AcceptanceState, AcceptanceNone),
		Answer: p.Answer, ConversationID: p.ConversationID, ParentID: p.ParentID, CreatedAt: now, UpdatedAt: now,
	}
	if p.Kind != "" && p.Kind != KindQuestion {
		return q, invalid("kind %q is not question", clip(p.Kind, 40))
	}
	if err := checkNames("askedOfId", p.AskedOfID, "nextMoveOwnerId", p.NextMoveOwnerID,
		"conversationId", p.ConversationID, "parentId", p.ParentID); err != nil {
		return q, err
	}
	if err := checkLength("title", p.Title, maxTitle); err != nil {
		return q, err
	}
	if err := checkLength("answer", p.Answer, maxText); err != nil {
		return q, err
	}
	id, err := t.newID(p.ID, "q_")
	if err != nil {
		return q, err
	}
	q.ID = id
	checked := q
	if p.CreatedByID != nil && strings.TrimSpace(*p.CreatedByID) == "" {
		checked.CreatedByID = ""
	}
	if p.AskedByID != nil && strings.TrimSpace(*p.AskedByID) == "" {
		checked.AskedByID = ""
	}
	if p.CreatedAt != nil && p.UpdatedAt != nil {
		checked.CreatedAt, checked.UpdatedAt = stamp(p.CreatedAt.Time), stamp(p.UpdatedAt.Time)
	}
	if wrong := checked.Validate(); len(wrong) > 0 {
		return q, invalidRecord(wrong)
	}
	return q, nil
}

func (t *turn) putQuestion(kind string, step Step, old *Question, q Question) error {
	meta := stepMetadata{StepEvent: StepEvent{RecordID: q.ID, RecordKind: KindQuestion, Step: step, ActorID: t.caller.Name}}
	if old != nil {
		meta.From = string(old.State)
	} else {
		meta.Digest = t.digest
	}
	if wrong := meta.Validate(q.ID, q.Kind); len(wrong) > 0 {
		return invalidRecord(wrong)
	}
	t.emit(kind, "question:"+q.ID, q, meta)
	return nil
}

// questionResult answers with a question; with wake it also wakes the one whose
// move it is.
func (t *turn) questionResult(id string, wake bool) map[string]any {
	out := map[string]any{"question": *t.questions[id]}
	if wake {
		q := *t.questions[id]
		dec, d := t.wakeFor(subject{question: &q}, t.caller.Name)
		out["wake"], out["decision"] = dec.summary(), dec
		if d != nil {
			out["delivery"] = *d
		}
	}
	return out
}

type answerParams struct {
	ID     string `json:"id"`
	Answer string `json:"answer"`
}

// answer stores the answer and wakes the asker, whose move it then is.
func (t *turn) answer(p answerParams) (any, error) {
	if err := checkText("answer", p.Answer, maxText); err != nil {
		if strings.TrimSpace(p.Answer) == "" {
			return nil, invalid("answered questions require an answer")
		}
		return nil, err
	}
	stored := t.questions[p.ID]
	if stored != nil && stored.State == QuestionAnswered && stored.Answer == p.Answer {
		return map[string]any{"question": stored, "duplicate": true}, nil
	}
	if stored != nil && stored.State == QuestionAnswered {
		return nil, t.sameState(stored)
	}
	return t.moveQuestion(p.ID, EventQuestionAnswered, StepAnswered, QuestionAnswered, func(q *Question) {
		q.Answer, q.NextMoveOwnerID = p.Answer, q.CreatedByID
	})
}

func (t *turn) sameState(q *Question) *Error {
	e := refuse(CodeBadTransition, "question %s is %s already", q.ID, q.State)
	e.Details = map[string]any{"from": q.State, "to": q.State, "allowed": questionMoves[q.State]}
	return e
}

func (t *turn) closeQuestion(p idParams) (any, error) {
	return t.moveQuestion(p.ID, EventQuestionUpdated, StepClosed, QuestionClosed, func(q *Question) { q.NextMoveOwnerID = "" })
}

func (t *turn) declineQuestion(p idParams) (any, error) {
	return t.moveQuestion(p.ID, EventQuestionUpdated, StepDeclined, QuestionDeclined, func(q *Question) { q.NextMoveOwnerID = "" })
}

// reopenQuestion takes an answer back: the question is open again.
func (t *turn) reopenQuestion(p idParams) (any, error) {
	return t.moveQuestion(p.ID, EventQuestionUpdated, StepReopened, QuestionOpen, func(q *Question) {
		q.Answer, q.NextMoveOwnerID = "", cmp.Or(q.AskedOfID, q.CreatedByID)
	})
}

// moveQuestion brings a question into a state, and wakes whose move it then is.
func (t *turn) moveQuestion(id, kind string, step Step, to QuestionState, change func(q *Question)) (any, error) {
	old := t.questions[id]
	if old == nil {
		return nil, notFound("question", id)
	}
	name := t.caller.Name
	if !t.caller.Person && name != old.CreatedByID && name != old.AskedOfID && name != old.NextMoveOwnerID {
		return nil, refuse(CodeForbidden, "%s neither asked question %s nor was asked", name, id)
	}
	if old.State == to && to != QuestionAnswered {
		return map[string]any{"question": old}, nil // said twice
	}
	if err := checkMove("question", questionMoves, old.State, to); err != nil {
		return nil, err
	}
	q := *old
	q.State, q.UpdatedAt = to, stamp(t.now)
	change(&q)
	if wrong := q.Validate(); len(wrong) > 0 {
		return nil, invalidRecord(wrong)
	}
	if err := t.putQuestion(kind, step, old, q); err != nil {
		return nil, err
	}
	for _, d := range t.owed(q.ID) {
		t.cancelDelivery(d, "question "+q.ID+" is "+string(q.State))
	}
	return t.questionResult(q.ID, !q.Terminal()), nil
}

// spawnWork makes the durable work that a question turned out to need. A
// question spawns one work item at most.
func (t *turn) spawnWork(p workParams) (any, error) {
	if p.ID == nil {
		return nil, invalid("id (of the question) is required")
	}
	old := t.questions[*p.ID]
	if old == nil {
		return nil, notFound("question", *p.ID)
	}
	if old.SpawnedWorkItemID != "" {
		return map[string]any{"work_item": t.work[old.SpawnedWorkItemID], "question": old, "duplicate": true}, nil
	}
	q := *old
	p.ID = nil
	p.Kind = ""
	p.Title = orElse(p.Title, q.Title)
	p.OwnerID = orElse(p.OwnerID, cmp.Or(q.AskedOfID, q.NextMoveOwnerID, q.CreatedByID))
	p.NextMoveOwnerID = orElse(p.NextMoveOwnerID, *p.OwnerID)
	p.RequestedByID = orElse(p.RequestedByID, q.CreatedByID)
	p.ParentID = orElse(p.ParentID, q.ID)
	p.ConversationID = orElse(p.ConversationID, q.ConversationID)
	w, err := t.newWork(p)
	if err != nil {
		return nil, err
	}
	if err := t.putWork(EventWorkCreated, StepCreated, nil, w); err != nil {
		return nil, err
	}
	q.SpawnedWorkItemID, q.UpdatedAt = w.ID, stamp(t.now)
	if err := t.putQuestion(EventQuestionUpdated, StepSpawned, old, q); err != nil {
		return nil, err
	}
	out := t.workResult(w.ID, p.Wake)
	out["question"] = *t.questions[q.ID]
	return out, nil
}

func orElse(given *string, otherwise string) *string {
	if given != nil {
		return given
	}
	return &otherwise
}

func (t *turn) getQuestion(p idParams) (any, error) {
	q := t.questions[p.ID]
	if q == nil {
		return nil, notFound("question", p.ID)
	}
	return map[string]any{"question": q}, nil
}

type questionListParams struct {
	State           QuestionState `json:"state"`
	NextMoveOwnerID string        `json:"nextMoveOwnerId"`
	pageParams
}

// listQuestions answers with the questions that fit, oldest first.
func (t *turn) listQuestions(p questionListParams) (any, error) {
	var list []*Question
	for _, id := range t.questionOrder {
		q := t.questions[id]
		if (p.State == "" || q.State == p.State) &&
			(p.NextMoveOwnerID == "" || q.NextMoveOwnerID == t.recordName(p.NextMoveOwnerID)) {
			list = append(list, q)
		}
	}
	return pageOf("questions", list, func(q *Question) string { return q.ID }, p.pageParams)
}
