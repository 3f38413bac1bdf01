package tg

import (
	"context"
	"time"

	"hubbub/peers/store"
	"hubbub/protocol/retry"
)

// keepRecords is how long settled replies are kept: to tell who wrote a message that
// is answered, and to recognize a reply that is sent again.
const keepRecords = 90 * 24 * time.Hour

// pruneLoop deletes old records once a day. Events are kept.
func (b *Bridge) pruneLoop(ctx context.Context) error {
	for {
		if err := b.prune(ctx); err != nil && ctx.Err() == nil {
			b.log.Warn().Err(err).Msg("pruning failed; trying again tomorrow")
		}
		if !retry.Sleep(ctx, 24*time.Hour) {
			return nil
		}
	}
}

func (b *Bridge) prune(ctx context.Context) error {
	tx, nowTime := store.On(ctx, b.db), time.Now()
	for _, p := range []struct {
		query string
		age   time.Duration
	}{
		{`DELETE FROM updates WHERE received_at < ? AND state <> 'new'`, keepUpdates},
		{`DELETE FROM holds WHERE until < ?`, 0},
		{`DELETE FROM guesses WHERE at < ?`, time.Hour},
		{`DELETE FROM codes WHERE expires_at < ?`, 24 * time.Hour},
		{`DELETE FROM sends WHERE reply IN (SELECT id FROM replies WHERE received_at < ?)`, keepRecords},
		{`DELETE FROM replies WHERE received_at < ? AND id NOT IN (SELECT reply FROM sends)`, keepRecords},
	} {
		tx.Exec(p.query, nowTime.Add(-p.age).UnixMicro())
	}
	if tx.Err() != nil {
		return tx.Err()
	}
	return b.surface.Prune(ctx, nowTime.Add(-keepRecords))
}
