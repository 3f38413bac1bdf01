package tg

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/peers/store"
	"hubbub/peers/store/storetest"
	"hubbub/peers/tg/botapi"
	"hubbub/peers/tg/tgtest"
	"hubbub/protocol/timetest"

	"github.com/rs/zerolog"
)

// alone runs a test in a synctest bubble with a bridge that knows its bot and has no bus.
func alone(t *testing.T, opts Options, test func(t *testing.T, b *Bridge, api *tgtest.Server)) {
	t.Helper()
	t.Parallel()
	path := filepath.Join(t.TempDir(), Database)
	synctest.Test(t, func(t *testing.T) {
		api := tgtest.New(nil)
		db, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		log := zerolog.Nop()
		opts.API, opts.Log = &botapi.Options{Transport: api.Transport()}, &log
		b := New(api.Token(), db, &opts)
		if err := b.identify(t.Context()); err != nil {
			t.Fatal(err)
		}
		test(t, b, api)
	})
}

// TestHandlePollError checks the pause before the next poll, and which errors end the bridge.
func TestHandlePollError(t *testing.T) {
	alone(t, Options{}, func(t *testing.T, b *Bridge, api *tgtest.Server) {
		conflict := &botapi.Error{Code: 409, Description: "Conflict: terminated by other getUpdates request"}
		for _, c := range []struct {
			name  string
			err   error
			after time.Duration // since the last failure
			pause time.Duration
			fatal error
		}{
			{"a wrong token", &botapi.Error{Code: 401}, 0, 0, ErrToken},
			{"the first conflict", conflict, 0, 5 * time.Second, nil},
			{"one more", conflict, 0, 30 * time.Second, nil},
			{"five minutes later", conflict, 5 * time.Minute, 30 * time.Second, nil},
			{"much later", conflict, 5*time.Minute + time.Second, 5 * time.Second, nil},
			{"a pause that Telegram asks for", &botapi.Error{Code: 429, RetryAfter: 77 * time.Second}, 0, 77 * time.Second, nil},
		} {
			timetest.Advance(c.after)
			if pause, fatal := b.handlePollError(t.Context(), c.err, 1); pause != c.pause || fatal != c.fatal {
				t.Errorf("%s: %v, %v; want %v, %v", c.name, pause, fatal, c.pause, c.fatal)
			}
		}
		stopped, stop := context.WithCancel(t.Context())
		stop()
		if pause, fatal := b.handlePollError(stopped, &botapi.Error{Code: 401}, 1); pause != 0 || fatal != nil {
			t.Errorf("at the end: %v, %v", pause, fatal)
		}
	})
}

// TestForeignWebhook_IsKept also checks that the bridge's own webhook is removed without dropping
// updates.
func TestForeignWebhook_IsKept(t *testing.T) {
	alone(t, Options{}, func(t *testing.T, b *Bridge, api *tgtest.Server) {
		const ours = "https://ours.example/hook"
		if err := storetest.Exec(b.db, `UPDATE bots SET webhook_url = ?`, ours); err != nil {
			t.Fatal(err)
		}
		inTheWay := &botapi.Error{Code: 409, Description: "Conflict: can't use getUpdates method while webhook is active"}
		trouble := func(name string, want time.Duration, removed int) {
			t.Helper()
			pause, fatal := b.handlePollError(t.Context(), inTheWay, 1)
			if got := api.Calls("deleteWebhook"); pause != want || fatal != nil || len(got) != removed {
				t.Errorf("%s: %v, %v, %d removed; want %v and %d", name, pause, fatal, len(got), want, removed)
			}
		}
		api.SetWebhook("https://somebody.example/hook")
		trouble("somebody's", conflictPause, 0)
		api.SetWebhook(ours)
		api.Fail(tgtest.Fault{Method: "getWebhookInfo", Status: 502})
		trouble("nobody tells whose", conflictPause, 0)
		api.Fail(tgtest.Fault{Method: "deleteWebhook", Status: 502})
		trouble("it is not removed", conflictPause, 0)
		will := api.User("Will")
		api.Say(api.DM(will), will, "kept")
		trouble("ours", time.Millisecond, 1)
		if api.Pending() != 1 {
			t.Error("the update that waited was dropped")
		}
	})
}

func TestAnnounceWebhook_Retries(t *testing.T) {
	const address = "https://ours.example/hook"
	alone(t, Options{WebhookURL: address}, func(t *testing.T, b *Bridge, api *tgtest.Server) {
		api.Fail(tgtest.Fault{Method: "setWebhook", Status: 400, Description: "Bad Request: bad webhook"})
		if err := b.announceWebhook(t.Context(), "s"); err == nil || !strings.Contains(err.Error(), "the address of --webhook-url is not accepted") {
			t.Errorf("refused: %v", err)
		}
		api.Fail(tgtest.Fault{Method: "setWebhook", Status: 401})
		if err := b.announceWebhook(t.Context(), "s"); !errors.Is(err, ErrToken) {
			t.Errorf("a wrong token: %v", err)
		}
		api.Fail(tgtest.Fault{Method: "setWebhook", Status: 502, Times: 3})
		if err := b.announceWebhook(t.Context(), "s"); err != nil {
			t.Error(err)
		}
		calls := api.Calls("setWebhook")
		if len(calls) != 1 || calls[0].Int("max_connections") != 1 || string(calls[0].Params["url"]) != `"`+address+`"` ||
			string(calls[0].Params["secret_token"]) != `"s"` || string(calls[0].Params["drop_pending_updates"]) != "false" {
			t.Errorf("Telegram was told %+v", calls)
		}
		if remembered, err := WebhookOf(t.Context(), b.db, b.bot); err != nil || remembered != address {
			t.Errorf("remembered is %q, %v", remembered, err)
		}
		stopped, stop := context.WithCancel(t.Context())
		stop()
		if err := b.announceWebhook(stopped, "s"); err != nil {
			t.Errorf("at the end: %v", err)
		}
	})
}

func TestWebhook_RefusesInvalidSettings(t *testing.T) {
	log := zerolog.Nop()
	for _, c := range []struct {
		opts Options
		says string
	}{
		{Options{WebhookSecret: "not so"}, "webhook secret must consist"},
		{Options{WebhookListen: "nowhere"}, "listening for Telegram on nowhere (see --webhook-listen)"},
	} {
		b := &Bridge{account: &account{log: &log, opts: c.opts}}
		if err := b.webhookLoop(t.Context()); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v; want %q", err, c.says)
		}
	}
}

// TestWebhook_AcknowledgesStoredUpdates checks that an update that cannot be stored is delivered
// again.
func TestWebhook_AcknowledgesStoredUpdates(t *testing.T) {
	alone(t, Options{}, func(t *testing.T, b *Bridge, api *tgtest.Server) {
		var steps []string
		b.crash = func(point string) { steps = append(steps, point) }
		deliver := func() (int, string) {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(`{"update_id":7}`))
			r.Header.Set(secretHeader, "s")
			w := httptest.NewRecorder()
			b.webhookHandler("s").ServeHTTP(w, r)
			return w.Code, w.Body.String()
		}
		if code, said := deliver(); code != 200 || said != "" || !slices.Equal(steps, []string{"received", "stored"}) {
			t.Errorf("%d %q after %q", code, said, steps)
		}
		select {
		case <-b.ingest.arrived.C():
		default:
			t.Error("the intake was not woken")
		}
		deliver() // once more
		select {
		case <-b.ingest.arrived.C():
			t.Error("the intake was woken by a repetition")
		default:
		}
		b.db.Close()
		if code, said := deliver(); code != 503 || said != "try again\n" || steps[len(steps)-1] != "received" {
			t.Errorf("%d %q after %q", code, said, steps)
		}
	})
}

func TestStoreUpdates_IgnoresRepetitions(t *testing.T) {
	alone(t, Options{}, func(t *testing.T, b *Bridge, api *tgtest.Server) {
		var batch []json.RawMessage
		for _, raw := range []string{`{"update_id":9}`, `{"no":"number"}`, `{"update_id":null}`, `"text"`, `{"update_id":4}`, `{"update_id":9}`} {
			batch = append(batch, json.RawMessage(raw))
		}
		for _, want := range []int{2, 0} {
			if fresh, highest, err := b.storeUpdates(t.Context(), batch); fresh != want || highest != 9 || err != nil {
				t.Errorf("%d new up to %d, %v; want %d up to 9", fresh, highest, err, want)
			}
		}
		if fresh, highest, err := b.storeUpdates(t.Context(), nil); fresh != 0 || highest != 0 || err != nil {
			t.Errorf("nothing: %d, %d, %v", fresh, highest, err)
		}
		b.db.Close()
		if fresh, highest, err := b.storeUpdates(t.Context(), batch); fresh != 0 || highest != 0 || err == nil {
			t.Errorf("without a database: %d, %d, %v", fresh, highest, err)
		}
	})
}

func TestPoll_PausesWithoutLongPolls(t *testing.T) {
	alone(t, Options{PollTimeout: time.Millisecond}, func(t *testing.T, b *Bridge, api *tgtest.Server) {
		polls := 0
		b.crash = func(point string) {
			if point == "received" {
				polls++
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*minPollInterval-time.Millisecond)
		defer cancel()
		if err := b.pollLoop(ctx); err != nil || polls != 10 {
			t.Errorf("%d polls in %v, %v; want 10", polls, 10*minPollInterval, err)
		}
	})
}

func TestIdentify_FailsWithoutBot(t *testing.T) {
	alone(t, Options{}, func(t *testing.T, b *Bridge, api *tgtest.Server) {
		nobody := func(*http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			_, _ = w.WriteString(`{"ok":true,"result":{}}`)
			return w.Result(), nil
		}
		other := New(api.Token(), b.db, &Options{API: &botapi.Options{Transport: answers(nobody)}, Log: b.log})
		if err := other.identify(t.Context()); err == nil || !strings.Contains(err.Error(), "--api-url") {
			t.Errorf("nobody: %v", err)
		}
		if err := New("a b", b.db, &Options{Log: b.log}).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "TELEGRAM_BOT_TOKEN") {
			t.Errorf("no token: %v", err)
		}
		// A token that was never used here waits for Telegram until the program ends.
		api.Fail(tgtest.Fault{Method: "getMe", Status: 502, Times: -1})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		empty, err := Open(filepath.Join(t.TempDir(), Database))
		if err != nil {
			t.Fatal(err)
		}
		defer empty.Close()
		unknown := New(api.Token(), empty, &Options{API: b.opts.API, Log: b.log})
		if err := unknown.Run(ctx); !errors.Is(err, context.DeadlineExceeded) || unknown.bot != 0 {
			t.Errorf("never used: %v as %d", err, unknown.bot)
		}
		known := New(api.Token(), b.db, &Options{API: b.opts.API, Log: b.log})
		if err := known.identify(t.Context()); err != nil || known.bot != b.bot || known.me.Username != "hubbub_bot" {
			t.Errorf("known from before: %v, %+v", err, known.me)
		}
		b.db.Close()
		if err := b.saveBot(t.Context()); err == nil || !strings.Contains(err.Error(), "writing to the database") {
			t.Errorf("without a database: %v", err)
		}
	})
}

// answers is a RoundTripper made of a function.
type answers func(*http.Request) (*http.Response, error)

func (f answers) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// autocommit returns a Tx outside any transaction.
func autocommit(t *testing.T, db *store.DB) (tx *store.Tx) {
	t.Helper()
	if err := store.Autocommit(t.Context(), db, func(outside *store.Tx) { tx = outside }); err != nil {
		t.Fatal(err)
	}
	return tx
}
