package http1_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/protocol/http1"
)

// pipes is a listener whose connections are pipes.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, open := <-p; open {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// TestServe_CompletesResponses also checks that it does not wait for slow ones.
func TestServe_CompletesResponses(t *testing.T) {
	for answer, want := range map[time.Duration]time.Duration{5 * time.Second: 5 * time.Second, time.Hour: 6 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			listener := make(pipes, 1)
			here, there := net.Pipe()
			listener <- there
			ctx, stop := context.WithCancel(t.Context())
			asked := make(chan struct{})
			ended := make(chan error, 1)
			go func() {
				ended <- http1.Serve(ctx, listener, http1.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					close(asked)
					select {
					case <-time.After(answer):
					case <-r.Context().Done():
					}
				})), 6*time.Second)
			}()
			go func() { fmt.Fprint(here, "GET / HTTP/1.0\r\n\r\n") }()
			<-asked
			from := time.Now()
			stop()
			go func() { _, _ = here.Read(make([]byte, 4096)) }()
			if err := <-ended; err != nil || time.Since(from).Round(time.Second) != want {
				t.Errorf("it ended after %v: %v; want %v", time.Since(from), err, want)
			}
			here.Close()
		})
	}
}
