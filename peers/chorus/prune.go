package chorus

import (
	"context"
	"time"

	"hubbub/peers/store"
	"hubbub/protocol/retry"
)

// How long data is kept.
const (
	secretRetention  = 24 * time.Hour      // of a message's callback
	waitingRetention = 24 * time.Hour      // of a message that no agent takes
	messageRetention = 30 * 24 * time.Hour // of messages, and of keys that identify repetitions
	pruneEvery       = 10 * time.Minute
)

// prune abandons messages that waited too long and deletes old data, until ctx ends.
func (g *Gateway) prune(ctx context.Context) error {
	for {
		if err := g.pruneOnce(ctx); err != nil && ctx.Err() == nil {
			g.opts.Log.Error().Err(err).Msg("pruning failed; trying again")
		}
		if !retry.Sleep(ctx, pruneEvery) {
			return nil
		}
	}
}

func (g *Gateway) pruneOnce(ctx context.Context) error {
	now := g.store.now()
	if err := g.router.Expire(ctx, now.Add(-waitingRetention)); err != nil {
		return err
	}
	err := store.Autocommit(ctx, g.store.db, func(tx *store.Tx) {
		forget := func(query string, age time.Duration) { tx.Exec(query, micros(now.Add(-age))) }
		// Twice the time, since the callbacks of messages that were just abandoned are still
		// needed.
		forget(
			`UPDATE inbound SET callback = NULL, content = x'' WHERE callback IS NOT NULL AND received_at < ?`,
			2*secretRetention,
		)
		forget(`UPDATE channel SET mcp = NULL WHERE mcp IS NOT NULL AND mcp_at < ?`, 2*secretRetention)
		forget(`DELETE FROM inbound WHERE received_at < ?`, messageRetention)
		forget(`DELETE FROM hook_post WHERE at < ?`, messageRetention)
		forget(
			`UPDATE delivery SET callback = NULL, token = NULL WHERE callback IS NOT NULL AND due_at < ? AND state <> 'posting'`,
			0,
		)
		forget(`DELETE FROM delivery WHERE due_at < ? AND state <> 'posting'`, messageRetention)
	})
	if err != nil {
		return err
	}
	return g.router.Prune(ctx, now.Add(-messageRetention))
}
