package console

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"

	"hubbub/protocol/collab"
	"hubbub/protocol/text"
)

const (
	listedWork  = 60 // of one state
	listedDead  = 200
	maxLetterID = 128 // bytes
)

// workStates are the columns of the board.
var workStates = []collab.WorkState{
	collab.WorkOpen, collab.WorkWorking, collab.WorkWaiting, collab.WorkReview, collab.WorkDone, collab.WorkCancelled,
}

type workView struct {
	Columns   []*workColumn
	Questions []*question
	Flights   []*flight
	Dead      []DeadLetter
	DeadNote  string
	Failed    []*deliveryStatus
	MayAct    bool
	Done      string
	Items     int
}

type workColumn struct {
	State collab.WorkState
	Items []*workItem
	Total int
}

func (l *look) work() error {
	view := &workView{MayAct: l.Visitor.Act && l.dead != nil, Done: l.FormValue("done"), DeadNote: ErrUnreachable.Error()}
	if l.dead != nil {
		var err error
		view.DeadNote = ""
		if view.Dead, err = l.dead.List(l.Context(), listedDead); err != nil {
			view.DeadNote = err.Error()
		}
	}
	f := l.read()
	columns := map[collab.WorkState]*workColumn{}
	for _, s := range workStates {
		columns[s] = &workColumn{State: s}
		view.Columns = append(view.Columns, columns[s])
	}
	for _, x := range newest(&f.work, func(x *workItem) (time.Time, string) { return x.UpdatedAt, x.ID }) {
		col := columns[x.State]
		if col == nil || !l.matches(x.ID, x.Title, x.OwnerID, x.NextMoveOwnerID) {
			continue
		}
		view.Items++
		if col.Total++; len(col.Items) < listedWork {
			col.Items = append(col.Items, x)
		}
	}
	view.Questions = first(listedWork, newest(&f.asked, func(q *question) (time.Time, string) { return q.UpdatedAt, q.ID }))
	view.Flights = first(listedWork, newest(&f.flights, func(x *flight) (time.Time, string) { return x.UpdatedAt, x.ID }))
	view.Failed = first(listedWork, newest(&f.statuses, func(s *deliveryStatus) (time.Time, string) { return s.At, string(s.MessageID) }))
	l.Title, l.Page = "Work", view
	return nil
}

// newest lists what is kept, the latest first, those of one time by their ids.
func newest[V any](kept *bounded[string, V], at func(*V) (time.Time, string)) []*V {
	var list []*V
	for _, v := range kept.all() {
		list = append(list, v)
	}
	slices.SortFunc(list, func(a, b *V) int {
		atA, idA := at(a)
		atB, idB := at(b)
		return cmp.Or(atB.Compare(atA), cmp.Compare(idA, idB))
	})
	return list
}

func first[V any](n int, list []V) []V { return list[:min(len(list), n)] }

func (l *look) item() error {
	id := l.FormValue("id")
	f := l.read()
	item, asked := f.work.get(id), f.asked.get(id)
	if item == nil && asked == nil {
		return notFound("no row of the log that was looked at tells of %q; `hubbub work show` asks the broker", text.Clip(id, 200))
	}
	var flights []*flight
	for _, x := range newest(&f.flights, func(x *flight) (time.Time, string) { return time.Time{}, x.ID }) {
		if item != nil && x.WorkItemID == id {
			flights = append(flights, x)
		}
	}
	l.Title, l.Page = "Work "+text.Clip(id, 60), map[string]any{"Item": item, "Question": asked, "Flights": flights}
	return nil
}

// changeDeadLetter retries or drops a dead letter.
func (l *look) changeDeadLetter() error {
	if err := l.checkAct(); err != nil {
		return err
	}
	id, do := l.PostFormValue("id"), l.PostFormValue("do")
	if id == "" || len(id) > maxLetterID || l.dead == nil || do != "retry" && do != "drop" {
		return &refusal{http.StatusBadRequest, "no such dead letter"}
	}
	change, done := l.dead.Retry, "will be sent again"
	if do == "drop" {
		change, done = l.dead.Drop, "is given up"
	}
	err := change(l.Context(), id)
	l.logger.Info().Str("by", l.Visitor.Name).Str("do", do).Str("item", id).Err(err).Msg("dead letter")
	if err != nil {
		return &refusal{http.StatusConflict, err.Error()}
	}
	return &refusal{http.StatusSeeOther, link("work", "done", fmt.Sprintf("Item %s %s", id, done))}
}
