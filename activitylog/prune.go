package activitylog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"hubbub/protocol"
	"hubbub/protocol/retry"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// The writer waits for each transaction of a prune. It deletes few enough rows to
// take about pruneTime: where ids are scattered, each row of a large log costs a
// page that a slow disk has to fetch first.
const (
	pruneRows = 500 // at most
	pruneTime = 25 * time.Millisecond
)

// A pace decides how many rows the next transaction of a prune deletes.
type pace struct {
	rows  int
	fixed time.Duration // duration of the fastest commit so far, which fewer rows would not shorten
}

// next adapts the pace to how long the parts of a transaction took.
func (p *pace) next(deleting, committing time.Duration) {
	if p.fixed == 0 || committing < p.fixed {
		p.fixed = committing
	}
	switch took := deleting + committing - p.fixed; {
	case took > 2*pruneTime:
		p.rows = max(p.rows/2, 1)
	case took < pruneTime:
		p.rows = min(p.rows*2, pruneRows)
	}
}

// Prune deletes the rows of a log that are older than a time, and returns how
// many. Nothing else removes rows. A bus may be writing meanwhile:
// rows go in short transactions, with as much time between them as they take.
//
// The rows of a message that was under way at that time stay together. The file
// does not shrink; its free space is used for new rows.
func Prune(ctx context.Context, path string, before time.Time) (deleted int64, err error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("%w at %s", ErrNoLog, path)
	}
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		return 0, pruneError(path, err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	conn.SetBusyTimeout(readTimeout)
	if err := sqlitex.ExecuteTransient(conn, "PRAGMA synchronous=FULL", nil); err != nil {
		return 0, pruneError(path, err)
	}
	conn.SetInterrupt(ctx.Done())
	switch columns, err := columnsOf(conn); {
	case err != nil:
		return 0, pruneError(path, err)
	case len(columns) == 0:
		return 0, fmt.Errorf("%s is not an activity log", path)
	}
	if err := keepUnderWay(conn, before); err != nil {
		return 0, cmp.Or(ctx.Err(), pruneError(path, err))
	}
	conn.SetInterrupt(nil) // what follows is short, and is not left half done
	conn.SetBusyTimeout(0) // see lock
	for p := (pace{rows: pruneRows / 10}); ctx.Err() == nil; {
		if err := lock(ctx, conn); err != nil {
			return deleted, pruneError(path, err)
		}
		began := time.Now()
		n, committing, err := pruneOnce(conn, before, p.rows)
		took := time.Since(began)
		deleted += n
		if err != nil {
			return deleted, pruneError(path, err)
		}
		if n < int64(p.rows) {
			return deleted, nil
		}
		p.next(took-committing, committing)
		retry.Sleep(ctx, took)
	}
	return deleted, ctx.Err()
}

// pruneError adds the log to an error, and advice.
func pruneError(path string, err error) error {
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultFull, sqlite.ResultIOErr:
		err = fmt.Errorf("%w (is its disk full? then make room first: a prune needs some MB to work in)", err)
	case sqlite.ResultCantOpen, sqlite.ResultReadOnly:
		err = fmt.Errorf("%w (may this user write it, and its folder?)", err)
	}
	return fmt.Errorf("pruning the activity log %s: %w", path, err)
}

// keepUnderWay lists, in a temporary table, the messages that have rows before and
// after a time; no message takes an hour.
func keepUnderWay(conn *sqlite.Conn, before time.Time) error {
	err := sqlitex.ExecuteTransient(conn, "CREATE TEMP TABLE under_way (message_id TEXT PRIMARY KEY) WITHOUT ROWID", nil)
	if err != nil {
		return err
	}
	return sqlitex.ExecuteTransient(conn, `INSERT OR IGNORE INTO under_way
		SELECT message_id FROM activity_log AS late
		WHERE ts >= ?1 AND ts < ?2 AND message_id <> '' AND event <> 'send_start'
		AND EXISTS (SELECT 1 FROM activity_log AS early WHERE early.message_id = late.message_id AND early.ts < ?1)`,
		&sqlitex.ExecOptions{Args: []any{protocol.FormatTime(before), protocol.FormatTime(before.Add(time.Hour))}})
}

// lockPatience is how long a prune waits for its turn to write.
const lockPatience = time.Minute

// lock begins a transaction that writes. A busy bus leaves the database
// unlocked only for moments, so it polls often; SQLite's own waiting, which polls less
// and less often, would starve.
func lock(ctx context.Context, conn *sqlite.Conn) error {
	for began := time.Now(); ; {
		err := sqlitex.Execute(conn, "BEGIN IMMEDIATE", nil)
		if err == nil || !isBusy(err) || time.Since(began) > lockPatience {
			return err
		}
		if !retry.Sleep(ctx, 100*time.Microsecond) {
			return ctx.Err()
		}
	}
}

// pruneOnce deletes so many rows and ends the transaction, which takes committing.
func pruneOnce(conn *sqlite.Conn, before time.Time, rows int) (n int64, committing time.Duration, err error) {
	err = sqlitex.Execute(conn, `DELETE FROM activity_log WHERE id IN (
		SELECT id FROM activity_log WHERE ts < ? AND message_id NOT IN (SELECT message_id FROM under_way) ORDER BY ts LIMIT ?)`,
		&sqlitex.ExecOptions{Args: []any{protocol.FormatTime(before), rows}})
	if err != nil {
		return 0, 0, errors.Join(err, sqlitex.Execute(conn, "ROLLBACK", nil))
	}
	n = int64(conn.Changes())
	began := time.Now()
	err = sqlitex.Execute(conn, "COMMIT", nil)
	return n, time.Since(began), err
}
