package tg

import (
	"context"
	"errors"
	"time"

	"hubbub/peers/store"
)

// pace waits until a send to a chat is within every limit, if that is soon, and
// then takes its place; else it returns how long to wait. The limits of chat and
// group are computed from the sends on disk, so that a restart forgets none.
func (out *outbound) pace(ctx context.Context, o *outgoing) time.Duration {
	for {
		wait, err := out.waitFor(ctx, o)
		if err != nil {
			out.log.Error().Err(err).Msg("reading the last sends failed; trying again")
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

// rest sleeps, and reports false if the bridge is to stop before.
func (out *outbound) rest(ctx context.Context, d time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	select {
	case <-ctx.Done():
		return errors.Is(ctx.Err(), context.DeadlineExceeded)
	case <-out.quit:
		return false
	}
}

// waitFor returns how long the limits forbid a send to a chat, zero or less if they
// do not.
func (out *outbound) waitFor(ctx context.Context, o *outgoing) (time.Duration, error) {
	until, err := out.heldUntil(ctx, o.chat.telegram)
	held := time.Until(until)
	if err != nil || o.kind == kindCallback {
		return held, err
	}
	const sends = `SELECT begun_at FROM sends WHERE bot = ? AND chat = ? AND begun_at > ? AND kind <> 'callback' ORDER BY begun_at DESC LIMIT 1 OFFSET ?`
	last, sent, err := store.One(ctx, out.db, store.Column[int64], sends, out.bot, o.chat.key, 0, 0)
	if err != nil {
		return 0, err
	}
	wait := held
	if sent && out.opts.MinSendInterval > 0 {
		wait = max(wait, time.Until(at(last).Add(out.opts.MinSendInterval)))
	}
	if limit := out.opts.GroupPerMinute; limit > 0 && o.chat.group() {
		first, full, err := store.One(ctx, out.db, store.Column[int64], sends, out.bot, o.chat.key, time.Now().Add(-time.Minute).UnixMicro(), limit-1)
		if err != nil {
			return 0, err
		}
		if full {
			wait = max(wait, time.Until(at(first).Add(time.Minute)))
		}
	}
	// A clock that was set back must not stop a chat for long.
	return min(wait, max(time.Minute, held)), nil
}

// heldUntil returns until when Telegram asked not to be called for a chat, zero if
// it did not.
func (out *outbound) heldUntil(ctx context.Context, telegramChat int64) (time.Time, error) {
	held, _, err := store.One(ctx, out.db, store.Column[int64], `SELECT coalesce(max(until), 0) FROM holds WHERE bot = ? AND scope IN ('bot', ?)`,
		out.bot, "chat:"+id(telegramChat))
	return at(held), err
}
