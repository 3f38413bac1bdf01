package console

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/read"
	"hubbub/activitylog/view"
	"hubbub/protocol/text"
)

const (
	pageRows      = 100             // rows of a page
	liveRows      = 200             // new rows in one answer
	searchTimeout = 3 * time.Second // of a search in the log
)

// An activityView is the page with rows of the log.
type activityView struct {
	Query   url.Values // values of the form
	Rows    []activitylog.Entry
	Live    string // link to newer rows; empty if the page is not live
	Older   string // link to older rows; empty if there are none
	Missed  string // describes rows that were skipped
	Problem string
	New     bool // rows that arrived while the page was open
	Paged   bool // rows before those of an earlier page
}

// Empty explains why there are no rows.
func (v *activityView) Empty() string {
	switch {
	case v.Problem != "":
		return "No rows: " + v.Problem + "."
	case v.Paged:
		return "There are no older rows."
	case len(v.Query) > 0:
		return "No rows match."
	}
	return "Nothing is recorded yet. Rows appear here as soon as something happens."
}

// readQuery parses the form. The values do not contain empty fields.
func readQuery(r *http.Request) (url.Values, read.Filter, error) {
	form := url.Values{}
	for _, name := range []string{"topic", "peer", "type", "event", "status", "text", "since", "rows"} {
		if value := text.Clip(strings.TrimSpace(r.FormValue(name)), 512); value != "" {
			form.Set(name, value)
		}
	}
	q := view.Query{
		Topic:  form.Get("topic"),
		Peer:   form.Get("peer"),
		Status: form.Get("status"),
		Text:   form.Get("text"),
		Since:  form.Get("since"),
		Types:  form["type"],
		Events: form["event"],
		Brief:  form.Get("rows") == "",
	}
	f, err := q.Filter(time.Now())
	return form, f, err
}

func (r *request) activity() error {
	q, f, err := readQuery(r.Request)
	page := &activityView{Query: q}
	r.Title, r.Page = "Activity", page
	switch {
	case err != nil:
		page.Problem = err.Error()
	case r.log == nil:
		page.Problem = "this bus keeps no activity log"
	default:
		r.newestRows(page, f)
	}
	return nil
}

// newestRows fills the page with the newest rows.
func (r *request) newestRows(page *activityView, f read.Filter) {
	ctx, cancel := context.WithTimeout(r.Context(), searchTimeout)
	defer cancel()
	end, err := r.log.End(ctx)
	if err == nil {
		page.Live = rowsLink(page.Query, "after", end)
		err = r.olderRows(ctx, page, f, read.Beyond(end))
	}
	page.Problem = describe(err)
}

func (r *request) olderRows(
	ctx context.Context, page *activityView, f read.Filter, at read.Cursor,
) error {
	rows, next, err := r.log.Before(ctx, f, at, pageRows)
	page.show(rows)
	if len(rows) == pageRows {
		page.Older = rowsLink(page.Query, "before", next)
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
		return fmt.Sprintf("the search took longer than %s and was stopped; narrow it, for example by since",
			searchTimeout)
	}
	return "the activity log cannot be read: " + err.Error()
}

// show sets the rows, given the oldest first, to be shown newest first.
func (v *activityView) show(rows []activitylog.Entry) {
	slices.Reverse(rows)
	v.Rows = rows
}

// activityRows answers with older or with newer rows.
func (r *request) activityRows() error {
	q, f, err := readQuery(r.Request)
	before, older := readCursor(r.FormValue("before"))
	after, newer := readCursor(r.FormValue("after"))
	if err != nil || r.log == nil || !older && !newer {
		return &refusal{http.StatusBadRequest, "unknown rows"}
	}
	ctx, cancel := context.WithTimeout(r.Context(), searchTimeout)
	defer cancel()
	page := &activityView{Query: q, Paged: older, New: !older}
	r.Page, r.part = page, "newer"
	if !older {
		r.newRows(ctx, page, f, after)
		return nil
	}
	r.part = "older"
	if err := r.olderRows(ctx, page, f, before); err != nil {
		page.Problem = describe(err)
		page.Older = rowsLink(q, "before", before)
	}
	return nil
}

// newRows fills the page with the rows after a cursor, or with the last of them if there are
// many.
func (r *request) newRows(ctx context.Context, page *activityView, f read.Filter, at read.Cursor) {
	end, err := r.log.End(ctx)
	if err != nil {
		page.Live, page.Problem = rowsLink(page.Query, "after", at), describe(err)
		return
	}
	from, missed := clampStart(followRows, at, end)
	rows, next, err := r.log.After(ctx, f, from, followRows)
	if len(rows) > liveRows {
		missed += int64(len(rows) - liveRows)
		rows = rows[len(rows)-liveRows:]
	}
	if missed > 0 {
		page.Missed = view.Count(missed) + " rows were skipped, because they came too fast"
	}
	page.show(rows)
	page.Live, page.Problem = rowsLink(page.Query, "after", next), describe(err)
}

func rowsLink(q url.Values, name string, at read.Cursor) string {
	v := maps.Clone(q)
	parts := make([]string, len(at))
	for i, id := range at {
		parts[i] = strconv.FormatInt(id, 10)
	}
	v.Set(name, strings.Join(parts, "."))
	return "./activity/rows?" + v.Encode()
}

func readCursor(place string) (at read.Cursor, ok bool) {
	if place == "" || len(place) > 1000 {
		return nil, false
	}
	for part := range strings.SplitSeq(place, ".") {
		id, err := strconv.ParseInt(part, 10, 64)
		if err != nil || id < 0 {
			return nil, false
		}
		at = append(at, id)
	}
	return at, true
}
