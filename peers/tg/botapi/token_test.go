package botapi_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"hubbub/peers/tg/botapi"
)

// TestCheckToken checks that a token of the public server has the usual form. A token of another
// server may have another form but must not change the address.
func TestCheckToken(t *testing.T) {
	other := &botapi.Options{URL: "http://127.0.0.1:1"}
	for _, c := range []struct {
		token string
		opts  *botapi.Options
		ok    bool
	}{
		{"110201543:AAE", nil, true}, {"110201543:AAE", &botapi.Options{}, true}, {"110201543:AAE", other, true},
		{"mine", nil, false}, {"mine", &botapi.Options{URL: botapi.DefaultURL}, false}, {"mine", other, true},
		{"mine", &botapi.Options{Transport: http.DefaultTransport}, true},
		{"", other, false}, {"a/b", other, false}, {"a%2fb", other, false}, {"a b", other, false}, {"0:x", nil, false}, {"-1:x", nil, false},
	} {
		if err := botapi.CheckToken(c.token, c.opts); (err == nil) != c.ok {
			t.Errorf("%q with %+v: %v", c.token, c.opts, err)
		}
	}
}

// TestRedact checks that a text contains no spelling of the token and is otherwise unchanged,
// also without a token and with one whose secret is too short to be distinguished from words.
func TestRedact(t *testing.T) {
	for _, c := range []struct{ token, text, want string }{
		{"12:abcdef", "bot12:abcdef/x", "bot<bot token>/x"}, {"12:abcdef", "abcdef", "<bot token>"}, {"12:abcdef", "12%3Aabcdef", "<bot token>"},
		{"12:abcdef", "12%3aabcdef", "<bot token>"}, {"12:abcde", "abcde", "abcde"}, {"12:abcde", "12:abcde", "<bot token>"},
		{"", "nothing to hide", "nothing to hide"}, {"mine", "it is mine", "it is <bot token>"},
	} {
		if got := botapi.New(c.token, nil).Redact(c.text); got != c.want {
			t.Errorf("with the token %q, %q is shown as %q; want %q", c.token, c.text, got, c.want)
		}
	}
}

// TestCall_UnreadableAnswerHasUnknownOutcome checks that a call is not made again if its answer is
// too long or cannot be read, since nobody knows its outcome.
func TestCall_UnreadableAnswerHasUnknownOutcome(t *testing.T) {
	for _, body := range []string{"<html>", `{}`, `{"ok":true,"result":"no number"}`, `{"ok":true,"result":` + strings.Repeat(" ", 100) + `7}`} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }))
		c := botapi.New("1:x", &botapi.Options{URL: web.URL, MaxAnswer: 64})
		var n int
		err := c.Call(t.Context(), "getNumber", nil, &n)
		var transport *botapi.TransportError
		if !errors.As(err, &transport) || !transport.Left || errors.Is(err, botapi.ErrTooLarge) != (len(body) > 64) {
			t.Errorf("%s: %v", body, err)
		}
		c.Close()
		web.Close()
	}
	const longest = `{"ok":true,"result":7}`
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(longest)) }))
	defer web.Close()
	c := botapi.New("1:x", &botapi.Options{URL: web.URL, MaxAnswer: len(longest)})
	defer c.Close()
	var n int
	if err := c.Call(t.Context(), "getNumber", nil, &n); err != nil || n != 7 {
		t.Errorf("the longest answer gives %d, %v", n, err)
	}
}
