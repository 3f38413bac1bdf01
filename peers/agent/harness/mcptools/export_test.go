package mcptools

import (
	"context"
	"io"
	"net/http"
)

// Listening returns the stream of messages that a server sends on its own initiative.
func Listening(ctx context.Context, dial func() (*http.Response, error)) io.Reader {
	return &eventStream{ctx: ctx, dial: dial}
}

// KillPrograms kills the programs behind a pool's connections, and waits for their ends.
func KillPrograms(p *Pool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		<-c.ready
		if c.process != nil {
			c.process.Kill()
			<-c.process.Done()
		}
	}
}
