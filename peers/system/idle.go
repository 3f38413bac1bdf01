package system

import (
	"context"
	"time"

	"hubbub/protocol/retry"
)

// idleLoop ends agents that were idle for Options.IdleStop. An agent is in use until it is online,
// and while it sends events to the system's topics, at least one for each message that it handles.
func (s *Spawner) idleLoop(ctx context.Context) error {
	if s.opts.IdleStop <= 0 {
		return nil
	}
	every := max(min(s.opts.IdleStop/4, 30*time.Second), time.Millisecond)
	for retry.Sleep(ctx, every) {
		s.mu.Lock()
		for _, k := range s.supervisors {
			if k.isIdle() {
				k.idle.Notify()
			}
		}
		s.mu.Unlock()
	}
	return nil
}

// isIdle reports whether the agent has not been in use for Options.IdleStop.
func (k *supervisor) isIdle() bool {
	return time.UnixMicro(k.lastSeen.Load()).Add(k.opts.IdleStop).Before(time.Now())
}
