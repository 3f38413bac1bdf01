package mcptools

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/protocol/defaults"
	"hubbub/protocol/redact"
	"hubbub/protocol/retry"
)

// PoolOptions are the optional settings of a Pool. Nil is valid.
type PoolOptions struct {
	ConnectTimeout time.Duration    `positive:"10s"`     // for connecting and for listing tools
	ResultBytes    int              `positive:"256<<10"` // of one result
	Redact         *redact.Redactor // removes secrets from results; default none
	// our variables that commands must not get, such as model keys; a server's own env may set them
	HideEnv []string
}

const (
	callTimeout = 2 * time.Minute  // of one call
	listMaxAge  = 5 * time.Minute  // after which tools are listed again
	poolIdle    = 10 * time.Minute // after which unused connections are closed
	maxServers  = 32               // maximum number of connections
)

// A Pool keeps connections to MCP servers for the turns of one agent.
type Pool struct {
	opts    PoolOptions
	started chan struct{}  // closed when Run begins
	wg      sync.WaitGroup // of connections

	mu    sync.Mutex       // also guards fields of each conn
	ctx   context.Context  // of Run; nil while Run does not run
	conns map[string]*conn // keyed by the server as JSON
}

// NewPool makes a pool. It makes no connections before Run.
func NewPool(opts *PoolOptions) *Pool {
	return &Pool{opts: defaults.Of(opts), started: make(chan struct{}), conns: map[string]*conn{}}
}

// Run keeps connections until ctx ends, closes them, and returns nil. Call it once.
func (p *Pool) Run(ctx context.Context) error {
	p.mu.Lock()
	p.ctx = ctx
	p.mu.Unlock()
	close(p.started)
	for retry.Sleep(ctx, time.Minute) {
		p.mu.Lock()
		for c := p.idleLocked(poolIdle); c != nil; c = p.idleLocked(poolIdle) {
			p.dropLocked(c)
		}
		p.mu.Unlock()
	}
	p.mu.Lock()
	p.ctx = nil // refuses further connections
	p.mu.Unlock()
	p.wg.Wait()
	return nil
}

// Tools connects to servers if necessary and returns their tools as name__tool, with a number if
// the name is taken. The errors are those of the servers that are left out. It waits up to
// PoolOptions.ConnectTimeout for Run to start.
func (p *Pool) Tools(
	ctx context.Context,
	servers []harness.MCPServer,
	people harness.Approver,
) (harness.Tools, []error) {
	waitCtx, cancel := context.WithTimeout(ctx, p.opts.ConnectTimeout)
	defer cancel()
	select {
	case <-p.started:
	case <-waitCtx.Done():
	}
	conns, errs := make([]*conn, len(servers)), make([]error, len(servers))
	var wg sync.WaitGroup
	for i, s := range servers {
		wg.Go(func() { conns[i], errs[i] = p.connect(ctx, s) })
	}
	wg.Wait()
	joined := new(harness.MergedTools)
	var failures []error
	for i, s := range servers {
		if errs[i] != nil {
			failures = append(failures, connectError(&s, errs[i]))
			continue
		}
		joined.Add(&turnTools{conns[i], people}, func(tool string, n int) string {
			prefix := cmp.Or(s.Name, "mcp")
			if n > 1 {
				prefix += strconv.Itoa(n)
			}
			return prefix + "__" + tool
		})
	}
	return joined, failures
}

// connect returns a usable connection to a server. Servers with different addresses, headers or
// commands are different servers. If a kept connection is broken, connect makes a new one, once.
func (p *Pool) connect(ctx context.Context, s harness.MCPServer) (*conn, error) {
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	for {
		c, fresh, err := p.reserve(string(raw), s)
		if err == nil {
			err = p.awaitUsable(ctx, c)
		}
		if err == nil || c == nil || fresh || ctx.Err() != nil {
			return c, err
		}
	}
}

// awaitUsable waits until a connection is open and its list of tools is recent. It drops the
// connection on failure.
func (p *Pool) awaitUsable(ctx context.Context, c *conn) error {
	select {
	case <-c.ready:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	err := c.err
	p.mu.Lock()
	stale := time.Since(c.listedAt) >= listMaxAge
	p.mu.Unlock()
	if err == nil && stale {
		err = c.listTools(ctx)
	}
	if err != nil {
		p.mu.Lock()
		p.dropLocked(c)
		p.mu.Unlock()
	}
	return err
}

// reserve returns the connection of a key, or starts a new one.
func (p *Pool) reserve(key string, s harness.MCPServer) (c *conn, fresh bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx == nil {
		return nil, false, harness.ErrStopped
	}
	if c, ok := p.conns[key]; ok {
		c.lastUsed = time.Now()
		return c, false, nil
	}
	if len(p.conns) >= maxServers {
		oldest := p.idleLocked(0)
		if oldest == nil {
			return nil, false, errors.New("too many MCP servers are in use at once")
		}
		p.dropLocked(oldest)
	}
	ctx, stop := context.WithCancel(p.ctx)
	c = &conn{
		pool:     p,
		key:      key,
		server:   s,
		calls:    map[*activeCall]bool{},
		stop:     stop,
		lastUsed: time.Now(),
		ready:    make(chan struct{}),
	}
	p.conns[key] = c
	p.wg.Go(func() { c.run(ctx) })
	return c, true, nil
}

// idleLocked returns the connection that has been idle longest, at least for the given time,
// among those without calls. It returns nil if there is none.
func (p *Pool) idleLocked(idle time.Duration) (oldest *conn) {
	for _, c := range p.conns {
		if len(c.calls) == 0 && time.Since(c.lastUsed) >= idle &&
			(oldest == nil || c.lastUsed.Before(oldest.lastUsed)) {
			oldest = c
		}
	}
	return oldest
}

// dropLocked removes and closes a connection.
func (p *Pool) dropLocked(c *conn) {
	if p.conns[c.key] == c {
		delete(p.conns, c.key)
	}
	c.stop()
}
