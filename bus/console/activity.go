package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"hubbub/activitylog"
	"hubbub/protocol"
)

const (
	pageRows = 100             // of the activity, at a time
	liveRows = 200             // new rows that one look shows at most
	patience = 3 * time.Second // for a search in the log
)

// An activityView is the page of the rows.
type activityView struct {
	Now     time.Time
	Query   activityQuery
	Types   []protocol.MessageType
	Events  []string
	Rows    []rowLine
	Live    string // where newer rows come from; empty when the tail stands still
	Older   string // where older rows come from; empty when there are none
	Missed  string // what the tail does not show
	Problem string
	Fresh   bool // rows that came while the page was open
	Paged   bool // rows before those of a page
}

// An activityQuery is what the form asks for.
type activityQuery struct {
	Topic, Peer, Type, Event, Status, Text, Since string
}

func (q *activityQuery) values() url.Values {
	v := url.Values{}
	for name, value := range map[string]string{
		"topic": q.Topic, "peer": q.Peer, "type": q.Type, "event": q.Event, "status": q.Status, "text": q.Text, "since": q.Since,
	} {
		if value != "" {
			v.Set(name, value)
		}
	}
	return v
}

// Empty says why there is no row.
func (v *activityView) Empty() string {
	switch {
	case v.Problem != "":
		return "No rows: " + v.Problem + "."
	case v.Paged:
		return "That was the oldest row."
	case len(v.Query.values()) > 0:
		return "No row matches."
	}
	return "Nothing is recorded yet. Rows stand here as soon as something happens."
}

// A rowLine is one row as it is shown.
type rowLine struct {
	activitylog.Entry
	At     time.Time
	Detail string
}

func readQuery(r *http.Request) (q activityQuery, f activitylog.Filter, err error) {
	get := func(name string) string { return clip(strings.TrimSpace(r.FormValue(name)), 512) }
	q = activityQuery{get("topic"), get("peer"), get("type"), get("event"), get("status"), get("text"), get("since")}
	f.Status, f.Text = q.Status, q.Text
	for _, p := range []struct {
		name, text string
		into       *protocol.Pattern
	}{{"topic", q.Topic, &f.Topic}, {"peer", q.Peer, &f.Peer}} {
		if p.text == "" {
			continue
		}
		if *p.into, err = protocol.ParsePattern(p.text); err != nil {
			return q, f, fmt.Errorf("the %s is no pattern: %w", p.name, err)
		}
	}
	if q.Type != "" {
		f.Types = []protocol.MessageType{protocol.MessageType(q.Type)}
	}
	if q.Event != "" {
		e, ok := activitylog.ParseEvent(q.Event)
		if !ok {
			return q, f, fmt.Errorf("there is no event %q", q.Event)
		}
		f.Events = []activitylog.Event{e}
	}
	if q.Since != "" {
		if f.Since, err = readSince(q.Since, time.Now()); err != nil {
			return q, f, err
		}
	}
	return q, f, nil
}

// readSince reads a time, or how long ago: in days, too.
func readSince(text string, now time.Time) (time.Time, error) {
	if d, err := activitylog.ParseSpan(text); err == nil {
		return now.Add(-d), nil
	}
	at, err := activitylog.ParseTime(text)
	if err != nil {
		return at, fmt.Errorf("since %q is neither a time (2026-02-17T12:00:00Z) nor how long ago (15m, 12h, 30d)", text)
	}
	return at, nil
}

func (c *Console) activityPage(w http.ResponseWriter, r *http.Request, v *visitor) {
	q, f, err := readQuery(r)
	view := &activityView{Now: c.now(), Query: q, Types: protocol.AllTypes, Events: eventNames()}
	switch {
	case err != nil:
		view.Problem = err.Error()
	case c.log == nil:
		view.Problem = "this bus keeps no activity log"
	default:
		c.lastRows(r.Context(), view, f)
	}
	c.show(w, v, "activity", "Activity", view)
}

func eventNames() (names []string) {
	for e := activitylog.SendStart; e <= activitylog.LogGap; e++ {
		names = append(names, e.String())
	}
	return names
}

// lastRows fills the page with the newest rows.
func (c *Console) lastRows(ctx context.Context, view *activityView, f activitylog.Filter) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	end, err := c.log.End(ctx)
	if err == nil {
		view.Live = rowsLink(view.Query, "after", end)
		err = c.olderRows(ctx, view, f, beyond(end))
	}
	view.Problem = describe(err)
}

// beyond is the place after the last row, for reading backward.
func beyond(end activitylog.Cursor) activitylog.Cursor {
	at := slices.Clone(end)
	for i := range at {
		at[i]++
	}
	return at
}

func (c *Console) olderRows(ctx context.Context, view *activityView, f activitylog.Filter, at activitylog.Cursor) error {
	rows, next, err := c.log.Before(ctx, f, at, pageRows)
	view.show(rows)
	if len(rows) == pageRows {
		view.Older = rowsLink(view.Query, "before", next)
	}
	return err
}

func describe(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, activitylog.ErrNoLog):
		return "nothing is recorded yet"
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("the search took longer than %s and was ended; narrow it, for example by since", patience)
	}
	return "the activity log cannot be read now: " + err.Error()
}

// show takes rows, the oldest first, and shows the newest first.
func (v *activityView) show(rows []activitylog.Entry) {
	for i := len(rows) - 1; i >= 0; i-- {
		e := rows[i]
		v.Rows = append(v.Rows, rowLine{Entry: e, At: e.Time(), Detail: detail(&e)})
	}
}

// activityRows answers with older rows, or with those that are new.
func (c *Console) activityRows(w http.ResponseWriter, r *http.Request, _ *visitor) {
	q, f, err := readQuery(r)
	view := &activityView{Now: c.now(), Query: q}
	if err != nil || c.log == nil {
		http.Error(w, "no such rows", http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	if at, ok := readCursor(r.FormValue("before")); ok {
		view.Paged = true
		if err := c.olderRows(ctx, view, f, at); err != nil {
			view.Problem = describe(err)
			view.Older = rowsLink(q, "before", at)
		}
		c.part(w, "activity", "older", view)
		return
	}
	at, ok := readCursor(r.FormValue("after"))
	if !ok {
		http.Error(w, "no such rows", http.StatusBadRequest)
		return
	}
	c.newRows(ctx, view, f, at)
	c.part(w, "activity", "newer", view)
}

// newRows fills the page with what was written after a place: the last of it,
// where it is much.
func (c *Console) newRows(ctx context.Context, view *activityView, f activitylog.Filter, at activitylog.Cursor) {
	view.Fresh = true
	end, err := c.log.End(ctx)
	if err != nil {
		view.Live, view.Problem = rowsLink(view.Query, "after", at), describe(err)
		return
	}
	from := slices.Clone(end)
	missed := int64(0)
	for i := range from {
		if from[i] = 0; i < len(at) && at[i] <= end[i] {
			from[i] = at[i]
		}
		if behind := end[i] - from[i]; behind > followRows {
			missed += behind - followRows
			from[i] = end[i] - followRows
		}
	}
	rows, next, err := c.log.After(ctx, f, from, followRows)
	if len(rows) > liveRows {
		missed += int64(len(rows) - liveRows)
		rows = rows[len(rows)-liveRows:]
	}
	if missed > 0 {
		view.Missed = count(missed) + " rows went by faster than they can be shown"
	}
	view.show(rows)
	view.Live, view.Problem = rowsLink(view.Query, "after", next), describe(err)
}

func rowsLink(q activityQuery, name string, at activitylog.Cursor) string {
	v := q.values()
	parts := make([]string, len(at))
	for i, id := range at {
		parts[i] = strconv.FormatInt(id, 10)
	}
	v.Set(name, strings.Join(parts, "."))
	return "/console/activity/rows?" + v.Encode()
}

func readCursor(text string) (at activitylog.Cursor, ok bool) {
	if text == "" || len(text) > 1000 {
		return nil, false
	}
	for part := range strings.SplitSeq(text, ".") {
		id, err := strconv.ParseInt(part, 10, 64)
		if err != nil || id < 0 {
			return nil, false
		}
		at = append(at, id)
	}
	return at, true
}

// detail says in a line what a row brings.
func detail(e *activitylog.Entry) string {
	switch {
	case e.Is(activitylog.LogGap):
		var gap struct{ Lost int64 }
		_ = json.Unmarshal(e.Payload, &gap) // how many is not known then
		return clip(fmt.Sprintf("%s lost: %s", many(gap.Lost, "row"), e.Error), maxText)
	case e.Error != "":
		return clip(e.Error, maxText)
	case e.Is(activitylog.SendStart):
		return contentDetail(e.Payload)
	case e.Is(activitylog.SendFinish):
		return resultDetail(e.Payload)
	case e.Is(activitylog.ProcessFinish), e.Is(activitylog.ProcessStart):
		return ""
	case e.Is(activitylog.PeerConnected):
		var from struct{ Remote string }
		if json.Unmarshal(e.Payload, &from) == nil && from.Remote != "" {
			return "from " + clip(from.Remote, maxText)
		}
	}
	return clip(string(e.Payload), maxText)
}

// resultDetail says what became of a message.
func resultDetail(result json.RawMessage) string {
	var r protocol.SendResult
	if json.Unmarshal(result, &r) != nil {
		return ""
	}
	text := fmt.Sprintf("delivered to %d", r.DeliveredTo)
	for i, f := range r.Failures {
		if i == 3 {
			return text + fmt.Sprintf(", and %d more failed", len(r.Failures)-i)
		}
		text += fmt.Sprintf(", %s: %s", clip(string(f.Peer), 60), f.Status)
	}
	return text
}

// contentDetail says in a line what a message says.
func contentDetail(payload json.RawMessage) string {
	var p struct{ Content json.RawMessage }
	if json.Unmarshal(payload, &p) != nil {
		return ""
	}
	var x struct{ Text, Event, Reason, Disposition, Policy, Injection, State string }
	_ = json.Unmarshal(p.Content, &x) // fields of another kind stay empty
	switch {
	case x.Text != "":
		return "“" + clip(x.Text, maxText) + "”"
	case x.Event == activitylog.RecordDecision:
		return clip(x.Policy+", "+x.Injection+": "+x.Reason, maxText)
	case x.Event == activitylog.RecordDisposition:
		return clip(strings.TrimSuffix(x.Disposition+": "+x.Reason, ": "), maxText)
	case x.Event == activitylog.RecordTurn:
		return "turn " + x.State
	}
	words := activitylog.Gist(p.Content)
	if words == "" && len(p.Content) > 2 {
		words = string(p.Content)
	}
	return clip(words, maxText)
}
