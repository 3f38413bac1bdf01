package console

import (
	"context"
	"errors"
	"time"

	"hubbub/activitylog"
	"hubbub/protocol/retry"
)

const (
	// historyRows is how many rows are read for the first request, and after more
	// than that were missed.
	historyRows = 100_000
	// followEvery is how often new rows are read.
	followEvery = 500 * time.Millisecond
	// followRows is how many rows are read each time, at most. Further rows are
	// skipped, so that the console costs the bus little.
	followRows = 1_000
	// followFor is how long after the last request the log is still followed.
	followFor = 2 * time.Minute
	// catchUp is how long a page waits for the rows that it shows.
	catchUp = 150 * time.Millisecond
)

// followed chooses the rows that facts are made of.
var followed = activitylog.Filter{Events: []activitylog.Event{
	activitylog.SendStart, activitylog.ProcessFinish, activitylog.Rejected, activitylog.LogGap,
}}

// noteRequest tells the follower of a request.
func (c *Console) noteRequest() {
	c.lastRequest.Store(c.now().UnixNano())
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// waitForRows waits until the facts hold the log's rows, but not for long.
func (c *Console) waitForRows(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, catchUp)
	defer cancel()
	for c.log != nil && !c.current.Load() && retry.Sleep(ctx, 2*time.Millisecond) {
	}
}

// follow keeps the facts current while somebody looks.
func (c *Console) follow(ctx context.Context) {
	var at activitylog.Cursor
	for {
		select {
		case <-c.wake:
		case <-ctx.Done():
			return
		}
		for c.now().Sub(time.Unix(0, c.lastRequest.Load())) < followFor {
			next, err := c.catchUp(ctx, at)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				c.current.Store(true) // there is nothing to wait for
				if !errors.Is(err, activitylog.ErrNoLog) {
					c.model.setReadError(err)
				}
			}
			at = next
			if !retry.Sleep(ctx, followEvery) {
				return
			}
		}
		c.current.Store(false)
	}
}

// catchUp reads the rows since a place: all of the history at first, later a bounded
// number.
func (c *Console) catchUp(ctx context.Context, at activitylog.Cursor) (activitylog.Cursor, error) {
	end, err := c.log.End(ctx)
	if err != nil {
		return at, err
	}
	first, room := at == nil, int64(followRows)
	if !c.current.Load() { // the log was not followed for a while
		first, room = true, historyRows
	}
	begin, skipped := clampStart(room, at, end)
	if at == nil {
		skipped = 0 // the older history
	}
	c.model.addSkipped(skipped)
	at = begin
	for {
		const page = 1000
		began := time.Now()
		rows, next, err := c.log.After(ctx, followed, at, page)
		c.model.apply(rows)
		at = next
		if err != nil {
			return at, err
		}
		if len(rows) < page || !first && reached(at, end) {
			break
		}
		if !retry.Sleep(ctx, time.Since(began)) { // leave the processor to others as well
			return at, ctx.Err()
		}
	}
	c.current.Store(true)
	return at, nil
}

// clampStart returns the place from which at most so many rows of each log lie before its
// end, and how many rows after at that skips.
func clampStart(room int64, at, end activitylog.Cursor) (begin activitylog.Cursor, skipped int64) {
	begin = make(activitylog.Cursor, len(end))
	for i := range end {
		if i < len(at) && at[i] <= end[i] { // else another file took its place
			begin[i] = at[i]
		}
		if behind := end[i] - begin[i]; behind > room {
			skipped += behind - room
			begin[i] = end[i] - room
		}
	}
	return begin, skipped
}

func reached(at, end activitylog.Cursor) bool {
	for i := range end {
		if i < len(at) && at[i] < end[i] {
			return false
		}
	}
	return true
}
