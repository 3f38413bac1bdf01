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

// alone are the programs that keep one MCP server for each name in a process: the sessions
// of two chats would share the chat tools of one. Each set of servers gets a process of its own.
var alone = map[string]bool{"OpenCode": true}

// processes are the lives of a program's processes.
type processes struct {
	keep func(ctx context.Context, life *subprocess.Supervisor[program]) error // runs one life
	main *subprocess.Supervisor[program]
	wg   sync.WaitGroup // of the others

	mu     sync.Mutex
	ctx    context.Context // while the harness runs; nil otherwise
	first  string          // the servers of main's sessions, if the program is alone with its servers
	others map[string]*other
	uses   int64 // grows with each use
}

// An other is a process beside the main one.
type other struct {
	life  *subprocess.Supervisor[program]
	stop  context.CancelFunc
	turns int   // that run on it
	used  int64 // when it was used last, as processes.uses counts
}

// run keeps the main process until ctx ends, and the others as they are needed.
func (ps *processes) run(ctx context.Context) error {
	ps.mu.Lock()
	ps.ctx = ctx
	ps.mu.Unlock()
	err := ps.keep(ctx, ps.main)
	ps.mu.Lock()
	ps.ctx = nil
	for _, o := range ps.others {
		o.stop()
	}
	ps.mu.Unlock()
	ps.wg.Wait()
	return err
}

// of returns the process for a turn with its servers. Call done when the turn has ended.
func (ps *processes) of(ctx context.Context, t *harness.Turn) (p *program, done func(), err error) {
	done = func() {}
	p, err = ps.main.Await(ctx)
	if err != nil || !alone[p.name] {
		return p, done, err
	}
	key, err := json.Marshal(p.servers(t))
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
	p, err = o.life.Await(ctx)
	return p, done, err
}

// reserve finds or starts the process of a set of servers; nil is the main one.
func (ps *processes) reserve(key string) (*other, error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.ctx == nil {
		return nil, harness.ErrStopped
	}
	if ps.first == "" {
		ps.first = key
	}
	if key == ps.first {
		return nil, nil
	}
	o := ps.others[key]
	if o == nil {
		if err := ps.roomLocked(); err != nil {
			return nil, err
		}
		o = ps.startLocked(key)
	}
	ps.uses++
	o.turns, o.used = o.turns+1, ps.uses
	return o, nil
}

// roomLocked ends the process that was used longest ago where there are enough.
func (ps *processes) roomLocked() error {
	if len(ps.others)+1 < maxProcesses {
		return nil
	}
	var oldest string
	for key, o := range ps.others {
		if o.turns == 0 && (oldest == "" || o.used < ps.others[oldest].used) {
			oldest = key
		}
	}
	if oldest == "" {
		return fmt.Errorf("%w: all %d processes of the program are at work for other chats", harness.ErrTemporary, maxProcesses)
	}
	ps.others[oldest].stop()
	delete(ps.others, oldest)
	return nil
}

func (ps *processes) startLocked(key string) *other {
	ctx, stop := context.WithCancel(ps.ctx)
	o := &other{life: subprocess.NewSupervisor[program](), stop: stop}
	ps.others[key] = o
	ps.wg.Go(func() {
		defer stop()
		ps.keep(ctx, o.life) //nolint:errcheck // Await tells
		ps.mu.Lock()
		defer ps.mu.Unlock()
		if ps.others[key] == o {
			delete(ps.others, key)
		}
	})
	return o
}
