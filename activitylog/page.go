package activitylog

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"time"

	"zombiezen.com/go/sqlite"
)

const (
	// windowIDs is how many ids one query looks at, at most. It keeps the read transaction short,
	// however rare the wanted rows are.
	windowIDs = 20_000
	// pageRows and pageBytes are how much one query returns, at most.
	pageRows  = 1000
	pageBytes = 4 << 20
	// maxMisses is for how many messages in a row all files are searched without success. Then
	// only the files with rows of about the same time are searched.
	maxMisses = 100
	// maxEnvelopes is how many envelopes of messages a connection remembers.
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
	life   string // of the log that at belongs to

	// elsewhere looks for a message's envelope in the other logs; nil if there are none.
	elsewhere func(messageID string, times interval) (envelope, error)
	misses    int // messages in a row of which no file has the envelope
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
	times := p.filter.times(p.log)
	if p.dir == backward {
		for _, at := range slices.Backward(r.parts) {
			s := r.span(at)
			if s.last == 0 || s.first >= p.at || !times.meet(s) {
				continue
			}
			if w, ok = p.narrow(r, at, window{s.first, min(s.last, p.at-1)}, times); ok || r.err != nil {
				return at, w, r.err == nil
			}
			r.release(at)
		}
		return nil, w, false
	}
	for _, at := range r.parts {
		s := r.span(at)
		if s.last <= p.at || !times.meet(s) {
			continue
		}
		// what comes after last is for the next window
		if w, ok = p.narrow(r, at, window{max(s.first, p.at+1), s.last}, times); ok || r.err != nil {
			return at, w, r.err == nil
		}
		r.release(at)
	}
	return nil, w, false
}

// narrow returns the ids of w to look at next: as many as one query looks at, from the first
// commit on that may have wanted rows. It returns false if no commit may.
func (p *pager) narrow(r *snapshot, at *part, w window, times interval) (window, bool) {
	reach := p.reach(r, at)
	if !times.all() {
		v := r.open(at)
		w = v.commitsWithin(w, times, p.dir, reach)
		r.check(v)
	}
	if p.dir == backward {
		w.low = max(w.low, w.high-reach+1)
	} else {
		w.high = min(w.high, w.low+reach-1)
	}
	return w, w.low <= w.high
}

// reach returns how many ids of a file one query looks at: all, where a table names the rows.
func (p *pager) reach(r *snapshot, at *part) int64 {
	if p.filter.about != "" && r.open(at).about {
		return math.MaxInt32
	}
	return windowIDs
}

// clockSlack is how far the times of a message's rows may be apart, unless the clock jumps.
const clockSlack = time.Minute

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
	where, args := p.filter.where(v, p.log)
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
	h, at := v.startOf(e.MessageID, e.Sent), e.Time().UnixMicro()
	near := interval{at - clockSlack.Microseconds(), at + clockSlack.Microseconds() + 1, window{1, 0}}
	for _, times := range []interval{near, anyTime} {
		if h != (envelope{}) || v.err != nil || times.all() && p.misses >= maxMisses {
			break
		}
		h = r.envelopeOf(e.MessageID, times, v)
		if h == (envelope{}) && p.elsewhere != nil && r.err == nil {
			var err error
			if h, err = p.elsewhere(e.MessageID, times); err != nil {
				v.fail(err)
				return h
			}
		}
	}
	if p.misses++; h != (envelope{}) {
		p.misses = 0
	}
	if v.err == nil {
		v.remember(e.MessageID, h)
	}
	return h
}

// anyTime chooses all rows.
var anyTime = interval{math.MinInt64, math.MaxInt64, window{1, 0}}

// envelopeOf looks for a message in the files that may have rows of some times, except one.
func (r *snapshot) envelopeOf(messageID string, times interval, except *view) (h envelope) {
	for _, p := range slices.Backward(r.parts) {
		if !times.meet(r.span(p)) {
			continue
		}
		closed := p.view == nil
		if v := r.open(p); v != except {
			h = v.startOf(messageID, 0)
			r.check(v)
		}
		if closed {
			r.release(p)
		}
		if h != (envelope{}) || r.err != nil {
			return h
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
