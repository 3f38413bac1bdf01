package broker

import "slices"

// workMoves is the state machine of work items. Leaving a terminal state is a
// reopening.
var workMoves = map[WorkState][]WorkState{
	WorkOpen:      {WorkWorking, WorkWaiting, WorkReview, WorkDone, WorkCancelled},
	WorkWorking:   {WorkWaiting, WorkReview, WorkDone, WorkCancelled},
	WorkWaiting:   {WorkWorking, WorkReview, WorkDone, WorkCancelled},
	WorkReview:    {WorkWorking, WorkDone, WorkCancelled},
	WorkDone:      {WorkOpen},
	WorkCancelled: {WorkOpen},
}

var questionMoves = map[QuestionState][]QuestionState{
	QuestionOpen:     {QuestionAnswered, QuestionClosed, QuestionDeclined},
	QuestionAnswered: {QuestionClosed, QuestionOpen},
}

var flightMoves = map[FlightState][]FlightState{
	FlightQueued:  {FlightWaking, FlightRunning, FlightWaiting, FlightCompleted, FlightFailed, FlightCancelled},
	FlightWaking:  {FlightRunning, FlightWaiting, FlightCompleted, FlightFailed, FlightCancelled},
	FlightRunning: {FlightWaiting, FlightCompleted, FlightFailed, FlightCancelled},
	FlightWaiting: {FlightRunning, FlightCompleted, FlightFailed, FlightCancelled},
}

// checkMove refuses a change of state that the machine does not have. Staying
// in a state is no change.
func checkMove[S ~string](what string, moves map[S][]S, from, to S) *Error {
	if from == to || slices.Contains(moves[from], to) {
		return nil
	}
	allowed := moves[from]
	if allowed == nil {
		allowed = []S{}
	}
	e := refuse(CodeBadTransition, "a %s cannot go from %s to %s", what, from, to)
	e.Details = map[string]any{"from": from, "to": to, "allowed": allowed}
	return e
}

// workStep names what moving a work item from one version to the next was.
func workStep(old, new *WorkItem) Step {
	switch {
	case old.State != new.State && old.Terminal():
		return StepReopened
	case old.State != new.State:
		switch new.State {
		case WorkWaiting:
			return StepWaiting
		case WorkReview:
			return StepReviewRequested
		case WorkDone:
			return StepDone
		case WorkCancelled:
			return StepCancelled
		case WorkWorking:
			if old.State == WorkOpen {
				return StepClaimed
			}
		}
	case old.AcceptanceState != new.AcceptanceState && new.AcceptanceState == AcceptanceAccepted:
		return StepAccepted
	case old.AcceptanceState != new.AcceptanceState && new.AcceptanceState == AcceptanceRejected:
		return StepRejected
	case old.OwnerID != new.OwnerID || old.NextMoveOwnerID != new.NextMoveOwnerID:
		return StepHandoff
	}
	return StepProgressed
}
