package chorus

import (
	"context"
	"time"
)

// How long things are kept.
const (
	keepSecret   = 24 * time.Hour      // a message's callback, after it came
	keepWaiting  = 24 * time.Hour      // a message that no agent takes
	keepMessages = 30 * 24 * time.Hour // what was said, and by what repetitions are known
	pruneEvery   = 10 * time.Minute
)

// prune gives up what waited too long and forgets what is old, until ctx ends.
func (g *Gateway) prune(ctx context.Context) error {
	ticker := time.NewTicker(pruneEvery)
	defer ticker.Stop()
	for {
		if err := g.pruneOnce(ctx); err != nil && ctx.Err() == nil {
			g.log.Error().Err(err).Msg("pruning failed; trying again")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (g *Gateway) pruneOnce(ctx context.Context) error {
	now := g.store.now()
	if err := g.surface.GiveUp(ctx, now.Add(-keepWaiting)); err != nil {
		return err
	}
	for _, forget := range []struct {
		query string
		age   time.Duration
	}{
		// Twice the age: what was given up just now is still told.
		{`UPDATE inbound SET callback = NULL, content = x'' WHERE callback IS NOT NULL AND received_at < ?`, 2 * keepSecret},
		{`UPDATE channel SET mcp = NULL WHERE mcp IS NOT NULL AND mcp_at < ?`, 2 * keepSecret},
		{`DELETE FROM inbound WHERE received_at < ?`, keepMessages},
		{`UPDATE delivery SET callback = NULL, token = NULL WHERE callback IS NOT NULL AND due_at < ? AND state <> 'posting'`, 0},
		{`DELETE FROM delivery WHERE due_at < ? AND state <> 'posting'`, keepMessages},
	} {
		if _, err := g.store.db.ExecContext(ctx, forget.query, micros(now.Add(-forget.age))); err != nil {
			return err
		}
	}
	return g.surface.Prune(ctx, now.Add(-keepMessages))
}
