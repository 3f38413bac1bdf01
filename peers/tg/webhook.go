package tg

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"hubbub/peers/store"
	"hubbub/peers/tg/botapi"
	"hubbub/protocol/http1"
	"hubbub/protocol/retry"

	"golang.org/x/sync/errgroup"
)

// secretHeader carries the secret of the webhook.
const secretHeader = "X-Telegram-Bot-Api-Secret-Token"

const secretAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"

// CheckWebhookSecret returns why a text cannot be the secret of a webhook, or nil. The empty text
// means a random secret.
func CheckWebhookSecret(secret string) error {
	if len(secret) > 256 || strings.Trim(secret, secretAlphabet) != "" {
		return errors.New("the webhook secret must consist of 1 to 256 of the characters A-Z a-z 0-9 _ -")
	}
	return nil
}

// webhookLoop listens, announces the address to Telegram, and stores the updates that Telegram
// delivers.
func (b *Bridge) webhookLoop(ctx context.Context) error {
	secret := cmp.Or(b.opts.WebhookSecret, rand.Text())
	if err := CheckWebhookSecret(secret); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", b.opts.WebhookListen)
	if err != nil {
		return fmt.Errorf("listening for Telegram on %s (see --webhook-listen): %w", b.opts.WebhookListen, err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return b.announceWebhook(ctx, secret) })
	group.Go(func() error {
		return http1.Serve(ctx, listener, http1.NewServer(b.webhookHandler(secret)), stopTimeout)
	})
	return group.Wait()
}

// announceWebhook announces the address to Telegram until it is accepted. Telegram delivers one
// update at a time, which preserves their order.
func (b *Bridge) announceWebhook(ctx context.Context, secret string) error {
	for failures := 1; ; failures++ {
		err := store.Exec(ctx, b.db, `UPDATE bots SET webhook_url = ? WHERE bot = ?`, b.opts.WebhookURL, b.bot)
		if err == nil {
			err = b.call(ctx, "setWebhook", map[string]any{
				"url": b.opts.WebhookURL, "secret_token": secret, "max_connections": 1,
				"allowed_updates": allowedUpdates, "drop_pending_updates": false,
			}, nil)
		}
		switch {
		case err == nil:
			b.log.Info().Str("listen", b.opts.WebhookListen).Msg("webhook announced; Telegram delivers updates there")
			return nil
		case ctx.Err() != nil:
			return nil
		case botapi.Code(err) == http.StatusUnauthorized:
			return ErrToken
		case botapi.Code(err) == http.StatusBadRequest:
			return fmt.Errorf("the address of --webhook-url is not accepted by Telegram: %w", err)
		}
		b.log.Warn().Err(err).Msg("webhook not accepted by Telegram; trying again")
		retry.Sleep(ctx, pauseAfter(err, failures))
	}
}

// webhookHandler stores an update and only then answers 200.
func (b *Bridge) webhookHandler(secret string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get(secretHeader)), []byte(secret)) != 1 {
			http.Error(w, "only Telegram may deliver here", http.StatusUnauthorized)
			return
		}
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			http.Error(w, "updates must be sent by POST", http.StatusMethodNotAllowed)
			return
		}
		raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxUpdate))
		if err != nil {
			http.Error(w, "the update cannot be read", http.StatusRequestEntityTooLarge)
			return
		}
		if _, ok := updateID(raw); !ok {
			http.Error(w, "the body is not an update", http.StatusBadRequest)
			return
		}
		b.crash("received")
		if _, _, err := b.storeUpdates(r.Context(), []json.RawMessage{raw}); err != nil {
			b.log.Error().Err(err).Msg("storing an update failed; Telegram will deliver it again")
			http.Error(w, "try again", http.StatusServiceUnavailable)
			return
		}
		b.crash("stored")
	})
}
