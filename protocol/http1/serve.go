package http1

import (
	"context"
	"net"
	"net/http"
	"time"
)

// Serve serves HTTP until ctx ends, and then waits at most grace for running calls, before it
// closes their connections. It closes the listener, and returns nil unless the listener fails.
func Serve(ctx context.Context, listener net.Listener, server *http.Server, grace time.Duration) error {
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if server.Shutdown(ending) != nil {
		server.Close() //nolint:errcheck // ends what did not finish
	}
	<-served
	return nil
}

// NewServer returns a server for calls with small bodies, which must arrive within 30 s.
func NewServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}
}
