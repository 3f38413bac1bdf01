package broker

import (
	"cmp"
	"slices"
	"strings"

	"hubbub/protocol"
	"hubbub/protocol/collab"
)

// isTrue reports whether a wake was requested.
func isTrue(wake *bool) bool { return wake != nil && *wake }

func (t recordHandler) createWork(p collab.WorkParams) collab.Result {
	// createWork stores a work item. If its parent is a question without work, the question spawned it.
	return t.create(t.newRecord(record{WorkItem: collab.WorkItem{Kind: collab.KindWorkItem}}, p), isTrue(p.Wake))
}

// updateWork changes a work item. Without a nextMoveOwnerId the next move stays.
func (t recordHandler) updateWork(p collab.WorkParams) collab.Result {
	if p.ID == nil {
		failInvalid("id is required")
	}
	if q := t.records.get(*p.ID); q != nil && q.isQuestion() {
		failInvalid("%s is a question: %s applies to work items only; use the question.* methods", q.ID,
			cmp.Or(p.State, "update"))
	}
	old := t.mustFindMovable(collab.KindWorkItem, *p.ID)
	r := *old
	t.applyParams(&r, p)
	t.assignReviewer(old, &r, p.NextMoveOwnerID != nil)
	t.mustAllowAcceptance(old, &r)
	if r.State != collab.WorkWaiting && p.WaitingOn == nil {
		r.WaitingOn = nil // it no longer waits
	}
	t.update(old, &r)
	return t.result(r.ID, isTrue(p.Wake))
}

// arrived continues the work that waits for an external thing, as far as the caller may move it.
func (t recordHandler) arrived(p collab.ArrivedParams) (out collab.Arrived) {
	mustBeText("name", p.Name, maxTitle)
	out.Items = []collab.Result{}
	size := 0
	for _, old := range t.openRecords(collab.KindWorkItem) {
		on := old.WaitingOn
		if old.State != collab.WorkWaiting || on == nil || !on.External() || p.Name != on.TargetID &&
			p.Name != on.Label {
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

// wakeWork wakes the party that is responsible for a work item.
func (t recordHandler) wakeWork(p collab.IDParams) collab.Result {
	r := t.mustFindRecord(collab.KindWorkItem, p.ID)
	out := collab.Result{WorkItem: r.WorkItem}
	dec := t.wakeInto(&out, r)
	if code := collab.Code(dec.Outcome); isUnroutable(code) {
		failUnroutable(code, dec.TargetAgentID, dec.Reason, dec.Options, out)
	}
	return out
}

// getRecord returns a method that gets a record of a kind.
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

// ask stores a question and wakes the asked party.
func (t recordHandler) ask(p collab.QuestionParams) collab.Result {
	conversationHandler(t).openChat(p.ConversationID, p.Chat)
	mustBeName("askedOfId", p.AskedOfID)
	mustFit("answer", p.Answer, maxText)
	asked, by := t.partyOf(p.AskedOfID, t.knownParties), t.caller.party()
	q := record{
		WorkItem:        collab.WorkItem{Kind: collab.KindQuestion},
		AskedOfID:       asked.name,
		AskedOfIdentity: asked.id,
		Answer:          p.Answer,
		Obligation:      mustBeObligation(p.Obligation),
	}
	if p.AskedByID == nil || strings.TrimSpace(*p.AskedByID) != "" {
		q.AskedByID = by.name
	}
	r := t.newRecord(q, collab.WorkParams{
		ID:              p.ID,
		Kind:            p.Kind,
		Title:           &p.Title,
		NextMoveOwnerID: new(cmp.Or(p.NextMoveOwnerID, p.AskedOfID)),
		State:           collab.WorkState(p.State),
		AcceptanceState: p.AcceptanceState,
		ConversationID:  &p.ConversationID,
		ParentID:        &p.ParentID,
		OnBehalfOf:      p.OnBehalfOf,
		CreatedByID:     p.CreatedByID,
		CreatedAt:       p.CreatedAt,
		UpdatedAt:       p.UpdatedAt,
	})
	r.AskedByID, r.AskedByIdentity = by.name, by.id
	return t.create(r, r.State == collab.WorkOpen)
}

// answer stores the answer to a question and wakes the asking party, which has the next move.
func (t recordHandler) answer(p collab.AnswerParams) collab.Result {
	if strings.TrimSpace(p.Answer) == "" {
		failInvalid("answered questions require an answer")
	}
	mustFit("answer", p.Answer, maxText)
	q := t.mustFindRecord(collab.KindQuestion, p.ID)
	if p.By != "" && !t.caller.is(p.By) {
		decisionHandler(t).mustSpeakFor(p.By, q.AskedByIdentity)
		if p.By != q.AskedOfIdentity {
			fail(collab.CodeForbidden, "question %s is for %s to answer", q.ID, q.AskedOfID)
		}
		t.caller = t.state.caller(p.By, nil) // the author of the answer, not the asking agent
	}
	if q.State == questionAnswered {
		if q.Answer != p.Answer {
			failTransition(kinds[q.Kind].moves, q.State, q.State, "question %s is already %s", q.ID, q.State)
		}
		return t.duplicate(q.ID)
	}
	return t.moveQuestion(p.ID, questionAnswered, func(q *record) {
		q.Answer = p.Answer
		q.setNextMove(q.creator())
	})
}

// endQuestion returns a method that ends a question in a state.
func endQuestion(to collab.WorkState) func(t recordHandler, p collab.IDParams) collab.Result {
	return func(t recordHandler, p collab.IDParams) collab.Result {
		return t.moveQuestion(p.ID, to, func(q *record) { q.setNextMove(party{}) })
	}
}

// reopen withdraws an answer. The question is open again.
func (t recordHandler) reopen(p collab.IDParams) collab.Result {
	return t.moveQuestion(p.ID, collab.WorkOpen, func(q *record) {
		q.Answer = ""
		q.setNextMove(cmp.Or(q.asked(), q.creator()))
	})
}

// moveQuestion changes the state of a question, and wakes the party with the next move.
func (t recordHandler) moveQuestion(id string, to collab.WorkState, edit func(q *record)) collab.Result {
	old := t.mustFindMovable(collab.KindQuestion, id)
	if old.State == to {
		return t.result(id, false) // a repetition
	}
	q := *old
	q.State = to
	edit(&q)
	t.update(old, &q)
	return t.result(id, true)
}

// spawnWork creates the work that a question needs. A question spawns one work item at most.
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
	w := t.newRecord(record{WorkItem: collab.WorkItem{Kind: collab.KindWorkItem, ConversationID: old.ConversationID}},
		p)
	t.store(nil, w)
	q := *old
	q.SpawnedWorkItemID, q.UpdatedAt = w.ID, formatTime(t.now)
	t.store(old, &q)
	out := t.result(w.ID, isTrue(p.Wake))
	out.Question = q.question()
	return out
}
