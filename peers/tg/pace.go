package tg

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// pace waits until a send to a chat is within every limit, if that is soon, and
// then takes its place; else it returns how long to wait. The limits of chat and
// group are reckoned from the sends on disk, so that a restart forgets none.
func (out *outbound) pace(ctx context.Context, o *outgoing) time.Duration {
	for {
		wait, err := out.waitFor(ctx, o)
		if err != nil {
			out.log.Error().Err(err).Msg("Telegram's limits cannot be reckoned")
			return shortPause
		}
		if wait <= 0 {
			if wait = out.limiter.Reserve().Delay(); wait <= 0 {
				return 0
			}
			if !out.rest(ctx, wait) {
				return time.Millisecond
			}
			return 0
		}
		if wait > shortPause {
			return wait
		}
		if !out.rest(ctx, wait) {
			return time.Millisecond
		}
	}
}

// rest sleeps; false when the bridge stops.
func (out *outbound) rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-out.quit:
	case <-ctx.Done():
	}
	return false
}

// waitFor returns how long the limits forbid a send to a chat, zero or less when
// they do not.
func (out *outbound) waitFor(ctx context.Context, o *outgoing) (time.Duration, error) {
	c := o.chat
	held, err := out.heldUntil(ctx, c.telegram)
	if err != nil || o.kind == kindCallback {
		return time.Until(held), err
	}
	var last, first sql.NullInt64
	err = out.db.QueryRowContext(ctx, `SELECT max(begun_at) FROM sends WHERE bot = ? AND chat = ? AND begun_at > 0 AND kind <> 'callback'`, out.bot, c.key).Scan(&last)
	if err == nil && c.group() && out.opts.GroupPerMinute > 0 {
		err = out.db.QueryRowContext(ctx, `SELECT (SELECT begun_at FROM sends WHERE bot = ? AND chat = ? AND begun_at > ? AND kind <> 'callback'
			ORDER BY begun_at DESC LIMIT 1 OFFSET ?)`, out.bot, c.key, time.Now().Add(-time.Minute).UnixMicro(), out.opts.GroupPerMinute-1).Scan(&first)
	}
	if err != nil {
		return 0, fmt.Errorf("reading the last sends: %w", err)
	}
	until := held
	if last.Valid && out.opts.MinSendInterval > 0 {
		until = later(until, at(last.Int64).Add(out.opts.MinSendInterval))
	}
	if first.Valid {
		until = later(until, at(first.Int64).Add(time.Minute))
	}
	if until.IsZero() {
		return 0, nil
	}
	// A clock that was set back must not stop a chat for long.
	return min(time.Until(until), max(time.Minute, time.Until(held))), nil
}

// heldUntil returns until when Telegram asked not to be called for a chat, zero
// when it did not.
func (out *outbound) heldUntil(ctx context.Context, telegramChat int64) (time.Time, error) {
	var held sql.NullInt64
	err := out.db.QueryRowContext(ctx, `SELECT max(until) FROM holds WHERE bot = ? AND scope IN ('bot', ?)`,
		out.bot, "chat:"+id(telegramChat)).Scan(&held)
	if err != nil {
		return time.Time{}, fmt.Errorf("reading the holds: %w", err)
	}
	return at(held.Int64), nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
