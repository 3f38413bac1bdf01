package acp

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/subprocess"
)

// maxProcesses bounds the processes of a program that needs several. The one that was used
// longest ago ends when another is needed.
const maxProcesses = 8

// singleServerPrograms are the programs that keep one MCP server for each name in a process: the sessions
// of two chats would share the chat tools of one. Each set of servers gets a process of its own.
var singleServerPrograms = map[string]bool{"OpenCode": true}

// processPool are the lives of a program's processes.
type processPool struct {
	supervise func(ctx context.Context, life *subprocess.Supervisor[agentProcess]) error // runs one life
	main      *subprocess.Supervisor[agentProcess]
	wg        sync.WaitGroup // of the others

	mu       sync.Mutex
	ctx      context.Context // while the harness runs; nil otherwise
	mainKey  string          // the servers of main's sessions, if the program is alone with its servers
	extra    map[string]*extraProcess
	useCount int64 // grows with each use
}

// An extraProcess is a process beside the main one.
type extraProcess struct {
	supervisor *subprocess.Supervisor[agentProcess]
	stop       context.CancelFunc
	turns      int   // that run on it
	lastUse    int64 // when it was used last, as processes.uses counts
}

// run keeps the main process until ctx ends, and the others as they are needed.
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

// acquire returns the process for a turn with its servers. Call done when the turn has ended.
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

// reserve finds or starts the process of a set of servers; nil is the main one.
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

// evictLocked ends the process that was used longest ago where there are enough.
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
		return fmt.Errorf("%w: all %d processes of the program are at work for other chats", harness.ErrTemporary, maxProcesses)
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
