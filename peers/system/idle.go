package system

import (
	"context"
	"time"

	"hubbub/protocol/retry"
)

// idleLoop ends agents that were idle for Options.IdleStop. An agent is in use while it sends
// events to the system's topics, at least one for each message that it handles.
func (s *Spawner) idleLoop(ctx context.Context) error {
	if s.opts.IdleStop <= 0 {
		return nil
	}
	every := max(min(s.opts.IdleStop/4, 30*time.Second), time.Millisecond)
	for retry.Sleep(ctx, every) {
		limit := time.Now().Add(-s.opts.IdleStop).UnixMicro()
		s.mu.Lock()
		for _, k := range s.supervisors {
			if k.lastSeen.Load() < limit {
				k.idle.Notify()
			}
		}
		s.mu.Unlock()
	}
	return nil
}
