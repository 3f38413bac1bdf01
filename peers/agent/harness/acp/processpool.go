package acp

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/subprocess"
)

// maxProcesses is the maximum number of processes of one program. When another process is needed,
// the least recently used one is stopped.
const maxProcesses = 8

// singleServerPrograms are the programs that keep one MCP server of each name per process. The
// sessions of two chats would share one chat's tools, so each set of servers gets its own
// process.
var singleServerPrograms = map[string]bool{"OpenCode": true}

// A processPool holds the processes of a program.
type processPool struct {
	supervise func(ctx context.Context, life *subprocess.Supervisor[agentProcess]) error // keeps one process running
	main      *subprocess.Supervisor[agentProcess]
	wg        sync.WaitGroup // of the extra processes

	mu       sync.Mutex
	ctx      context.Context // while the harness runs; nil otherwise
	mainKey  string          // the servers of the main process, for a single-server program
	extra    map[string]*extraProcess
	useCount int64 // increases with each use
}

// An extraProcess is a process in addition to the main one.
type extraProcess struct {
	supervisor *subprocess.Supervisor[agentProcess]
	stop       context.CancelFunc
	turns      int   // running on it
	lastUse    int64 // processPool.useCount at its last use
}

// run keeps the main process running until ctx ends, and starts the others on demand.
func (ps *processPool) run(ctx context.Context) error {
	ps.mu.Lock()
	ps.ctx = ctx
	ps.mu.Unlock()
	err := ps.supervise(ctx, ps.main)
	ps.mu.Lock()
	ps.ctx = nil
	for _, o := range ps.extra {
		o.stop()
	}
	ps.mu.Unlock()
	ps.wg.Wait()
	return err
}

// acquire returns the process for a turn with its servers. The caller must call done when the
// turn has ended.
func (ps *processPool) acquire(ctx context.Context, t *harness.Turn) (p *agentProcess, done func(), err error) {
	done = func() {}
	p, err = ps.main.Await(ctx)
	if err != nil || !singleServerPrograms[p.name] {
		return p, done, err
	}
	key, err := json.Marshal(p.mcpServers(t))
	if err != nil {
		return nil, done, fmt.Errorf("naming the process: %w", err)
	}
	o, err := ps.reserve(string(key))
	if err != nil || o == nil {
		return p, done, err
	}
	done = func() {
		ps.mu.Lock()
		defer ps.mu.Unlock()
		o.turns--
	}
	p, err = o.supervisor.Await(ctx)
	return p, done, err
}

// reserve returns or starts the process for a set of servers. It returns nil for the main
// process.
func (ps *processPool) reserve(key string) (*extraProcess, error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.ctx == nil {
		return nil, harness.ErrStopped
	}
	if ps.mainKey == "" {
		ps.mainKey = key
	}
	if key == ps.mainKey {
		return nil, nil
	}
	o := ps.extra[key]
	if o == nil {
		if err := ps.evictLocked(); err != nil {
			return nil, err
		}
		o = ps.startLocked(key)
	}
	ps.useCount++
	o.turns, o.lastUse = o.turns+1, ps.useCount
	return o, nil
}

// evictLocked stops the least recently used process if the limit is reached.
func (ps *processPool) evictLocked() error {
	if len(ps.extra)+1 < maxProcesses {
		return nil
	}
	var oldest string
	for key, o := range ps.extra {
		if o.turns == 0 && (oldest == "" || o.lastUse < ps.extra[oldest].lastUse) {
			oldest = key
		}
	}
	if oldest == "" {
		return fmt.Errorf("%w: all %d processes of the program are working for other chats", harness.ErrTemporary,
			maxProcesses)
	}
	ps.extra[oldest].stop()
	delete(ps.extra, oldest)
	return nil
}

func (ps *processPool) startLocked(key string) *extraProcess {
	ctx, stop := context.WithCancel(ps.ctx)
	o := &extraProcess{supervisor: subprocess.NewSupervisor[agentProcess](), stop: stop}
	ps.extra[key] = o
	ps.wg.Go(func() {
		defer stop()
		ps.supervise(ctx, o.supervisor) //nolint:errcheck // Await tells
		ps.mu.Lock()
		defer ps.mu.Unlock()
		if ps.extra[key] == o {
			delete(ps.extra, key)
		}
	})
	return o
}
