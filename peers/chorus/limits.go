package chorus

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// Limits on calls to the gateway.
const (
	maxCalls       = 256 // at once, in all
	maxCallsOfOne  = 16  // at once with one secret
	bodyTimeout    = 20 * time.Second
	headerTimeout  = 5 * time.Second
	idleTimeout    = 90 * time.Second
	maxHeaderBytes = 64 << 10
)

// A gate bounds what runs at once, in all and per key. When it is full a call
// is refused at once, so that a slow caller holds up nobody else.
type gate struct {
	all, each int

	mu      sync.Mutex
	total   int
	running map[string]int
}

func newGate(all, each int) *gate {
	return &gate{all: all, each: each, running: map[string]int{}}
}

// enter takes a place for key; the returned func gives it back. False means
// that there is none.
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

// errTooLarge says that a body is larger than maxBody.
var errTooLarge = errors.New("the body is larger than 1 MiB")

// readBody reads a body of at most maxBody bytes within bodyTimeout.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > maxBody {
		return nil, errTooLarge
	}
	// Not every connection has deadlines (those of tests may not); the limit on size holds anyway.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return nil, errTooLarge
	}
	if err != nil {
		return nil, errors.New("the body could not be read")
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return body, nil
}
