package activitylog

import (
	"context"
	"errors"
	"slices"
	"time"

	"hubbub/protocol/retry"
)

// A Reader reads one log, or several as if they were one: those of the buses of
// a cluster, merged by time. Its methods may be called from any goroutine, any
// number of them at once.
type Reader struct {
	sources []*source
}

// Open makes a reader of the logs at paths. It does no I/O: a log that does not
// exist gives ErrNoLog at the first read, and may be created, or replaced,
// later. Close frees the connections.
func Open(paths ...string) *Reader {
	r := &Reader{}
	for _, p := range paths {
		r.sources = append(r.sources, newSource(p))
	}
	return r
}

// Close closes idle connections. Reads that still run end by themselves.
func (r *Reader) Close() {
	for _, s := range r.sources {
		s.close()
	}
}

// Paths returns the logs that are read, in the order of Entry.Log.
func (r *Reader) Paths() []string {
	paths := make([]string, len(r.sources))
	for i, s := range r.sources {
		paths[i] = s.path
	}
	return paths
}

// Check returns why a log cannot be read, or nil.
func (r *Reader) Check(ctx context.Context) error {
	return r.with(ctx, func(int, *snapshot) {})
}

// with calls fn with each log, until one fails.
func (r *Reader) with(ctx context.Context, fn func(log int, l *snapshot)) error {
	for i, s := range r.sources {
		if err := s.with(ctx, func(l *snapshot) { fn(i, l) }); err != nil {
			return err
		}
	}
	return nil
}

// A Cursor is a place between the rows of each log: the id of the row before
// it when reading forward, of the row after it when reading backward. The zero
// Cursor is the beginning when reading forward, the end when reading backward.
// It can be kept as long as the Reader has the same logs.
type Cursor []int64

// End returns the place after the last row.
func (r *Reader) End(ctx context.Context) (Cursor, error) {
	c := make(Cursor, len(r.sources))
	err := r.with(ctx, func(log int, l *snapshot) { c[log] = l.end() })
	return c, err
}

// After returns at most n rows that the filter chooses after a place, the
// oldest first, and the place after them. Fewer than n means that there are no
// more for now.
func (r *Reader) After(ctx context.Context, f Filter, at Cursor, n int) ([]Entry, Cursor, error) {
	m := r.merge(ctx, f, forward, at, n)
	rows, err := m.take(ctx, n)
	return rows, m.cursor(), err
}

// Before returns at most n rows that the filter chooses before a place, the
// oldest first, and the place before them. Fewer than n means that there are
// no more.
func (r *Reader) Before(ctx context.Context, f Filter, at Cursor, n int) ([]Entry, Cursor, error) {
	m := r.merge(ctx, f, backward, at, n)
	rows, err := m.take(ctx, n)
	slices.Reverse(rows)
	return rows, m.cursor(), err
}

// Beyond returns the place after the last row, for reading backward from an End.
func Beyond(end Cursor) Cursor {
	at := slices.Clone(end)
	for i := range at {
		at[i]++
	}
	return at
}

// Each calls fn with every row that the filter chooses, the oldest first, until
// fn returns an error. It holds no transaction meanwhile.
func (r *Reader) Each(ctx context.Context, f Filter, fn func(*Entry) error) error {
	return r.EachPage(ctx, f, func(rows []Entry) error {
		for i := range rows {
			if err := fn(&rows[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// EachPage is Each for many rows at a time.
func (r *Reader) EachPage(ctx context.Context, f Filter, fn func([]Entry) error) error {
	m := r.merge(ctx, f, forward, nil, pageRows)
	for {
		n, err := m.show(ctx, fn)
		if err != nil || n == 0 {
			return err
		}
	}
}

// followEvery is how often Follow looks for new rows.
const followEvery = 100 * time.Millisecond

// lastLook is how long Follow may look for rows after its context has ended.
const lastLook = time.Second

// Follow calls fn with the rows that the filter chooses after a place, and then
// with those that are added, until ctx has ended (nil; it looks once more then)
// or fn returns an error. It outlives restarts of the bus, and waits for a log
// that does not exist yet or is locked; waiting, which may be nil, is told of it
// once for each time.
func (r *Reader) Follow(ctx context.Context, f Filter, at Cursor, waiting func(error), fn func([]Entry) error) error {
	m := r.merge(ctx, f, forward, at, pageRows)
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

// show gives fn the next rows, at most a page.
func (m *merged) show(ctx context.Context, fn func([]Entry) error) (int, error) {
	rows, err := m.take(ctx, pageRows)
	if len(rows) > 0 {
		err = errors.Join(err, fn(rows))
	}
	return len(rows), err
}
