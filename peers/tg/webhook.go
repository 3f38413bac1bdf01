package tg

import (
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
	"time"

	"hubbub/peers/store"
	"hubbub/peers/tg/botapi"
	"hubbub/protocol/retry"

	"golang.org/x/sync/errgroup"
)

// secretHeader carries the webhook's secret.
const secretHeader = "X-Telegram-Bot-Api-Secret-Token"

const secretAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"

// CheckWebhookSecret returns why a text cannot be a webhook's secret, or nil. The
// empty text stands for a random secret.
func CheckWebhookSecret(secret string) error {
	if len(secret) > 256 || strings.Trim(secret, secretAlphabet) != "" {
		return errors.New("the webhook secret must be 1 to 256 of the characters A-Z a-z 0-9 _ -")
	}
	return nil
}

// webhookLoop listens, tells Telegram the address, and stores what it delivers.
func (b *Bridge) webhookLoop(ctx context.Context) error {
	secret := b.opts.WebhookSecret
	if secret == "" {
		secret = rand.Text()
	}
	if err := CheckWebhookSecret(secret); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", b.opts.WebhookListen)
	if err != nil {
		return fmt.Errorf("listening for Telegram on %s (see --webhook-listen): %w", b.opts.WebhookListen, err)
	}
	return serveHTTP(ctx, listener, b.webhookHandler(secret), func(ctx context.Context) error {
		return b.announceWebhook(ctx, secret)
	})
}

// announceWebhook tells Telegram the address until it has taken it. Updates are
// delivered one at a time, which keeps their order.
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
			b.polled.Store(now())
			b.log.Info().Str("listen", b.opts.WebhookListen).Msg("webhook announced; Telegram delivers updates there")
			return nil
		case ctx.Err() != nil:
			return nil
		case botapi.Code(err) == http.StatusUnauthorized:
			return ErrToken
		case botapi.Code(err) == http.StatusBadRequest:
			return fmt.Errorf("the address of --webhook-url is refused by Telegram: %w", err)
		}
		b.log.Warn().Err(err).Msg("webhook not taken by Telegram; trying again")
		retry.Sleep(ctx, pauseAfter(err, failures))
	}
}

// webhookHandler stores what Telegram delivers and answers 200 only then.
func (b *Bridge) webhookHandler(secret string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get(secretHeader)), []byte(secret)) != 1 {
			http.Error(w, "only Telegram may deliver here", http.StatusUnauthorized)
			return
		}
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			http.Error(w, "updates come by POST", http.StatusMethodNotAllowed)
			return
		}
		raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxUpdate))
		if err != nil {
			http.Error(w, "the update cannot be read", http.StatusRequestEntityTooLarge)
			return
		}
		var head struct {
			ID *int64 `json:"update_id"`
		}
		if json.Unmarshal(raw, &head) != nil || head.ID == nil {
			http.Error(w, "this is no update", http.StatusBadRequest)
			return
		}
		b.crash("received")
		if _, _, err := b.storeUpdates(r.Context(), []json.RawMessage{raw}); err != nil {
			b.log.Error().Err(err).Msg("storing an update failed; Telegram will deliver it again")
			http.Error(w, "try again", http.StatusServiceUnavailable)
			return
		}
		b.polled.Store(now())
		b.crash("stored")
	})
}

// serveHTTP serves until ctx ends, and runs beside meanwhile. It returns after
// both have ended.
func serveHTTP(ctx context.Context, listener net.Listener, handler http.Handler, beside func(context.Context) error) error {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return beside(ctx) })
	group.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		grace, done := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
		defer done()
		if server.Shutdown(grace) != nil {
			return server.Close()
		}
		return nil
	})
	return group.Wait()
}
