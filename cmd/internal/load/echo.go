package load

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"hubbub/protocol/wire"
)

// ServeEcho is the WebSocket floor: it returns every frame, over the transport of the bus. It
// runs until ctx ends.
func ServeEcho(ctx context.Context, listener net.Listener) error {
	var sessions sync.WaitGroup
	server := &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s, err := wire.Accept(w, r, "", nil)
			if err != nil {
				return
			}
			sessions.Go(func() {
				code := wire.CloseNormal
				defer func() { s.Close(code, "") }()
				stop := context.AfterFunc(ctx, func() { s.Close(wire.CloseGoingAway, "") })
				defer stop()
				for {
					frame, err := s.Read()
					if closed, ok := errors.AsType[*wire.CloseError](err); ok {
						code = closed.Code
					}
					if err != nil || s.Write(frame) != nil {
						return
					}
				}
			})
		}),
	}
	stop := context.AfterFunc(ctx, func() { server.Close() }) //nolint:errcheck // it ends either way
	defer stop()
	err := server.Serve(listener)
	sessions.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return err
}
