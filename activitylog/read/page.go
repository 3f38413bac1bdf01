package read

import (
	"context"
	"math"
	"slices"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/internal/segment"

	"zombiezen.com/go/sqlite"
)

const (
	// windowIDs is how many ids one query reads at most. It keeps read transactions short even if
	// few rows are selected.
	windowIDs = 20_000
	// pageRows and pageBytes bound the result of one query.
	pageRows  = 1000
	pageBytes = 4 << 20
	// maxMisses is how many successive messages are searched for in all files without success.
	// After that, only files with rows of about the same time are searched.
	maxMisses = 100
)

// A pager reads the selected rows of one source, page by page.
type pager struct {
	source *segment.Source
	log    int
	filter Filter
	dir    segment.Direction
	limit  int    // rows in a page
	at     int64  // forward: rows after this id; backward: rows before it
	life   string // id of the log that at refers to

	// elsewhere returns the envelope of a message from the other logs; nil if there are none.
	elsewhere func(messageID string, times segment.Interval) (segment.Envelope, error)
	misses    int // successive messages without an envelope in any file
}

// next returns the next rows, or none if there are no more for now.
func (p *pager) next(ctx context.Context) (page []activitylog.Entry, err error) {
	for more := true; more && len(page) == 0; {
		err = p.source.With(ctx, func(r *segment.Snapshot) {
			if r.Log != "" {
				if p.life != "" && p.life != r.Log && p.dir == segment.Forward {
					p.at = 0 // another log: start at its first row
				}
				p.life = r.Log
			}
			var at *segment.Part
			var w segment.Window
			if at, w, more = p.window(r); more {
				page = p.read(r, at, w)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return page, nil
}

// window returns the next ids to read and the file with them. It returns false if there are none.
func (p *pager) window(r *segment.Snapshot) (at *segment.Part, w segment.Window, ok bool) {
	times := p.filter.times(p.log)
	if p.dir == segment.Backward {
		for _, at := range slices.Backward(r.Parts) {
			s := r.Span(at)
			if s.Last == 0 || s.First >= p.at || !times.Overlaps(s) {
				continue
			}
			if w, ok = p.narrow(r, at, segment.Window{Low: s.First, High: min(s.Last, p.at-1)}, times); ok ||
				r.Err != nil {
				return at, w, r.Err == nil
			}
			r.Release(at)
		}
		return nil, w, false
	}
	for _, at := range r.Parts {
		s := r.Span(at)
		if s.Last <= p.at || !times.Overlaps(s) {
			continue
		}
		// later rows are for the next window
		if w, ok = p.narrow(r, at, segment.Window{Low: max(s.First, p.at+1), High: s.Last}, times); ok || r.Err != nil {
			return at, w, r.Err == nil
		}
		r.Release(at)
	}
	return nil, w, false
}

// narrow returns the part of w for one query, from the first commit that may have selected rows.
// It returns false if there is none.
func (p *pager) narrow(r *segment.Snapshot, at *segment.Part, w segment.Window, times segment.Interval) (segment.Window,
	bool) {
	reach := p.reach(r, at)
	if !times.All() {
		v := r.Open(at)
		w = v.CommitsWithin(w, times, p.dir, reach)
		r.Check(v)
	}
	if p.dir == segment.Backward {
		w.Low = max(w.Low, w.High-reach+1)
	} else {
		w.High = min(w.High, w.Low+reach-1)
	}
	return w, w.Low <= w.High
}

// reach returns how many ids of a file one query reads: all if a table names the rows.
func (p *pager) reach(r *segment.Snapshot, at *segment.Part) int64 {
	if p.filter.about != "" && r.Open(at).About {
		return math.MaxInt32
	}
	return windowIDs
}

// read returns the selected rows of a window and moves the pager past them. If it fails, the
// pager does not move.
func (p *pager) read(r *segment.Snapshot, in *segment.Part, w segment.Window) (page []activitylog.Entry) {
	v := r.Open(in)
	where, args := p.filter.where(v, p.log)
	sel := v.SelectEntries()
	if p.filter.startsOnly() && p.filter.Status == "" {
		sel = v.SelectStarts()
	}
	order, at := "ASC", w.High
	if p.dir == segment.Backward {
		order, at = "DESC", w.Low
	}
	rows, these := "id BETWEEN ? AND ?", []any{w.Low, w.High}
	if p.filter.about != "" && !v.About {
		rows, these = "id IN (SELECT value FROM json_each(?))", []any{v.SubjectRows(w)}
	}
	size := 0
	v.Query(sel+" WHERE "+rows+where+" ORDER BY id "+order, append(these, args...), func(s *sqlite.Stmt) bool {
		e, ok := p.entry(r, v, s)
		if !ok {
			return true
		}
		page = append(page, e)
		if size += len(e.Payload); len(page) < p.limit && size < pageBytes {
			return true
		}
		at = e.ID
		return false
	})
	if r.Check(v) {
		p.at = at
	}
	return page
}

// entry returns the entry in a row of a query, and whether the filter selects its type.
func (p *pager) entry(r *segment.Snapshot, v *segment.View, s *sqlite.Stmt) (e activitylog.Entry, ok bool) {
	e = activitylog.Entry{ID: s.ColumnInt64(0), Event: v.EventOf(s), MessageID: s.ColumnText(2), TS: v.TimeOf(s),
		Log:  p.log,
		Sent: s.ColumnInt64(11)}
	if e.Is(activitylog.SendStart) {
		e.Payload, e.Sent = []byte(s.ColumnText(8)), e.ID
		v.Remember(e.MessageID, segment.EnvelopeOf(e.Payload))
	}
	h := p.envelope(r, v, &e)
	if v.Err != nil || !p.filter.takesType(h.Type) {
		return e, false
	}
	e.Type, e.From = h.Type, h.From
	e.RPCID, e.Actor, e.Topic = s.ColumnText(4), s.ColumnText(5), s.ColumnText(6)
	e.Status = intern(s.ColumnText(7))
	if e.Payload == nil && s.ColumnLen(8) > 0 {
		e.Payload = []byte(s.ColumnText(8))
	}
	e.Error, e.Bus = s.ColumnText(9), s.ColumnText(10)
	return e, true
}

// envelope returns the envelope of a row's message, from this log or another.
func (p *pager) envelope(r *segment.Snapshot, v *segment.View, e *activitylog.Entry) segment.Envelope {
	if e.MessageID == "" {
		return segment.Envelope{}
	}
	if h, ok := v.Envelopes[e.MessageID]; ok {
		return h
	}
	h, at := v.StartOf(e.MessageID, e.Sent), e.Time().UnixMicro()
	near := segment.Interval{Since: at - clockSlack.Microseconds(), Until: at + clockSlack.Microseconds() + 1,
		Beside: segment.Window{Low: 1, High: 0}}
	for _, times := range []segment.Interval{near, segment.AnyTime} {
		if h != (segment.Envelope{}) || v.Err != nil || times.All() && p.misses >= maxMisses {
			break
		}
		h = r.EnvelopeOf(e.MessageID, times, v)
		if h == (segment.Envelope{}) && p.elsewhere != nil && r.Err == nil {
			var err error
			if h, err = p.elsewhere(e.MessageID, times); err != nil {
				v.Fail(err)
				return h
			}
		}
	}
	if p.misses++; h != (segment.Envelope{}) {
		p.misses = 0
	}
	if v.Err == nil {
		v.Remember(e.MessageID, h)
	}
	return h
}

// intern returns a shared copy of a word that occurs in many rows.
func intern(s string) string {
	if e, ok := activitylog.ParseEvent(s); ok {
		return e.String()
	}
	for _, status := range [...]string{activitylog.StatusStart, activitylog.StatusOK} {
		if s == status {
			return status
		}
	}
	return s
}

// clockSlack is how far the times of a message's rows usually differ at most.
const clockSlack = time.Minute
