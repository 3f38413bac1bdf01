package store

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"zombiezen.com/go/sqlite"

	"hubbub/protocol/retry"
)

const (
	// busyTimeout is how long a statement waits for the lock of another program.
	busyTimeout = 10 * time.Second
	// maxGroup limits the transactions that share one commit.
	maxGroup = 64
	// syncDelay limits the time until what InTxUnsynced committed survives a power cut.
	syncDelay = time.Second
	// shareDelay is how long InTxAhead leaves its sync to a later transaction.
	shareDelay = 10 * time.Millisecond
)

var errClosed = errors.New("the database is closed")

// A DB is an open SQLite database. All writes use one connection, one after the other, and
// transactions at the same time share a commit. Reads outside transactions see what is
// committed. They use another connection while the one for writing is busy. The methods of a
// DB and the functions of this package may be called from any goroutine.
type DB struct {
	path string

	waiting atomic.Int32  // the goroutines that wait for mu to write
	mu      mutex         // guards the fields below
	writer  *connection   // nil after Close
	group   *group        // the open transaction, or nil
	synced  bool          // the mode of writer
	dirty   chan struct{} // nil unless a power cut may undo the last commits; closed by their sync
	failed  bool          // a sync failed since dirty was made
	timer   *time.Timer   // runs sync, or nil

	readMu mutex       // guards the fields below
	reader *connection // nil until it is needed
	closed bool
}

// A mutex is a lock that is held while SQLite sleeps. It is a channel, unlike sync.Mutex,
// because testing/synctest lets time pass only for goroutines that wait for a channel.
type mutex chan struct{}

func (m mutex) Lock()   { m <- struct{}{} }
func (m mutex) Unlock() { <-m }

func (m mutex) TryLock() bool {
	select {
	case m <- struct{}{}:
		return true
	default:
		return false
	}
}

// A group is a database transaction that several calls of InTx share.
type group struct {
	size      int
	synced    bool
	changes   int64         // of the connection when a synced group began after unsynced commits
	committed chan struct{} // closed once err is set
	err       error
}

func newDB(path string) (*DB, error) {
	writer, err := connect(path)
	if err != nil {
		return nil, err
	}
	return &DB{path: path, writer: writer, synced: true, mu: make(mutex, 1), readMu: make(mutex, 1)}, nil
}

// lock locks mu for a goroutine that will commit the open transaction, or leave it to the
// next one that waits.
func (db *DB) lock() {
	db.waiting.Add(1)
	db.mu.Lock()
	db.waiting.Add(-1)
}

// Close waits for the statements that run, and closes the database. Further calls do
// nothing.
func (db *DB) Close() (err error) {
	db.lock()
	defer db.mu.Unlock()
	db.commit()
	db.readMu.Lock()
	defer db.readMu.Unlock()
	if db.reader != nil {
		err = db.reader.close()
	}
	db.reader, db.closed = nil, true
	if db.timer != nil {
		db.timer.Stop()
	}
	if db.writer != nil {
		err = errors.Join(err, db.syncLocked(), db.writer.close())
	}
	db.writer = nil
	return err
}

// Exec runs statements outside any transaction, for tests.
func (db *DB) Exec(ctx context.Context, statements string, args ...any) error {
	db.lock()
	defer db.mu.Unlock()
	db.commit()
	if db.writer == nil {
		return errClosed
	}
	return db.writer.exec(ctx, statements, args)
}

// inTx calls do in a transaction, and returns after its commit. If other goroutines wait
// to write when do returns, the commit is left to the last of them: one sync of the disk
// then serves them all. An error of do rolls back what do wrote, and no more. If synced
// is false and no member needs it, the commit does not wait for the disk.
func (db *DB) inTx(ctx context.Context, synced bool, do func(c *connection) error) error {
	g, err := db.enter(ctx, synced, do)
	if err != nil {
		return err
	}
	<-g.committed
	return g.err
}

func (db *DB) enter(ctx context.Context, synced bool, do func(c *connection) error) (*group, error) {
	db.lock()
	defer db.mu.Unlock()
	defer func() {
		if db.group != nil && (db.waiting.Load() == 0 || db.group.size >= maxGroup) {
			db.commit()
		}
	}()
	if db.writer == nil {
		return nil, errClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := db.join(ctx, synced); err != nil {
		return nil, fmt.Errorf("beginning a transaction: %w", err)
	}
	g, done := db.group, false
	defer func() {
		if !done { // do panics
			db.leave(errors.New("a transaction panicked"))
		}
	}()
	err := do(db.writer)
	if err == nil && g.size > 1 {
		err = db.writer.exec(context.Background(), "RELEASE member", nil)
	}
	if done = true; err != nil {
		db.leave(err)
		return nil, err
	}
	return g, nil
}

// join adds a member to the open transaction, which it begins if there is none.
func (db *DB) join(ctx context.Context, synced bool) error {
	if db.group != nil && synced && !db.group.synced {
		db.commit()
	}
	if db.group != nil {
		db.group.size++
		return db.writer.exec(context.Background(), "SAVEPOINT member", nil)
	}
	if synced && db.failed {
		if err := db.syncLocked(); err != nil {
			return err
		}
	}
	if err := db.setSynced(synced); err != nil {
		return err
	}
	if err := db.writer.begin(ctx); err != nil {
		return err
	}
	db.group = &group{size: 1, synced: synced, committed: make(chan struct{})}
	if synced && db.dirty != nil {
		db.group.changes = db.writer.changes()
	}
	return nil
}

// leave rolls back what the last member of the group wrote. SQLite itself rolls back the
// whole transaction after some errors, such as a full disk; then the group fails.
func (db *DB) leave(cause error) {
	c := db.writer
	if db.group.size--; db.group.size > 0 && !c.conn.AutocommitEnabled() &&
		c.exec(context.Background(), "ROLLBACK TO member; RELEASE member", nil) == nil {
		return
	}
	if !c.conn.AutocommitEnabled() {
		cause = errors.Join(cause, c.exec(context.Background(), "ROLLBACK", nil))
	}
	db.finish(fmt.Errorf("the transaction was rolled back with another: %w", cause))
}

// commit commits the open transaction, if there is one.
func (db *DB) commit() {
	if db.group == nil {
		return
	}
	syncs := db.group.synced && db.dirty != nil && db.writer.changes() > db.group.changes
	var err error
	if syncs {
		err = db.writer.writePage()
	}
	if err == nil {
		err = db.writer.exec(context.Background(), "COMMIT", nil)
	}
	if err != nil {
		err = fmt.Errorf("committing: %w", err)
		if !db.writer.conn.AutocommitEnabled() {
			err = errors.Join(err, db.writer.exec(context.Background(), "ROLLBACK", nil))
		}
	}
	db.noteCommit(syncs, err != nil)
	db.finish(err)
}

// noteCommit notes whether a power cut may undo commits, and whether the disk failed to sync them.
func (db *DB) noteCommit(synced, failed bool) {
	switch {
	case !db.group.synced && db.dirty == nil:
		db.dirty = make(chan struct{})
	case synced && failed:
		db.failed = true
	case synced:
		db.markSynced()
	}
	if db.dirty != nil && db.timer == nil {
		db.timer = time.AfterFunc(syncDelay, db.sync)
	}
}

// markSynced notes that the disk has all commits. db.dirty is not nil.
func (db *DB) markSynced() {
	close(db.dirty)
	db.dirty, db.failed = nil, false
}

// awaitSync waits until the disk has what was committed before the call. It syncs unless another
// transaction does within shareDelay.
func (db *DB) awaitSync() error {
	db.mu.Lock()
	dirty := db.dirty
	db.mu.Unlock()
	if dirty == nil {
		return nil
	}
	timer := time.NewTimer(shareDelay)
	defer timer.Stop()
	select {
	case <-dirty:
		return nil
	case <-timer.C:
	}
	db.lock()
	defer db.mu.Unlock()
	if db.writer == nil && db.dirty != nil {
		return errClosed // and Close could not sync
	}
	return db.syncLocked()
}

// setSynced makes the following commits wait for the disk, or not.
func (db *DB) setSynced(synced bool) error {
	if db.synced == synced {
		return nil
	}
	level := "PRAGMA synchronous = NORMAL"
	if synced {
		level = "PRAGMA synchronous = FULL"
	}
	if err := db.writer.execUncached(context.Background(), level, nil); err != nil {
		return err
	}
	db.synced = synced
	return nil
}

// sync makes what was committed survive a power cut.
func (db *DB) sync() {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.timer = nil
	if db.writer == nil || db.syncLocked() == nil {
		return
	}
	db.timer = time.AfterFunc(syncDelay, db.sync)
}

// syncLocked commits a page to SQLite's write-ahead log, and waits until the disk has the log up
// to there. So the disk has all earlier commits, too. After a failed sync, the system may forget
// the data and report success the next time. The log is then first copied to the database, and
// restarts.
func (db *DB) syncLocked() error {
	db.commit()
	if db.dirty == nil {
		return nil
	}
	if err := db.setSynced(true); err != nil {
		return err
	}
	var err error
	if db.failed {
		err = db.writer.emptyLog()
	}
	if err == nil {
		err = db.writer.writePage()
	}
	if db.failed = err != nil; !db.failed {
		db.markSynced()
	}
	return err
}

// finish ends the group with an error or nil.
func (db *DB) finish(err error) {
	db.group.err = err
	close(db.group.committed)
	db.group = nil
}

// read calls do with the connection for writing if nobody needs it, and otherwise with the
// connection for reading, which it opens if there is none. The connection for writing is
// faster: it has in its cache what it wrote, whereas each commit empties the other's cache.
func (db *DB) read(do func(c *connection) error) (err error) {
	if db.mu.TryLock() {
		if db.group == nil && db.writer != nil {
			defer db.mu.Unlock()
			return do(db.writer)
		}
		db.mu.Unlock()
	}
	db.readMu.Lock()
	defer db.readMu.Unlock()
	if db.closed {
		return errClosed
	}
	if db.reader == nil {
		if db.reader, err = connect(db.path); err != nil {
			return err
		}
	}
	return do(db.reader)
}

// begin begins a transaction. It waits for the locks of other programs until ctx ends or
// busyTimeout has passed.
func (c *connection) begin(ctx context.Context) error {
	c.conn.SetBusyTimeout(0) // SQLite's own wait does not end with ctx
	defer c.conn.SetBusyTimeout(busyTimeout)
	deadline := time.Now().Add(busyTimeout)
	for delay := time.Millisecond; ; delay = min(2*delay, 50*time.Millisecond) {
		err := c.exec(ctx, "BEGIN IMMEDIATE", nil)
		if sqlite.ErrCode(err).ToPrimary() != sqlite.ResultBusy || time.Now().After(deadline) {
			return err
		}
		if !retry.Sleep(ctx, delay) {
			return ctx.Err()
		}
	}
}
