package broker

import (
	"cmp"
	"slices"
	"strings"

	"hubbub/protocol"
	"hubbub/protocol/collab"
)

// isTrue returns whether a wake was asked for.
func isTrue(wake *bool) bool { return wake != nil && *wake }

func (t recordHandler) createWork(p collab.WorkParams) collab.Result {
	return t.create(t.newRecord(record{WorkItem: collab.WorkItem{Kind: collab.KindWorkItem}}, p), isTrue(p.Wake))
}

// updateWork changes a work item. Who moves it without saying whom the next move
// belongs to keeps it where it is.
func (t recordHandler) updateWork(p collab.WorkParams) collab.Result {
	if p.ID == nil {
		failInvalid("id is required")
	}
	if q := t.records.get(*p.ID); q != nil && q.isQuestion() {
		failInvalid("%s is a question: %s applies to work items only; use the question.* methods", q.ID, cmp.Or(p.State, "update"))
	}
	old := t.mustFindMovable(collab.KindWorkItem, *p.ID)
	r := *old
	t.applyParams(&r, p)
	t.assignReviewer(old, &r, p.NextMoveOwnerID != nil)
	t.mustAllowAcceptance(old, &r)
	if r.State != collab.WorkWaiting && p.WaitingOn == nil {
		r.WaitingOn = nil // nothing is waited for any more
	}
	t.update(old, &r)
	return t.result(r.ID, isTrue(p.Wake))
}

// arrived lets the work go on that waits for a thing of the world, so far as the caller may
// move it.
func (t recordHandler) arrived(p collab.ArrivedParams) (out collab.Arrived) {
	mustBeText("name", p.Name, maxTitle)
	out.Items = []collab.Result{}
	size := 0
	for _, old := range t.openRecords(collab.KindWorkItem) {
		on := old.WaitingOn
		if old.State != collab.WorkWaiting || on == nil || !on.External() || p.Name != on.TargetID && p.Name != on.Label {
			continue
		}
		concerned := []protocol.PeerID{old.CreatedByIdentity, old.OwnerIdentity, old.NextMoveOwnerIdentity}
		if !slices.ContainsFunc(concerned, t.caller.actsFor) {
			continue
		}
		r := *old
		r.State, r.WaitingOn = collab.WorkWorking, nil
		t.update(old, &r)
		if one := t.result(r.ID, true); size < pageBytes {
			out.Items, size = append(out.Items, one), size+len(mustEncode(one))
		} else {
			out.Others++
		}
	}
	return out
}

// wakeWork wakes the one who is responsible for a work item now.
func (t recordHandler) wakeWork(p collab.IDParams) collab.Result {
	r := t.mustFindRecord(collab.KindWorkItem, p.ID)
	out := collab.Result{WorkItem: r.WorkItem}
	dec := t.wakeInto(&out, r)
	if code := collab.Code(dec.Outcome); isUnroutable(code) {
		failUnroutable(code, dec.TargetAgentID, dec.Reason, dec.Options, out)
	}
	return out
}

// getRecord answers with a record of a kind.
func getRecord(kind string) func(t recordHandler, p collab.IDParams) collab.Result {
	return func(t recordHandler, p collab.IDParams) collab.Result {
		return t.result(t.mustFindRecord(kind, p.ID).ID, false)
	}
}

func (t recordHandler) listWork(p collab.WorkListParams) collab.Page[collab.WorkItem] {
	if p.State != "" {
		mustBeOneOf("state", p.State, kinds[collab.KindWorkItem].states...)
	}
	list := t.recordsOf(collab.KindWorkItem, p.State, p.OwnerID, p.NextMoveOwnerID)
	return pageOf(list, func(r *record) string { return r.ID }, (*record).workItem, p.PageParams)
}

func (t recordHandler) listQuestions(p collab.QuestionListParams) collab.Page[collab.Question] {
	list := t.recordsOf(collab.KindQuestion, collab.WorkState(p.State), "", p.NextMoveOwnerID)
	return pageOf(list, func(r *record) string { return r.ID }, (*record).question, p.PageParams)
}

// ask stores a question and wakes the one it is asked of.
func (t recordHandler) ask(p collab.QuestionParams) collab.Result {
	conversationHandler{t.tx}.openChat(p.ConversationID, p.Chat)
	mustBeName("askedOfId", p.AskedOfID)
	mustFit("answer", p.Answer, maxText)
	asked, by := t.partyOf(p.AskedOfID, t.known), t.caller.party()
	q := record{WorkItem: collab.WorkItem{Kind: collab.KindQuestion}, AskedOfID: asked.name, AskedOfIdentity: asked.id, Answer: p.Answer, Obligation: mustBeObligation(p.Obligation)}
	if p.AskedByID == nil || strings.TrimSpace(*p.AskedByID) != "" {
		q.AskedByID = by.name
	}
	r := t.newRecord(q, collab.WorkParams{
		ID: p.ID, Kind: p.Kind, Title: &p.Title, NextMoveOwnerID: new(cmp.Or(p.NextMoveOwnerID, p.AskedOfID)),
		State: collab.WorkState(p.State), AcceptanceState: p.AcceptanceState, ConversationID: &p.ConversationID, ParentID: &p.ParentID, OnBehalfOf: p.OnBehalfOf,
		CreatedByID: p.CreatedByID, CreatedAt: p.CreatedAt, UpdatedAt: p.UpdatedAt,
	})
	r.AskedByID, r.AskedByIdentity = by.name, by.id
	return t.create(r, r.State == collab.WorkOpen)
}

// answer stores the answer to a question and wakes the asker, whose move it then is.
func (t recordHandler) answer(p collab.AnswerParams) collab.Result {
	if strings.TrimSpace(p.Answer) == "" {
		failInvalid("answered questions require an answer")
	}
	mustFit("answer", p.Answer, maxText)
	q := t.mustFindRecord(collab.KindQuestion, p.ID)
	if p.By != "" && !t.caller.is(p.By) {
		decisionHandler{t.tx}.mustSpeakFor(p.By, q.AskedByIdentity)
		if p.By != q.AskedOfIdentity {
			fail(collab.CodeForbidden, "question %s is for %s to answer", q.ID, q.AskedOfID)
		}
		t.caller = t.state.caller(p.By, nil) // whose word it is, and not the asker's own
	}
	if q.State == questionAnswered {
		if q.Answer != p.Answer {
			failTransition(kinds[q.Kind].moves, q.State, q.State, "question %s is %s already", q.ID, q.State)
		}
		return t.duplicate(q.ID)
	}
	return t.moveQuestion(p.ID, questionAnswered, func(q *record) {
		q.Answer = p.Answer
		q.setNextMove(q.creator())
	})
}

// endQuestion ends a question in a state.
func endQuestion(to collab.WorkState) func(t recordHandler, p collab.IDParams) collab.Result {
	return func(t recordHandler, p collab.IDParams) collab.Result {
		return t.moveQuestion(p.ID, to, func(q *record) { q.setNextMove(party{}) })
	}
}

// reopen takes an answer back: the question is open again.
func (t recordHandler) reopen(p collab.IDParams) collab.Result {
	return t.moveQuestion(p.ID, collab.WorkOpen, func(q *record) {
		q.Answer = ""
		q.setNextMove(cmp.Or(q.asked(), q.creator()))
	})
}

// moveQuestion brings a question into a state, and wakes whose move it then is.
func (t recordHandler) moveQuestion(id string, to collab.WorkState, edit func(q *record)) collab.Result {
	old := t.mustFindMovable(collab.KindQuestion, id)
	if old.State == to {
		return t.result(id, false) // said twice
	}
	q := *old
	q.State = to
	edit(&q)
	t.update(old, &q)
	return t.result(id, true)
}

// spawnWork makes the durable work that a question turned out to need. A
// question spawns one work item at most.
func (t recordHandler) spawnWork(p collab.WorkParams) collab.Result {
	if p.ID == nil {
		failInvalid("id (of the question) is required")
	}
	old := t.mustFindRecord(collab.KindQuestion, *p.ID)
	if old.SpawnedWorkItemID != "" {
		out := t.duplicate(old.SpawnedWorkItemID)
		out.Question = old.question()
		return out
	}
	owner := cmp.Or(p.OwnerID, new(cmp.Or(old.asked(), old.next(), old.creator()).ref()))
	p.ID, p.Kind, p.OwnerID = nil, "", owner
	p.Title = cmp.Or(p.Title, &old.Title)
	p.NextMoveOwnerID = cmp.Or(p.NextMoveOwnerID, owner)
	p.RequestedByID = cmp.Or(p.RequestedByID, new(old.creator().ref()))
	p.ParentID = cmp.Or(p.ParentID, &old.ID)
	w := t.newRecord(record{WorkItem: collab.WorkItem{Kind: collab.KindWorkItem, ConversationID: old.ConversationID}}, p)
	t.store(nil, w)
	q := *old
	q.SpawnedWorkItemID, q.UpdatedAt = w.ID, formatTime(t.now)
	t.store(old, &q)
	out := t.result(w.ID, isTrue(p.Wake))
	out.Question = q.question()
	return out
}
