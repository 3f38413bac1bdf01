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
	maxConnections = 1024             // concurrent; further ones wait in the system's queue
	maxCalls       = 256              // concurrent calls of one kind
	maxCallsOfOne  = 16               // concurrent calls with one secret
	bodyTimeout    = 20 * time.Second // for receiving a body, even if no handler reads it
	writeTimeout   = 30 * time.Second // for a caller to read a part of an answer
	headerTimeout  = 5 * time.Second
	idleTimeout    = 90 * time.Second
	maxHeaderBytes = 64 << 10
)

// A callLimiter limits concurrent calls, in total and per key. It refuses a call over the limit,
// so that a slow caller delays nobody else.
type callLimiter struct {
	total *semaphore.Weighted // calls of all keys

	mu   sync.Mutex
	keys map[string]*keyLimiter
}

// A keyLimiter limits the calls of one key. The mutex of the callLimiter guards callers.
type keyLimiter struct {
	callers int // including those that wait
	slots   *semaphore.Weighted
}

func newCallLimiter() *callLimiter {
	return &callLimiter{total: semaphore.NewWeighted(maxCalls), keys: map[string]*keyLimiter{}}
}

// acquire admits a call for key; the caller must call leave afterwards. It fails with errBusy
// over the limit. With inOrder, one call per key runs at a time, and the others wait for their
// turn.
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

// admit counts a caller of a key, unless the key has too many.
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

// release removes a caller, and its key with the last caller.
func (g *callLimiter) release(key string, l *keyLimiter) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l.callers--; l.callers == 0 {
		delete(g.keys, key)
	}
}

// limitBodyTime gives callers bodyTimeout to send their bodies, even if no handler reads them:
// net/http reads the rest of a body and limits only its size.
func limitBodyTime(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			// Some connections, such as those of tests, have no deadlines. The size is limited in
			// any case.
			conn := http.NewResponseController(w)
			_ = conn.SetReadDeadline(time.Now().Add(bodyTimeout))
			r.Body = &timedBody{ReadCloser: r.Body, arrived: func() { _ = conn.SetReadDeadline(time.Time{}) }}
		}
		next.ServeHTTP(w, r)
	})
}

// A timedBody calls arrived when the body is complete; the answer may take longer.
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
