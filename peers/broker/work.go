package broker

import (
	"cmp"
	"strings"

	"hubbub/protocol/collab"
)

// given returns whether a wake was asked for.
func given(wake *bool) bool { return wake != nil && *wake }

func createWork(t *tx, p collab.WorkParams) (out collab.Result, err error) {
	r, err := t.newRecord(record{WorkItem: collab.WorkItem{Kind: collab.KindWorkItem}}, p)
	if err != nil {
		return out, err
	}
	return t.create(r, given(p.Wake))
}

// updateWork changes a work item. Who moves it without saying whom the next move
// belongs to keeps it where it is.
func updateWork(t *tx, p collab.WorkParams) (out collab.Result, err error) {
	if p.ID == nil {
		return out, invalid("id is required")
	}
	if q := t.records[*p.ID]; q != nil && q.isQuestion() {
		return out, invalid("%s is a question: %s applies to work items only; use the question.* methods", q.ID, cmp.Or(p.State, "update"))
	}
	old, err := t.record(collab.KindWorkItem, *p.ID)
	if err != nil {
		return out, err
	}
	if err := t.mayMove(old); err != nil {
		return out, err
	}
	r := *old
	if err := t.takeOver(&r, p); err != nil {
		return out, err
	}
	if r.State != collab.WorkWaiting && p.WaitingOn == nil {
		r.WaitingOn = nil // nothing is waited for any more
	}
	if err := t.change(old, &r); err != nil {
		return out, err
	}
	return t.result(r.ID, given(p.Wake)), nil
}

// wakeWork wakes the one who is responsible for a work item now.
func wakeWork(t *tx, p collab.IDParams) (out collab.Result, err error) {
	r, err := t.record(collab.KindWorkItem, p.ID)
	if err != nil {
		return out, err
	}
	out.WorkItem = r.WorkItem
	dec := t.wakeInto(&out, r)
	if code := routingCodes[dec.Outcome]; code != "" {
		return out, routingError(code, dec.TargetAgentID, dec.Reason, dec.Options, out)
	}
	return out, nil
}

// getRecord answers with a record of a kind.
func getRecord(kind string) func(t *tx, p collab.IDParams) (collab.Result, error) {
	return func(t *tx, p collab.IDParams) (out collab.Result, err error) {
		if _, err := t.record(kind, p.ID); err != nil {
			return out, err
		}
		return t.result(p.ID, false), nil
	}
}

func listWork(t *tx, p collab.WorkListParams) (page collab.Page[collab.WorkItem], err error) {
	if p.State != "" {
		if err := checkOneOf("state", p.State, kinds[collab.KindWorkItem].states...); err != nil {
			return page, err
		}
	}
	list := t.recordsOf(collab.KindWorkItem, p.State, p.OwnerID, p.NextMoveOwnerID)
	return pageOf(list, func(r *record) string { return r.ID }, (*record).workItem, p.PageParams)
}

func listQuestions(t *tx, p collab.QuestionListParams) (collab.Page[collab.Question], error) {
	list := t.recordsOf(collab.KindQuestion, collab.WorkState(p.State), "", p.NextMoveOwnerID)
	return pageOf(list, func(r *record) string { return r.ID }, (*record).question, p.PageParams)
}

// ask stores a question and wakes the one it is asked of.
func ask(t *tx, p collab.QuestionParams) (out collab.Result, err error) {
	if err := cmp.Or(checkName("askedOfId", p.AskedOfID), checkLength("answer", p.Answer, maxText)); err != nil {
		return out, err
	}
	q := record{WorkItem: collab.WorkItem{Kind: collab.KindQuestion}, AskedOfID: t.recordName(p.AskedOfID), Answer: p.Answer}
	if p.AskedByID == nil || strings.TrimSpace(*p.AskedByID) != "" {
		q.AskedByID = t.caller.Name
	}
	r, err := t.newRecord(q, collab.WorkParams{
		ID: p.ID, Kind: p.Kind, Title: &p.Title, NextMoveOwnerID: new(cmp.Or(p.NextMoveOwnerID, p.AskedOfID)),
		State: collab.WorkState(p.State), AcceptanceState: p.AcceptanceState, ConversationID: &p.ConversationID, ParentID: &p.ParentID,
		CreatedByID: p.CreatedByID, CreatedAt: p.CreatedAt, UpdatedAt: p.UpdatedAt,
	})
	if err != nil {
		return out, err
	}
	r.AskedByID = t.caller.Name
	return t.create(r, r.State == collab.WorkOpen)
}

// answerQuestion stores the answer to a question and wakes the asker, whose move it then is.
func answerQuestion(t *tx, p collab.AnswerParams) (out collab.Result, err error) {
	if strings.TrimSpace(p.Answer) == "" {
		return out, invalid("answered questions require an answer")
	}
	if err := checkLength("answer", p.Answer, maxText); err != nil {
		return out, err
	}
	if q, err := t.record(collab.KindQuestion, p.ID); err == nil && q.State == questionAnswered {
		if q.Answer != p.Answer {
			return out, badMove(kinds[q.Kind].moves, q.State, q.State, "question %s is %s already", q.ID, q.State)
		}
		out = t.result(q.ID, false)
		out.Duplicate = true
		return out, nil
	}
	return t.moveQuestion(p.ID, questionAnswered, func(q *record) { q.Answer, q.NextMoveOwnerID = p.Answer, q.CreatedByID })
}

// endQuestion ends a question in a state.
func endQuestion(to collab.WorkState) func(t *tx, p collab.IDParams) (collab.Result, error) {
	return func(t *tx, p collab.IDParams) (collab.Result, error) {
		return t.moveQuestion(p.ID, to, func(q *record) { q.NextMoveOwnerID = "" })
	}
}

// reopenQuestion takes an answer back: the question is open again.
func reopenQuestion(t *tx, p collab.IDParams) (collab.Result, error) {
	return t.moveQuestion(p.ID, collab.WorkOpen, func(q *record) { q.Answer, q.NextMoveOwnerID = "", cmp.Or(q.AskedOfID, q.CreatedByID) })
}

// moveQuestion brings a question into a state, and wakes whose move it then is.
func (t *tx) moveQuestion(id string, to collab.WorkState, edit func(q *record)) (out collab.Result, err error) {
	old, err := t.record(collab.KindQuestion, id)
	if err != nil {
		return out, err
	}
	if err := t.mayMove(old); err != nil {
		return out, err
	}
	if old.State == to {
		return t.result(id, false), nil // said twice
	}
	q := *old
	q.State = to
	edit(&q)
	if err := t.change(old, &q); err != nil {
		return out, err
	}
	return t.result(id, true), nil
}

// spawnWork makes the durable work that a question turned out to need. A
// question spawns one work item at most.
func spawnWork(t *tx, p collab.WorkParams) (out collab.Result, err error) {
	if p.ID == nil {
		return out, invalid("id (of the question) is required")
	}
	old, err := t.record(collab.KindQuestion, *p.ID)
	if err != nil {
		return out, err
	}
	if old.SpawnedWorkItemID != "" {
		out = t.result(old.SpawnedWorkItemID, false)
		out.Question, out.Duplicate = old.question(), true
		return out, nil
	}
	owner := cmp.Or(p.OwnerID, new(cmp.Or(old.AskedOfID, old.NextMoveOwnerID, old.CreatedByID)))
	p.ID, p.Kind, p.OwnerID = nil, "", owner
	p.Title = cmp.Or(p.Title, &old.Title)
	p.NextMoveOwnerID = cmp.Or(p.NextMoveOwnerID, owner)
	p.RequestedByID = cmp.Or(p.RequestedByID, &old.CreatedByID)
	p.ParentID = cmp.Or(p.ParentID, &old.ID)
	p.ConversationID = cmp.Or(p.ConversationID, &old.ConversationID)
	w, err := t.newRecord(record{WorkItem: collab.WorkItem{Kind: collab.KindWorkItem}}, p)
	if err != nil {
		return out, err
	}
	t.put(nil, w)
	q := *old
	q.SpawnedWorkItemID, q.UpdatedAt = w.ID, stamp(t.now)
	t.put(old, &q)
	out = t.result(w.ID, given(p.Wake))
	out.Question = q.question()
	return out, nil
}
