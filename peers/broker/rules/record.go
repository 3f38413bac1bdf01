package rules

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"hubbub/protocol"
	"hubbub/protocol/collab"
)

// A Record is a work item or a question. Both have one state machine (see Kinds), change by one
// path, and wake by the same rules. A question uses the fields that it
// shares with a work item, and those below.
type Record struct {
	collab.WorkItem
	AskedByID         string          `json:"askedById"`
	AskedByIdentity   protocol.PeerID `json:"askedByIdentity"`
	AskedOfID         string          `json:"askedOfId"`
	AskedOfIdentity   protocol.PeerID `json:"askedOfIdentity"`
	Answer            string          `json:"answer"`
	SpawnedWorkItemID string          `json:"spawnedWorkItemId"`

	Obligation *protocol.Obligation `json:"obligation,omitempty"`
}

// A PartyField is a field of a record with a party.
type PartyField struct {
	Name *string
	ID   *protocol.PeerID
}

// Parties returns the fields of the record that name parties.
func (r *Record) Parties() []PartyField {
	return []PartyField{
		{&r.CreatedByID, &r.CreatedByIdentity},
		{&r.OwnerID, &r.OwnerIdentity},
		{&r.NextMoveOwnerID, &r.NextMoveOwnerIdentity},
		{&r.RequestedByID, &r.RequestedByIdentity}, {&r.AskedByID, &r.AskedByIdentity},
		{&r.AskedOfID, &r.AskedOfIdentity},
	}
}

// Creator returns the party that made the record.
func (r *Record) Creator() Party { return Party{r.CreatedByID, r.CreatedByIdentity} }

// Owner returns the party that answers for the record.
func (r *Record) Owner() Party { return Party{r.OwnerID, r.OwnerIdentity} }

// Next returns the party with the next move.
func (r *Record) Next() Party { return Party{r.NextMoveOwnerID, r.NextMoveOwnerIdentity} }

// Requester returns the party that asked for the work.
func (r *Record) Requester() Party { return Party{r.RequestedByID, r.RequestedByIdentity} }

// Asked returns the party that a question was put to.
func (r *Record) Asked() Party { return Party{r.AskedOfID, r.AskedOfIdentity} }

// SetNextMove gives the next move to a party.
func (r *Record) SetNextMove(p Party) { r.NextMoveOwnerID, r.NextMoveOwnerIdentity = p.Name, p.ID }

// Question returns the record as a question.
func (r *Record) Question() (q collab.Question) {
	Must(json.Unmarshal(MustEncode(r), &q))
	return q
}

// IsQuestion reports whether the record is a question.
func (r *Record) IsQuestion() bool { return r.Kind == collab.KindQuestion }

// Target returns the record as the target of events.
func (r *Record) Target() string { return r.Kind + ":" + r.ID }

// Name returns the record for a sentence, such as "work item wi_1".
func (r *Record) Name() string { return Kinds[r.Kind].Name + " " + r.ID }

// Terminal reports whether the record has ended. An answered question still waits for the asking
// party.
func (r *Record) Terminal() bool { return slices.Contains(Kinds[r.Kind].ends, r.State) }

// A Kind is one kind of record, with its state machine and its texts.
type Kind struct {
	Name   string
	Prefix string                                  // of fresh ids
	States []collab.WorkState                      // in the order of messages
	ends   []collab.WorkState                      // terminal states
	Moves  map[collab.WorkState][]collab.WorkState // leaving a terminal state reopens the record
	Denied string                                  // refuses a caller that may not move the record
}

// The states of questions, as states of records.
const (
	QuestionAnswered = collab.WorkState(collab.QuestionAnswered)
	QuestionClosed   = collab.WorkState(collab.QuestionClosed)
	QuestionDeclined = collab.WorkState(collab.QuestionDeclined)
)

// Kinds has the kinds of records by their names on the wire.
var Kinds = map[string]*Kind{
	collab.KindWorkItem: {
		Name:   "work item",
		Prefix: "wi_",
		States: []collab.WorkState{
			collab.WorkOpen, collab.WorkWorking, collab.WorkWaiting, collab.WorkReview, collab.WorkDone,
			collab.WorkCancelled,
		},
		ends: []collab.WorkState{collab.WorkDone, collab.WorkCancelled},
		Moves: map[collab.WorkState][]collab.WorkState{
			collab.WorkOpen: {
				collab.WorkWorking, collab.WorkWaiting, collab.WorkReview, collab.WorkDone, collab.WorkCancelled,
			},
			collab.WorkWorking:   {collab.WorkWaiting, collab.WorkReview, collab.WorkDone, collab.WorkCancelled},
			collab.WorkWaiting:   {collab.WorkWorking, collab.WorkReview, collab.WorkDone, collab.WorkCancelled},
			collab.WorkReview:    {collab.WorkWorking, collab.WorkDone, collab.WorkCancelled},
			collab.WorkDone:      {collab.WorkOpen},
			collab.WorkCancelled: {collab.WorkOpen},
		},
		Denied: "%s is neither creator, owner nor next mover of %s",
	},
	collab.KindQuestion: {
		Name:   "question",
		Prefix: "q_",
		States: []collab.WorkState{collab.WorkOpen, QuestionAnswered, QuestionClosed, QuestionDeclined},
		ends:   []collab.WorkState{QuestionClosed, QuestionDeclined},
		Moves: map[collab.WorkState][]collab.WorkState{
			collab.WorkOpen:  {QuestionAnswered, QuestionClosed, QuestionDeclined},
			QuestionAnswered: {QuestionClosed, collab.WorkOpen},
		},
		Denied: "%s neither asked question %s nor was asked",
	},
}

// FlightMoves has the transitions of a flight.
var FlightMoves = map[collab.FlightState][]collab.FlightState{
	collab.FlightQueued: {
		collab.FlightWaking, collab.FlightRunning, collab.FlightWaiting,
		collab.FlightCompleted, collab.FlightFailed, collab.FlightCancelled,
	},
	collab.FlightWaking: {
		collab.FlightRunning, collab.FlightWaiting,
		collab.FlightCompleted, collab.FlightFailed, collab.FlightCancelled,
	},
	collab.FlightRunning: {collab.FlightWaiting, collab.FlightCompleted, collab.FlightFailed, collab.FlightCancelled},
	collab.FlightWaiting: {collab.FlightRunning, collab.FlightCompleted, collab.FlightFailed, collab.FlightCancelled},
}

// MustAllowTransition refuses a transition that the state machine lacks. Staying in a state is
// allowed.
func MustAllowTransition[S ~string](what string, moves map[S][]S, from, to S) {
	if from != to && !slices.Contains(moves[from], to) {
		FailTransition(moves, from, to, "a %s cannot go from %s to %s", what, from, to)
	}
}

// FailTransition refuses a transition, with details for programs.
func FailTransition[S ~string](moves map[S][]S, from, to S, format string, args ...any) {
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
	QuestionAnswered:     collab.StepAnswered,
	QuestionClosed:       collab.StepClosed,
	QuestionDeclined:     collab.StepDeclined,
}

// StepOf returns the step from one version of a record to the next. old is nil for a new record.
func StepOf(old, r *Record) collab.Step {
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
	case old.Owner() != r.Owner() || old.Next() != r.Next():
		return collab.StepHandoff
	}
	return collab.StepProgressed
}

var (
	waitingKinds = []string{"actor", "agent", "question", "work_item", "approval", "artifact", "condition"}
	acceptances  = []collab.Acceptance{
		collab.AcceptanceNone, collab.AcceptancePending, collab.AcceptanceAccepted, collab.AcceptanceRejected,
	}
)

// Validate returns the errors of a record, in the order of its fields.
func (r *Record) Validate() (wrong []string) {
	add := func(bad bool, what string) {
		if bad {
			wrong = append(wrong, what)
		}
	}
	blank := func(s string) bool { return strings.TrimSpace(s) == "" }
	work := !r.IsQuestion()
	add(blank(r.ID), "collaboration record id is required")
	add(blank(r.Title), "collaboration title is required")
	add(blank(r.CreatedByID), "createdById is required")
	add(r.ParentID != "" && r.ParentID == r.ID, "parentId cannot reference the record itself")
	created, errC := time.Parse(time.RFC3339, r.CreatedAt)
	updated, errU := time.Parse(time.RFC3339, r.UpdatedAt)
	timed := errC == nil && errU == nil
	add(!timed, "createdAt and updatedAt must be RFC 3339 times")
	add(timed && updated.Before(created), "updatedAt must be greater than or equal to createdAt")
	states := Kinds[r.Kind].States
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
	add(r.State == QuestionAnswered && blank(r.Answer), "answered questions require an answer")
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

// MustBeValid refuses an invalid record.
func (r *Record) MustBeValid() {
	if wrong := r.Validate(); len(wrong) > 0 {
		failWithDetails(map[string]any{"errors": wrong}, collab.CodeInvalid, "%s", strings.Join(wrong, "; "))
	}
}
