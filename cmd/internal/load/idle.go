package load

import (
	"context"
	"time"
)

// An IdleResult is the cost of idle connections.
type IdleResult struct {
	Connections int     `json:"idleConnections"`
	Bytes       float64 `json:"bytesPerConnection"` // of the bus's resident memory
	Goroutines  float64 `json:"goroutinesPerConnection"`
}

// Idle opens count connections, waits for settle, and measures the cost of one. The bus should be
// fresh, because memory that it has already allocated and does not use is not counted.
func Idle(ctx context.Context, b Bus, count int, settle time.Duration) (IdleResult, error) {
	before, err := b.usage(ctx)
	if err != nil {
		return IdleResult{}, err
	}
	r, err := b.rig(ctx, Workload{Idle: count}, time.Now().UnixMilli())
	if err != nil {
		return IdleResult{}, err
	}
	defer r.close()
	select {
	case <-ctx.Done():
		return IdleResult{}, ctx.Err()
	case <-time.After(settle):
	}
	after, err := b.usage(ctx)
	if err != nil {
		return IdleResult{}, err
	}
	return IdleResult{
		Connections: count, Bytes: float64(after.rss-before.rss) / float64(count),
		Goroutines: float64(after.goroutines-before.goroutines) / float64(count),
	}, nil
}
