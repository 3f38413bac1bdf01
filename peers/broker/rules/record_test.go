package rules

import (
	"encoding/json"
	"slices"
	"testing"

	"hubbub/protocol/collab"
)

func baseWork() Record {
	return Record{WorkItem: collab.WorkItem{
		ID: "wi-1", Kind: collab.KindWorkItem, Title: "Test work item", CreatedByID: "actor-1", OwnerID: "actor-1",
		NextMoveOwnerID: "actor-1", State: collab.WorkOpen, AcceptanceState: collab.AcceptanceNone,
		CreatedAt: "2023-11-14T22:13:20.000000Z", UpdatedAt: "2023-11-14T22:13:20.000000Z",
	}}
}

func baseQuestion() collab.Question {
	return collab.Question{
		ID: "q-1", Kind: collab.KindQuestion, Title: "Test question", CreatedByID: "actor-1", NextMoveOwnerID: "actor-1",
		State: collab.QuestionOpen, AcceptanceState: collab.AcceptanceNone,
		CreatedAt: "2023-11-14T22:13:20.000000Z", UpdatedAt: "2023-11-14T22:13:20.000000Z",
	}
}

func TestWorkItem_IsValidated(t *testing.T) {
	const later, noOwner, noNext = "2023-11-14T22:13:21.000000Z", "non-terminal work items require ownerId", "non-terminal collaboration records require nextMoveOwnerId"
	for name, c := range map[string]struct {
		change func(w *Record)
		want   []string
	}{
		"as it is":                     {func(*Record) {}, nil},
		"no owner":                     {func(w *Record) { w.OwnerID = "" }, []string{noOwner}},
		"no next mover":                {func(w *Record) { w.NextMoveOwnerID = "" }, []string{noNext}},
		"done needs neither":           {func(w *Record) { w.State, w.OwnerID, w.NextMoveOwnerID = collab.WorkDone, "", "" }, nil},
		"cancelled needs neither":      {func(w *Record) { w.State, w.OwnerID, w.NextMoveOwnerID = collab.WorkCancelled, "", "" }, nil},
		"waiting on nothing":           {func(w *Record) { w.State = collab.WorkWaiting }, []string{"waiting work items require waitingOn"}},
		"waiting on nothing by nobody": {func(w *Record) { w.State, w.NextMoveOwnerID = collab.WorkWaiting, "" }, []string{noNext, "waiting work items require waitingOn"}},
		"waiting on itself": {
			func(w *Record) {
				w.State, w.WaitingOn = collab.WorkWaiting, &collab.WaitingOn{Kind: "work_item", Label: "x", TargetID: "wi-1"}
			},
			[]string{"waitingOn.targetId cannot reference the work item itself"},
		},
		"waiting on another": {func(w *Record) {
			w.State, w.WaitingOn = collab.WorkWaiting, &collab.WaitingOn{Kind: "work_item", Label: "x", TargetID: "wi-2"}
		}, nil},
		"its own parent":               {func(w *Record) { w.ParentID = "wi-1" }, []string{"parentId cannot reference the record itself"}},
		"updated before created":       {func(w *Record) { w.CreatedAt = later }, []string{"updatedAt must be greater than or equal to createdAt"}},
		"updated after created":        {func(w *Record) { w.UpdatedAt = later }, nil},
		"pending without a requester":  {func(w *Record) { w.AcceptanceState = collab.AcceptancePending }, []string{"acceptanceState pending requires requestedById"}},
		"pending with a requester":     {func(w *Record) { w.AcceptanceState, w.RequestedByID = collab.AcceptancePending, "will" }, nil},
		"blank id":                     {func(w *Record) { w.ID = "  " }, []string{"collaboration record id is required"}},
		"blank title":                  {func(w *Record) { w.Title = "\t" }, []string{"collaboration title is required"}},
		"no creator":                   {func(w *Record) { w.CreatedByID = "" }, []string{"createdById is required"}},
		"a state that there is not":    {func(w *Record) { w.State = "paused" }, []string{`state "paused" is not one of open, working, waiting, review, done, cancelled`}},
		"a priority that there is not": {func(w *Record) { w.Priority = "asap" }, []string{`priority "asap" is not one of low, normal, high, urgent`}},
	} {
		t.Run(name, func(t *testing.T) {
			w := baseWork()
			c.change(&w)
			if got := w.Validate(); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestQuestion_IsValidated(t *testing.T) {
	for name, c := range map[string]struct {
		change func(q *Record)
		want   []string
	}{
		"as it is":            {func(*Record) {}, nil},
		"no next mover":       {func(q *Record) { q.NextMoveOwnerID = "" }, []string{"non-terminal collaboration records require nextMoveOwnerId"}},
		"no answer":           {func(q *Record) { q.State = QuestionAnswered }, []string{"answered questions require an answer"}},
		"blank answer":        {func(q *Record) { q.State, q.Answer = QuestionAnswered, " " }, []string{"answered questions require an answer"}},
		"an answer":           {func(q *Record) { q.State, q.Answer = QuestionAnswered, "42" }, nil},
		"answered still owed": {func(q *Record) { q.State, q.Answer, q.NextMoveOwnerID = QuestionAnswered, "42", "" }, []string{"non-terminal collaboration records require nextMoveOwnerId"}},
		"closed":              {func(q *Record) { q.State, q.NextMoveOwnerID = QuestionClosed, "" }, nil},
		"declined":            {func(q *Record) { q.State, q.NextMoveOwnerID = QuestionDeclined, "" }, nil},
		"pending by nobody":   {func(q *Record) { q.AcceptanceState = collab.AcceptancePending }, []string{"acceptanceState pending requires askedById and askedOfId"}},
		"its own parent":      {func(q *Record) { q.ParentID = "q-1" }, []string{"parentId cannot reference the record itself"}},
	} {
		t.Run(name, func(t *testing.T) {
			q := &Record{}
			Must(json.Unmarshal(MustEncode(baseQuestion()), q))
			c.change(q)
			if got := q.Validate(); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestStepOf_NamesTheChange checks that every allowed transition of a record has a step of its
// kind.
func TestStepOf_NamesTheChange(t *testing.T) {
	has := map[string][]collab.Step{
		collab.KindQuestion: {
			collab.StepCreated, collab.StepAnswered, collab.StepClosed, collab.StepDeclined, collab.StepReopened, collab.StepSpawned,
		},
		collab.KindWorkItem: {
			collab.StepCreated, collab.StepClaimed, collab.StepProgressed, collab.StepHandoff, collab.StepWaiting, collab.StepReviewRequested,
			collab.StepAccepted, collab.StepRejected, collab.StepDone, collab.StepCancelled, collab.StepReopened,
		},
	}
	for kind, k := range Kinds {
		r := Record{WorkItem: collab.WorkItem{ID: "r", Kind: kind}}
		if step := StepOf(nil, &r); step != collab.StepCreated {
			t.Errorf("a new %s is %s", kind, step)
		}
		for from, all := range k.Moves {
			for _, to := range all {
				old, moved := r, r
				old.State, moved.State = from, to
				if step := StepOf(&old, &moved); !slices.Contains(has[kind], step) {
					t.Errorf("%s from %s to %s is %s", kind, from, to, step)
				}
			}
		}
	}
	old := Record{WorkItem: collab.WorkItem{State: collab.WorkReview, OwnerID: "a", NextMoveOwnerID: "a", AcceptanceState: collab.AcceptancePending}}
	for want, edit := range map[collab.Step]func(r *Record){
		collab.StepProgressed: func(r *Record) { r.Summary = "x" },
		collab.StepHandoff:    func(r *Record) { r.NextMoveOwnerID = "b" },
		collab.StepAccepted:   func(r *Record) { r.AcceptanceState = collab.AcceptanceAccepted },
		collab.StepRejected:   func(r *Record) { r.AcceptanceState = collab.AcceptanceRejected },
		collab.StepSpawned:    func(r *Record) { r.SpawnedWorkItemID = "wi_1" },
		collab.StepDone:       func(r *Record) { r.State, r.AcceptanceState = collab.WorkDone, collab.AcceptanceAccepted },
	} {
		r := old
		if edit(&r); StepOf(&old, &r) != want {
			t.Errorf("got %s, want %s", StepOf(&old, &r), want)
		}
	}
}

func TestRecord_AllowsOnlyItsTransitions(t *testing.T) {
	allowed := map[string]bool{
		"open working": true, "open waiting": true, "open review": true, "open done": true, "open cancelled": true,
		"working waiting": true, "working review": true, "working done": true, "working cancelled": true,
		"waiting working": true, "waiting review": true, "waiting done": true, "waiting cancelled": true,
		"review working": true, "review done": true, "review cancelled": true,
		"done open": true, "cancelled open": true,
	}
	for _, from := range Kinds[collab.KindWorkItem].States {
		for _, to := range Kinds[collab.KindWorkItem].States {
			err := Attempt(func() { MustAllowTransition("work item", Kinds[collab.KindWorkItem].Moves, from, to) })
			if ok := err == nil; ok != (from == to || allowed[string(from)+" "+string(to)]) {
				t.Errorf("%s to %s: %v", from, to, err)
			}
			if code := collab.Refusal(err); err != nil && code != collab.CodeBadTransition {
				t.Errorf("%s to %s: code %s", from, to, code)
			}
		}
	}
	questions := map[string]bool{"open answered": true, "open closed": true, "open declined": true, "answered closed": true, "answered open": true}
	for _, from := range Kinds[collab.KindQuestion].States {
		for _, to := range Kinds[collab.KindQuestion].States {
			err := Attempt(func() { MustAllowTransition("question", Kinds[collab.KindQuestion].Moves, from, to) })
			if ok := err == nil; ok != (from == to || questions[string(from)+" "+string(to)]) {
				t.Errorf("question %s to %s: %v", from, to, ok)
			}
		}
	}
}
