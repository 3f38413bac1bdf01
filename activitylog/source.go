package activitylog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// ErrNoLog is in the chain of the error of a log that does not exist.
var ErrNoLog = errors.New("there is no activity log")

// ErrLocked is in the chain of the error of a log that another program keeps for
// itself.
var ErrLocked = errors.New("the activity log is locked")

// readTimeout is how long a reader waits where the log is locked for all.
const readTimeout = 5 * time.Second

// keptConnections is how many idle connections a source keeps.
const keptConnections = 4

// A source is one log that is read. Its methods may be called from any
// goroutine.
type source struct {
	path string

	mu   sync.Mutex
	idle []*view
	file os.FileInfo // that the idle connections have open
	life int         // grows when another file takes the place of this one
}

// A view is one connection to a log that only reads. One goroutine at a time
// uses it.
type view struct {
	conn   *sqlite.Conn
	life   int
	frozen bool            // it sees nothing that is written later
	bus    string          // the expression that reads the column `bus`
	heads  map[string]head // of messages seen lately
	err    error           // the first; reads after it give nothing
}

// fail remembers an error, if it is the first.
func (v *view) fail(err error) {
	if v.err == nil {
		v.err = err
	}
}

// A head is what the send_start row tells of a message.
type head struct{ Type, From string }

// with calls fn with a connection, and returns the error that this remembers. It opens
// one if none is idle, or if the file was replaced.
func (s *source) with(ctx context.Context, fn func(*view)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	v, err := s.take(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return s.describe(err)
	}
	v.conn.SetInterrupt(ctx.Done())
	fn(v)
	v.conn.SetInterrupt(nil)
	if v.err == nil {
		s.put(v) // what was read counts, also when ctx has just ended
		return nil
	}
	err = errors.Join(v.err, v.conn.Close())
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return s.describe(err)
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

func (s *source) take(ctx context.Context) (*view, error) {
	info, err := os.Stat(s.path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, errors.New("it is a folder")
	}
	s.mu.Lock()
	if s.file == nil || !os.SameFile(s.file, info) {
		s.life++
		s.file = info
		s.closeIdleLocked()
	}
	life := s.life
	if n := len(s.idle); n > 0 {
		v := s.idle[n-1]
		s.idle = s.idle[:n-1]
		s.mu.Unlock()
		return v, nil
	}
	s.mu.Unlock()
	began := time.Now()
	for { // SQLite's own waiting would not end with ctx
		v, err := openView(s.path, life)
		if err == nil || !isBusy(err) || ctx.Err() != nil || time.Since(began) > readTimeout {
			return v, err
		}
	}
}

func (s *source) put(v *view) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.frozen || v.life != s.life || len(s.idle) >= keptConnections {
		_ = v.conn.Close() // it only read
		return
	}
	s.idle = append(s.idle, v)
}

func (s *source) closeIdleLocked() {
	for _, v := range s.idle {
		_ = v.conn.Close() // it only read
	}
	s.idle = nil
}

func (s *source) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeIdleLocked()
	s.life++
}

// openView opens a log for reading. If SQLite cannot create its files beside it, in a
// read-only folder or on a full disk, the log is read as it is.
func openView(path string, life int) (*view, error) {
	v, err := connectView(fileURI(path), life)
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultCantOpen, sqlite.ResultReadOnly, sqlite.ResultIOErr:
		if info, walErr := os.Stat(path + "-wal"); errors.Is(walErr, fs.ErrNotExist) || walErr == nil && info.Size() == 0 {
			v, err = connectView(fileURI(path)+"?immutable=1", life)
			if err == nil {
				v.frozen = true
			}
		}
	}
	return v, err
}

// fileURI returns the URI of a file, whatever characters its path has.
func fileURI(path string) string { return "file:" + (&url.URL{Path: path}).EscapedPath() }

func connectView(name string, life int) (*view, error) {
	conn, err := sqlite.OpenConn(name, sqlite.OpenReadOnly|sqlite.OpenURI)
	if err != nil {
		return nil, err
	}
	conn.SetBusyTimeout(busyTimeout)
	v := &view{conn: conn, life: life, heads: map[string]head{}, bus: "bus"}
	columns, err := logColumns(conn)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if !columns["bus"] {
		v.bus = "NULL"
	}
	conn.SetBusyTimeout(readTimeout)
	return v, nil
}

// logColumns returns the columns of our table. Without it, the database is one
// that is just being created, or one of something else. Our tables come all at
// once, so that those looked for first tell which.
func logColumns(conn *sqlite.Conn) (columns map[string]bool, err error) {
	tables := 0
	err = sqlitex.ExecuteTransient(conn, "SELECT count(*) FROM sqlite_master", &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
		tables = s.ColumnInt(0)
		return nil
	}})
	if err != nil {
		return nil, err
	}
	if tables == 0 {
		return nil, fmt.Errorf("%w yet: the database is empty", ErrNoLog)
	}
	columns, err = columnsOf(conn)
	if err == nil && len(columns) == 0 {
		err = errors.New("it has no table activity_log: is it the database of something else?")
	}
	return columns, err
}

// query runs a statement, which the connection keeps prepared, and calls row for
// each row of its result until that returns false or v has failed. The read transaction
// ends with it.
func (v *view) query(sql string, args []any, row func(*sqlite.Stmt) (more bool)) {
	if v.err != nil {
		return
	}
	err := sqlitex.Execute(v.conn, sql, &sqlitex.ExecOptions{Args: args, ResultFunc: func(s *sqlite.Stmt) error {
		if !row(s) || v.err != nil {
			return errEnough
		}
		return nil
	}})
	if err != nil && !errors.Is(err, errEnough) {
		v.fail(err)
	}
}

// int64 returns the single number that a query gives; false if it is NULL or v has
// failed.
func (v *view) int64(sql string, args ...any) (n int64, ok bool) {
	v.query(sql, args, func(s *sqlite.Stmt) bool {
		n, ok = s.ColumnInt64(0), s.ColumnType(0) != sqlite.TypeNull
		return false
	})
	return n, ok
}
