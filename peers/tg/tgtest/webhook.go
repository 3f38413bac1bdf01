package tgtest

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"hubbub/protocol/retry"

	"github.com/go-telegram/bot/models"
)

const webhookTimeout = 10 * time.Second

// pauses is the backoff between attempts to deliver an update to a webhook.
var pauses = retry.Backoff{Min: 50 * time.Millisecond, Max: 5 * time.Second}

type webhook struct {
	url       string
	secret    string
	lastError string
	failedAt  time.Time
}

func (s *Server) setWebhook(req *request) (any, *apiError) {
	url := req.str("url")
	secret := req.str("secret_token")
	if len(secret) > 256 || strings.Trim(secret,
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") != "" {
		return nil, badRequest("secret token contains unallowed characters")
	}
	if err := s.setAllowedLocked(req); err != nil {
		return nil, err
	}
	return s.replaceWebhook(req, webhook{url: url, secret: secret})
}

func (s *Server) deleteWebhook(req *request) (any, *apiError) {
	return s.replaceWebhook(req, webhook{})
}

func (s *Server) replaceWebhook(req *request, hook webhook) (any, *apiError) {
	s.webhook = hook
	if req.bool("drop_pending_updates") {
		s.pending = nil
	}
	s.recordLocked(req, nil)
	s.changed.Notify()
	return true, nil
}

func (s *Server) getWebhookInfo(*request) (any, *apiError) {
	info := models.WebhookInfo{
		URL: s.webhook.url, PendingUpdateCount: len(s.pending), LastErrorMessage: s.webhook.lastError,
	}
	if !s.webhook.failedAt.IsZero() {
		info.LastErrorDate = int(s.webhook.failedAt.Unix())
	}
	return info, nil
}

// SetWebhook sets a webhook, as another program with the bot's token might.
func (s *Server) SetWebhook(url string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.webhook = webhook{url: url}
	s.changed.Notify()
}

// Run delivers updates to the webhook in order, repeating each until it is answered with a 2xx
// status. It blocks until ctx ends and then returns nil.
func (s *Server) Run(ctx context.Context) error {
	failures := 0
	for ctx.Err() == nil {
		s.mu.Lock()
		hook, changed := s.webhook, s.changed.C()
		var next *queued
		if hook.url != "" && len(s.pending) > 0 {
			first := s.pending[0]
			next = &first
		}
		s.mu.Unlock()
		if next == nil {
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		err := deliver(ctx, hook, next)
		s.settle(next, err)
		failures++
		if err == nil {
			failures = 0
		} else {
			retry.Sleep(ctx, pauses.After(failures))
		}
	}
	return nil
}

func (s *Server) settle(q *queued, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.webhook.lastError, s.webhook.failedAt = err.Error(), s.now()
		return
	}
	if len(s.pending) > 0 && s.pending[0].id == q.id {
		s.pending = s.pending[1:]
	}
	s.changed.Notify()
}

func deliver(ctx context.Context, hook webhook, q *queued) error {
	ctx, cancel := context.WithTimeout(ctx, webhookTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, hook.url, bytes.NewReader(q.raw))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if hook.secret != "" {
		req.Header.Set("X-Telegram-Bot-Api-Secret-Token", hook.secret)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("%s from the webhook: %s", "Wrong response", answer.Status)
	}
	return nil
}
