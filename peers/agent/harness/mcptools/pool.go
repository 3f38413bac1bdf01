package mcptools

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/protocol/defaults"

	"github.com/rs/zerolog"
)

// PoolOptions are the optional settings of a Pool. Nil is valid.
type PoolOptions struct {
	ConnectTimeout time.Duration // for connecting and listing; default 10 s
	CallTimeout    time.Duration // for one call; default 2 m
	Refresh        time.Duration // age at which tools are listed anew; default 5 m
	Idle           time.Duration // unused connections are closed after; default 10 m
	MaxServers     int           // connections kept; default 32
	ResultBytes    int           // of one result; default 256 KiB
	Hide           []string      // variables of ours that commands do not get, such as the keys of models; one that needs them has them in its own env
	Log            *zerolog.Logger
}

func (o *PoolOptions) withDefaults() PoolOptions {
	out := defaults.Of(o)
	defaults.Positive(&out.ConnectTimeout, 10*time.Second)
	defaults.Positive(&out.CallTimeout, 2*time.Minute)
	defaults.Positive(&out.Refresh, 5*time.Minute)
	defaults.Positive(&out.Idle, 10*time.Minute)
	defaults.Positive(&out.MaxServers, 32)
	defaults.Positive(&out.ResultBytes, 256<<10)
	defaults.Log(&out.Log)
	return out
}

// A Pool keeps connections to MCP servers for the turns of one agent.
type Pool struct {
	opts PoolOptions
	wg   sync.WaitGroup // of connections
	runs chan struct{}  // closed when Run begins

	mu    sync.Mutex
	life  context.Context // set by Run
	ended bool
	conns map[[sha256.Size]byte]*conn
}

// NewPool makes a pool. It connects to nothing before Run.
func NewPool(opts *PoolOptions) *Pool {
	return &Pool{opts: opts.withDefaults(), runs: make(chan struct{}), conns: map[[sha256.Size]byte]*conn{}}
}

// Run keeps connections until ctx ends, closes them, and returns nil. Call it
// once.
func (p *Pool) Run(ctx context.Context) error {
	p.mu.Lock()
	p.life = ctx
	p.mu.Unlock()
	close(p.runs)
	sweep := time.NewTicker(time.Minute)
	defer sweep.Stop()
	for ctx.Err() == nil {
		select {
		case <-sweep.C:
			p.drop(p.idleSince(time.Now().Add(-p.opts.Idle))...)
		case <-ctx.Done():
		}
	}
	p.mu.Lock()
	p.ended = true
	var all []*conn
	for _, c := range p.conns {
		all = append(all, c)
	}
	p.mu.Unlock()
	p.drop(all...)
	p.wg.Wait()
	return nil
}

// Tools connects to servers, where it is not yet connected, and returns their
// tools as name__tool. The errors are of the servers that are left out. It
// waits for Run to begin, at most PoolOptions.ConnectTimeout.
func (p *Pool) Tools(ctx context.Context, servers []harness.MCPServer) (harness.Tools, []error) {
	p.awaitRun(ctx)
	type answer struct {
		conn *conn
		err  error
	}
	answers := make([]answer, len(servers))
	var wg sync.WaitGroup
	for i, s := range servers {
		wg.Go(func() { answers[i].conn, answers[i].err = p.get(ctx, s) })
	}
	wg.Wait()
	joined := &joinedTools{opts: &p.opts, source: map[string]remoteTool{}}
	var failures []error
	for i, a := range answers {
		if a.err != nil {
			failures = append(failures, failed(&servers[i], a.err))
			continue
		}
		joined.add(a.conn)
	}
	return joined, failures
}

func (p *Pool) awaitRun(ctx context.Context) {
	timer := time.NewTimer(p.opts.ConnectTimeout)
	defer timer.Stop()
	select {
	case <-p.runs:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// get returns the connection to a server, connecting where there is none. A
// server of another address, header or command is another server.
func (p *Pool) get(ctx context.Context, s harness.MCPServer) (*conn, error) {
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	key := sha256.Sum256(raw)
	c, fresh, err := p.reserve(key, s)
	if err != nil {
		return nil, err
	}
	if err := p.usable(ctx, c); err == nil || fresh || ctx.Err() != nil {
		return c, err
	}
	// A kept connection that broke is made anew, once.
	if c, _, err = p.reserve(key, s); err != nil {
		return nil, err
	}
	return c, p.usable(ctx, c)
}

// usable waits until a connection is open and its tools are known and fresh.
// One that is not is dropped.
func (p *Pool) usable(ctx context.Context, c *conn) error {
	select {
	case <-c.ready:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	err := c.err
	if err == nil && time.Since(c.listedAt()) >= p.opts.Refresh {
		err = c.list(ctx, p.opts.ConnectTimeout)
	}
	if err != nil {
		p.drop(c)
	}
	return err
}

// reserve finds the connection of a key or starts a fresh one.
func (p *Pool) reserve(key [sha256.Size]byte, s harness.MCPServer) (c *conn, fresh bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life == nil || p.ended {
		return nil, false, harness.ErrStopped
	}
	if c, ok := p.conns[key]; ok {
		c.used = time.Now()
		return c, false, nil
	}
	if len(p.conns) >= p.opts.MaxServers {
		oldest := p.oldestLocked()
		if oldest == nil {
			return nil, false, errors.New("too many MCP servers are in use at once")
		}
		delete(p.conns, oldest.key)
		p.wg.Go(oldest.close)
	}
	c = &conn{key: key, server: s, hide: p.opts.Hide, used: time.Now(), ready: make(chan struct{}), closed: make(chan struct{})}
	p.conns[key] = c
	life := p.life
	p.wg.Go(func() { c.open(life, p.opts.ConnectTimeout) })
	return c, true, nil
}

// oldestLocked finds the connection that was not used for longest, among those
// that no call uses.
func (p *Pool) oldestLocked() *conn {
	var oldest *conn
	for _, c := range p.conns {
		if c.calls.Load() == 0 && (oldest == nil || c.used.Before(oldest.used)) {
			oldest = c
		}
	}
	return oldest
}

func (p *Pool) idleSince(limit time.Time) []*conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	var idle []*conn
	for _, c := range p.conns {
		if c.calls.Load() == 0 && c.used.Before(limit) {
			idle = append(idle, c)
		}
	}
	return idle
}

// drop closes connections and forgets them.
func (p *Pool) drop(conns ...*conn) {
	for _, c := range conns {
		p.mu.Lock()
		if p.conns[c.key] == c {
			delete(p.conns, c.key)
		}
		p.mu.Unlock()
		c.close()
	}
}
