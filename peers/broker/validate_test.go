package broker

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"hubbub/protocol/collab"
)

func baseWork() record {
	return record{WorkItem: collab.WorkItem{
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
		change func(w *record)
		want   []string
	}{
		"as it is":                     {func(*record) {}, nil},
		"no owner":                     {func(w *record) { w.OwnerID = "" }, []string{noOwner}},
		"no next mover":                {func(w *record) { w.NextMoveOwnerID = "" }, []string{noNext}},
		"done needs neither":           {func(w *record) { w.State, w.OwnerID, w.NextMoveOwnerID = collab.WorkDone, "", "" }, nil},
		"cancelled needs neither":      {func(w *record) { w.State, w.OwnerID, w.NextMoveOwnerID = collab.WorkCancelled, "", "" }, nil},
		"waiting on nothing":           {func(w *record) { w.State = collab.WorkWaiting }, []string{"waiting work items require waitingOn"}},
		"waiting on nothing by nobody": {func(w *record) { w.State, w.NextMoveOwnerID = collab.WorkWaiting, "" }, []string{noNext, "waiting work items require waitingOn"}},
		"waiting on itself": {
			func(w *record) {
				w.State, w.WaitingOn = collab.WorkWaiting, &collab.WaitingOn{Kind: "work_item", Label: "x", TargetID: "wi-1"}
			},
			[]string{"waitingOn.targetId cannot reference the work item itself"},
		},
		"waiting on another": {func(w *record) {
			w.State, w.WaitingOn = collab.WorkWaiting, &collab.WaitingOn{Kind: "work_item", Label: "x", TargetID: "wi-2"}
		}, nil},
		"its own parent":               {func(w *record) { w.ParentID = "wi-1" }, []string{"parentId cannot reference the record itself"}},
		"updated before created":       {func(w *record) { w.CreatedAt = later }, []string{"updatedAt must be greater than or equal to createdAt"}},
		"updated after created":        {func(w *record) { w.UpdatedAt = later }, nil},
		"pending without a requester":  {func(w *record) { w.AcceptanceState = collab.AcceptancePending }, []string{"acceptanceState pending requires requestedById"}},
		"pending with a requester":     {func(w *record) { w.AcceptanceState, w.RequestedByID = collab.AcceptancePending, "will" }, nil},
		"blank id":                     {func(w *record) { w.ID = "  " }, []string{"collaboration record id is required"}},
		"blank title":                  {func(w *record) { w.Title = "\t" }, []string{"collaboration title is required"}},
		"no creator":                   {func(w *record) { w.CreatedByID = "" }, []string{"createdById is required"}},
		"a state that there is not":    {func(w *record) { w.State = "paused" }, []string{`state "paused" is not one of open, working, waiting, review, done, cancelled`}},
		"a priority that there is not": {func(w *record) { w.Priority = "asap" }, []string{`priority "asap" is not one of low, normal, high, urgent`}},
	} {
		t.Run(name, func(t *testing.T) {
			w := baseWork()
			c.change(&w)
			if got := w.validate(); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestQuestion_IsValidated(t *testing.T) {
	for name, c := range map[string]struct {
		change func(q *record)
		want   []string
	}{
		"as it is":            {func(*record) {}, nil},
		"no next mover":       {func(q *record) { q.NextMoveOwnerID = "" }, []string{"non-terminal collaboration records require nextMoveOwnerId"}},
		"no answer":           {func(q *record) { q.State = questionAnswered }, []string{"answered questions require an answer"}},
		"blank answer":        {func(q *record) { q.State, q.Answer = questionAnswered, " " }, []string{"answered questions require an answer"}},
		"an answer":           {func(q *record) { q.State, q.Answer = questionAnswered, "42" }, nil},
		"answered still owed": {func(q *record) { q.State, q.Answer, q.NextMoveOwnerID = questionAnswered, "42", "" }, []string{"non-terminal collaboration records require nextMoveOwnerId"}},
		"closed":              {func(q *record) { q.State, q.NextMoveOwnerID = questionClosed, "" }, nil},
		"declined":            {func(q *record) { q.State, q.NextMoveOwnerID = questionDeclined, "" }, nil},
		"pending by nobody":   {func(q *record) { q.AcceptanceState = collab.AcceptancePending }, []string{"acceptanceState pending requires askedById and askedOfId"}},
		"its own parent":      {func(q *record) { q.ParentID = "q-1" }, []string{"parentId cannot reference the record itself"}},
	} {
		t.Run(name, func(t *testing.T) {
			q := &record{}
			must(json.Unmarshal(mustEncode(baseQuestion()), q))
			c.change(q)
			if got := q.validate(); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestStepOf_NamesTheChange: whatever the machine lets happen to a record is told
// as a step that its kind has.
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
	for kind, k := range kinds {
		r := record{WorkItem: collab.WorkItem{ID: "r", Kind: kind}}
		if step := stepOf(nil, &r); step != collab.StepCreated {
			t.Errorf("a new %s is %s", kind, step)
		}
		for from, all := range k.moves {
			for _, to := range all {
				old, moved := r, r
				old.State, moved.State = from, to
				if step := stepOf(&old, &moved); !slices.Contains(has[kind], step) {
					t.Errorf("%s from %s to %s is %s", kind, from, to, step)
				}
			}
		}
	}
	old := record{WorkItem: collab.WorkItem{State: collab.WorkReview, OwnerID: "a", NextMoveOwnerID: "a", AcceptanceState: collab.AcceptancePending}}
	for want, edit := range map[collab.Step]func(r *record){
		collab.StepProgressed: func(r *record) { r.Summary = "x" },
		collab.StepHandoff:    func(r *record) { r.NextMoveOwnerID = "b" },
		collab.StepAccepted:   func(r *record) { r.AcceptanceState = collab.AcceptanceAccepted },
		collab.StepRejected:   func(r *record) { r.AcceptanceState = collab.AcceptanceRejected },
		collab.StepSpawned:    func(r *record) { r.SpawnedWorkItemID = "wi_1" },
		collab.StepDone:       func(r *record) { r.State, r.AcceptanceState = collab.WorkDone, collab.AcceptanceAccepted },
	} {
		r := old
		if edit(&r); stepOf(&old, &r) != want {
			t.Errorf("got %s, want %s", stepOf(&old, &r), want)
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
	for _, from := range kinds[collab.KindWorkItem].states {
		for _, to := range kinds[collab.KindWorkItem].states {
			err := attempt(func() { mustAllowTransition("work item", kinds[collab.KindWorkItem].moves, from, to) })
			if ok := err == nil; ok != (from == to || allowed[string(from)+" "+string(to)]) {
				t.Errorf("%s to %s: %v", from, to, err)
			}
			if code := collab.Refusal(err); err != nil && code != collab.CodeBadTransition {
				t.Errorf("%s to %s: code %s", from, to, code)
			}
		}
	}
	questions := map[string]bool{"open answered": true, "open closed": true, "open declined": true, "answered closed": true, "answered open": true}
	for _, from := range kinds[collab.KindQuestion].states {
		for _, to := range kinds[collab.KindQuestion].states {
			err := attempt(func() { mustAllowTransition("question", kinds[collab.KindQuestion].moves, from, to) })
			if ok := err == nil; ok != (from == to || questions[string(from)+" "+string(to)]) {
				t.Errorf("question %s to %s: %v", from, to, ok)
			}
		}
	}
}

func TestNewRecord_ChecksTimes(t *testing.T) {
	for _, raw := range []string{`1700000000000`, `"2023-11-14T22:13:20Z"`} {
		var m collab.Moment
		if err := json.Unmarshal([]byte(raw), &m); err != nil || m.Unix() != 1700000000 {
			t.Errorf("%s is read as %v, %v", raw, m, err)
		}
	}
}

// TestParams_RefuseIDsWithControlCharacters checks one member of each kind in each family of
// methods. Texts that people write may have any characters.
func TestParams_RefuseIDsWithControlCharacters(t *testing.T) {
	d := newFixture(t)
	for _, c := range []struct{ method, params string }{
		{"claim.acquire", `{"eventId":"%"}`}, {"claim.release", `{"eventId":"%"}`}, {"claim.decline", `{"eventId":"e%"}`}, {"claim.get", `{"eventId":"%e"}`},
		{"decision.ask", `{"id":"%"}`}, {"decision.ask", `{"id":"d","eventId":"%"}`}, {"decision.ask", `{"id":"d","mayDecide":["tg:%"]}`},
		{"decision.decide", `{"id":"d","by":"tg:%"}`}, {"decision.get", `{"id":"%"}`}, {"decision.list", `{"after":"%"}`},
		{"obligation.open", `{"eventId":"%"}`}, {"obligation.open", `{"eventId":"e","author":"tg:%"}`}, {"obligation.react", `{"targetEventId":"%"}`},
		{"obligation.react", `{"targetEventId":"e","reactionId":"%"}`}, {"obligation.discharge", `{"eventId":"%","recipient":"agent:a"}`},
		{"work_item.create", `{"id":"%"}`}, {"work_item.create", `{"title":"t","parentId":"%"}`}, {"work_item.create", `{"title":"t","waitingOn":{"kind":"question","targetId":"%","label":"l"}}`},
		{"work_item.update", `{"id":"w","ownerId":"%"}`}, {"work_item.assign", `{"id":"%","ownerId":"a"}`}, {"question.ask", `{"title":"t","conversationId":"%"}`},
		{"message.post", `{"text":"t","targets":["%"]}`}, {"message.post", `{"text":"t","chat":{"identity":"tg:%","kind":"dm"}}`},
		{"message.post", `{"text":"t","obligation":{"blocks":"none","dischargeDelegate":{"id":"%"}}}`},
		{"conversation.create", `{"memberIds":["a","%"]}`}, {"invocation.create", `{"targetAgentId":"%","text":"t"}`}, {"binding.set", `{"surface":"tg","externalId":"%","agentId":"a"}`},
		{"identity.announce", `{"endpointId":"%"}`}, {"identity.announce", `{"endpointId":"e","roles":["%"]}`}, {"flight.update", `{"id":"%","state":"running"}`},
		{"delivery.claim", `{"targetAgentId":"%"}`}, {"wake.explain", `{"messageId":"%"}`}, {"prompt.contract", `{"agentId":"%"}`},
	} {
		for _, bad := range []string{`\n`, `\u0000`, `\u001b[2J`, `\u007f`, `\u200b`, `\u202e`, `\ufffd`} {
			e := d.mustRefuse(collab.CodeInvalid, "agent:a", c.method, json.RawMessage(strings.ReplaceAll(c.params, "%", bad)))
			if why := fmt.Sprint(e["error"]); !strings.Contains(why, "control or invisible characters") {
				t.Errorf("%s %s with %s: %s", c.method, c.params, bad, why)
			}
		}
	}
	d.do("cli:will.1", "work_item.create", m{"title": "two\nlines\tand \u200d more", "summary": "a\nb", "ownerId": "agent:a", "nextMoveOwnerId": "agent:a"})
}
