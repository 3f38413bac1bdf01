package activitylog

import (
	"context"
	"errors"
	"math"
)

// merged reads several logs as one, ordered by time. Rows with the same time come in the order in
// which their logs were named. Rows of one log keep the order of their ids. Backward is the
// reverse order.
type merged struct {
	dir  direction
	logs []*mergeInput

	// waiting is told, once for each time, of a log that does not exist or is
	// locked; nil if that is an error.
	waiting func(error)
}

// A mergeInput is one of the logs.
type mergeInput struct {
	*pager
	rows      []Entry // read and not yet taken
	place     int64   // of the last row that was taken
	exhausted bool    // it had no more rows, until the next take
	reported  bool    // that it is waited for
}

// merge makes a merged reading of all logs from a place on, in pages of n rows.
func (r *Reader) merge(ctx context.Context, f Filter, dir direction, at Cursor, n int) *merged {
	m := &merged{dir: dir}
	for i, s := range r.sources {
		p := &pager{source: s, log: i, filter: f, dir: dir, limit: max(1, min(n, pageRows))}
		if dir == backward {
			p.at = math.MaxInt64
		}
		if i < len(at) && (at[i] > 0 || dir == forward) {
			p.at = at[i]
		}
		if len(r.sources) > 1 {
			p.elsewhere = func(messageID string, times interval) (envelope, error) {
				return r.envelopeElsewhere(ctx, i, messageID, times)
			}
		}
		m.logs = append(m.logs, &mergeInput{pager: p, place: p.at})
	}
	return m
}

// envelopeElsewhere looks for a message in every log but one: the rows of a target
// are in the log of its own bus.
func (r *Reader) envelopeElsewhere(ctx context.Context, except int, messageID string,
	times interval) (h envelope, err error) {
	for i, s := range r.sources {
		if i != except && err == nil && h == (envelope{}) {
			err = s.with(ctx, func(l *snapshot) { h = l.envelopeOf(messageID, times, nil) })
		}
	}
	return h, err
}

// take returns the next rows, at most n; with an error, the rows before it.
func (m *merged) take(ctx context.Context, n int) (rows []Entry, err error) {
	for _, b := range m.logs {
		b.exhausted = false
	}
	for len(rows) < n {
		b, err := m.next(ctx)
		if b == nil {
			return rows, err
		}
		rows = append(rows, b.rows[0])
		b.place, b.rows = b.rows[0].ID, b.rows[1:]
	}
	return rows, nil
}

// next returns the log whose row comes next; nil if there is none for now.
func (m *merged) next(ctx context.Context) (best *mergeInput, err error) {
	for _, b := range m.logs {
		if err := m.fill(ctx, b); err != nil {
			return nil, err
		}
		if len(b.rows) > 0 && (best == nil || m.sooner(b.rows[0].TS, best.rows[0].TS)) {
			best = b
		}
	}
	return best, nil
}

// sooner reports whether a row is taken before one of a log that was named earlier.
func (m *merged) sooner(ts, earlier string) bool {
	if m.dir == backward {
		return ts >= earlier
	}
	return ts < earlier
}

// fill reads a page of one log when none is left.
func (m *merged) fill(ctx context.Context, b *mergeInput) error {
	if len(b.rows) > 0 || b.exhausted {
		return nil
	}
	rows, err := b.pager.next(ctx)
	switch {
	case err == nil:
		b.rows, b.exhausted, b.reported = rows, len(rows) == 0, false
		if b.exhausted {
			b.place = b.at // nothing is chosen up to here
		}
	case m.waiting != nil && (errors.Is(err, ErrNoLog) || errors.Is(err, ErrLocked)):
		if !b.reported {
			m.waiting(err)
		}
		b.reported, b.exhausted = true, true
	default:
		return err
	}
	return nil
}

// cursor returns the place after, or before, the rows that were taken.
func (m *merged) cursor() Cursor {
	c := make(Cursor, len(m.logs))
	for i, b := range m.logs {
		c[i] = b.place
	}
	return c
}
