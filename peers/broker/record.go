package broker

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"hubbub/protocol"
	"hubbub/protocol/collab"
)

// A record is a work item or a question. Both have one state machine (see kinds), change by one
// path (recordHandler.update), and wake by the same rules. A question uses the fields that it
// shares with a work item, and those below.
type record struct {
	collab.WorkItem
	AskedByID         string          `json:"askedById"`
	AskedByIdentity   protocol.PeerID `json:"askedByIdentity"`
	AskedOfID         string          `json:"askedOfId"`
	AskedOfIdentity   protocol.PeerID `json:"askedOfIdentity"`
	Answer            string          `json:"answer"`
	SpawnedWorkItemID string          `json:"spawnedWorkItemId"`

	Obligation *protocol.Obligation `json:"obligation,omitempty"`
}

// A partyField is a field of a record with a party.
type partyField struct {
	name *string
	id   *protocol.PeerID
}

func (r *record) parties() []partyField {
	return []partyField{
		{&r.CreatedByID, &r.CreatedByIdentity},
		{&r.OwnerID, &r.OwnerIdentity},
		{&r.NextMoveOwnerID, &r.NextMoveOwnerIdentity},
		{&r.RequestedByID, &r.RequestedByIdentity}, {&r.AskedByID, &r.AskedByIdentity},
		{&r.AskedOfID, &r.AskedOfIdentity},
	}
}

func (r *record) creator() party   { return party{r.CreatedByID, r.CreatedByIdentity} }
func (r *record) owner() party     { return party{r.OwnerID, r.OwnerIdentity} }
func (r *record) next() party      { return party{r.NextMoveOwnerID, r.NextMoveOwnerIdentity} }
func (r *record) requester() party { return party{r.RequestedByID, r.RequestedByIdentity} }
func (r *record) asked() party     { return party{r.AskedOfID, r.AskedOfIdentity} }

// setNextMove gives the next move to a party.
func (r *record) setNextMove(p party) { r.NextMoveOwnerID, r.NextMoveOwnerIdentity = p.name, p.id }

// question returns the record as a question.
func (r *record) question() (q collab.Question) {
	must(json.Unmarshal(mustEncode(r), &q))
	return q
}

func (r *record) workItem() collab.WorkItem { return r.WorkItem }

func (r *record) isQuestion() bool { return r.Kind == collab.KindQuestion }

// target returns the record as the target of events.
func (r *record) target() string { return r.Kind + ":" + r.ID }

// name returns the record for a sentence, such as "work item wi_1".
func (r *record) name() string { return kinds[r.Kind].name + " " + r.ID }

// Terminal reports whether the record has ended. An answered question still waits for the asking
// party.
func (r *record) Terminal() bool { return slices.Contains(kinds[r.Kind].ends, r.State) }

// A kind is one kind of record, with its state machine and its texts.
type kind struct {
	name   string
	prefix string                                  // of fresh ids
	states []collab.WorkState                      // in the order of messages
	ends   []collab.WorkState                      // terminal states
	moves  map[collab.WorkState][]collab.WorkState // leaving a terminal state reopens the record
	denied string                                  // refuses a caller that may not move the record
}

// The states of questions, as states of records.
const (
	questionAnswered = collab.WorkState(collab.QuestionAnswered)
	questionClosed   = collab.WorkState(collab.QuestionClosed)
	questionDeclined = collab.WorkState(collab.QuestionDeclined)
)

var kinds = map[string]*kind{
	collab.KindWorkItem: {
		name:   "work item",
		prefix: "wi_",
		states: []collab.WorkState{
			collab.WorkOpen, collab.WorkWorking, collab.WorkWaiting, collab.WorkReview, collab.WorkDone,
			collab.WorkCancelled,
		},
		ends: []collab.WorkState{collab.WorkDone, collab.WorkCancelled},
		moves: map[collab.WorkState][]collab.WorkState{
			collab.WorkOpen: {
				collab.WorkWorking,
				collab.WorkWaiting,
				collab.WorkReview,
				collab.WorkDone,
				collab.WorkCancelled,
			},
			collab.WorkWorking:   {collab.WorkWaiting, collab.WorkReview, collab.WorkDone, collab.WorkCancelled},
			collab.WorkWaiting:   {collab.WorkWorking, collab.WorkReview, collab.WorkDone, collab.WorkCancelled},
			collab.WorkReview:    {collab.WorkWorking, collab.WorkDone, collab.WorkCancelled},
			collab.WorkDone:      {collab.WorkOpen},
			collab.WorkCancelled: {collab.WorkOpen},
		},
		denied: "%s is neither creator, owner nor next mover of %s",
	},
	collab.KindQuestion: {
		name:   "question",
		prefix: "q_",
		states: []collab.WorkState{collab.WorkOpen, questionAnswered, questionClosed, questionDeclined},
		ends:   []collab.WorkState{questionClosed, questionDeclined},
		moves: map[collab.WorkState][]collab.WorkState{
			collab.WorkOpen:  {questionAnswered, questionClosed, questionDeclined},
			questionAnswered: {questionClosed, collab.WorkOpen},
		},
		denied: "%s neither asked question %s nor was asked",
	},
}

var flightMoves = map[collab.FlightState][]collab.FlightState{
	collab.FlightQueued: {
		collab.FlightWaking,
		collab.FlightRunning,
		collab.FlightWaiting,
		collab.FlightCompleted,
		collab.FlightFailed,
		collab.FlightCancelled,
	},
	collab.FlightWaking: {
		collab.FlightRunning,
		collab.FlightWaiting,
		collab.FlightCompleted,
		collab.FlightFailed,
		collab.FlightCancelled,
	},
	collab.FlightRunning: {collab.FlightWaiting, collab.FlightCompleted, collab.FlightFailed, collab.FlightCancelled},
	collab.FlightWaiting: {collab.FlightRunning, collab.FlightCompleted, collab.FlightFailed, collab.FlightCancelled},
}

// mustAllowTransition refuses a transition that the state machine lacks. Staying in a state is
// allowed.
func mustAllowTransition[S ~string](what string, moves map[S][]S, from, to S) {
	if from != to && !slices.Contains(moves[from], to) {
		failTransition(moves, from, to, "a %s cannot go from %s to %s", what, from, to)
	}
}

func failTransition[S ~string](moves map[S][]S, from, to S, format string, args ...any) {
	details := map[string]any{"from": from, "to": to, "allowed": append([]S{}, moves[from]...)}
	failWithDetails(details, collab.CodeBadTransition, format, args...)
}

// steps has the step to each state.
var steps = map[collab.WorkState]collab.Step{
	collab.WorkOpen:      collab.StepReopened,
	collab.WorkWaiting:   collab.StepWaiting,
	collab.WorkReview:    collab.StepReviewRequested,
	collab.WorkDone:      collab.StepDone,
	collab.WorkCancelled: collab.StepCancelled,
	questionAnswered:     collab.StepAnswered,
	questionClosed:       collab.StepClosed,
	questionDeclined:     collab.StepDeclined,
}

// stepOf returns the step from one version of a record to the next. old is nil for a new record.
func stepOf(old, r *record) collab.Step {
	switch {
	case old == nil:
		return collab.StepCreated
	case old.State == collab.WorkOpen && r.State == collab.WorkWorking:
		return collab.StepClaimed
	case old.State != r.State && steps[r.State] != "":
		return steps[r.State]
	case old.State != r.State:
	case old.SpawnedWorkItemID != r.SpawnedWorkItemID:
		return collab.StepSpawned
	case old.AcceptanceState != r.AcceptanceState && r.AcceptanceState == collab.AcceptanceAccepted:
		return collab.StepAccepted
	case old.AcceptanceState != r.AcceptanceState && r.AcceptanceState == collab.AcceptanceRejected:
		return collab.StepRejected
	case old.owner() != r.owner() || old.next() != r.next():
		return collab.StepHandoff
	}
	return collab.StepProgressed
}

var (
	waitingKinds = []string{"actor", "agent", "question", "work_item", "approval", "artifact", "condition"}
	acceptances  = []collab.Acceptance{
		collab.AcceptanceNone,
		collab.AcceptancePending,
		collab.AcceptanceAccepted,
		collab.AcceptanceRejected,
	}
)

// validate returns the errors of a record, in the order of its fields.
func (r *record) validate() (wrong []string) {
	add := func(bad bool, what string) {
		if bad {
			wrong = append(wrong, what)
		}
	}
	blank := func(s string) bool { return strings.TrimSpace(s) == "" }
	work := !r.isQuestion()
	add(blank(r.ID), "collaboration record id is required")
	add(blank(r.Title), "collaboration title is required")
	add(blank(r.CreatedByID), "createdById is required")
	add(r.ParentID != "" && r.ParentID == r.ID, "parentId cannot reference the record itself")
	created, errC := time.Parse(time.RFC3339, r.CreatedAt)
	updated, errU := time.Parse(time.RFC3339, r.UpdatedAt)
	timed := errC == nil && errU == nil
	add(!timed, "createdAt and updatedAt must be RFC 3339 times")
	add(timed && updated.Before(created), "updatedAt must be greater than or equal to createdAt")
	states := kinds[r.Kind].states
	add(!slices.Contains(states, r.State), `state "`+string(r.State)+`" is not one of `+joined(states))
	add(work && !r.Terminal() && r.OwnerID == "", "non-terminal work items require ownerId")
	add(!r.Terminal() && r.NextMoveOwnerID == "", "non-terminal collaboration records require nextMoveOwnerId")
	add(r.WaitingOn == nil && r.State == collab.WorkWaiting, "waiting work items require waitingOn")
	if on := r.WaitingOn; on != nil {
		add(!slices.Contains(waitingKinds, on.Kind), `waitingOn.kind "`+on.Kind+`" is not one of `+joined(waitingKinds))
		add(blank(on.Label) && on.TargetID == "", "waitingOn requires a label or a targetId")
		add(on.TargetID != "" && on.TargetID == r.ID, "waitingOn.targetId cannot reference the work item itself")
	}
	add(!slices.Contains([]string{"", "low", "normal", "high", "urgent"}, r.Priority),
		`priority "`+r.Priority+`" is not one of low, normal, high, urgent`)
	add(r.State == questionAnswered && blank(r.Answer), "answered questions require an answer")
	add(r.SpawnedWorkItemID != "" && r.SpawnedWorkItemID == r.ID,
		"spawnedWorkItemId cannot reference the question itself")
	known, needs := r.RequestedByID != "", "requestedById"
	if !work {
		known, needs = r.AskedByID != "" && r.AskedOfID != "", "askedById and askedOfId"
	}
	accepts := slices.Contains(acceptances, r.AcceptanceState)
	add(!accepts, `acceptanceState "`+string(r.AcceptanceState)+`" is not one of `+joined(acceptances))
	add(accepts && r.AcceptanceState != collab.AcceptanceNone && !known,
		"acceptanceState "+string(r.AcceptanceState)+" requires "+needs)
	return wrong
}

// mustBeValid refuses an invalid record.
func (r *record) mustBeValid() {
	if wrong := r.validate(); len(wrong) > 0 {
		failWithDetails(map[string]any{"errors": wrong}, collab.CodeInvalid, "%s", strings.Join(wrong, "; "))
	}
}
