package chorus

import (
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
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

// A gate bounds what runs at once, in total and per key. A call that finds it full
// is refused, so that a slow caller holds up nobody else.
type gate struct {
	all, each int

	mu      sync.Mutex
	total   int
	running map[string]int
}

func newGate(all, each int) *gate {
	return &gate{all: all, each: each, running: map[string]int{}}
}

// enter takes a place for key, which leave gives back. It reports false if there is
// none.
func (g *gate) enter(key string) (leave func(), ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.total >= g.all || g.running[key] >= g.each {
		return nil, false
	}
	g.total++
	g.running[key]++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.total--
		if g.running[key]--; g.running[key] == 0 {
			delete(g.running, key)
		}
	}, true
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

// readBody reads a body of at most maxBody bytes. Its errors are refusals.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > maxBody {
		return nil, errTooLarge
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, errTooLarge
	case err != nil:
		return nil, refuse(http.StatusBadRequest, "the body could not be read")
	}
	return body, nil
}

// A limitedListener bounds how many connections are open at once.
type limitedListener struct {
	net.Listener
	places chan struct{}
	closed chan struct{}
	once   sync.Once
}

func newLimitedListener(l net.Listener, places int) *limitedListener {
	return &limitedListener{Listener: l, places: make(chan struct{}, places), closed: make(chan struct{})}
}

// Accept waits for a place and a connection.
func (l *limitedListener) Accept() (net.Conn, error) {
	select {
	case l.places <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.places
		return nil, err
	}
	return &limitedConn{Conn: conn, free: sync.OnceFunc(func() { <-l.places })}, nil
}

// Close closes the listener and ends an Accept that waits for a place.
func (l *limitedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// A limitedConn gives its place back when it is closed.
type limitedConn struct {
	net.Conn
	free func()
}

// Close closes the connection.
func (c *limitedConn) Close() error {
	defer c.free()
	return c.Conn.Close()
}
