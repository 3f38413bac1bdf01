package broker

import (
	"slices"
	"strings"
	"time"
)

// Validate returns what is wrong with the record, in the order of its fields;
// nothing when it may be stored.
func (w *WorkItem) Validate() []string {
	wrong := validateShared(w.ID, w.Title, w.CreatedByID, w.ParentID, w.CreatedAt, w.UpdatedAt)
	if !slices.Contains(workStates, w.State) {
		wrong = append(wrong, `state "`+string(w.State)+`" is not one of open, working, waiting, review, done, cancelled`)
	}
	if !w.Terminal() && w.OwnerID == "" {
		wrong = append(wrong, "non-terminal work items require ownerId")
	}
	if !w.Terminal() && w.NextMoveOwnerID == "" {
		wrong = append(wrong, "non-terminal collaboration records require nextMoveOwnerId")
	}
	switch {
	case w.WaitingOn == nil && w.State == WorkWaiting:
		wrong = append(wrong, "waiting work items require waitingOn")
	case w.WaitingOn != nil:
		wrong = append(wrong, w.WaitingOn.validate(w.ID)...)
	}
	if !slices.Contains([]string{"", "low", "normal", "high", "urgent"}, w.Priority) {
		wrong = append(wrong, `priority "`+w.Priority+`" is not one of low, normal, high, urgent`)
	}
	return append(wrong, validateAcceptance(w.AcceptanceState, w.RequestedByID != "", "requestedById")...)
}

func (on *WaitingOn) validate(id string) (wrong []string) {
	if !slices.Contains(waitingKinds, on.Kind) {
		wrong = append(wrong, `waitingOn.kind "`+on.Kind+`" is not one of `+strings.Join(waitingKinds, ", "))
	}
	if strings.TrimSpace(on.Label) == "" && on.TargetID == "" {
		wrong = append(wrong, "waitingOn requires a label or a targetId")
	}
	if on.TargetID != "" && on.TargetID == id {
		wrong = append(wrong, "waitingOn.targetId cannot reference the work item itself")
	}
	return wrong
}

// Validate returns what is wrong with the record; nothing when it may be stored.
func (q *Question) Validate() []string {
	wrong := validateShared(q.ID, q.Title, q.CreatedByID, q.ParentID, q.CreatedAt, q.UpdatedAt)
	if !slices.Contains(questionStates, q.State) {
		wrong = append(wrong, `state "`+string(q.State)+`" is not one of open, answered, closed, declined`)
	}
	if !q.Terminal() && q.NextMoveOwnerID == "" {
		wrong = append(wrong, "non-terminal collaboration records require nextMoveOwnerId")
	}
	if q.State == QuestionAnswered && strings.TrimSpace(q.Answer) == "" {
		wrong = append(wrong, "answered questions require an answer")
	}
	if q.SpawnedWorkItemID != "" && q.SpawnedWorkItemID == q.ID {
		wrong = append(wrong, "spawnedWorkItemId cannot reference the question itself")
	}
	return append(wrong, validateAcceptance(q.AcceptanceState, q.AskedByID != "" && q.AskedOfID != "", "askedById and askedOfId")...)
}

var (
	workStates     = []WorkState{WorkOpen, WorkWorking, WorkWaiting, WorkReview, WorkDone, WorkCancelled}
	questionStates = []QuestionState{QuestionOpen, QuestionAnswered, QuestionClosed, QuestionDeclined}
	waitingKinds   = []string{"actor", "agent", "question", "work_item", "approval", "artifact", "condition"}
	acceptances    = []Acceptance{AcceptanceNone, AcceptancePending, AcceptanceAccepted, AcceptanceRejected}
)

func validateShared(id, title, createdBy, parent, created, updated string) (wrong []string) {
	if strings.TrimSpace(id) == "" {
		wrong = append(wrong, "collaboration record id is required")
	}
	if strings.TrimSpace(title) == "" {
		wrong = append(wrong, "collaboration title is required")
	}
	if strings.TrimSpace(createdBy) == "" {
		wrong = append(wrong, "createdById is required")
	}
	if parent != "" && parent == id {
		wrong = append(wrong, "parentId cannot reference the record itself")
	}
	c, errC := time.Parse(time.RFC3339, created)
	u, errU := time.Parse(time.RFC3339, updated)
	switch {
	case errC != nil || errU != nil:
		wrong = append(wrong, "createdAt and updatedAt must be RFC 3339 times")
	case u.Before(c):
		wrong = append(wrong, "updatedAt must be greater than or equal to createdAt")
	}
	return wrong
}

func validateAcceptance(a Acceptance, known bool, needs string) []string {
	switch {
	case !slices.Contains(acceptances, a):
		return []string{`acceptanceState "` + string(a) + `" is not one of none, pending, accepted, rejected`}
	case a != AcceptanceNone && !known:
		return []string{"acceptanceState " + string(a) + " requires " + needs}
	}
	return nil
}

// A Step says what an event did to a question or a work item.
type Step string

// The steps of collaboration records.
const (
	StepCreated         Step = "created"
	StepClaimed         Step = "claimed"
	StepProgressed      Step = "progressed"
	StepHandoff         Step = "handoff"
	StepWaiting         Step = "waiting"
	StepReviewRequested Step = "review_requested"
	StepAccepted        Step = "accepted"
	StepRejected        Step = "rejected"
	StepDone            Step = "done"
	StepCancelled       Step = "cancelled"
	StepReopened        Step = "reopened"
	StepAnswered        Step = "answered"
	StepClosed          Step = "closed"
	StepDeclined        Step = "declined"
	StepSpawned         Step = "spawned_work"
)

// A StepEvent is the part of a record's event that names the record. It stands
// in the metadata of every collab.question.* and collab.work_item.* event.
type StepEvent struct {
	RecordID   string `json:"recordId"`
	RecordKind string `json:"recordKind"`
	Step       Step   `json:"step"`
	ActorID    string `json:"actorId"`
	From       string `json:"from,omitempty"` // the state before
}

var (
	questionSteps = []Step{StepCreated, StepAnswered, StepClosed, StepDeclined, StepReopened, StepSpawned, StepAccepted, StepRejected}
	workSteps     = []Step{
		StepCreated, StepClaimed, StepProgressed, StepHandoff, StepWaiting, StepReviewRequested,
		StepAccepted, StepRejected, StepDone, StepCancelled, StepReopened,
	}
)

// Validate returns what is wrong with an event about the record of the given id
// and kind.
func (e StepEvent) Validate(recordID, recordKind string) (wrong []string) {
	if e.RecordID != recordID {
		wrong = append(wrong, "the event's recordId does not match the record")
	}
	if e.RecordKind != recordKind {
		wrong = append(wrong, "the event's recordKind does not match the record")
	}
	if strings.TrimSpace(e.ActorID) == "" {
		wrong = append(wrong, "the event's actorId is required")
	}
	switch {
	case recordKind == KindQuestion && !slices.Contains(questionSteps, e.Step):
		wrong = append(wrong, string(e.Step)+" events do not apply to questions, only to work items")
	case recordKind == KindWorkItem && !slices.Contains(workSteps, e.Step):
		wrong = append(wrong, string(e.Step)+" events do not apply to work items, only to questions")
	}
	return wrong
}
