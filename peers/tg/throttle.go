package tg

import (
	"context"
	"time"

	"hubbub/peers/store"
)

// throttle waits until every limit allows a send to a chat, and reserves it. If the wait is long,
// it returns the wait instead. The limits of chats and groups are computed from the sends on
// disk, so they survive a restart.
func (out *outbound) throttle(ctx context.Context, o *outgoing) time.Duration {
	for {
		wait, err := store.Read(ctx, out.db, func(tx *store.Tx) time.Duration { return out.throttleDelay(tx, o) })
		if err != nil {
			out.log.Error().Err(err).Msg("reading the last sends failed; trying again")
			return defaultPause
		}
		switch {
		case wait > defaultPause:
			return wait
		case wait > 0 && !out.pause(ctx, wait):
			return time.Millisecond
		case wait > 0:
			continue
		}
		if wait = out.limiter.Reserve().Delay(); wait > 0 && !out.pause(ctx, wait) {
			return time.Millisecond
		}
		return 0
	}
}

// pause pauses, and reports false if the bridge must stop first.
func (out *outbound) pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
	case <-out.quit:
	}
	return false
}

// selectNthSend finds when the nth newest send to a chat began. The condition begun_at > 0 makes
// SQLite use the partial index. If it were compared with a bare parameter, too, SQLite would
// prepare the statement again for every value.
const selectNthSend = `SELECT begun_at FROM sends WHERE bot = ? AND chat = ? AND begun_at > (? + 0) AND begun_at > 0 AND kind <> 'callback'
	ORDER BY begun_at DESC LIMIT 1 OFFSET ?`

// throttleDelay returns how long the limits delay a send to a chat. It is not positive if they do
// not.
func (out *outbound) throttleDelay(tx *store.Tx, o *outgoing) time.Duration {
	held := time.Until(out.heldUntil(tx, o.chat.telegram))
	if o.kind == kindCallback {
		return held
	}
	// when the send with that many newer ones began; zero if there is none
	begun := func(since time.Time, newer int) time.Time {
		return timeFromMicros(store.Value[int64](tx, selectNthSend, out.bot, o.chat.key, since.UnixMicro(), newer))
	}
	wait := held
	if out.opts.MinSendInterval > 0 {
		wait = max(wait, time.Until(begun(time.UnixMicro(0), 0).Add(out.opts.MinSendInterval)))
	}
	if limit := out.opts.GroupPerMinute; limit > 0 && !o.chat.isDirect() {
		wait = max(wait, time.Until(begun(time.Now().Add(-time.Minute), limit-1).Add(time.Minute)))
	}
	// A clock that was set back must not block a chat for long.
	return min(wait, max(time.Minute, held))
}

// heldUntil returns the end of Telegram's retry_after for a chat, zero if there is none.
func (out *outbound) heldUntil(tx *store.Tx, telegramChat int64) time.Time {
	return timeFromMicros(store.Value[int64](tx,
		`SELECT coalesce(max(until), 0) FROM holds WHERE bot = ? AND scope IN ('bot', ?)`,
		out.bot, "chat:"+id(telegramChat)))
}
