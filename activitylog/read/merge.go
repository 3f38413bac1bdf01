package read

import (
	"context"
	"errors"
	"math"

	"hubbub/activitylog"
	"hubbub/activitylog/internal/segment"
)

// merged reads several logs as one, ordered by time. Rows with the same time come in the order of
// their logs. Rows of one log keep the order of their ids. Backward reverses the order.
type merged struct {
	dir  segment.Direction
	logs []*mergeInput

	// waiting is called, once for each period, if a log does not exist or is locked. If it is
	// nil, that is an error.
	waiting func(error)
}

// A mergeInput is one log of a merge.
type mergeInput struct {
	*pager
	rows      []activitylog.Entry // read and not yet returned
	place     int64               // id of the last row returned
	exhausted bool                // no more rows, until the next take
	reported  bool                // waiting was called
}

// merge returns a merged reading of all logs from a place, in pages of n rows.
func (r *Reader) merge(ctx context.Context, f Filter, dir segment.Direction, at Cursor, n int) *merged {
	m := &merged{dir: dir}
	for i, s := range r.sources {
		p := &pager{source: s, log: i, filter: f, dir: dir, limit: max(1, min(n, pageRows))}
		if dir == segment.Backward {
			p.at = math.MaxInt64
		}
		if i < len(at) && (at[i] > 0 || dir == segment.Forward) {
			p.at = at[i]
		}
		if len(r.sources) > 1 {
			p.elsewhere = func(messageID string, times segment.Interval) (segment.Envelope, error) {
				return r.envelopeElsewhere(ctx, i, messageID, times)
			}
		}
		m.logs = append(m.logs, &mergeInput{pager: p, place: p.at})
	}
	return m
}

// envelopeElsewhere returns the envelope of a message from the logs except one. A row about a
// delivery at another bus may be in a log without the send_start row.
func (r *Reader) envelopeElsewhere(ctx context.Context, except int, messageID string,
	times segment.Interval) (h segment.Envelope, err error) {
	for i, s := range r.sources {
		if i != except && err == nil && h == (segment.Envelope{}) {
			err = s.With(ctx, func(l *segment.Snapshot) { h = l.EnvelopeOf(messageID, times, nil) })
		}
	}
	return h, err
}

// take returns at most n next rows. If it returns an error, it also returns the rows before it.
func (m *merged) take(ctx context.Context, n int) (rows []activitylog.Entry, err error) {
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

// next returns the log with the next row, or nil if there is none for now.
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

// sooner reports whether a row comes before the current row of an earlier log.
func (m *merged) sooner(ts, earlier string) bool {
	if m.dir == segment.Backward {
		return ts >= earlier
	}
	return ts < earlier
}

// fill reads the next page of a log if no row of it is left.
func (m *merged) fill(ctx context.Context, b *mergeInput) error {
	if len(b.rows) > 0 || b.exhausted {
		return nil
	}
	rows, err := b.pager.next(ctx)
	switch {
	case err == nil:
		b.rows, b.exhausted, b.reported = rows, len(rows) == 0, false
		if b.exhausted {
			b.place = b.at // no row up to here is selected
		}
	case m.waiting != nil && (errors.Is(err, activitylog.ErrNoLog) || errors.Is(err, activitylog.ErrLocked)):
		if !b.reported {
			m.waiting(err)
		}
		b.reported, b.exhausted = true, true
	default:
		return err
	}
	return nil
}

// cursor returns the place after the last row taken, in the direction of reading.
func (m *merged) cursor() Cursor {
	c := make(Cursor, len(m.logs))
	for i, b := range m.logs {
		c[i] = b.place
	}
	return c
}
