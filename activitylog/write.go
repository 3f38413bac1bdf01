package activitylog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"hubbub/protocol/retry"

	"zombiezen.com/go/sqlite"
)

// writeChunk writes one chunk, again and again until it is committed or the
// time to stop has come.
func (w *Writer) writeChunk(ctx context.Context, c *chunk) {
	for {
		began := time.Now()
		first, n, err := w.tryWrite(c.rows[c.done:])
		if err == nil {
			if w.committed(c, first, n, time.Since(began)) {
				return
			}
			continue
		}
		w.failed(err)
		if w.mustStop(ctx) {
			w.giveUp()
			return
		}
		w.pause(ctx)
	}
}

// pause waits before the next attempt; the end of ctx cuts it short once.
func (w *Writer) pause(ctx context.Context) {
	if ctx.Err() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	retry.Sleep(ctx, retryEvery)
}

func (w *Writer) tryWrite(rows []Row) (first int64, n int, err error) {
	if err := w.ensureOpen(); err != nil {
		return 0, 0, err
	}
	first, n, err = w.sink.write(rows)
	if err != nil && !isBusy(err) && !errors.Is(err, errHeld) {
		_ = w.closeSink() // begin anew with a fresh connection; the fault is known already
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
	w.sink = s
	return nil
}

func (w *Writer) closeSink() error {
	if w.sink == nil {
		return nil
	}
	err := w.sink.close()
	w.sink = nil
	return err
}

// committed accounts for the next n rows of a chunk, which are on disk after some
// time, and reports whether those were its last. Then the chunk is no longer the
// caller's.
func (w *Writer) committed(c *chunk, first int64, n int, took time.Duration) bool {
	rows := c.rows[c.done : c.done+n]
	if w.opts.OnCommit != nil {
		w.opts.OnCommit(first, rows)
	}
	gaps := int64(0)
	for i := range rows {
		if rows[i].Event == LogGap {
			gaps++
			w.opts.Log.Warn().Str("path", w.path).RawJSON("gap", rows[i].Payload).Msg("activity log lost rows; a log_gap row stands in their place")
		}
	}
	w.mu.Lock()
	w.q.totals.Written += int64(n)
	w.q.totals.Gaps += gaps
	w.q.totals.Commits++
	w.q.totals.WALBytes = w.sink.walBytes()
	w.q.settle(n)
	w.q.pace(n, took)
	w.q.wakeWaiters()
	done := w.q.inFlight == nil
	w.mu.Unlock()
	w.recovered()
	return done
}

// recovered records that the database accepts rows.
func (w *Writer) recovered() {
	w.mu.Lock()
	w.q.reason = ""
	w.mu.Unlock()
	if w.loggedError != "" {
		w.loggedError = ""
		w.opts.Log.Info().Str("path", w.path).Msg("activity log is written again")
	}
}

// failed records why the writer makes no progress, and logs it if it is new or a
// minute old.
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
	w.mu.Unlock()
	if isBusy(err) && !stalled {
		return // somebody else writes for a moment
	}
	if text == w.loggedError && time.Since(w.loggedAt) < time.Minute {
		return
	}
	w.loggedError, w.loggedAt = text, time.Now()
	w.opts.Log.Error().Err(err).Str("path", w.path).Int("queued_rows", queued).
		Msg("activity log cannot be written; rows wait in memory and routing goes on")
}
