package activitylog

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

	"zombiezen.com/go/sqlite"
)

// ErrNoLog is in the chain of the error of a log that does not exist.
var ErrNoLog = errors.New("there is no activity log")

// ErrLocked is in the chain of the error of a log that another program keeps for
// itself.
var ErrLocked = errors.New("the activity log is locked")

// readTimeout is how long a reader waits where the log is locked for all.
const readTimeout = 5 * time.Second

// keptConnections is how many idle connections are kept to the files of a log.
const keptConnections = 4

// A source is one log that is read. Its methods may be called from any goroutine.
type source struct {
	path   string
	active *file
	pool   pool

	mu     sync.Mutex
	sealed map[int]*file
}

func newSource(path string) *source {
	s := &source{path: path, sealed: map[int]*file{}}
	s.active = &file{path: path, pool: &s.pool}
	return s
}

// A snapshot is a log as one goroutine reads it: its files, the oldest first. A file is opened
// when it is first needed.
type snapshot struct {
	ctx   context.Context
	parts []*part
	log   string // which log it is
	err   error  // the first; reads after it give nothing
}

// A part is one of the files.
type part struct {
	*file
	view   *view // nil before it is opened
	active bool
}

// with calls fn with a snapshot of the log, and returns the snapshot's error.
func (s *source) with(ctx context.Context, fn func(*snapshot)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r := &snapshot{ctx: ctx}
	err := s.list(r)
	if err == nil {
		fn(r)
		err = r.err
	}
	for _, p := range r.parts {
		if p.view != nil && p.view.conn != nil {
			err = errors.Join(err, p.put(p.view, r.err == nil))
		}
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return s.describe(err)
	}
	return nil // what was read counts, also when ctx has just ended
}

// list opens the active segment, and then lists the other files: a file that is sealed meanwhile
// is still the active segment of this snapshot.
func (s *source) list(r *snapshot) error {
	live := &part{file: s.active, active: true}
	v, err := s.active.take(r.ctx)
	missing := errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrNoLog)
	if err != nil && !missing {
		return err
	}
	numbers, listErr := segmentNumbers(s.path)
	if listErr != nil || missing && len(numbers) == 0 {
		return cmp.Or(listErr, err)
	}
	segment := int(^uint(0) >> 1)
	if !missing {
		live.view = v
		place, _, ok := v.lastRun()
		if r.log = place.log; ok {
			segment = place.segment
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := range s.sealed {
		if !slices.Contains(numbers, n) {
			s.pool.drop(s.sealed[n])
			delete(s.sealed, n)
		}
	}
	for _, n := range numbers {
		if n >= segment {
			break
		}
		if s.sealed[n] == nil {
			s.sealed[n] = &file{path: segmentPath(s.path, n), pool: &s.pool}
		}
		r.parts = append(r.parts, &part{file: s.sealed[n]})
	}
	if !missing {
		r.parts = append(r.parts, live)
	}
	return nil
}

// release closes the view of a part that is not needed for now, so that a reader of many files
// has few of them open.
func (r *snapshot) release(p *part) {
	if p.view == nil || p.active || p.view.conn == nil {
		return
	}
	if err := p.put(p.view, r.err == nil); err != nil {
		r.fail(err)
	}
	p.view = nil
}

// open returns the view of a part. A part that cannot be read has an empty view.
func (r *snapshot) open(p *part) *view {
	if p.view != nil {
		return p.view
	}
	v, err := p.take(r.ctx)
	switch {
	case errors.Is(err, fs.ErrNotExist): // it was just removed
		v = &view{}
	case err != nil:
		r.fail(err)
		v = &view{err: err}
	}
	p.view = v
	return v
}

// fail remembers an error, if it is the first.
func (r *snapshot) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// check takes the error of a view.
func (r *snapshot) check(v *view) (ok bool) {
	if v.err != nil {
		r.fail(v.err)
	}
	return r.err == nil
}

// span returns which rows a part has.
func (r *snapshot) span(p *part) span {
	if !p.active {
		if known := p.known.Load(); known != nil {
			return *known
		}
	}
	closed := p.view == nil
	v := r.open(p)
	s := v.span()
	if r.check(v) && !p.active && v.conn != nil {
		p.known.Store(&s)
	}
	if closed {
		r.release(p)
	}
	return s
}

// describe adds the log to an error, and whether it is missing.
func (s *source) describe(err error) error {
	if _, gone := os.Stat(s.path); errors.Is(gone, fs.ErrNotExist) || errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w at %s", ErrNoLog, s.path)
	}
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultBusy:
		return fmt.Errorf("%w by another program: %s: %w", ErrLocked, s.path, err)
	case sqlite.ResultIOErr:
		err = fmt.Errorf("%w (is its disk full, or failing?)", err)
	case sqlite.ResultCantOpen:
		err = fmt.Errorf("%w (may this user read it, and the -wal and -shm files beside it?)", err)
	}
	return fmt.Errorf("reading the activity log %s: %w", s.path, err)
}

func (s *source) close() {
	s.pool.close()
}

// A file is one database of a log. Its methods may be called from any goroutine.
type file struct {
	path  string
	known atomicSpan // of a sealed file
	pool  *pool
}

// take returns an idle connection. It opens one if none is idle, or if the file was replaced.
func (f *file) take(ctx context.Context) (*view, error) {
	info, err := os.Stat(f.path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, errors.New("it is a folder")
	}
	if v := f.pool.take(f, info); v != nil {
		v.conn.SetInterrupt(ctx.Done())
		return v, nil
	}
	began := time.Now()
	for { // SQLite's own waiting would not end with ctx
		v, err := openView(f.path)
		if err == nil {
			// A file that takes the place of this one has another write-ahead log.
			if now, err := os.Stat(f.path); err != nil || !os.SameFile(info, now) {
				_ = v.conn.Close() // it only read
				return f.take(ctx)
			}
			v.file, v.info = f, info
			v.conn.SetInterrupt(ctx.Done())
			return v, nil
		}
		if !isBusy(err) || ctx.Err() != nil || time.Since(began) > readTimeout {
			return nil, explainOpen(f.path, err)
		}
	}
}

// explainOpen returns why a file cannot be opened at all, which SQLite does not say.
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

// put returns a connection for reuse, unless it has failed.
func (f *file) put(v *view, sound bool) error {
	v.conn.SetInterrupt(nil)
	if !sound {
		return v.conn.Close()
	}
	if info, err := os.Stat(f.path); v.frozen || err != nil || !os.SameFile(v.info, info) {
		_ = v.conn.Close() // it only read
	} else {
		f.pool.put(v)
	}
	return nil
}

// A pool keeps idle connections to the files of a log, the one that was used last at the end. Its
// methods may be called from any goroutine.
type pool struct {
	mu     sync.Mutex
	idle   []*view
	closed bool
}

// take returns a connection to a file; nil if none is idle. It closes those to a file that was
// replaced.
func (p *pool) take(f *file, info os.FileInfo) (found *view) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeLocked(func(v *view) bool { return v.file == f && !os.SameFile(v.info, info) })
	for i, v := range slices.Backward(p.idle) {
		if v.file == f {
			p.idle = slices.Delete(p.idle, i, i+1)
			return v
		}
	}
	return nil
}

func (p *pool) put(v *view) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, v)
	p.closeLocked(func(old *view) bool { return p.closed || len(p.idle) > keptConnections && old == p.idle[0] })
}

// drop closes the connections to a file.
func (p *pool) drop(f *file) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeLocked(func(v *view) bool { return v.file == f })
}

// close closes all idle connections, and those that are put back later.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.closeLocked(func(*view) bool { return true })
}

func (p *pool) closeLocked(chosen func(*view) bool) {
	kept := make([]*view, 0, len(p.idle))
	for _, v := range p.idle {
		if chosen(v) {
			_ = v.conn.Close() // it only read
		} else {
			kept = append(kept, v)
		}
	}
	p.idle = kept
}

// fileURI returns the URI of a file, whatever characters its path has.
func fileURI(path string) string { return "file:" + (&url.URL{Path: path}).EscapedPath() }
