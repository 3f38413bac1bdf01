package load

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"hubbub/protocol/wire"
)

// ServeEcho answers every frame with itself, until ctx ends.
func ServeEcho(ctx context.Context, listener net.Listener) error {
	var sessions sync.WaitGroup
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s, err := wire.Accept(w, r, "", nil)
		if err != nil {
			return
		}
		sessions.Go(func() {
			defer s.Close(wire.CloseNormal, "")
			stop := context.AfterFunc(ctx, func() { s.Close(wire.CloseGoingAway, "") })
			defer stop()
			for {
				frame, err := s.Read()
				if err != nil || s.Write(frame) != nil {
					return
				}
			}
		})
	})}
	stop := context.AfterFunc(ctx, func() { server.Close() }) //nolint:errcheck // it ends either way
	defer stop()
	err := server.Serve(listener)
	sessions.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// Floor measures the workload's round trips through the echo server at url,
// which runs as process pid.
func (w Workload) Floor(ctx context.Context, url string, pid int) (Result, error) {
	r := &rig{}
	defer r.close()
	for i := range w.Senders {
		s, err := wire.Dial(ctx, url, nil)
		if err != nil {
			return Result{}, fmt.Errorf("the echo server: %w", err)
		}
		r.senders, r.topics, r.ids = append(r.senders, s), append(r.topics, fmt.Sprintf("bench:%d", i)), append(r.ids, "cli:bench")
	}
	before, err := processUsage(pid)
	if err != nil {
		return Result{}, err
	}
	start := time.Now()
	latencies, err := r.drive(w, start.UnixMilli())
	took := time.Since(start)
	if err != nil {
		return Result{}, fmt.Errorf("the echo server: %w", err)
	}
	after, err := processUsage(pid)
	if err != nil {
		return Result{}, err
	}
	result := summary("floor: "+w.Name, latencies, took)
	result.ServerCPU = (after.cpu - before.cpu) / float64(result.Messages) * 100_000
	result.ServerRSS = after.rss
	return result, nil
}
