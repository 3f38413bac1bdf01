package activitylog

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"sort"
	"time"

	"zombiezen.com/go/sqlite"
)

const (
	// windowIDs is how many ids one query looks at, at most: so that its
	// read transaction is short, however rare the wanted rows are.
	windowIDs = 20_000
	// pageRows and pageBytes are how much one query returns, at most.
	pageRows  = 1000
	pageBytes = 4 << 20
	// maxEnvelopes is how many messages' heads a connection remembers.
	maxEnvelopes = 50_000
)

// A direction is the order in which rows are read.
type direction bool

const (
	forward  direction = false
	backward direction = true
)

// A pager reads the rows of one source that a filter chooses, page by page.
type pager struct {
	source *source
	log    int
	filter Filter
	dir    direction
	limit  int    // rows of a page
	at     int64  // forward: rows after this id; backward: rows before it
	from   int64  // backward: no row before this id
	life   string // of the log that at belongs to

	// elsewhere looks for a message's head in the other logs; nil if there
	// are none.
	elsewhere func(messageID string, at int64) (envelope, error)
}

// A window is a range of ids, both ends included.
type window struct{ low, high int64 }

// next returns the next rows; none if there are no more for now.
func (p *pager) next(ctx context.Context) (page []Entry, err error) {
	for more := true; more && len(page) == 0; {
		err = p.source.with(ctx, func(r *snapshot) {
			if r.log != "" {
				if p.life != "" && p.life != r.log && p.dir == forward {
					p.at = 0 // another log: begin at its beginning
				}
				p.life = r.log
			}
			var at *part
			var w window
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

// window returns the ids to look at next, and the file that has them; false if there are
// none left.
func (p *pager) window(r *snapshot) (at *part, w window, ok bool) {
	if p.dir == backward {
		if p.from == 0 {
			p.from = r.since(p.filter.Since)
		}
		for _, at := range slices.Backward(r.parts) {
			s := r.span(at)
			if s.last == 0 || s.first >= p.at {
				continue
			}
			high := min(s.last, p.at-1)
			return at, window{max(high-p.reach(r, at)+1, s.first, p.from), high}, high >= p.from && r.err == nil
		}
		return nil, w, false
	}
	if p.at == 0 {
		p.at = max(r.since(p.filter.Since)-1, 0)
	}
	for _, at := range r.parts {
		s := r.span(at)
		if s.last <= p.at {
			continue
		}
		low := max(s.first, p.at+1) // what comes after last is for the next window
		return at, window{low, min(low+p.reach(r, at)-1, s.last)}, r.err == nil && !p.beyond(s)
	}
	return nil, w, false
}

// reach returns how many ids of a file one query looks at: all, where a table names the rows.
func (p *pager) reach(r *snapshot, at *part) int64 {
	if p.filter.about != "" && r.open(at).about {
		return math.MaxInt32
	}
	return windowIDs
}

// clockSlack is how far the times of rows may be from their order.
const clockSlack = time.Minute

// beyond reports whether all rows of a file are later than what the filter asks for.
func (p *pager) beyond(s span) bool {
	return !p.filter.Until.IsZero() && s.since > p.filter.Until.Add(clockSlack).UnixMicro()
}

// since returns an id before which no row has a time or a later one; 1 for the zero time.
func (r *snapshot) since(t time.Time) int64 {
	if t.IsZero() {
		return 1
	}
	parts := r.parts
	if n := len(parts); n > 0 && r.span(parts[n-1]).last == 0 {
		parts = parts[:n-1] // a live file that has no row yet
	}
	i := sort.Search(len(parts), func(i int) bool { return r.span(parts[i]).until >= t.UnixMicro() })
	if i < len(parts) {
		v := r.open(parts[i])
		id, ok := v.since(t)
		if r.check(v) && ok {
			return id
		}
	}
	return r.end() + 1
}

// end returns the id of the last row.
func (r *snapshot) end() int64 {
	for _, p := range slices.Backward(r.parts) {
		if last := r.span(p).last; last > 0 {
			return last
		}
	}
	return 0
}

// read returns the chosen rows of a window, and moves past what it looked at. If the
// reading fails, the place stays the same.
func (p *pager) read(r *snapshot, in *part, w window) (page []Entry) {
	v := r.open(in)
	where, args := p.filter.where(v)
	sel := v.selectEntries()
	if p.filter.startsOnly() && p.filter.Status == "" {
		sel = v.selectStarts()
	}
	order, at := "ASC", w.high
	if p.dir == backward {
		order, at = "DESC", w.low
	}
	rows, these := "id BETWEEN ? AND ?", []any{w.low, w.high}
	if p.filter.about != "" && !v.about {
		rows, these = "id IN (SELECT value FROM json_each(?))", []any{v.subjectRows(w)}
	}
	size := 0
	v.query(sel+" WHERE "+rows+where+" ORDER BY id "+order, append(these, args...), func(s *sqlite.Stmt) bool {
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
	if r.check(v) {
		p.at = at
	}
	return page
}

// entry reads a row of such a statement; false if its message is of no
// wanted type.
func (p *pager) entry(r *snapshot, v *view, s *sqlite.Stmt) (e Entry, ok bool) {
	e = Entry{ID: s.ColumnInt64(0), Event: v.eventOf(s), MessageID: s.ColumnText(2), TS: v.timeOf(s), Log: p.log,
		Sent: s.ColumnInt64(11)}
	if e.Is(SendStart) {
		e.Payload, e.Sent = []byte(s.ColumnText(8)), e.ID
		v.remember(e.MessageID, envelopeOf(e.Payload))
	}
	h := p.envelope(r, v, &e)
	if v.err != nil || !p.filter.takesType(h.Type) {
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

// envelope returns what is known of the message of a row, in this log or in another one.
func (p *pager) envelope(r *snapshot, v *view, e *Entry) envelope {
	if e.MessageID == "" {
		return envelope{}
	}
	if h, ok := v.envelopes[e.MessageID]; ok {
		return h
	}
	h := v.startOf(e.MessageID, e.Sent)
	if h == (envelope{}) && v.err == nil {
		h = r.envelopeNear(e.MessageID, e.Time().UnixMicro(), v)
	}
	if v.err == nil && h == (envelope{}) && p.elsewhere != nil {
		var err error
		if h, err = p.elsewhere(e.MessageID, e.Time().UnixMicro()); err != nil {
			v.fail(err)
			return h
		}
	}
	if v.err == nil {
		v.remember(e.MessageID, h)
	}
	return h
}

// envelopeNear looks for a message in the files that have rows of about a time, but one.
func (r *snapshot) envelopeNear(messageID string, at int64, but *view) (h envelope) {
	for _, p := range slices.Backward(r.parts) {
		s := r.span(p)
		if s.last > 0 && s.until < at-clockSlack.Microseconds() || h != (envelope{}) || r.err != nil {
			return h
		}
		if v := r.open(p); v != but && s.since <= at+clockSlack.Microseconds() {
			h = v.startOf(messageID, 0)
			r.check(v)
		}
	}
	return h
}

func envelopeOf(payload []byte) (h envelope) {
	_ = json.Unmarshal(payload, &h) // what is no message has no type
	return h
}

// intern returns one copy of the few words that stand in every row.
func intern(s string) string {
	if e, ok := ParseEvent(s); ok {
		return e.String()
	}
	for _, status := range [...]string{StatusStart, StatusOK} {
		if s == status {
			return status
		}
	}
	return s
}
