package botapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"hubbub/peers/tg/botapi"
	"hubbub/peers/tg/tgtest"

	"github.com/go-telegram/bot/models"
)

func TestCall_DistinguishesOutcomes(t *testing.T) {
	t.Parallel() // it waits for a timeout
	api := tgtest.New(nil)
	web := httptest.NewServer(api)
	defer web.Close()
	c := botapi.New(api.Token(), &botapi.Options{URL: web.URL})
	defer c.Close()
	var me models.User
	if err := c.Call(t.Context(), "getMe", nil, &me); err != nil || me.ID != 123456 {
		t.Fatalf("getMe: %v, %+v", err, me)
	}
	will := api.User("Will")
	params := map[string]any{"chat_id": api.DM(will).ID, "text": "hello"}
	send := func() error { return c.Call(t.Context(), "sendMessage", params, nil) }

	api.Fail(tgtest.Fault{Cut: tgtest.CutAfter})
	var transport *botapi.TransportError
	if err := send(); !errors.As(err, &transport) || !transport.Left {
		t.Errorf("a cut connection: %v", err)
	}
	api.Fail(tgtest.Fault{Status: 429, RetryAfter: 7, Description: "Too Many Requests: retry after 7"})
	var refused *botapi.Error
	if err := send(); !errors.As(err, &refused) || refused.Code != 429 || refused.RetryAfter != 7*time.Second {
		t.Errorf("a 429: %v", err)
	}
	api.Fail(tgtest.Fault{Status: 400, MigrateTo: -100})
	if err := send(); !errors.As(err, &refused) || refused.MigrateTo != -100 {
		t.Errorf("a migration: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	api.Fail(tgtest.Fault{Delay: time.Minute})
	err := c.Call(ctx, "sendMessage", params, nil)
	if !errors.As(err, &transport) || !transport.Left || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a timeout: %v", err)
	}
	web.Close()
	if err := send(); !errors.As(err, &transport) || transport.Left {
		t.Errorf("nobody listens: %v", err)
	}
}

func TestCall_RejectsForeignAnswers(t *testing.T) {
	for _, test := range []struct {
		status int
		body   string
		code   int // 0: the outcome is unknown
	}{
		{502, "<html>bad gateway</html>", 502},
		{500, `{"ok":false,"description":"oops"}`, 500},
		{200, "<html>hello</html>", 0},
		{200, `{"ok":true,"result":"not a message"}`, 0},
		{301, "", 301},
	} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(test.status)
			fmt.Fprint(w, test.body)
		}))
		c := botapi.New("1:secret-token", &botapi.Options{URL: web.URL})
		var m models.Message
		err := c.Call(t.Context(), "sendMessage", nil, &m)
		var transport *botapi.TransportError
		if errors.As(err, &transport) != (test.code == 0) || botapi.Code(err) != test.code {
			t.Errorf("%d %s: %v", test.status, test.body, err)
		}
		c.Close()
		web.Close()
	}
}

func TestErrors_OmitToken(t *testing.T) {
	const token = "987654:AAsecret+with_odd-characters"
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]any{"ok": false, "error_code": 400, "description": "no such path " + r.URL.Path + " " + r.RequestURI})
	}))
	defer echo.Close()
	for _, address := range []string{echo.URL, "http://127.0.0.1:1", "http://no such host", "ftp://x", "http://[::1"} {
		c := botapi.New(token, &botapi.Options{URL: address})
		for _, err := range []error{
			c.Call(t.Context(), "getMe", nil, nil),
			func() error { _, err := c.Download(t.Context(), "docs/x", ""); return err }(),
		} {
			if err == nil {
				t.Errorf("%s: no error", address)
				continue
			}
			for e := err; e != nil; e = errors.Unwrap(e) {
				if text := fmt.Sprintf("%v %+v", e, e); strings.Contains(text, "secret") {
					t.Errorf("%s: the token is in %q", address, text)
				}
			}
		}
		c.Close()
	}
}

func TestBotID(t *testing.T) {
	if id, err := botapi.BotID("123456:AAx"); err != nil || id != 123456 {
		t.Errorf("%d, %v", id, err)
	}
	for _, bad := range []string{"", "123456", ":x", "x:y", "12:", "12:a b", "12:a/../b"} {
		if _, err := botapi.BotID(bad); err == nil {
			t.Errorf("%q was taken for a token", bad)
		} else if bad != "" && strings.Contains(err.Error(), bad) {
			t.Errorf("the error repeats %q", bad)
		}
	}
}

// TestCall_FollowsNoRedirect checks this because the address of each call contains the token.
func TestCall_FollowsNoRedirect(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s was called", r.URL.Path) }))
	defer elsewhere.Close()
	for _, status := range []int{http.StatusFound, http.StatusTemporaryRedirect} {
		api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL+r.URL.Path, status)
		}))
		c := botapi.New("123456:secret-token-of-a-bot", &botapi.Options{URL: api.URL})
		if err := c.Call(t.Context(), "getMe", nil, nil); err == nil {
			t.Errorf("%d was taken for an answer", status)
		}
		c.Close()
		api.Close()
	}
}

func TestCall_SendsNothingForInvalidParameters(t *testing.T) {
	sent := 0
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		sent++
		_, _ = w.Write([]byte(`{"ok":true,"result":true}`))
	}))
	defer web.Close()
	c := botapi.New(tgtest.DefaultToken, &botapi.Options{URL: web.URL})
	defer c.Close()
	wrong := map[string]any{"chat_id": func() {}}
	if err := c.Call(t.Context(), "sendMessage", wrong, nil); err == nil || !strings.Contains(err.Error(), "writing the parameters of sendMessage") || sent != 0 {
		t.Errorf("a call: %v, sent %d times", err, sent)
	}
	if err := c.Upload(t.Context(), "sendPhoto", wrong, botapi.File{Field: "photo", Name: "a"}, nil); err == nil || !strings.Contains(err.Error(), "writing the parameters of sendPhoto") || sent != 0 {
		t.Errorf("an upload: %v, sent %d times", err, sent)
	}
	if err := c.Upload(t.Context(), "sendPhoto", map[string]any{"chat_id": 5}, botapi.File{Field: "photo", Name: "a"}, nil); err != nil || sent != 1 {
		t.Errorf("one that can: %v, sent %d times", err, sent)
	}
}

// TestDownload_PassesRange also checks that the whole file is fetched without a range.
func TestDownload_PassesRange(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "a.txt", time.Time{}, strings.NewReader("0123456789"))
	}))
	defer web.Close()
	c := botapi.New(tgtest.DefaultToken, &botapi.Options{URL: web.URL})
	defer c.Close()
	for of, want := range map[string]string{"": "200 0123456789", "bytes=2-4": "206 234", "bytes=99-": "416 invalid range: failed to overlap\n"} {
		resp, err := c.Download(t.Context(), "a.txt", of)
		if err != nil {
			t.Errorf("%q: %v", of, err)
			continue
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if got := fmt.Sprintf("%d %s", resp.StatusCode, body); got != want || err != nil {
			t.Errorf("%q: %q, %v; want %q", of, got, err, want)
		}
	}
}
