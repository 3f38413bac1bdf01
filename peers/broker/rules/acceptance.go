package rules

import (
	"slices"
	"strings"

	"hubbub/protocol/collab"
	"hubbub/protocol/text"
)

// MustAllowAcceptance refuses a caller that accepts or rejects work but is not a reviewer, or
// removes its requester. Reviewers are the requester and, during a review, the party with the
// next move. The owner is a reviewer only if nobody else is named. Other people may act for a
// reviewer.
func (r *Record) MustAllowAcceptance(old *Record, by *Caller) {
	verdict := r.AcceptanceState == collab.AcceptanceAccepted || r.AcceptanceState == collab.AcceptanceRejected
	judges := verdict && (old == r || old.AcceptanceState != r.AcceptanceState)
	reviewers := []Party{old.Requester()}
	if old.State == collab.WorkReview {
		reviewers = append(reviewers, old.Next())
	}
	reviewers = Filter(reviewers, func(p Party) bool { return p.Name != "" && p != old.Owner() })
	if len(reviewers) == 0 && old.RequestedByID != "" {
		reviewers = []Party{old.Requester()} // the owner, and nobody else is named
	}
	other := by.Person && !by.Is(old.OwnerIdentity)
	if len(reviewers) == 0 || other || slices.ContainsFunc(reviewers, func(p Party) bool { return by.Is(p.ID) }) {
		return
	}
	if judges || old.RequestedByID != "" && old.Requester() != r.Requester() {
		Fail(collab.CodeForbidden, "%s does not review %s: that is for %s", by.Name, r.Name(), reviewers[0].Ref())
	}
}

// AssignReviewer gives the next move to the requester if an agent would make itself the reviewer:
// if it neither requested nor owns the work and keeps the next move in review.
func (r *Record) AssignReviewer(old *Record, by *Caller, named bool) {
	own := by.Is(r.NextMoveOwnerIdentity) && !by.Is(r.OwnerIdentity) && !by.Is(r.RequestedByIdentity)
	if by.Person || r.State != collab.WorkReview || r.RequestedByID == "" || !own ||
		old.State == r.State && old.Owner() == r.Owner() && old.Next() == r.Next() {
		return
	}
	if named {
		Fail(collab.CodeForbidden, "%s does not make itself the reviewer of %s: that is for %s",
			by.Name, r.Name(), r.Requester().Ref())
	}
	r.SetNextMove(r.Requester())
}

// MustHaveNoCycles refuses a record that is its own indirect parent, or waits for itself.
func (r *Record) MustHaveNoCycles(find func(id string) *Record) {
	r.mustHaveNoCycle("parentId", find, func(r *Record) string { return r.ParentID })
	r.mustHaveNoCycle("waitingOn", find, func(r *Record) string {
		if r.WaitingOn == nil || r.State != collab.WorkWaiting {
			return ""
		}
		return r.WaitingOn.TargetID
	})
}

func (r *Record) mustHaveNoCycle(what string, find func(id string) *Record, next func(r *Record) string) {
	path := []string{r.ID}
	for id := next(r); id != ""; {
		if path = append(path, id); id == r.ID {
			FailInvalid("%s leads back to %s itself: %s", what, r.ID, text.Clip(strings.Join(path, " -> "), MaxName))
		}
		other := find(id)
		if other == nil {
			return
		}
		id = next(other)
	}
}
