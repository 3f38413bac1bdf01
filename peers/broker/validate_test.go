package broker

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func baseWork() WorkItem {
	return WorkItem{
		ID: "wi-1", Kind: KindWorkItem, Title: "Test work item", CreatedByID: "actor-1", OwnerID: "actor-1",
		NextMoveOwnerID: "actor-1", State: WorkOpen, AcceptanceState: AcceptanceNone,
		CreatedAt: "2023-11-14T22:13:20.000000Z", UpdatedAt: "2023-11-14T22:13:20.000000Z",
	}
}

func baseQuestion() Question {
	return Question{
		ID: "q-1", Kind: KindQuestion, Title: "Test question", CreatedByID: "actor-1", NextMoveOwnerID: "actor-1",
		State: QuestionOpen, AcceptanceState: AcceptanceNone,
		CreatedAt: "2023-11-14T22:13:20.000000Z", UpdatedAt: "2023-11-14T22:13:20.000000Z",
	}
}

func TestWorkItemRules(t *testing.T) {
	const later, noOwner, noNext = "2023-11-14T22:13:21.000000Z", "non-terminal work items require ownerId", "non-terminal collaboration records require nextMoveOwnerId"
	for name, c := range map[string]struct {
		change func(w *WorkItem)
		want   []string
	}{
		"as it is":                     {func(*WorkItem) {}, nil},
		"no owner":                     {func(w *WorkItem) { w.OwnerID = "" }, []string{noOwner}},
		"no next mover":                {func(w *WorkItem) { w.NextMoveOwnerID = "" }, []string{noNext}},
		"done needs neither":           {func(w *WorkItem) { w.State, w.OwnerID, w.NextMoveOwnerID = WorkDone, "", "" }, nil},
		"cancelled needs neither":      {func(w *WorkItem) { w.State, w.OwnerID, w.NextMoveOwnerID = WorkCancelled, "", "" }, nil},
		"waiting on nothing":           {func(w *WorkItem) { w.State = WorkWaiting }, []string{"waiting work items require waitingOn"}},
		"waiting on nothing by nobody": {func(w *WorkItem) { w.State, w.NextMoveOwnerID = WorkWaiting, "" }, []string{noNext, "waiting work items require waitingOn"}},
		"waiting on itself": {
			func(w *WorkItem) { w.State, w.WaitingOn = WorkWaiting, &WaitingOn{"work_item", "x", "wi-1"} },
			[]string{"waitingOn.targetId cannot reference the work item itself"},
		},
		"waiting on another":           {func(w *WorkItem) { w.State, w.WaitingOn = WorkWaiting, &WaitingOn{"work_item", "x", "wi-2"} }, nil},
		"its own parent":               {func(w *WorkItem) { w.ParentID = "wi-1" }, []string{"parentId cannot reference the record itself"}},
		"updated before created":       {func(w *WorkItem) { w.CreatedAt = later }, []string{"updatedAt must be greater than or equal to createdAt"}},
		"updated after created":        {func(w *WorkItem) { w.UpdatedAt = later }, nil},
		"pending without a requester":  {func(w *WorkItem) { w.AcceptanceState = AcceptancePending }, []string{"acceptanceState pending requires requestedById"}},
		"pending with a requester":     {func(w *WorkItem) { w.AcceptanceState, w.RequestedByID = AcceptancePending, "will" }, nil},
		"blank id":                     {func(w *WorkItem) { w.ID = "  " }, []string{"collaboration record id is required"}},
		"blank title":                  {func(w *WorkItem) { w.Title = "\t" }, []string{"collaboration title is required"}},
		"no creator":                   {func(w *WorkItem) { w.CreatedByID = "" }, []string{"createdById is required"}},
		"a state that there is not":    {func(w *WorkItem) { w.State = "paused" }, []string{`state "paused" is not one of open, working, waiting, review, done, cancelled`}},
		"a priority that there is not": {func(w *WorkItem) { w.Priority = "asap" }, []string{`priority "asap" is not one of low, normal, high, urgent`}},
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

func TestQuestionRules(t *testing.T) {
	for name, c := range map[string]struct {
		change func(q *Question)
		want   []string
	}{
		"as it is":            {func(*Question) {}, nil},
		"no next mover":       {func(q *Question) { q.NextMoveOwnerID = "" }, []string{"non-terminal collaboration records require nextMoveOwnerId"}},
		"no answer":           {func(q *Question) { q.State = QuestionAnswered }, []string{"answered questions require an answer"}},
		"blank answer":        {func(q *Question) { q.State, q.Answer = QuestionAnswered, " " }, []string{"answered questions require an answer"}},
		"an answer":           {func(q *Question) { q.State, q.Answer = QuestionAnswered, "42" }, nil},
		"answered still owed": {func(q *Question) { q.State, q.Answer, q.NextMoveOwnerID = QuestionAnswered, "42", "" }, []string{"non-terminal collaboration records require nextMoveOwnerId"}},
		"closed":              {func(q *Question) { q.State, q.NextMoveOwnerID = QuestionClosed, "" }, nil},
		"declined":            {func(q *Question) { q.State, q.NextMoveOwnerID = QuestionDeclined, "" }, nil},
		"pending by nobody":   {func(q *Question) { q.AcceptanceState = AcceptancePending }, []string{"acceptanceState pending requires askedById and askedOfId"}},
		"its own parent":      {func(q *Question) { q.ParentID = "q-1" }, []string{"parentId cannot reference the record itself"}},
	} {
		t.Run(name, func(t *testing.T) {
			q := baseQuestion()
			c.change(&q)
			if got := q.Validate(); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestStepsBelongToTheirRecord(t *testing.T) {
	q := StepEvent{RecordID: "q-1", RecordKind: KindQuestion, ActorID: "lead"}
	for _, step := range []Step{StepWaiting, StepProgressed, StepReviewRequested, StepDone, StepCancelled, StepClaimed} {
		q.Step = step
		if wrong := strings.Join(q.Validate("q-1", KindQuestion), "; "); !strings.Contains(wrong, string(step)) {
			t.Errorf("%s on a question gives %q; want a refusal that names it", step, wrong)
		}
	}
	q.Step = StepAnswered
	if wrong := q.Validate("q-1", KindQuestion); wrong != nil {
		t.Errorf("answered on a question: %q", wrong)
	}
	if wrong := q.Validate("q-2", KindQuestion); len(wrong) != 1 {
		t.Errorf("another record's id: %q", wrong)
	}
	if wrong := q.Validate("q-1", KindWorkItem); len(wrong) != 2 { // the kind, and the step that work items do not have
		t.Errorf("another record's kind: %q", wrong)
	}
}

func TestTransitions(t *testing.T) {
	allowed := map[string]bool{
		"open working": true, "open waiting": true, "open review": true, "open done": true, "open cancelled": true,
		"working waiting": true, "working review": true, "working done": true, "working cancelled": true,
		"waiting working": true, "waiting review": true, "waiting done": true, "waiting cancelled": true,
		"review working": true, "review done": true, "review cancelled": true,
		"done open": true, "cancelled open": true,
	}
	for _, from := range workStates {
		for _, to := range workStates {
			err := checkMove("work item", workMoves, from, to)
			if ok := err == nil; ok != (from == to || allowed[string(from)+" "+string(to)]) {
				t.Errorf("%s to %s: %v", from, to, err)
			}
			if err != nil && err.Code != CodeBadTransition {
				t.Errorf("%s to %s: code %s", from, to, err.Code)
			}
		}
	}
	questions := map[string]bool{"open answered": true, "open closed": true, "open declined": true, "answered closed": true, "answered open": true}
	for _, from := range questionStates {
		for _, to := range questionStates {
			if ok := checkMove("question", questionMoves, from, to) == nil; ok != (from == to || questions[string(from)+" "+string(to)]) {
				t.Errorf("question %s to %s: %v", from, to, ok)
			}
		}
	}
}

func TestTimesInParams(t *testing.T) {
	for _, raw := range []string{`1700000000000`, `"2023-11-14T22:13:20Z"`} {
		var m moment
		if err := json.Unmarshal([]byte(raw), &m); err != nil || m.Unix() != 1700000000 {
			t.Errorf("%s is read as %v, %v", raw, m, err)
		}
	}
}
