package read

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/internal/segment"
	"hubbub/protocol/retry"
)

// A Reader reads one log, or merges the logs of the buses of a cluster by time. Its methods may
// be called from several goroutines at the same time.
type Reader struct {
	sources []*segment.Source
}

// Open returns a Reader of the logs at paths. It does no I/O. A log that does not exist gives
// ErrNoLog at the first read, and may be created or replaced later. Close frees the connections.
func Open(paths ...string) *Reader {
	r := &Reader{}
	for _, p := range paths {
		r.sources = append(r.sources, segment.NewSource(p))
	}
	return r
}

// Close closes idle connections. Running reads close theirs when they end.
func (r *Reader) Close() {
	for _, s := range r.sources {
		s.Close()
	}
}

// Paths returns the paths of the logs, in the order of Entry.Log.
func (r *Reader) Paths() []string {
	paths := make([]string, len(r.sources))
	for i, s := range r.sources {
		paths[i] = s.Path
	}
	return paths
}

// Logs returns the sources of the logs, in the order of Entry.Log.
func (r *Reader) Logs() []*segment.Source { return r.sources }

// Check returns an error if a log cannot be read.
func (r *Reader) Check(ctx context.Context) error {
	return r.with(ctx, func(int, *segment.Snapshot) {})
}

// with calls fn with a snapshot of each log, until one fails.
func (r *Reader) with(ctx context.Context, fn func(log int, l *segment.Snapshot)) error {
	for i, s := range r.sources {
		if err := s.With(ctx, func(l *segment.Snapshot) { fn(i, l) }); err != nil {
			return err
		}
	}
	return nil
}

// A Cursor is a place between the rows of each log. For reading forward, it holds the id of
// the row before the place; for reading backward, that of the row after it. The zero Cursor is
// where reading begins: at the beginning of the logs, or at their end for reading backward. It
// is valid for any Reader of the same logs.
type Cursor []int64

// End returns the place after the last row, for reading forward.
func (r *Reader) End(ctx context.Context) (Cursor, error) {
	c := make(Cursor, len(r.sources))
	err := r.with(ctx, func(log int, l *segment.Snapshot) { c[log] = l.End() })
	return c, err
}

// After returns at most n selected rows after a place, the oldest first, and the place after
// them. Fewer than n rows means that there are no more for now.
func (r *Reader) After(ctx context.Context, f Filter, at Cursor, n int) ([]activitylog.Entry, Cursor, error) {
	m := r.merge(ctx, f, segment.Forward, at, n)
	rows, err := m.take(ctx, n)
	return rows, m.cursor(), err
}

// Before returns at most n selected rows before a place, the oldest first, and the place before
// them. Fewer than n rows means that there are no more.
func (r *Reader) Before(ctx context.Context, f Filter, at Cursor, n int) ([]activitylog.Entry, Cursor, error) {
	m := r.merge(ctx, f, segment.Backward, at, n)
	rows, err := m.take(ctx, n)
	slices.Reverse(rows)
	return rows, m.cursor(), err
}

// Beyond converts a place from [Reader.End] for reading backward.
func Beyond(end Cursor) Cursor {
	at := slices.Clone(end)
	for i := range at {
		at[i]++
	}
	return at
}

// Each calls fn with every selected row, the oldest first, until fn returns an error. No
// transaction is open during the calls.
func (r *Reader) Each(ctx context.Context, f Filter, fn func(*activitylog.Entry) error) error {
	return r.EachPage(ctx, f, func(rows []activitylog.Entry) error {
		for i := range rows {
			if err := fn(&rows[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// EachPage is like Each, but calls fn with many rows at a time.
func (r *Reader) EachPage(ctx context.Context, f Filter, fn func([]activitylog.Entry) error) error {
	m := r.merge(ctx, f, segment.Forward, nil, pageRows)
	for {
		n, err := m.show(ctx, fn)
		if err != nil || n == 0 {
			return err
		}
	}
}

// followEvery is how often Follow reads new rows.
const followEvery = 100 * time.Millisecond

// lastLook bounds the last read of Follow, after its context has ended.
const lastLook = time.Second

// Follow calls fn with the selected rows after a place, and then with new ones, until ctx ends or
// fn returns an error. After ctx ends, it reads once more and returns nil. Follow continues when
// the bus restarts, and waits for a log that does not exist yet or is locked. It calls waiting,
// which may be nil, once for each such period. Unless the filter has an end, the times of new
// rows do not matter, because the clock may be set back.
func (r *Reader) Follow(ctx context.Context, f Filter, at Cursor, waiting func(error),
	fn func([]activitylog.Entry) error) error {
	if !f.Since.IsZero() && f.Until.IsZero() {
		f.Beside = r.newRows(ctx, at)
	}
	m := r.merge(ctx, f, segment.Forward, at, pageRows)
	if m.waiting = waiting; waiting == nil {
		m.waiting = func(error) {}
	}
	for ctx.Err() == nil {
		n, err := m.show(ctx, fn)
		if err != nil && ctx.Err() == nil {
			return err
		}
		if n < pageRows {
			retry.Sleep(ctx, followEvery)
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLook)
	defer cancel()
	if _, err := m.show(last, fn); err != nil && last.Err() == nil {
		return err
	}
	return nil
}

// newRows returns the rows of each log after a place or, without one, after its current end.
func (r *Reader) newRows(ctx context.Context, at Cursor) []IDRange {
	rows := make([]IDRange, len(r.sources))
	for i, s := range r.sources {
		rows[i] = IDRange{1, math.MaxInt64}
		if i < len(at) {
			rows[i].First += at[i]
			continue
		}
		err := s.With(ctx, func(l *segment.Snapshot) { rows[i].First += l.End() })
		if err != nil && !errors.Is(err, activitylog.ErrNoLog) {
			rows[i] = IDRange{1, 0} // no row is known to be new
		}
	}
	return rows
}

// show passes the next rows to fn, at most one page, and returns their number.
func (m *merged) show(ctx context.Context, fn func([]activitylog.Entry) error) (int, error) {
	rows, err := m.take(ctx, pageRows)
	if len(rows) > 0 {
		err = errors.Join(err, fn(rows))
	}
	return len(rows), err
}
