package tg

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"hubbub/peers/store"
	"hubbub/peers/tg/botapi"
	"hubbub/protocol/retry"

	"github.com/go-telegram/bot/models"
)

// allowedUpdates are the kinds of updates that the bridge receives. Telegram sends reactions only
// if they are listed.
var allowedUpdates = []string{
	models.AllowedUpdateMessage, models.AllowedUpdateEditedMessage, models.AllowedUpdateMessageReaction,
	models.AllowedUpdateMyChatMember, models.AllowedUpdateCallbackQuery,
	models.AllowedUpdateChannelPost, models.AllowedUpdateEditedChannelPost, models.AllowedUpdateBusinessConnection,
	updateStopped,
}

// updateStopped is the kind of update for the button under a draft.
const updateStopped = "stopped_message_generation"

// A cursor holds the parameters of the next poll. The offset only confirms what was just stored.
// A poll that waits has no offset, so that it also receives updates whose numbers restarted below
// the last ones.
type cursor struct {
	offset int64
	wait   bool
	single bool // request one update at a time, because a full batch was too large; until none is pending
}

// next returns the cursor after a batch of size updates; fresh is how many were new. A batch
// without new updates means that the server has lost the confirmation: then the poll that waits
// keeps the offset.
func (c cursor) next(highest int64, size, fresh int) cursor {
	if size == 0 {
		return cursor{wait: true}
	}
	return cursor{offset: highest + 1, wait: fresh == 0, single: c.single}
}

// pollLoop polls for updates. It confirms a batch only after it is on disk.
func (b *Bridge) pollLoop(ctx context.Context) error {
	at := cursor{wait: true}
	failures := 0
	for ctx.Err() == nil {
		asked := time.Now()
		batch, err := b.getUpdates(ctx, at)
		var fresh int
		var highest int64
		if err == nil {
			b.crash("received")
			fresh, highest, err = b.storeUpdates(ctx, batch)
		}
		if err == nil {
			b.crash("stored")
			failures = 0
			if at.wait && len(batch) == 0 && time.Since(asked) < minPollInterval {
				retry.Sleep(ctx, minPollInterval) // the server does not support long polls
			}
			at = at.next(highest, len(batch), fresh)
			continue
		}
		failures++
		at.single = errors.Is(err, botapi.ErrTooLarge)
		pause, fatal := b.handlePollError(ctx, err, failures)
		if fatal != nil {
			return fatal
		}
		retry.Sleep(ctx, pause)
	}
	return nil
}

func (b *Bridge) getUpdates(ctx context.Context, at cursor) ([]json.RawMessage, error) {
	params := map[string]any{"limit": maxBatch, "allowed_updates": allowedUpdates, "timeout": 0}
	if at.offset != 0 {
		params["offset"] = at.offset
	}
	if at.single {
		params["limit"] = 1
	}
	if at.wait {
		params["timeout"] = int(b.opts.PollTimeout / time.Second)
	}
	ctx, cancel := context.WithTimeout(ctx, b.opts.PollTimeout+15*time.Second)
	defer cancel()
	var batch []json.RawMessage
	err := b.api.Call(ctx, "getUpdates", params, &batch)
	return batch, err
}

// storeUpdates stores a batch in one transaction. It returns the number of new updates and the
// highest update ID once the batch is on disk. The updates are applied meanwhile: Telegram repeats
// those that are lost, and their effects are detected as duplicates.
func (b *Bridge) storeUpdates(ctx context.Context, batch []json.RawMessage) (fresh int, highest int64, err error) {
	if len(batch) == 0 {
		return 0, 0, nil
	}
	err = store.InTxAhead(context.WithoutCancel(ctx), b.db, func(tx *store.Tx) {
		for _, raw := range batch {
			number, ok := updateID(raw)
			if !ok {
				b.log.Error().Msg("update without an ID dropped")
				continue
			}
			highest = max(highest, number)
			if b.storeUpdate(tx, number, raw) {
				fresh++
			}
		}
		if fresh > 0 {
			tx.OnCommit(b.ingest.arrived.Notify)
		}
	})
	if err != nil {
		return 0, 0, fmt.Errorf("storing updates: %w", err)
	}
	return fresh, highest, nil
}

// updateID returns the ID of an update, if it has one.
func updateID(raw json.RawMessage) (int64, bool) {
	var head struct {
		ID *int64 `json:"update_id"`
	}
	if json.Unmarshal(raw, &head) != nil || head.ID == nil {
		return 0, false
	}
	return *head.ID, true
}

// storeUpdate stores an update and reports whether it is new. A known ID means the same update
// again, unless it is older than Telegram repeats updates.
func (b *Bridge) storeUpdate(tx *store.Tx, number int64, raw json.RawMessage) bool {
	tx.Exec(`DELETE FROM updates WHERE bot = ? AND update_id = ? AND received_at < ? AND state <> 'new'`,
		b.bot, number, time.Now().Add(-updateIDLifetime).UnixMicro())
	return tx.ExecCount(`INSERT OR IGNORE INTO updates (bot, update_id, raw, received_at) VALUES (?, ?, ?, ?)`,
		b.bot, number, string(raw), nowMicros()) > 0
}

// handlePollError decides what follows from a failed poll: a pause, or the end of the bridge.
func (b *Bridge) handlePollError(ctx context.Context, err error, failures int) (time.Duration, error) {
	if ctx.Err() != nil {
		return 0, nil
	}
	refused, answered := errors.AsType[*botapi.Error](err)
	pause := pauseAfter(err, failures)
	switch {
	case !answered:
		b.log.Warn().Err(err).Dur("pause_ms", pause).Msg("polling failed; updates stay with Telegram for 24 hours")
	case refused.Code == http.StatusUnauthorized:
		return 0, ErrToken
	case refused.Code == http.StatusConflict && refused.Says("webhook"):
		return b.handleForeignWebhook(ctx), nil
	case refused.Code == http.StatusConflict:
		pause = conflictPause
		if time.Since(b.conflict) > conflictWindow {
			pause = firstConflictPause // another bridge may be stopping, or hubbub doctor is running
		}
		b.conflict = time.Now()
		b.log.Error().Str("bot", "@"+b.me.Username).Dur("pause_ms", pause).
			Msg("another program polls this bot, and Telegram sends each update to only one of them: stop the other " +
				"program (an older hubbub-tg, or another bot program with this token), or make a new token with " +
				"/revoke at @BotFather")
	default:
		b.log.Warn().Err(err).Dur("pause_ms", pause).Msg("poll refused by Telegram; trying again")
	}
	return pause, nil
}

// handleForeignWebhook handles a webhook that prevents polling. It removes a webhook that the
// bridge set itself; any other belongs to another program.
func (b *Bridge) handleForeignWebhook(ctx context.Context) time.Duration {
	var info models.WebhookInfo
	if err := b.call(ctx, "getWebhookInfo", nil, &info); err != nil {
		b.log.Error().Err(err).Dur("pause_ms", conflictPause).Msg("a webhook prevents polling; trying again")
		return conflictPause
	}
	own, err := store.Read(ctx, b.db, func(tx *store.Tx) string { return b.botColumn(tx, "webhook_url") })
	if err != nil {
		b.log.Error().Err(err).Dur("pause_ms", conflictPause).Msg("reading the last webhook failed; trying again")
		return conflictPause
	}
	if own == info.URL {
		if err := b.call(ctx, "deleteWebhook", map[string]any{"drop_pending_updates": false}, nil); err == nil {
			b.log.Info().Msg("webhook of an earlier start removed; polling instead")
			return time.Millisecond
		}
	}
	b.log.Error().Str("webhook", hostOf(info.URL, "elsewhere")).Dur("pause_ms", conflictPause).
		Msg("this bot has a webhook, so it cannot be polled: stop the program there, or remove the webhook with " +
			"`hubbub doctor --delete-webhook`")
	return conflictPause
}
