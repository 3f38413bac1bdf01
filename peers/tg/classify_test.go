package tg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"hubbub/peers/outbox"
	"hubbub/peers/tg/botapi"

	"github.com/rs/zerolog"
)

// TestClassifyError checks that an answer means "not sent" and no answer "unknown", and that only
// what may succeed later is tried again.
func TestClassifyError(t *testing.T) {
	lost, unsent := &botapi.TransportError{Left: true}, &botapi.TransportError{}
	refused := func(code int) error { return fmt.Errorf("sending: %w", &botapi.Error{Code: code}) }
	for name, c := range map[string]struct {
		err     error
		resend  bool
		open    bool // another attempt follows
		unknown bool
		token   bool // the bridge ends
	}{
		"not sent":                  {err: unsent, open: true},
		"not sent, with resending":  {err: unsent, resend: true, open: true},
		"no answer":                 {err: lost, unknown: true},
		"no answer, with resending": {err: lost, resend: true, open: true, unknown: true},
		"our own":                   {err: errors.New("the disk is full"), open: true},
		"our own, for good":         {err: outbox.Permanent(errors.New("no such file"))},
		"400":                       {err: refused(400)},
		"403":                       {err: refused(403)},
		"401":                       {err: refused(401), open: true, token: true},
		"404":                       {err: refused(404), open: true},
		"301":                       {err: refused(301), open: true},
		"399":                       {err: refused(399), open: true},
		"413":                       {err: refused(413)},
		"499":                       {err: refused(499)},
		"500":                       {err: refused(500), open: true},
		"502":                       {err: refused(502), open: true},
	} {
		ctx, fatal := context.WithCancelCause(t.Context())
		out := &outbound{account: &account{opts: Options{ResendUnknown: c.resend}, fatal: fatal}}
		got := out.classifyError(ctx, &outgoing{}, c.err)
		if got == nil || outbox.WillRetry(got) != c.open || errors.Is(got, errUnknown) != c.unknown {
			t.Errorf("%s: %v; sent again: %t", name, got, got != nil && outbox.WillRetry(got))
		}
		if errors.Is(context.Cause(ctx), ErrToken) != c.token {
			t.Errorf("%s: the bridge ends with %v", name, context.Cause(ctx))
		}
		fatal(nil)
	}
}

// TestRetryUnanswered checks that an unanswered reaction is repeated and a refused one is not.
func TestRetryUnanswered(t *testing.T) {
	lost := &botapi.TransportError{Method: "setMessageReaction", Left: true, Reason: "cut off"}
	for _, c := range []struct {
		err     error
		attempt int
		again   bool
	}{
		{lost, 1, true}, {lost, 2, true}, {lost, 3, false}, {lost, 4, false},
		{&botapi.TransportError{}, 1, false}, {&botapi.Error{Code: 400}, 1, false},
	} {
		got := (&outgoing{item: &outbox.Item{Attempt: c.attempt}}).retryUnanswered(c.err)
		if again := got != c.err; again != c.again || again && got.Error() != lost.Error() {
			t.Errorf("attempt %d with %v gives %v", c.attempt, c.err, got)
		}
	}
}

func TestPauseAfter(t *testing.T) {
	for _, failures := range []int{1, 3, 50} {
		pause := pauseAfter(errors.New("no network"), failures)
		if pause < time.Second/2 || pause > time.Minute {
			t.Errorf("after %d failures: %v", failures, pause)
		}
		if got := pauseAfter(fmt.Errorf("polling: %w", &botapi.Error{Code: 429, RetryAfter: time.Hour}), failures); got != time.Hour {
			t.Errorf("after %d failures and a 429 of one hour: %v", failures, got)
		}
	}
}

// TestWebhookHandler checks that the webhook accepts only POST requests with the secret and one
// update, and explains its refusals.
func TestWebhookHandler(t *testing.T) {
	log := zerolog.Nop()
	b := &Bridge{account: &account{log: &log, crash: func(point string) { t.Errorf("%s", point) }}}
	handler := b.webhookHandler("s3cret")
	for name, c := range map[string]struct {
		method, secret, body string
		status               int
		says                 string
	}{
		"no secret":       {"POST", "", `{"update_id":1}`, 401, "only Telegram"},
		"another secret":  {"POST", "s3cre", `{"update_id":1}`, 401, "only Telegram"},
		"a GET":           {"GET", "s3cret", "", 405, "POST"},
		"no update":       {"POST", "s3cret", `{"hello":1}`, 400, "not an update"},
		"no JSON":         {"POST", "s3cret", `hello`, 400, "not an update"},
		"a large update":  {"POST", "s3cret", strings.Repeat("x", maxUpdate+1), 413, "cannot be read"},
		"the largest one": {"POST", "s3cret", strings.Repeat("x", maxUpdate), 400, "not an update"},
	} {
		r := httptest.NewRequestWithContext(t.Context(), c.method, "/", strings.NewReader(c.body))
		r.Header.Set(secretHeader, c.secret)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		said, _ := io.ReadAll(w.Body)
		if w.Code != c.status || !strings.Contains(string(said), c.says) {
			t.Errorf("%s: %d %s", name, w.Code, said)
		}
		if allow := w.Header().Get("Allow"); (allow == http.MethodPost) != (c.status == 405) {
			t.Errorf("%s: allowed is %q", name, allow)
		}
	}
}

func TestCheckWebhookSecret(t *testing.T) {
	for secret, ok := range map[string]bool{
		"": true, "aZ09_-": true, strings.Repeat("x", 256): true, strings.Repeat("x", 257): false, "a b": false, "a.b": false, "ä": false, "!a": false, "a!": false,
	} {
		if err := CheckWebhookSecret(secret); (err == nil) != ok {
			t.Errorf("%q: %v", secret, err)
		}
	}
}
