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

// errUnknown says that a send got no answer.
var errUnknown = errors.New("no answer came from Telegram, so the message may or may not have been sent")

// backoff paces calls to Telegram that fail.
var backoff = retry.Backoff{Min: time.Second, Max: time.Minute}

// pauseAfter returns the pause after a number of failed calls in a row: the
// backoff, or what Telegram asks for if that is longer.
func pauseAfter(err error, failures int) time.Duration {
	pause := backoff.After(failures)
	if refused, ok := errors.AsType[*botapi.Error](err); ok {
		pause = max(pause, refused.RetryAfter)
	}
	return pause
}

// classifyError says what follows from a call that failed. An answer means that the
// call had no effect, a 5xx too; no answer means that nobody knows.
func (out *outbound) classifyError(ctx context.Context, o *outgoing, err error) error {
	transport, silent := errors.AsType[*botapi.TransportError](err)
	refused, _ := errors.AsType[*botapi.Error](err)
	switch {
	case silent && !transport.Left:
		return outbox.Retry(0, err)
	case silent && out.opts.ResendUnknown:
		return outbox.Retry(0, fmt.Errorf("sending again, though it may have arrived: %w: %w", errUnknown, err))
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
		return outbox.Retry(0, err) // another answer may come later
	}
	return outbox.Permanent(err)
}

// maxIdempotentAttempts is how often a call that gets no answer is made in all if making
// it twice is the same as making it once.
const maxIdempotentAttempts = 3

// retryUnanswered turns the error of a call without an answer into one that is retried.
// It is for calls that may be repeated: setting a reaction, answering a button.
func (o *outgoing) retryUnanswered(err error) error {
	if transport, ok := errors.AsType[*botapi.TransportError](err); ok && transport.Left && o.item.Attempt < maxIdempotentAttempts {
		return errors.New(transport.Error())
	}
	return err
}

// markRemoved records that the bot may no longer write to a chat, if a refusal says so;
// it may be about a single topic.
func (out *outbound) markRemoved(ctx context.Context, c *chat, refused *botapi.Error) {
	if !slices.ContainsFunc([]string{"blocked", "kicked", "deactivated", "not a member", "was deleted", "can't initiate"}, refused.Says) {
		return
	}
	if err := store.InTx(ctx, out.db, func(tx *store.Tx) { out.setPresent(tx, c, false) }); err != nil {
		out.log.Error().Err(err).Msg("storing that the bot left a chat failed")
	}
}

// applyRetryAfter stops sends to a chat for as long as a 429 asks, across restarts, and returns
// that time. If a second chat is told to wait while one waits, the limit is the bot's.
func (out *outbound) applyRetryAfter(ctx context.Context, telegramChat int64, refused *botapi.Error) time.Duration {
	wait := cmp.Or(max(refused.RetryAfter, 0), defaultPause)
	err := store.InTx(context.WithoutCancel(ctx), out.db, func(tx *store.Tx) {
		scopes := []string{"chat:" + id(telegramChat)}
		if store.Value[bool](tx, `SELECT 1 FROM holds WHERE bot = ? AND scope NOT IN (?, 'bot') AND until > ?`, out.bot, scopes[0], nowMicros()) {
			scopes = append(scopes, "bot")
		}
		for _, scope := range scopes {
			tx.Exec(`INSERT INTO holds (bot, scope, until) VALUES (?1, ?2, ?3)
				ON CONFLICT (bot, scope) DO UPDATE SET until = max(until, ?3)`, out.bot, scope, time.Now().Add(wait).UnixMicro())
		}
	})
	if err != nil {
		out.log.Error().Err(err).Msg("storing Telegram's retry_after failed")
	}
	out.log.Warn().Int64("chat", telegramChat).Dur("pause_ms", wait).Msg("Telegram asks for a pause; sends to the chat wait")
	return wait
}
