package broker

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"hubbub/peers/broker/rules"
	"hubbub/protocol"
	"hubbub/protocol/collab"
)

// isTrue reports whether a wake was requested.
func isTrue(wake *bool) bool { return wake != nil && *wake }

// createWork stores a work item. If its parent is a question without work, the question spawned it.
func (t recordHandler) createWork(p collab.WorkParams) collab.Result {
	w := t.newRecord(rules.Record{WorkItem: collab.WorkItem{Kind: collab.KindWorkItem}}, p)
	out := t.create(w, isTrue(p.Wake))
	if q := t.records.get(w.ParentID); q != nil && q.IsQuestion() && q.SpawnedWorkItemID == "" && !out.Duplicate {
		out.Question = t.linkSpawned(q, w.ID)
	}
	return out
}

// linkSpawned stores in a question that it spawned a work item.
func (t recordHandler) linkSpawned(old *rules.Record, workID string) collab.Question {
	q := *old
	q.SpawnedWorkItemID, q.UpdatedAt = workID, formatTime(t.now)
	t.store(old, &q)
	return q.Question()
}

// updateWork changes a work item. Without a nextMoveOwnerId the next move stays.
func (t recordHandler) updateWork(p collab.WorkParams) collab.Result {
	if p.ID == nil {
		rules.FailInvalid("id is required")
	}
	if q := t.records.get(*p.ID); q != nil && q.IsQuestion() {
		rules.FailInvalid("%s is a question: %s applies to work items only; use the question.* methods", q.ID,
			cmp.Or(p.State, "update"))
	}
	old := t.mustFindMovable(collab.KindWorkItem, *p.ID)
	r := *old
	t.applyParams(&r, p)
	r.AssignReviewer(old, &t.caller, p.NextMoveOwnerID != nil)
	r.MustAllowAcceptance(old, &t.caller)
	if r.State != collab.WorkWaiting && p.WaitingOn == nil {
		r.WaitingOn = nil // it no longer waits
	}
	t.update(old, &r)
	return t.result(r.ID, isTrue(p.Wake))
}

// arrived continues the work that waits for an external thing, if the caller may move it.
func (t recordHandler) arrived(p collab.ArrivedParams) (out collab.Arrived) {
	rules.MustBeText("name", p.Name, rules.MaxTitle)
	if strings.ContainsRune(p.Name, utf8.RuneError) { // also that of a label may have been another character
		rules.FailInvalid("name must be valid Unicode")
	}
	out.Items = []collab.Result{}
	size := 0
	for _, old := range t.openRecords(collab.KindWorkItem) {
		on := old.WaitingOn
		if old.State != collab.WorkWaiting || on == nil || !on.External() || p.Name != on.TargetID &&
			p.Name != on.Label {
			continue
		}
		concerned := []protocol.PeerID{old.CreatedByIdentity, old.OwnerIdentity, old.NextMoveOwnerIdentity}
		if !slices.ContainsFunc(concerned, t.caller.ActsFor) {
			continue
		}
		r := *old
		r.State, r.WaitingOn = collab.WorkWorking, nil
		t.update(old, &r)
		if one := t.result(r.ID, true); size < pageBytes {
			out.Items, size = append(out.Items, one), size+len(rules.MustEncode(one))
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
	if code := collab.Code(dec.Outcome); rules.IsUnroutable(code) {
		rules.FailUnroutable(code, dec.TargetAgentID, dec.Reason, dec.Options, out)
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
		rules.MustBeOneOf("state", p.State, rules.Kinds[collab.KindWorkItem].States...)
	}
	list := t.recordsOf(collab.KindWorkItem, p.State, p.OwnerID, p.NextMoveOwnerID, p.After)
	return pageOf(list, func(r *rules.Record) string { return r.ID },
		func(r *rules.Record) collab.WorkItem { return r.WorkItem }, p.Limit)
}

func (t recordHandler) listQuestions(p collab.QuestionListParams) collab.Page[collab.Question] {
	if p.State != "" {
		rules.MustBeOneOf("state", collab.WorkState(p.State), rules.Kinds[collab.KindQuestion].States...)
	}
	list := t.recordsOf(collab.KindQuestion, collab.WorkState(p.State), "", p.NextMoveOwnerID, p.After)
	return pageOf(list, func(r *rules.Record) string { return r.ID }, (*rules.Record).Question, p.Limit)
}

// ask stores a question and wakes the asked party.
func (t recordHandler) ask(p collab.QuestionParams) collab.Result {
	conversationHandler(t).openChat(p.ConversationID, p.Chat)
	rules.MustBeName("askedOfId", p.AskedOfID)
	rules.MustFit("answer", p.Answer, rules.MaxText)
	asked, by := t.partyOf(p.AskedOfID, t.knownParties), t.caller.Party()
	q := rules.Record{
		WorkItem:        collab.WorkItem{Kind: collab.KindQuestion},
		AskedOfID:       asked.Name,
		AskedOfIdentity: asked.ID,
		Answer:          p.Answer,
		Obligation:      rules.MustBeObligation(p.Obligation),
	}
	if p.AskedByID == nil || strings.TrimSpace(*p.AskedByID) != "" {
		q.AskedByID = by.Name
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
	r.AskedByID, r.AskedByIdentity = by.Name, by.ID
	return t.create(r, r.State == collab.WorkOpen)
}

// answer stores the answer to a question and wakes the asking party, which has the next move.
func (t recordHandler) answer(p collab.AnswerParams) collab.Result {
	if strings.TrimSpace(p.Answer) == "" {
		rules.FailInvalid("answered questions require an answer")
	}
	rules.MustFit("answer", p.Answer, rules.MaxText)
	q := t.mustFindRecord(collab.KindQuestion, p.ID)
	if p.By != "" && !t.caller.Is(p.By) {
		decisionHandler(t).mustSpeakFor(p.By, q.AskedByIdentity)
		if p.By != q.AskedOfIdentity {
			rules.Fail(collab.CodeForbidden, "question %s is for %s to answer", q.ID, q.AskedOfID)
		}
		t.caller = t.state.Caller(p.By, nil) // the author of the answer, not the asking agent
	}
	if q.State == rules.QuestionAnswered {
		if q.Answer != p.Answer {
			rules.FailTransition(rules.Kinds[q.Kind].Moves, q.State, q.State,
				"question %s is already %s", q.ID, q.State)
		}
		return t.duplicate(q.ID)
	}
	return t.moveQuestion(p.ID, rules.QuestionAnswered, func(q *rules.Record) {
		q.Answer = p.Answer
		q.SetNextMove(q.Creator())
	})
}

// endQuestion returns a method that ends a question in a state.
func endQuestion(to collab.WorkState) func(t recordHandler, p collab.IDParams) collab.Result {
	return func(t recordHandler, p collab.IDParams) collab.Result {
		return t.moveQuestion(p.ID, to, func(q *rules.Record) { q.SetNextMove(rules.Party{}) })
	}
}

// reopen withdraws an answer. The question is open again.
func (t recordHandler) reopen(p collab.IDParams) collab.Result {
	return t.moveQuestion(p.ID, collab.WorkOpen, func(q *rules.Record) {
		q.Answer = ""
		q.SetNextMove(cmp.Or(q.Asked(), q.Creator()))
	})
}

// moveQuestion changes the state of a question, and wakes the party with the next move.
func (t recordHandler) moveQuestion(id string, to collab.WorkState, edit func(q *rules.Record)) collab.Result {
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
		rules.FailInvalid("id (of the question) is required")
	}
	old := t.mustFindRecord(collab.KindQuestion, *p.ID)
	if old.SpawnedWorkItemID != "" {
		out := t.duplicate(old.SpawnedWorkItemID)
		out.Question = old.Question()
		return out
	}
	owner := cmp.Or(p.OwnerID, new(cmp.Or(old.Asked(), old.Next(), old.Creator()).Ref()))
	p.ID, p.Kind, p.OwnerID = nil, "", owner
	p.Title = cmp.Or(p.Title, &old.Title)
	p.NextMoveOwnerID = cmp.Or(p.NextMoveOwnerID, owner)
	p.RequestedByID = cmp.Or(p.RequestedByID, new(old.Creator().Ref()))
	p.ParentID = cmp.Or(p.ParentID, &old.ID)
	work := collab.WorkItem{Kind: collab.KindWorkItem, ConversationID: old.ConversationID}
	w := t.newRecord(rules.Record{WorkItem: work}, p)
	t.store(nil, w)
	question := t.linkSpawned(old, w.ID)
	out := t.result(w.ID, isTrue(p.Wake))
	out.Question = question
	return out
}
