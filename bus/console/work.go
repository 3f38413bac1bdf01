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

// The broker's records, with parsed times and with what the log adds.
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

// applyBrokerEvent applies an event from the broker.
func (f *readModel) applyBrokerEvent(e *activitylog.Entry, m *protocol.Message, at time.Time) {
	var ev protocol.CollabEvent
	if m.From != protocol.PeerBroker || json.Unmarshal(m.Content, &ev) != nil {
		return
	}
	words := text.Clip(collab.DescribeEvent(&ev, collab.NameOf), maxText)
	if protocol.Topic(e.Topic) != protocol.TopicCollabEvents { // the same event, sent to the agent that it wakes
		if agentName(e.Topic) != "" {
			about := payload[struct{ Title, Text, RecordID string }](&ev)
			words = text.Clip(cmp.Or(about.Title, about.Text, f.broker.title(about.RecordID), words), maxText)
			f.agent(e.Topic).event(ev.ID).fill(&chatEvent{At: at, MessageID: e.MessageID, Text: words}, "")
		}
		return
	}
	f.broker.apply(&ev, step{
		At:        at,
		MessageID: e.MessageID,
		Type:      ev.Type,
		Source:    ev.Source,
		Text:      words,
	})
}

// apply applies an event. s describes the event.
func (b *brokerProjection) apply(ev *protocol.CollabEvent, s step) {
	kind, last, _ := strings.Cut(strings.TrimPrefix(ev.Type, "collab."), ".")
	switch {
	case kind == "work_item":
		b.applyWork(payload[workItem](ev), s)
	case kind == "question":
		if q := payload[question](ev); q.ID != "" {
			kept := b.questions.touch(q.ID)
			q.Steps = appendStep(kept.Steps, s)
			*kept = q
		}
	case ev.Type == collab.EventFlight.Name:
		b.applyFlight(payload[flight](ev), s)
	case kind == "decision":
		b.applyDecision(payload[collab.Approval](ev), s.At)
	case kind == collab.KindObligation:
		b.applyObligation(payload[collab.EventObligation](ev))
	case kind == "claim":
		if c := payload[claim](ev); c.EventID != "" {
			c.At, c.Last = s.At, last
			*b.claims.touch(c.EventID) = c
		}
	case kind == "agent":
		if p := payload[endpoint](ev); p.EndpointID != "" {
			*b.endpoints.touch(p.EndpointID) = p
		}
	case ev.Type == collab.EventWakeDecided.Name:
		b.applyWakeDecision(ev, s)
	}
}

// title returns the title of a work item or a question, or "".
func (b *brokerProjection) title(id string) string {
	if w := b.work.get(id); w != nil {
		return w.Title
	}
	if q := b.questions.get(id); q != nil {
		return q.Title
	}
	return ""
}

// payload returns the record of an event; it is zero if it cannot be read.
func payload[R any](ev *protocol.CollabEvent) (r R) {
	if json.Unmarshal(ev.Payload, &r) != nil {
		return *new(R)
	}
	return r
}

func (b *brokerProjection) applyWork(w workItem, s step) {
	if w.ID == "" {
		return
	}
	kept := b.work.touch(w.ID)
	w.Title, w.Summary = text.Clip(w.Title, maxText), text.Clip(w.Summary, 10*maxText)
	w.Steps = appendStep(kept.Steps, s)
	*kept = w
}

func (b *brokerProjection) applyFlight(x flight, s step) {
	if x.ID == "" {
		return
	}
	x.Output, x.Error = text.Clip(x.Output, maxText), text.Clip(x.Error, maxText)
	*b.flights.touch(x.ID) = x
	if w := b.work.get(x.WorkItemID); w != nil {
		w.Steps = appendStep(w.Steps, s)
	}
}

// applyWakeDecision adds the reason why an agent, or none, was woken for a record.
func (b *brokerProjection) applyWakeDecision(ev *protocol.CollabEvent, s step) {
	d, err := collab.EventWakeDecided.Read(ev)
	if err != nil {
		return
	}
	if w := b.work.get(d.RecordID); w != nil {
		w.Steps = appendStep(w.Steps, s)
	} else if q := b.questions.get(d.RecordID); q != nil {
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
	listedWork        = 60 // of one state
	listedDeadLetters = 200
	maxLetterID       = 128 // bytes
)

// workStates are the columns of the board.
var workStates = []collab.WorkState{
	collab.WorkOpen, collab.WorkWorking, collab.WorkWaiting, collab.WorkReview, collab.WorkDone, collab.WorkCancelled,
}

type workView struct {
	Columns        []*workColumn
	Questions      []*question
	Flights        []*flight
	DeadLetters    []DeadLetter
	DeadLetterNote string
	Failed         []*deliveryStatus
	MayAct         bool
	Done           string
	Items          int
}

type workColumn struct {
	State collab.WorkState
	Items []*workItem
	Total int
}

func (r *request) work() error {
	view := &workView{
		MayAct:         r.MayAct() && r.dead != nil,
		Done:           r.FormValue("done"),
		DeadLetterNote: ErrUnreachable.Error(),
	}
	if r.dead != nil {
		var err error
		view.DeadLetterNote = ""
		if view.DeadLetters, err = r.dead.List(r.Context(), listedDeadLetters); err != nil {
			view.DeadLetterNote = err.Error()
		}
	}
	f := r.lockModel()
	columns := map[collab.WorkState]*workColumn{}
	for _, s := range workStates {
		columns[s] = &workColumn{State: s}
		view.Columns = append(view.Columns, columns[s])
	}
	for _, x := range sortedByTime(f.broker.work, func(x *workItem) (time.Time, string) { return x.UpdatedAt, x.ID }) {
		col := columns[x.State]
		if col == nil || !r.matches(x.ID, x.Title, x.OwnerID, x.NextMoveOwnerID) {
			continue
		}
		view.Items++
		if col.Total++; len(col.Items) < listedWork {
			col.Items = append(col.Items, x)
		}
	}
	questions := sortedByTime(f.broker.questions, func(q *question) (time.Time, string) { return q.UpdatedAt, q.ID })
	flights := sortedByTime(f.broker.flights, func(x *flight) (time.Time, string) { return x.UpdatedAt, x.ID })
	failed := sortedByTime(f.statuses, func(s *deliveryStatus) (time.Time, string) { return s.At, string(s.MessageID) })
	view.Questions = firstN(listedWork, questions)
	view.Flights = firstN(listedWork, flights)
	view.Failed = firstN(listedWork, failed)
	r.Title, r.Page = "Work", view
	return nil
}

// sortedByTime lists the values of a map, the latest first; values of the same time are
// sorted by id.
func sortedByTime[V any](kept lruMap[string, V], at func(*V) (time.Time, string)) []*V {
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

func firstN[V any](n int, list []V) []V { return list[:min(len(list), n)] }

func (r *request) item() error {
	id := r.FormValue("id")
	f := r.lockModel()
	item, asked := f.broker.work.get(id), f.broker.questions.get(id)
	if item == nil && asked == nil {
		return notFound("%q is not in the rows read so far; `hubbub work show` asks the broker", text.Clip(id, 200))
	}
	kind := collab.KindWorkItem
	if item == nil {
		kind = collab.KindQuestion
	}
	var flights []*flight
	for _, x := range sortedByTime(f.broker.flights, func(x *flight) (time.Time, string) { return time.Time{}, x.ID }) {
		if item != nil && x.WorkItemID == id {
			flights = append(flights, x)
		}
	}
	r.Title, r.Page = "Work "+text.Clip(id, 60), map[string]any{
		"ID": id, "Kind": kind, "Item": item, "Question": asked, "Flights": flights, "MayAct": r.actor() != nil,
	}
	return nil
}

// changeDeadLetter retries or drops a dead letter.
func (r *request) changeDeadLetter() error {
	if err := r.checkAct(); err != nil {
		return err
	}
	id, do := r.PostFormValue("id"), r.PostFormValue("do")
	if id == "" || len(id) > maxLetterID || r.dead == nil || do != "retry" && do != "drop" {
		return &refusal{http.StatusBadRequest, "the dead letter does not exist"}
	}
	change, done := r.dead.Retry, "will be sent again"
	if do == "drop" {
		change, done = r.dead.Drop, "was dropped"
	}
	err := change(r.Context(), id)
	r.logger.Info().Str("by", r.Visitor.Name).Str("do", do).Str("item", id).Err(err).Msg("dead letter")
	if err != nil {
		return &refusal{http.StatusConflict, err.Error()}
	}
	return &refusal{http.StatusSeeOther, link("work", "done", fmt.Sprintf("Item %s %s", id, done))}
}
