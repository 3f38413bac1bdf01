package chorus

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// Limits on calls to the gateway.
const (
	maxConnections = 1024             // at once; others wait in the system's queue
	maxCalls       = 256              // of one kind at once
	maxCallsOfOne  = 16               // at once with one secret
	bodyTimeout    = 20 * time.Second // for a body to arrive, read or not
	writeTimeout   = 30 * time.Second // for a caller to read a part of an answer
	headerTimeout  = 5 * time.Second
	idleTimeout    = 90 * time.Second
	maxHeaderBytes = 64 << 10
)

// A callLimiter bounds what runs at once, in total and per key. A call that finds it full
// is refused, so that a slow caller holds up nobody else.
type callLimiter struct {
	total *semaphore.Weighted // in total

	mu   sync.Mutex
	keys map[string]*keyLimiter
}

// A keyLimiter is the callers of one key. The gate's mu guards callers.
type keyLimiter struct {
	callers int // those that wait included
	slots   *semaphore.Weighted
}

func newCallLimiter() *callLimiter {
	return &callLimiter{total: semaphore.NewWeighted(maxCalls), keys: map[string]*keyLimiter{}}
}

// acquire takes a place for key, which leave gives back. It fails with errBusy if there
// is none. Of callers in order, one at a time is inside for each key; the others wait
// for their turn.
func (g *callLimiter) acquire(ctx context.Context, key string, inOrder bool) (leave func(), err error) {
	l, ok := g.admit(key)
	if !ok {
		return nil, errBusy
	}
	places := int64(1)
	if inOrder {
		places = maxCallsOfOne
	}
	if err := l.slots.Acquire(ctx, places); err != nil {
		g.release(key, l)
		return nil, errBusy
	}
	giveBack := func() {
		l.slots.Release(places)
		g.release(key, l)
	}
	if !g.total.TryAcquire(1) {
		giveBack()
		return nil, errBusy
	}
	return func() {
		g.total.Release(1)
		giveBack()
	}, nil
}

// admit counts a caller of a key, unless there are too many.
func (g *callLimiter) admit(key string) (l *keyLimiter, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l, known := g.keys[key]
	if !known {
		l = &keyLimiter{slots: semaphore.NewWeighted(maxCallsOfOne)}
		g.keys[key] = l
	}
	if l.callers >= maxCallsOfOne {
		return nil, false
	}
	l.callers++
	return l, true
}

// release forgets a caller, and the line with the last of them.
func (g *callLimiter) release(key string, l *keyLimiter) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l.callers--; l.callers == 0 {
		delete(g.keys, key)
	}
}

// limitBodyTime gives callers bodyTimeout for their bodies. It bounds also those that
// no handler reads: net/http reads what is left of them, and limits their size alone.
func limitBodyTime(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			// Not every connection has deadlines (those of tests may not); the limit on size holds anyway.
			conn := http.NewResponseController(w)
			_ = conn.SetReadDeadline(time.Now().Add(bodyTimeout))
			r.Body = &timedBody{ReadCloser: r.Body, arrived: func() { _ = conn.SetReadDeadline(time.Time{}) }}
		}
		next.ServeHTTP(w, r)
	})
}

// A timedBody tells when it has arrived: the answer may take longer.
type timedBody struct {
	io.ReadCloser
	arrived func()
}

func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.arrived()
	}
	return n, err
}
