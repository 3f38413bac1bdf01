package tg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/peers/tg/botapi"
	"hubbub/protocol/retry"
)

// errUnknown reports that a send got no answer.
var errUnknown = errors.New("no answer from Telegram, so the message may or may not have been sent")

// backoff is the backoff of failed calls to Telegram.
var backoff = retry.Backoff{Min: time.Second, Max: time.Minute}

// pauseAfter returns how long to pause after a number of consecutive failures: the backoff, or
// Telegram's retry_after if that is longer.
func pauseAfter(err error, failures int) time.Duration {
	pause := backoff.After(failures)
	if refused, ok := errors.AsType[*botapi.Error](err); ok {
		pause = max(pause, refused.RetryAfter)
	}
	return pause
}

// classifyError decides what follows from a failed call. Any answer, even a 5xx, means that the
// call had no effect. Without an answer, its effect is unknown.
func (out *outbound) classifyError(ctx context.Context, o *outgoing, err error) error {
	transport, silent := errors.AsType[*botapi.TransportError](err)
	refused, _ := errors.AsType[*botapi.Error](err)
	switch {
	case silent && !transport.Left:
		return outbox.Retry(0, err)
	case silent && out.opts.ResendUnknown:
		return outbox.Retry(0, fmt.Errorf("sending again although it may have arrived: %w: %w", errUnknown, err))
	case silent:
		return outbox.Unknown(fmt.Errorf("%w: %w", errUnknown, err))
	case refused == nil && outbox.WillRetry(err):
		return outbox.Retry(0, err)
	case refused == nil:
		return err
	case refused.Code == http.StatusTooManyRequests:
		return outbox.Retry(out.applyRetryAfter(ctx, o.chat.telegram, refused), err)
	case refused.Code == http.StatusUnauthorized:
		out.fatal(ErrToken)
		return outbox.Retry(time.Minute, err)
	case refused.Code == http.StatusForbidden:
		out.markRemoved(ctx, o.chat, refused)
	case refused.Code >= 500, refused.Code/100 == 3, refused.Code == http.StatusNotFound:
		return outbox.Retry(0, err) // the next attempt may succeed
	}
	return outbox.Permanent(err)
}

// maxIdempotentAttempts bounds the attempts at an idempotent call that gets no answer.
const maxIdempotentAttempts = 3

// retryUnanswered returns an error that is retried if an idempotent call got no answer: setting a
// reaction, editing, answering a press.
func (o *outgoing) retryUnanswered(err error) error {
	if transport, ok := errors.AsType[*botapi.TransportError](err); ok && transport.Left &&
		o.item.Attempt < maxIdempotentAttempts {
		return errors.New(transport.Error())
	}
	return err
}

// markRemoved records that the bot may no longer write to a chat, if the refusal says so. Other
// refusals concern a single topic.
func (out *outbound) markRemoved(ctx context.Context, c *chat, refused *botapi.Error) {
	if !slices.ContainsFunc([]string{"blocked", "kicked", "deactivated", "not a member", "was deleted",
		"can't initiate"}, refused.Says) {
		return
	}
	if err := store.InTx(ctx, out.db, func(tx *store.Tx) { out.setPresent(tx, c, false) }); err != nil {
		out.log.Error().Err(err).Msg("storing that the bot left a chat failed")
	}
}

// applyRetryAfter suspends sends to a chat for the time that a 429 demands, across restarts, and
// returns that time. If another chat is suspended too, the limit must be the bot's, so all chats
// are suspended.
func (out *outbound) applyRetryAfter(ctx context.Context, telegramChat int64, refused *botapi.Error) time.Duration {
	wait := cmp.Or(max(refused.RetryAfter, 0), defaultPause)
	err := store.InTx(context.WithoutCancel(ctx), out.db, func(tx *store.Tx) {
		scopes := []string{"chat:" + id(telegramChat)}
		if store.Value[bool](tx, `SELECT 1 FROM holds WHERE bot = ? AND scope NOT IN (?, 'bot') AND until > ?`,
			out.bot, scopes[0], nowMicros()) {
			scopes = append(scopes, "bot")
		}
		for _, scope := range scopes {
			tx.Exec(`INSERT INTO holds (bot, scope, until) VALUES (?1, ?2, ?3)
				ON CONFLICT (bot, scope) DO UPDATE SET until = max(until, ?3)`, out.bot, scope,
				time.Now().Add(wait).UnixMicro())
		}
	})
	if err != nil {
		out.log.Error().Err(err).Msg("storing Telegram's retry_after failed")
	}
	out.log.Warn().Int64("chat", telegramChat).Dur("pause_ms", wait).
		Msg("Telegram demands a pause; sends to the chat are suspended")
	return wait
}
