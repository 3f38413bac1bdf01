package activitylog

import (
	"context"
	"errors"
)

// merged reads several logs as one, ordered by time; rows with the same time come in
// the order in which their logs were named. Rows of one log keep the order of their ids.
// Backward is the reverse order.
type merged struct {
	dir     direction
	pagers  []*pager
	heads   [][]Entry // read and not yet taken, of each log
	places  Cursor    // of the last row taken from each log
	dry     []bool    // logs that had no more rows, until the next take
	patient *patience // nil: a log that cannot be read is an error
}

// patience makes a reading wait for logs that do not exist or are locked.
type patience struct {
	told []bool
	tell func(error)
}

// next returns the next row; nil if there is none for now.
func (m *merged) next(ctx context.Context) (*Entry, error) {
	best := -1
	for i := range m.pagers {
		if err := m.fill(ctx, i); err != nil {
			return nil, err
		}
		if len(m.heads[i]) == 0 {
			continue
		}
		if best < 0 || m.sooner(m.heads[i][0].TS, m.heads[best][0].TS) {
			best = i
		}
	}
	if best < 0 {
		return nil, nil
	}
	e := &m.heads[best][0]
	m.heads[best] = m.heads[best][1:]
	m.places[best] = e.ID
	return e, nil
}

// sooner reports whether a row is taken before one of a log that was named earlier.
func (m *merged) sooner(ts, earlier string) bool {
	if m.dir == backward {
		return ts >= earlier
	}
	return ts < earlier
}

// fill reads a page of one log when none is left.
func (m *merged) fill(ctx context.Context, i int) error {
	if len(m.heads[i]) > 0 || m.dry[i] {
		return nil
	}
	page, err := m.pagers[i].next(ctx)
	switch {
	case err == nil:
		m.heads[i] = page
		if m.dry[i] = len(page) == 0; m.dry[i] {
			m.places[i] = m.pagers[i].at // nothing is chosen up to here
		}
		if m.patient != nil {
			m.patient.told[i] = false
		}
		return nil
	case m.patient != nil && (errors.Is(err, ErrNoLog) || errors.Is(err, ErrLocked)):
		if !m.patient.told[i] && m.patient.tell != nil {
			m.patient.tell(err)
		}
		m.patient.told[i], m.dry[i] = true, true
		return nil
	default:
		return err
	}
}

// take returns the next rows, at most n; with an error, the rows before it.
func (m *merged) take(ctx context.Context, n int) ([]Entry, error) {
	clear(m.dry)
	var rows []Entry
	for len(rows) < n {
		e, err := m.next(ctx)
		if err != nil {
			return rows, err
		}
		if e == nil {
			break
		}
		rows = append(rows, *e)
	}
	return rows, nil
}

func (m *merged) cursor() Cursor { return m.places }
