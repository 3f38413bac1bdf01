package segment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"sync"
	"time"

	"hubbub/activitylog"

	"zombiezen.com/go/sqlite"
)

// readTimeout is how long a reader waits for a locked log.
const readTimeout = 5 * time.Second

// keptConnections bounds the idle connections to the files of a log.
const keptConnections = 4

// A Source is one log for its readers. Its methods may be called from any goroutine.
type Source struct {
	Path   string
	Active *File
	Pool   pool

	mu     sync.Mutex
	Sealed map[int]*File
}

// NewSource returns the Source of the log at path. It does no I/O.
func NewSource(path string) *Source {
	s := &Source{Path: path, Sealed: map[int]*File{}}
	s.Active = &File{Path: path, Pool: &s.Pool}
	return s
}

// A Snapshot is the files of a log at one moment, the oldest first, for one goroutine. A file is
// opened when it is first needed.
type Snapshot struct {
	ctx   context.Context
	Parts []*Part
	Log   string // id of the log
	Err   error  // the first error; later reads return nothing
}

// A Part is one file of a Snapshot.
type Part struct {
	*File
	View   *View // nil while the file is not open
	Active bool
}

// With calls fn with a snapshot of the log, and returns the snapshot's error.
func (s *Source) With(ctx context.Context, fn func(*Snapshot)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r := &Snapshot{ctx: ctx}
	err := s.list(r)
	if err == nil {
		fn(r)
		err = r.Err
	}
	for _, p := range r.Parts {
		if p.View != nil && p.View.Conn != nil {
			err = errors.Join(err, p.Put(p.View, r.Err == nil))
		}
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return s.describe(err)
	}
	return nil // the rows are valid even if ctx has just ended
}

// list opens the active segment first, and then lists the other files. A file that is sealed in
// between is still the active segment of this snapshot.
func (s *Source) list(r *Snapshot) error {
	live := &Part{File: s.Active, Active: true}
	v, err := s.Active.Take(r.ctx)
	missing := errors.Is(err, fs.ErrNotExist) || errors.Is(err, activitylog.ErrNoLog)
	if err != nil && !missing {
		return err
	}
	numbers, listErr := Numbers(s.Path)
	if listErr != nil || missing && len(numbers) == 0 {
		return cmp.Or(listErr, err)
	}
	segment := int(^uint(0) >> 1)
	if !missing {
		live.View = v
		place, _, ok := v.LastRun()
		if r.Log = place.Log; ok {
			segment = place.Segment
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := range s.Sealed {
		if !slices.Contains(numbers, n) {
			s.Pool.drop(s.Sealed[n])
			delete(s.Sealed, n)
		}
	}
	for _, n := range numbers {
		if n >= segment {
			break
		}
		if s.Sealed[n] == nil {
			s.Sealed[n] = &File{Path: Path(s.Path, n), Pool: &s.Pool}
		}
		r.Parts = append(r.Parts, &Part{File: s.Sealed[n]})
	}
	if !missing {
		r.Parts = append(r.Parts, live)
		return nil
	}
	last := r.Parts[len(r.Parts)-1] // a kill during a rotation leaves no active segment
	place, _, _ := r.Open(last).LastRun()
	r.Log = place.Log
	r.Release(last)
	return nil
}

// Release closes the view of a part that is not needed now, so that a reader of many files keeps
// few of them open.
func (r *Snapshot) Release(p *Part) {
	if p.View == nil || p.Active || p.View.Conn == nil {
		return
	}
	if err := p.Put(p.View, r.Err == nil); err != nil {
		r.Fail(err)
	}
	p.View = nil
}

// Open returns the view of a part. The view of a part that cannot be read is empty.
func (r *Snapshot) Open(p *Part) *View {
	if p.View != nil {
		return p.View
	}
	v, err := p.Take(r.ctx)
	switch {
	case errors.Is(err, fs.ErrNotExist): // the file was just removed
		v = &View{}
	case err != nil:
		r.Fail(err)
		v = &View{Err: err}
	}
	p.View = v
	return v
}

// Fail records an error if there is none yet.
func (r *Snapshot) Fail(err error) {
	if r.Err == nil {
		r.Err = err
	}
}

// Check records the error of a view. It reports whether the snapshot has no error.
func (r *Snapshot) Check(v *View) (ok bool) {
	if v.Err != nil {
		r.Fail(v.Err)
	}
	return r.Err == nil
}

// Span returns the span of a part.
func (r *Snapshot) Span(p *Part) Span {
	if !p.Active {
		if known := p.Known.Load(); known != nil {
			return *known
		}
	}
	closed := p.View == nil
	v := r.Open(p)
	s := v.Span()
	if r.Check(v) && !p.Active && v.Conn != nil {
		p.Known.Store(&s)
	}
	if closed {
		r.Release(p)
	}
	return s
}

// describe adds the path of the log and a hint to an error.
func (s *Source) describe(err error) error {
	if _, gone := os.Stat(s.Path); errors.Is(gone, fs.ErrNotExist) || errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w at %s", activitylog.ErrNoLog, s.Path)
	}
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultBusy:
		return fmt.Errorf("%w by another program: %s: %w", activitylog.ErrLocked, s.Path, err)
	case sqlite.ResultIOErr:
		err = fmt.Errorf("%w (is its disk full, or failing?)", err)
	case sqlite.ResultCantOpen:
		err = fmt.Errorf("%w (may this user read it, and the -wal and -shm files beside it?)", err)
	}
	return fmt.Errorf("reading the activity log %s: %w", s.Path, err)
}

// Close closes all idle connections. Connections in use are closed when their reads end.
func (s *Source) Close() {
	s.Pool.Close()
}

// A File is one database file of a log. Its methods may be called from any goroutine.
type File struct {
	Path  string
	Known atomicSpan // set once for a sealed file
	Pool  *pool
}

// Take returns an idle connection. It opens one if none is idle or the file was replaced.
func (f *File) Take(ctx context.Context) (*View, error) {
	info, err := os.Stat(f.Path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, errors.New("it is a folder")
	}
	if v := f.Pool.take(f, info); v != nil {
		v.Conn.SetInterrupt(ctx.Done())
		return v, nil
	}
	began := time.Now()
	for { // SQLite's own wait would ignore ctx
		v, err := Open(f.Path)
		if err == nil {
			// If another file took its place, the connection has the wrong write-ahead log.
			if now, err := os.Stat(f.Path); err != nil || !os.SameFile(info, now) {
				_ = v.Conn.Close() // a reader has nothing to lose
				return f.Take(ctx)
			}
			v.File, v.info = f, info
			v.Conn.SetInterrupt(ctx.Done())
			return v, nil
		}
		if !IsBusy(err) || ctx.Err() != nil || time.Since(began) > readTimeout {
			return nil, explainOpen(f.Path, err)
		}
	}
}

// explainOpen returns the system's error for a file that SQLite cannot open.
func explainOpen(path string, err error) error {
	if sqlite.ErrCode(err).ToPrimary() != sqlite.ResultCantOpen {
		return err
	}
	f, cause := os.Open(path)
	if cause != nil {
		return cause
	}
	return errors.Join(err, f.Close())
}

// Put returns a connection to the pool, or closes it if it is not sound or the file was replaced.
func (f *File) Put(v *View, sound bool) error {
	v.Conn.SetInterrupt(nil)
	if !sound {
		return v.Conn.Close()
	}
	if info, err := os.Stat(f.Path); v.Frozen || err != nil || !os.SameFile(v.info, info) {
		_ = v.Conn.Close() // a reader has nothing to lose
	} else {
		f.Pool.put(v)
	}
	return nil
}

// A pool keeps idle connections to the files of a log, in the order of last use. Its methods may
// be called from any goroutine.
type pool struct {
	mu     sync.Mutex
	Idle   []*View
	closed bool
}

// take returns an idle connection to a file, or nil. It closes connections to a replaced file.
func (p *pool) take(f *File, info os.FileInfo) (found *View) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeLocked(func(v *View) bool { return v.File == f && !os.SameFile(v.info, info) })
	for i, v := range slices.Backward(p.Idle) {
		if v.File == f {
			p.Idle = slices.Delete(p.Idle, i, i+1)
			return v
		}
	}
	return nil
}

func (p *pool) put(v *View) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Idle = append(p.Idle, v)
	p.closeLocked(func(old *View) bool { return p.closed || len(p.Idle) > keptConnections && old == p.Idle[0] })
}

// drop closes the idle connections to a file.
func (p *pool) drop(f *File) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeLocked(func(v *View) bool { return v.File == f })
}

// Close closes all idle connections, and those that are returned later.
func (p *pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.closeLocked(func(*View) bool { return true })
}

func (p *pool) closeLocked(chosen func(*View) bool) {
	kept := make([]*View, 0, len(p.Idle))
	for _, v := range p.Idle {
		if chosen(v) {
			_ = v.Conn.Close() // a reader has nothing to lose
		} else {
			kept = append(kept, v)
		}
	}
	p.Idle = kept
}

// fileURI returns the URI of a path with any characters.
func fileURI(path string) string { return "file:" + (&url.URL{Path: path}).EscapedPath() }

// End returns the id of the last row, or 0.
func (r *Snapshot) End() int64 {
	for _, p := range slices.Backward(r.Parts) {
		if last := r.Span(p).Last; last > 0 {
			return last
		}
	}
	return 0
}

// EnvelopeOf returns the envelope of a message from the parts that may have rows in an interval,
// except the view except.
func (r *Snapshot) EnvelopeOf(messageID string, times Interval, except *View) (h Envelope) {
	for _, p := range slices.Backward(r.Parts) {
		if !times.Overlaps(r.Span(p)) {
			continue
		}
		closed := p.View == nil
		if v := r.Open(p); v != except {
			h = v.StartOf(messageID, 0)
			r.Check(v)
		}
		if closed {
			r.Release(p)
		}
		if h != (Envelope{}) || r.Err != nil {
			return h
		}
	}
	return h
}
