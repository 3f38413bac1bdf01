package otlp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"hubbub/activitylog"

	"github.com/rs/zerolog"
)

const (
	queuedCommits = 256             // that wait
	queuedBytes   = 64 << 20        // of payloads in those
	batchSpans    = 512             // of one request
	batchWait     = 2 * time.Second // until a request goes with fewer
	lastWait      = 2 * time.Second // for the last requests, at the end
	complainEvery = time.Minute
)

// An Exporter sends spans. Run must be running for Offer to have an effect.
type Exporter struct {
	settings Settings
	client   *http.Client
	log      zerolog.Logger
	queue    chan []activitylog.Row
	waiting  atomic.Int64 // bytes of payloads in queue

	sent    atomic.Int64
	dropped atomic.Int64

	// Of the goroutine in Run alone.
	spans      []span
	failure    error     // of the last request that failed, until it is told
	told       int64     // of dropped, what the log knows
	complained time.Time // when it was told
}

// New makes an exporter. It does no I/O. The log may be nil.
func New(s Settings, log *zerolog.Logger) *Exporter {
	e := &Exporter{settings: s, client: &http.Client{Timeout: s.Timeout}, log: zerolog.Nop(), queue: make(chan []activitylog.Row, queuedCommits)}
	if log != nil {
		e.log = *log
	}
	return e
}

// Offer takes rows that were committed: it is an OnCommit of the log's writer.
// It never blocks.
func (e *Exporter) Offer(_ int64, rows []activitylog.Row) {
	kept, size := slices.Clone(rows), int64(0)
	for i := range kept {
		if kept[i].Event != activitylog.SendStart {
			kept[i].Payload = nil // only a message's own says what its trace is
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

// Stats returns how many spans were taken by the collector, and how many rows
// and spans were dropped.
func (e *Exporter) Stats() (sent, dropped int64) { return e.sent.Load(), e.dropped.Load() }

// Run exports until ctx ends, and then what is queued, as far as that goes within
// two seconds. A collector that does not answer ends nothing: its spans are
// dropped, and the log says so at most once a minute.
func (e *Exporter) Run(ctx context.Context) error {
	a := newAssembler()
	ticker := time.NewTicker(batchWait)
	defer ticker.Stop()
	defer e.client.CloseIdleConnections()
	for {
		select {
		case rows := <-e.queue:
			e.take(ctx, a, rows)
		case <-ticker.C:
			e.flush(ctx)
			e.complain()
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWait)
			defer cancel()
			for len(e.queue) > 0 {
				e.take(last, a, <-e.queue)
			}
			e.flush(last)
			e.complain()
			return nil
		}
	}
}

func (e *Exporter) take(ctx context.Context, a *assembler, rows []activitylog.Row) {
	for i := range rows {
		e.waiting.Add(-int64(len(rows[i].Payload)))
		e.spans = append(e.spans, a.add(&rows[i])...)
		if len(e.spans) >= batchSpans {
			e.flush(ctx)
		}
	}
}

// flush sends what is gathered; it is tried once.
func (e *Exporter) flush(ctx context.Context) {
	if len(e.spans) == 0 {
		return
	}
	n := int64(len(e.spans))
	err := e.post(ctx)
	clear(e.spans)
	e.spans = e.spans[:0]
	if err == nil {
		e.sent.Add(n)
		return
	}
	e.dropped.Add(n)
	e.failure = err
}

// complain tells the log what was dropped, at most once a minute: because the
// collector is away, or because it takes less than there is.
func (e *Exporter) complain() {
	dropped := e.dropped.Load()
	if dropped == e.told || time.Since(e.complained) < complainEvery {
		return
	}
	e.log.Warn().Err(e.failure).Int64("dropped", dropped).Msg("not everything can be exported as spans; the activity log is not affected")
	e.failure, e.told, e.complained = nil, dropped, time.Now()
}

func (e *Exporter) post(ctx context.Context) error {
	resource := make([]string, 0, 2*len(e.settings.Resource))
	for _, k := range slices.Sorted(maps.Keys(e.settings.Resource)) {
		resource = append(resource, k, e.settings.Resource[k])
	}
	body, err := json.Marshal(map[string]any{"resourceSpans": []any{map[string]any{
		"resource":   map[string]any{"attributes": attributes(resource...)},
		"scopeSpans": []any{map[string]any{"scope": map[string]string{"name": "hubbub"}, "spans": e.spans}},
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
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection can be used again
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("the collector answered HTTP %d", resp.StatusCode)
	}
	return nil
}
