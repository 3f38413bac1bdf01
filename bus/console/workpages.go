package console

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
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
	Now       time.Time
	Query     string
	Columns   []workColumn
	Questions []*question
	Flights   []*flight
	Dead      []DeadLetter
	DeadNote  string
	Failed    []*deliveryStatus
	MayAct    bool
	Token     string
	Done      string
	Since     time.Time
	Items     int
}

type workColumn struct {
	State collab.WorkState
	Items []*workItem
	Total int
}

func (c *Console) workPage(w http.ResponseWriter, r *http.Request, v *visitor) {
	c.current(r.Context())
	view := &workView{Now: c.now(), Query: strings.ToLower(strings.TrimSpace(r.FormValue("q"))), MayAct: v.Act && c.dead != nil, Token: v.Token, Done: r.FormValue("done")}
	if c.dead == nil {
		view.DeadNote = ErrUnreachable.Error()
	} else {
		var err error
		if view.Dead, err = c.dead.List(r.Context(), listedDead); err != nil {
			view.DeadNote = err.Error()
		}
	}
	f := c.facts
	f.mu.RLock()
	defer f.mu.RUnlock()
	view.Since = f.since
	view.fill(f)
	c.show(w, v, "work", "Work", view)
}

func (v *workView) fill(f *facts) {
	columns := map[collab.WorkState]*workColumn{}
	for _, s := range workStates {
		columns[s] = &workColumn{State: s}
	}
	matches := func(words ...string) bool {
		return v.Query == "" || strings.Contains(strings.ToLower(strings.Join(words, " ")), v.Query)
	}
	items := newest(f.work, func(x *workItem) (time.Time, string) { return x.UpdatedAt, x.ID })
	for _, x := range items {
		col := columns[x.State]
		if col == nil || !matches(x.ID, x.Title, x.OwnerID, x.NextMoveOwnerID) {
			continue
		}
		v.Items++
		if col.Total++; len(col.Items) < listedWork {
			col.Items = append(col.Items, x)
		}
	}
	for _, s := range workStates {
		v.Columns = append(v.Columns, *columns[s])
	}
	v.Questions = first(listedWork, newest(f.asked, func(q *question) (time.Time, string) { return q.UpdatedAt, q.ID }))
	v.Flights = first(listedWork, newest(f.flights, func(x *flight) (time.Time, string) { return x.UpdatedAt, x.ID }))
	v.Failed = first(listedWork, newest(f.statuses, func(s *deliveryStatus) (time.Time, string) { return s.At, string(s.MessageID) }))
}

// newest lists what is kept, the latest first.
func newest[V any](kept *bounded[string, V], at func(V) (time.Time, string)) []V {
	var list []V
	kept.each(func(_ string, v V) { list = append(list, v) })
	slices.SortFunc(list, func(a, b V) int {
		atA, idA := at(a)
		atB, idB := at(b)
		return cmp.Or(atB.Compare(atA), cmp.Compare(idA, idB))
	})
	return list
}

func first[V any](n int, list []V) []V { return list[:min(len(list), n)] }

type itemView struct {
	Now      time.Time
	Item     *workItem
	Question *question
	Flights  []*flight
}

func (c *Console) itemPage(w http.ResponseWriter, r *http.Request, v *visitor) {
	c.current(r.Context())
	id := r.FormValue("id")
	view := &itemView{Now: c.now()}
	f := c.facts
	f.mu.RLock()
	defer f.mu.RUnlock()
	view.Item, _ = f.work.get(id)
	view.Question, _ = f.asked.get(id)
	if view.Item == nil && view.Question == nil {
		c.refuse(w, r, http.StatusNotFound, fmt.Errorf("no row of the log that was looked at tells of %q; `hubbub work show` asks the broker", text.Clip(id, 200)))
		return
	}
	for _, x := range f.flights.sorted() {
		if view.Item != nil && x.WorkItemID == id {
			view.Flights = append(view.Flights, x)
		}
	}
	c.show(w, v, "item", "Work "+text.Clip(id, 60), view)
}

// changeDeadLetter retries or drops a dead letter.
func (c *Console) changeDeadLetter(w http.ResponseWriter, r *http.Request, v *visitor) {
	id, do := r.PostFormValue("id"), r.PostFormValue("do")
	if id == "" || len(id) > maxLetterID || c.dead == nil || do != "retry" && do != "drop" {
		c.refuse(w, r, http.StatusBadRequest, errors.New("no such dead letter"))
		return
	}
	var err error
	done := "will be sent again"
	if do == "retry" {
		err = c.dead.Retry(r.Context(), id)
	} else {
		done = "is given up"
		err = c.dead.Drop(r.Context(), id)
	}
	c.logger.Info().Str("by", v.Name).Str("do", do).Str("item", id).Err(err).Msg("dead letter")
	if err != nil {
		c.refuse(w, r, http.StatusConflict, err)
		return
	}
	http.Redirect(w, r, link("work", "done", fmt.Sprintf("Item %s %s", id, done)), http.StatusSeeOther)
}
