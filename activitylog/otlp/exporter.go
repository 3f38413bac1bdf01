package otlp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"hubbub/activitylog"
	"hubbub/protocol/defaults"
	"hubbub/protocol/retry"

	"github.com/rs/zerolog"
)

const (
	queuedCommits = 256             // commits in the queue
	queuedBytes   = 64 << 20        // bytes of payloads in the queue
	batchSpans    = 512             // spans in one request
	batchWait     = 2 * time.Second // until a smaller request is sent
	lastWait      = 2 * time.Second // for the last requests, at the end
	complainEvery = time.Minute
)

// An Exporter sends spans to a collector. Offer has no effect unless Run is running.
type Exporter struct {
	settings Settings
	client   *http.Client
	log      zerolog.Logger
	queue    chan []activitylog.Row
	waiting  atomic.Int64 // bytes of payloads in queue

	sent    atomic.Int64
	dropped atomic.Int64

	// The fields below belong to the goroutine in Run.
	spans      []span
	tries      int       // attempts of the current request
	resume     time.Time // nothing is sent before this time
	failure    error     // of the last failed request, until it is logged
	told       int64     // the value of dropped that was logged last
	complained time.Time // when it was logged
}

// New returns an Exporter. It does no I/O. The log may be nil.
func New(s Settings, log *zerolog.Logger) *Exporter {
	defaults.Log(&log)
	return &Exporter{settings: s, client: &http.Client{Timeout: s.Timeout}, log: *log,
		queue: make(chan []activitylog.Row, queuedCommits)}
}

// Offer queues committed rows. It implements OnCommit of the log's writer, and never blocks.
func (e *Exporter) Offer(_ int64, rows []activitylog.Row) {
	kept, size := slices.Clone(rows), int64(0)
	for i := range kept {
		if kept[i].Event != activitylog.SendStart {
			kept[i].Payload = nil // only the payload of a message has a trace
		}
		size += int64(len(kept[i].Payload))
	}
	if e.waiting.Load()+size <= queuedBytes || e.waiting.Load() == 0 {
		e.waiting.Add(size)
		select {
		case e.queue <- kept:
			return
		default:
			e.waiting.Add(-size)
		}
	}
	e.dropped.Add(int64(len(rows)))
}

// Run exports rows until ctx ends, and then sends queued rows for at most two seconds, without
// retries. If the collector does not accept spans, they are dropped, and a warning is logged at
// most once a minute.
func (e *Exporter) Run(ctx context.Context) error {
	m := newSpanMaker()
	ticker := time.NewTicker(batchWait)
	defer ticker.Stop()
	defer e.client.CloseIdleConnections()
	for {
		queue := e.queue
		if len(e.spans) >= batchSpans { // they wait for a retry; rows wait in the queue
			queue = nil
		}
		select {
		case rows := <-queue:
			e.take(m, rows)
			e.flush(ctx, batchSpans)
		case <-ticker.C:
			e.flush(ctx, 1)
			e.complain()
		case <-ctx.Done():
			e.finish(context.WithoutCancel(ctx), m)
			return nil
		}
	}
}

// finish sends the remaining spans.
func (e *Exporter) finish(ctx context.Context, m *spanMaker) {
	ctx, cancel := context.WithTimeout(ctx, lastWait)
	defer cancel()
	e.resume = time.Time{}
	for len(e.queue) > 0 {
		e.take(m, <-e.queue)
		e.flush(ctx, batchSpans)
	}
	e.flush(ctx, 1)
	e.drop(len(e.spans))
	e.complain()
}

func (e *Exporter) take(m *spanMaker, rows []activitylog.Row) {
	for i := range rows {
		e.waiting.Add(-int64(len(rows[i].Payload)))
		e.spans = append(e.spans, m.add(&rows[i])...)
	}
}

// flush sends spans in batches while at least atLeast of them are left. It never waits for the
// time of a retry.
func (e *Exporter) flush(ctx context.Context, atLeast int) {
	for len(e.spans) >= atLeast && ctx.Err() == nil && !time.Now().Before(e.resume) {
		n := min(len(e.spans), batchSpans)
		err := e.post(ctx, e.spans[:n])
		if err != nil && ctx.Err() != nil { // finish comes next, or drops the spans
			e.failure = err
			return
		}
		e.settle(n, err)
	}
}

// settle records the result of a request with the first n spans.
func (e *Exporter) settle(n int, err error) {
	if err == nil {
		e.tries = 0
		e.sent.Add(int64(n))
		e.spans = slices.Delete(e.spans, 0, n)
		if e.dropped.Load() == e.told {
			e.failure = nil // the retry succeeded
		}
		return
	}
	e.tries++
	e.failure = err
	pause, again := pauseAfter(err, e.tries, rand.Float64())
	e.resume = time.Now().Add(pause)
	if !again || e.tries >= maxTries {
		e.drop(n)
	}
}

// drop drops the first n spans.
func (e *Exporter) drop(n int) {
	e.tries = 0
	e.dropped.Add(int64(n))
	e.spans = slices.Delete(e.spans, 0, n)
}

// complain logs how many spans were dropped, at most once a minute.
func (e *Exporter) complain() {
	dropped := e.dropped.Load()
	if dropped == e.told || time.Since(e.complained) < complainEvery {
		return
	}
	e.log.Warn().Err(e.failure).Int64("dropped", dropped).Msg("spans dropped; the activity log is not affected")
	e.failure, e.told, e.complained = nil, dropped, time.Now()
}

func (e *Exporter) post(ctx context.Context, spans []span) error {
	resource := make([]string, 0, 2*len(e.settings.Resource))
	for _, k := range slices.Sorted(maps.Keys(e.settings.Resource)) {
		resource = append(resource, k, e.settings.Resource[k])
	}
	body, err := json.Marshal(map[string]any{"resourceSpans": []any{map[string]any{
		"resource":   map[string]any{"attributes": attributes(resource...)},
		"scopeSpans": []any{map[string]any{"scope": map[string]string{"name": "hubbub"}, "spans": spans}},
	}}})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.settings.Endpoint, bytes.NewReader(body))
	if err != nil {
		return err
	}
	for name, v := range e.settings.Headers {
		req.Header.Set(name, v)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := e.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // for reuse of the connection
	return statusOfAnswer(resp.StatusCode, resp.Header, time.Now())
}

const (
	maxTries = 5                // attempts of one request
	minPause = 2 * time.Second  // after the first failure; each next one is twice as long
	maxPause = 10 * time.Minute // bound of Retry-After
)

// A statusError is an HTTP answer other than success.
type statusError struct {
	code  int
	after time.Duration // from Retry-After; zero if the collector sent none
}

func (e *statusError) Error() string { return fmt.Sprintf("the collector answered HTTP %d", e.code) }

// statusOfAnswer returns nil for a success, and otherwise a statusError.
func statusOfAnswer(code int, header http.Header, now time.Time) error {
	if code/100 == 2 {
		return nil
	}
	e := &statusError{code: code}
	text := header.Get("Retry-After")
	if seconds, err := strconv.Atoi(text); err == nil {
		e.after = time.Duration(min(max(seconds, 0), int(maxPause/time.Second))) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		e.after = min(max(at.Sub(now), 0), maxPause)
	}
	return e
}

// pauseAfter returns how long to pause after a failure, and whether to retry the request. OTLP
// allows retries after four statuses and after connection failures. random, in [0,1), spreads the
// retries of several buses.
func pauseAfter(err error, tries int, random float64) (pause time.Duration, again bool) {
	var answer *statusError
	var connection *url.Error
	switch {
	case errors.As(err, &answer):
		switch answer.code {
		case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable,
			http.StatusGatewayTimeout:
		default:
			return 0, false
		}
		if answer.after > 0 {
			return answer.after, true
		}
	case !errors.As(err, &connection):
		return 0, false
	}
	return retry.Backoff{Min: minPause, Max: maxPause}.At(tries, random), true
}
