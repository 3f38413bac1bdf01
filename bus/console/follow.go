package console

import (
	"context"
	"errors"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/read"
	"hubbub/protocol/retry"
)

const (
	// historyRows is the number of rows that are read for the first request. If more rows were
	// missed later, it is also the number of rows that are read.
	historyRows = 100_000
	// followInterval is the time between two reads.
	followInterval = 500 * time.Millisecond
	// followRows bounds the rows that are read each time. Further rows are skipped, so that the
	// console costs the bus little.
	followRows = 1_000
	// followFor is how long the log is followed after the last request.
	followFor = 2 * time.Minute
	// maxRowWait is how long a page waits for the model to be current.
	maxRowWait = 150 * time.Millisecond
)

// followed selects the rows of the model.
var followed = read.Filter{Events: []activitylog.Event{
	activitylog.SendStart, activitylog.ProcessFinish, activitylog.Rejected, activitylog.LogGap,
}}

// noteRequest wakes the follower for a request.
func (c *Console) noteRequest() {
	c.lastRequest.Store(c.now().UnixNano())
	c.wake.Notify()
}

// waitForRows waits a moment for the model to be current.
func (c *Console) waitForRows(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, maxRowWait)
	defer cancel()
	for c.log != nil && !c.current.Load() && retry.Sleep(ctx, 2*time.Millisecond) {
	}
}

// follow keeps the model current while pages are open.
func (c *Console) follow(ctx context.Context) {
	var at read.Cursor
	for {
		select {
		case <-c.wake.C():
		case <-ctx.Done():
			return
		}
		for c.now().Sub(time.Unix(0, c.lastRequest.Load())) < followFor {
			next, err := c.catchUp(ctx, at)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				c.current.Store(true) // there are no rows to wait for
				if !errors.Is(err, activitylog.ErrNoLog) {
					c.model.setReadError(err)
				}
			}
			at = next
			if !retry.Sleep(ctx, followInterval) {
				return
			}
		}
		c.current.Store(false)
	}
}

// catchUp reads the rows after a cursor: the whole history at first, and later a bounded number.
func (c *Console) catchUp(ctx context.Context, at read.Cursor) (read.Cursor, error) {
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
		skipped = 0 // the history before the first read does not count
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
		if !retry.Sleep(ctx, time.Since(began)) { // leave the processor to others for as long as reading took
			return at, ctx.Err()
		}
	}
	c.current.Store(true)
	return at, nil
}

// clampStart returns the cursor with at most room rows of each log before end, and the number of
// rows skipped after at.
func clampStart(room int64, at, end read.Cursor) (begin read.Cursor, skipped int64) {
	begin = make(read.Cursor, len(end))
	for i := range end {
		if i < len(at) && at[i] <= end[i] { // otherwise another file has replaced it
			begin[i] = at[i]
		}
		if behind := end[i] - begin[i]; behind > room {
			skipped += behind - room
			begin[i] = end[i] - room
		}
	}
	return begin, skipped
}

func reached(at, end read.Cursor) bool {
	for i := range end {
		if i < len(at) && at[i] < end[i] {
			return false
		}
	}
	return true
}
