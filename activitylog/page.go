package activitylog

import (
	"context"
	"encoding/json"

	"hubbub/protocol"

	"zombiezen.com/go/sqlite"
)

const (
	// windowIDs is how many ids one query looks at, at most: so that its
	// read transaction is short, however rare the wanted rows are.
	windowIDs = 20_000
	// pageRows and pageBytes are how much one query returns, at most.
	pageRows  = 1000
	pageBytes = 4 << 20
	// keptHeads is how many messages' heads a connection remembers.
	keptHeads = 50_000
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
	limit  int   // rows of a page
	at     int64 // forward: rows after this id; backward: rows before it
	from   int64 // backward: no row before this id
	life   int   // of the source that at belongs to

	// elsewhere looks for a message's head in the other logs; nil if there
	// are none.
	elsewhere func(messageID string) (head, error)
}

// A window is a range of ids, both ends included.
type window struct{ low, high int64 }

// next returns the next rows; none if there are no more for now.
func (p *pager) next(ctx context.Context) (page []Entry, err error) {
	for more := true; more && len(page) == 0; {
		err = p.source.with(ctx, func(v *view) {
			if v.life != p.life && p.life != 0 && p.dir == forward {
				p.at = 0 // another file: begin at its beginning
			}
			p.life = v.life
			var w window
			if w, more = p.window(v); more {
				page = p.read(v, w)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return page, nil
}

// window returns the ids to look at next; false if there are none left.
func (p *pager) window(v *view) (w window, ok bool) {
	if p.dir == backward {
		if p.from == 0 {
			p.from = firstID(v, p.filter)
		}
		last, ok := v.int64("SELECT max(id) FROM activity_log WHERE id < ?", p.at)
		return window{max(last-windowIDs+1, p.from), last}, ok && last >= p.from
	}
	if p.at == 0 {
		p.at = max(firstID(v, p.filter)-1, 0)
	}
	next, ok := v.int64("SELECT min(id) FROM activity_log WHERE id > ?", p.at)
	last, _ := v.int64("SELECT max(id) FROM activity_log") // what comes later is for the next window
	return window{next, min(next+windowIDs-1, last)}, ok
}

// firstID returns an id before which no row has the time that the filter asks
// for; 0 if v has failed. Rows are nearly in the order of their times: publishers may
// be a moment apart.
func firstID(v *view, f Filter) int64 {
	if f.Since.IsZero() {
		return 1
	}
	id, ok := v.int64("SELECT min(id) FROM (SELECT id FROM activity_log WHERE ts >= ? ORDER BY ts LIMIT 10000)", protocol.FormatTime(f.Since))
	if !ok {
		id, _ = v.int64("SELECT coalesce(max(id), 0) + 1 FROM activity_log")
	}
	return id
}

// read returns the chosen rows of a window, and moves past what it looked at. If v
// fails, the place stays the same.
func (p *pager) read(v *view, w window) (page []Entry) {
	where, args := p.filter.where()
	order, at := "ASC", w.high
	if p.dir == backward {
		order, at = "DESC", w.low
	}
	size := 0
	v.query(v.selectEntries()+" WHERE id BETWEEN ? AND ?"+where+" ORDER BY id "+order, append([]any{w.low, w.high}, args...), func(s *sqlite.Stmt) bool {
		e, ok := p.entry(v, s)
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
	if v.err == nil {
		p.at = at
	}
	return page
}

// selectEntries begins a statement whose rows entry reads.
func (v *view) selectEntries() string {
	return "SELECT id, event, message_id, ts, rpc_id, actor, topic, status, payload_json, error, " + v.bus + " FROM activity_log"
}

// entry reads a row of such a statement; false if its message is of no
// wanted type.
func (p *pager) entry(v *view, s *sqlite.Stmt) (e Entry, ok bool) {
	e = Entry{ID: s.ColumnInt64(0), Event: intern(s.ColumnText(1)), MessageID: s.ColumnText(2), Log: p.log}
	if e.Is(SendStart) {
		e.Payload = []byte(s.ColumnText(8))
		v.remember(e.MessageID, headOf(e.Payload))
	}
	h := p.head(v, e.MessageID)
	if v.err != nil || !p.filter.takesType(h.Type) {
		return e, false
	}
	e.Type, e.From = h.Type, h.From
	e.TS, e.RPCID, e.Actor, e.Topic = s.ColumnText(3), s.ColumnText(4), s.ColumnText(5), s.ColumnText(6)
	e.Status = intern(s.ColumnText(7))
	if e.Payload == nil && s.ColumnLen(8) > 0 {
		e.Payload = []byte(s.ColumnText(8))
	}
	e.Error, e.Bus = s.ColumnText(9), s.ColumnText(10)
	return e, true
}

// head returns what is known of a message, in this log or in another one.
func (p *pager) head(v *view, messageID string) head {
	h := v.head(messageID)
	if v.err == nil && h == (head{}) && messageID != "" && p.elsewhere != nil {
		var err error
		if h, err = p.elsewhere(messageID); err != nil {
			v.fail(err)
			return h
		}
		v.remember(messageID, h)
	}
	return h
}

func (v *view) head(messageID string) (h head) {
	if messageID == "" {
		return head{}
	}
	if h, ok := v.heads[messageID]; ok {
		return h
	}
	v.query("SELECT payload_json FROM activity_log WHERE message_id = ? AND event = 'send_start' ORDER BY id LIMIT 1",
		[]any{messageID}, func(s *sqlite.Stmt) bool {
			h = headOf([]byte(s.ColumnText(0)))
			return false
		})
	if v.err == nil {
		v.remember(messageID, h)
	}
	return h
}

func (v *view) remember(messageID string, h head) {
	if len(v.heads) >= keptHeads {
		clear(v.heads)
	}
	v.heads[messageID] = h
}

func headOf(payload []byte) (h head) {
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
