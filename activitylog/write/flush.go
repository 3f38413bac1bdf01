package write

import (
	"context"
	"errors"
	"fmt"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/internal/segment"
	"hubbub/protocol/retry"

	"zombiezen.com/go/sqlite"
)

// writeChunk writes one chunk and retries until it is committed, or the time allowed for a stop
// is over.
func (w *Writer) writeChunk(ctx context.Context, c *chunk) {
	for {
		if w.sink != nil && ctx.Err() == nil && w.sink.due() { // do not rotate during a stop
			w.rotate()
		}
		began := time.Now()
		first, n, err := w.tryWrite(c.rows[c.written:])
		if err == nil {
			if w.accountWritten(c, first, n, time.Since(began)) {
				return
			}
			continue
		}
		w.failed(err)
		if w.mustStop(ctx) {
			w.abandonRows()
			return
		}
		w.pause(ctx)
	}
}

// pause waits before the next attempt. If ctx ends during the wait, it returns early.
func (w *Writer) pause(ctx context.Context) {
	if ctx.Err() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	retry.Sleep(ctx, retryEvery)
}

func (w *Writer) tryWrite(rows []activitylog.Row) (first int64, n int, err error) {
	if err := w.ensureOpen(); err != nil {
		return 0, 0, err
	}
	first, n, err = w.sink.write(rows)
	if err != nil && !segment.IsBusy(err) && !errors.Is(err, errWALFull) {
		_ = w.closeSink() // retry with a new connection; the error is known already
	}
	return first, n, err
}

func (w *Writer) ensureOpen() error {
	if w.sink != nil {
		return nil
	}
	s, err := w.open()
	if err != nil {
		return err
	}
	w.sinkMu.Lock()
	defer w.sinkMu.Unlock()
	w.sink = s
	return nil
}

func (w *Writer) closeSink() error {
	if w.sink == nil {
		return nil
	}
	w.sinkMu.Lock()
	defer w.sinkMu.Unlock()
	err := w.sink.close()
	w.sink = nil
	return err
}

// rotate starts a new active segment. Everything committed to the old one is then durable.
func (w *Writer) rotate() {
	defer w.compactor.wake.Notify()
	defer w.beginStep(1)
	w.sinkMu.Lock()
	defer w.sinkMu.Unlock()
	switch err := w.sink.rotate(); {
	case err != nil && !errors.Is(err, errInUse):
		w.sink = nil // it is closed
		w.failed(err)
	}
}

// accountWritten accounts for the next n committed rows of a chunk, and reports whether they were
// its last ones. The caller must not use the chunk after that.
func (w *Writer) accountWritten(c *chunk, first int64, n int, took time.Duration) (last bool) {
	w.mu.Lock()
	w.q.markWritten(c, first, n, took)
	if took > maxLag { // it waited for the disk, like a commit that restarts the write-ahead log
		w.beginStepLocked(1)
	}
	last = c.written == len(c.rows)
	w.q.totals.Commits++
	w.q.totals.WALBytes = w.sink.walBytes()
	w.mu.Unlock()
	w.commits.Notify()
	return last
}

// settleCommits syncs commits until writing has ended, concurrently with the goroutine that
// writes. Commits made during a sync share the next one.
func (w *Writer) settleCommits(ctx context.Context) {
	for {
		w.mu.Lock()
		commits, stopping := w.q.commits, w.q.stopping
		w.mu.Unlock()
		switch {
		case len(commits) > 0:
			w.settle(ctx, commits, stopping)
		case stopping:
			return
		default:
			<-w.commits.C()
		}
	}
}

// settle syncs the oldest commits and accounts for their rows. The caller must not use the rows
// after that.
func (w *Writer) settle(ctx context.Context, commits []commit, stopping bool) {
	began := time.Now()
	if err := w.sync(); err != nil {
		if !errors.Is(err, errClosed) {
			w.failed(err)
		}
		if stopping && w.mustStop(ctx) {
			w.abandonCommits()
			return
		}
		w.pause(ctx)
		return
	}
	took := time.Since(began)
	n, gaps := 0, int64(0)
	for _, c := range commits {
		n += len(c.rows)
		if w.opts.OnCommit != nil {
			w.opts.OnCommit(c.first, c.rows)
		}
		for i := 0; c.gaps && i < len(c.rows); i++ {
			if c.rows[i].Event == activitylog.LogGap {
				gaps++
				w.opts.Log.Warn().Str("path", w.path).RawJSON("gap",
					c.rows[i].Payload).Msg("activity log: rows were lost; a log_gap row takes their place")
			}
		}
	}
	w.mu.Lock()
	q := &w.q
	q.commits = append([]commit(nil), q.commits[len(commits):]...)
	q.totals.Written += int64(n)
	q.totals.Gaps += gaps
	q.slow = took >= stallAfter
	q.settle(n)
	q.reason = ""
	q.wakeWaiters()
	w.mu.Unlock()
	w.recovered()
}

// errClosed is returned while the database is not open: after a failure, or after the end. It does
// not say why; the failure itself is recorded.
var errClosed = errors.New("the activity log is not open")

func (w *Writer) sync() error {
	w.sinkMu.Lock()
	defer w.sinkMu.Unlock()
	if w.sink == nil {
		return errClosed
	}
	return w.sink.sync()
}

// recovered records that the database accepts rows again.
func (w *Writer) recovered() {
	w.mu.Lock()
	w.q.reason = ""
	told := w.loggedError != ""
	w.loggedError = ""
	w.mu.Unlock()
	if told {
		w.opts.Log.Info().Str("path", w.path).Msg("activity log: writing works again")
	}
}

// failed records why the writer makes no progress. It logs an error that is new, or that it
// logged more than a minute ago.
func (w *Writer) failed(err error) {
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultCorrupt, sqlite.ResultNotADB:
		err = fmt.Errorf("%w (move it away, and a new log begins)", err)
	}
	text := err.Error()
	w.mu.Lock()
	w.q.reason = text
	w.q.totals.Failures++
	w.q.totals.LastError = text
	if w.q.progress.IsZero() {
		w.q.progress = time.Now()
	}
	queued, stalled := w.q.rows, time.Since(w.q.progress) >= stallAfter
	// Another program may lock the database for a moment. The same error is logged once a minute.
	quiet := segment.IsBusy(err) && !stalled || text == w.loggedError && time.Since(w.loggedAt) < time.Minute
	if !quiet {
		w.loggedError, w.loggedAt = text, time.Now()
	}
	w.mu.Unlock()
	if quiet {
		return
	}
	w.opts.Log.Error().Err(err).Str("path", w.path).Int("queued_rows", queued).
		Msg("activity log: writing failed; rows wait in memory, and routing continues")
}
