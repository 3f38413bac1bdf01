package console

import (
	"time"

	"hubbub/protocol"
	"hubbub/protocol/collab"
)

const listedOwed = 500

type owedView struct {
	List  []collab.Obligation
	Whole bool   // the broker itself was asked
	Note  string // why it was not
}

// owed shows who waits for whom. Who may act sees what the broker says, others what its
// events told.
func (l *look) owed() error {
	view, asker := &owedView{}, l.voice()
	var list []collab.Obligation
	var err error
	if asker != nil {
		list, err = everyPage(l.Context(), asker, collab.ObligationList, collab.ObligationListParams{})
	}
	if view.Whole = asker != nil && err == nil; err != nil {
		view.Note = err.Error()
	}
	f := l.read()
	if !view.Whole {
		list = f.obligations(l.Now)
	}
	for _, o := range list {
		if len(view.List) < listedOwed && l.matches(o.ID, o.Title, o.OwedByID, o.OwedToID, string(o.OwedByIdentity), string(o.OwedToIdentity)) {
			view.List = append(view.List, o)
		}
	}
	l.Title, l.Page = "Owed", view
	return nil
}

// obligations works out who waits for whom from what the broker's events told. The caller must
// hold mu.
func (f *facts) obligations(now time.Time) []collab.Obligation {
	var work []collab.WorkItem
	var decisions []collab.Approval
	for _, w := range f.work.all() {
		told := w.WorkItem
		told.UpdatedAt = protocol.FormatTime(w.UpdatedAt)
		work = append(work, told)
	}
	for _, d := range f.ledger.decisions.all() {
		decisions = append(decisions, d.Expire(now))
	}
	return collab.Obligations(work, f.questions(), decisions)
}

// questions returns the questions of which the broker's events told, the latest first. The
// caller must hold mu.
func (f *facts) questions() (list []collab.Question) {
	for _, q := range newest(&f.asked, func(q *question) (time.Time, string) { return q.UpdatedAt, q.ID }) {
		told := q.Question
		told.CreatedAt = protocol.FormatTime(q.CreatedAt)
		list = append(list, told)
	}
	return list
}
