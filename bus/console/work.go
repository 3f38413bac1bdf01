package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"hubbub/activitylog"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/text"
)

// The broker's records, whose times are read, and what the log told of them.
type (
	workItem struct {
		collab.WorkItem
		CreatedAt time.Time `json:"createdAt"`
		UpdatedAt time.Time `json:"updatedAt"`
		Steps     []step    `json:"-"`
	}
	question struct {
		collab.Question
		CreatedAt time.Time `json:"createdAt"`
		UpdatedAt time.Time `json:"updatedAt"`
		Steps     []step    `json:"-"`
	}
	flight struct {
		collab.Flight
		UpdatedAt time.Time `json:"updatedAt"`
	}
	claim struct {
		collab.Claim
		At   time.Time `json:"-"`
		Last string    `json:"-"` // type of the last event
	}
	endpoint struct {
		collab.Endpoint
		LastHeartbeatAt time.Time `json:"lastHeartbeatAt"`
	}
)

// A step is one event about a record.
type step struct {
	At        time.Time
	MessageID string
	Type      string
	Source    string
	Text      string
}

const maxSteps = 60

// collab takes one fact of the broker.
func (f *facts) collab(e *activitylog.Entry, m *protocol.Message, at time.Time) {
	var ev protocol.CollabEvent
	if m.From != protocol.PeerBroker || json.Unmarshal(m.Content, &ev) != nil {
		return
	}
	if protocol.Topic(e.Topic) != protocol.TopicCollabEvents {
		return // the same fact, told to the one whom it wakes
	}
	s := step{At: at, MessageID: e.MessageID, Type: ev.Type, Source: ev.Source}
	kind, last, _ := strings.Cut(strings.TrimPrefix(ev.Type, "collab."), ".")
	switch {
	case kind == "work_item":
		f.changeWork(payload[workItem](&ev), s)
	case kind == "question":
		if q := payload[question](&ev); q.ID != "" {
			s.Text = string(q.State)
			kept := f.asked.touch(q.ID)
			q.Steps = appendStep(kept.Steps, s)
			*kept = q
		}
	case ev.Type == collab.EventFlight.Name:
		f.changeFlight(payload[flight](&ev), s)
	case kind == "decision":
		f.changeDecision(payload[collab.Approval](&ev), at)
	case kind == collab.KindObligation:
		f.changeDuty(payload[collab.EventObligation](&ev))
	case kind == "claim":
		if c := payload[claim](&ev); c.EventID != "" {
			c.At, c.Last = at, last
			*f.claims.touch(c.EventID) = c
		}
	case kind == "agent":
		if p := payload[endpoint](&ev); p.EndpointID != "" {
			*f.places.touch(p.EndpointID) = p
		}
	case ev.Type == collab.EventWakeDecided.Name:
		f.decideWake(&ev, s)
	}
}

// payload reads the record of an event; it is zero if it cannot be read.
func payload[R any](ev *protocol.CollabEvent) (r R) {
	if json.Unmarshal(ev.Payload, &r) != nil {
		return *new(R)
	}
	return r
}

func (f *facts) changeWork(w workItem, s step) {
	if w.ID == "" {
		return
	}
	kept := f.work.touch(w.ID)
	s.Text = string(w.State)
	if w.WaitingOn != nil {
		s.Text += ", on " + w.WaitingOn.Label
	}
	w.Title, w.Summary = text.Clip(w.Title, maxText), text.Clip(w.Summary, 10*maxText)
	w.Steps = appendStep(kept.Steps, s)
	*kept = w
}

func (f *facts) changeFlight(x flight, s step) {
	if x.ID == "" {
		return
	}
	x.Output, x.Error = text.Clip(x.Output, maxText), text.Clip(x.Error, maxText)
	*f.flights.touch(x.ID) = x
	if w := f.work.get(x.WorkItemID); w != nil {
		s.Text = "flight " + string(x.State) + " at " + x.TargetAgentID
		w.Steps = appendStep(w.Steps, s)
	}
}

// decideWake takes why somebody, or nobody, was woken for a record.
func (f *facts) decideWake(ev *protocol.CollabEvent, s step) {
	d, err := collab.EventWakeDecided.Read(ev)
	if err != nil {
		return
	}
	s.Text = string(d.Decision.Rule) + ": " + text.Clip(d.Decision.Reason, maxText)
	if d.Sweep {
		s.Text = "swept: " + s.Text
	}
	if w := f.work.get(d.RecordID); w != nil {
		w.Steps = appendStep(w.Steps, s)
	} else if q := f.asked.get(d.RecordID); q != nil {
		q.Steps = appendStep(q.Steps, s)
	}
}

func appendStep(steps []step, s step) []step {
	if len(steps) >= maxSteps {
		steps = append(steps[:0:0], steps[maxSteps/2:]...)
	}
	return append(steps, s)
}

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
	view := &workView{MayAct: l.MayAct() && l.dead != nil, Done: l.FormValue("done"), DeadNote: ErrUnreachable.Error()}
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
