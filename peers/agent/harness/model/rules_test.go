package model

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"hubbub/peers/agent/harness"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestOptions_HaveDefaults checks the documented bounds, and the address and model of each
// provider.
func TestOptions_HaveDefaults(t *testing.T) {
	for _, h := range []*Harness{OpenAI(nil), Anthropic(nil)} {
		want := Options{
			BaseURL: h.endpoint.BaseURL, Model: h.endpoint.Model, IdleTimeout: 90 * time.Second, MaxIterations: 16, TokenBudget: 400_000, Timeout: 5 * time.Minute,
			MaxTokens: 4096, Retries: 5, HistoryTurns: 20, HistoryBytes: 64 << 10,
		}
		if diff := cmp.Diff(want, h.opts, cmpopts.IgnoreFields(Options{}, "Key", "Client", "Log")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if key, err := h.opts.Key(); key != "" || err != nil {
			t.Errorf("the key %q, %v", key, err)
		}
		if !h.official(h.opts.BaseURL+"/") || h.official("http://127.0.0.1/v1") {
			t.Errorf("which address is the provider's own is not known of %s", h.opts.BaseURL)
		}
	}
}

// TestResultText checks that a result is its text, or else its structured content, or both for an
// error whose text lacks it. It is cut at the limit, between characters.
func TestResultText(t *testing.T) {
	result := func(text, structured string, fails bool) harness.Result {
		r := harness.Result{IsError: fails, StructuredContent: json.RawMessage(structured)}
		if text != "" {
			r.Content = harness.ErrorResult(text, nil).Content
		}
		return r
	}
	for _, c := range []struct {
		r     harness.Result
		limit int
		want  string
	}{
		{result("hello", "", false), 100, "hello"},
		{result("hello", `{"a":1}`, false), 100, "hello"},
		{result("", `{"a":1}`, false), 100, `{"a":1}`},
		{result("", "", false), 100, "done"},
		{result("no", `{"a":1}`, true), 100, "no\n" + `{"a":1}`},
		{result(`{"a":1}`, `{"a":1}`, true), 100, `{"a":1}`},
		{result("", `{"a":1}`, true), 100, `{"a":1}`},
		{result("hello", "", false), 5, "hello"},
		{result("hello", "", false), 4, "hell\n[cut: 4 of 5 bytes shown; ask for less]"},
		{result("grüße", "", false), 3, "gr\n[cut: 2 of 7 bytes shown; ask for less]"},
	} {
		if got := resultText(c.r, c.limit); got != c.want {
			t.Errorf("of %+v within %d bytes a model reads %q; want %q", c.r, c.limit, got, c.want)
		}
	}
}

// TestToolset_NamesAreUnique checks that the number of a long name is not cut.
func TestToolset_NamesAreUnique(t *testing.T) {
	long := strings.Repeat("x", 80)
	for _, c := range []struct {
		name string
		n    int
		want string
	}{
		{"chat.react", 1, "chat_react"}, {"chat.react", 2, "chat_react_2"}, {"chat.react", 10, "chat_react_10"},
		{long[:64], 1, long[:64]}, {long[:64], 2, long[:62] + "_2"}, {long[:62], 2, long[:62] + "_2"},
	} {
		if got := numberedName(c.name, c.n); got != c.want {
			t.Errorf("%s, number %d, is called %s; want %s", c.name, c.n, got, c.want)
		}
	}
	if one, other := numberedName(long+"a", 1), numberedName(long+"b", 1); one == other || len(one) != 64 || len(other) != 64 {
		t.Errorf("two long names become %s and %s", one, other)
	}
}

// TestClassify_Statuses checks which failures are temporary, which are final, and what the chat
// says about the final ones.
func TestClassify_Statuses(t *testing.T) {
	const passes, long = "", "This is longer than my model can read. Please send less at a time."
	s := &stream{h: OpenAI(nil), key: "sk-secret"}
	for _, c := range []struct {
		status  int
		f       failure
		message string // "" if it may pass
	}{
		{408, failure{}, passes},
		{409, failure{}, passes},
		{425, failure{}, passes},
		{429, failure{}, passes},
		{500, failure{}, passes},
		{502, failure{}, passes},
		{599, failure{}, passes},
		{501, failure{}, userRejected},
		{400, failure{}, userRejected},
		{422, failure{}, userRejected},
		{499, failure{}, userRejected},
		{299, failure{}, userRejected},
		{300, failure{}, userBadSettings},
		{399, failure{}, userBadSettings},
		{404, failure{}, userBadSettings},
		{401, failure{}, userBadKey},
		{403, failure{}, userBadKey},
		{402, failure{}, userNoCredit},
		{429, failure{Code: "insufficient_quota"}, userNoCredit},
		{429, failure{Type: "insufficient_quota"}, userNoCredit},
		{403, failure{Type: "billing_error"}, userNoCredit},
		{413, failure{}, long},
		{500, failure{Code: "context_length_exceeded"}, long},
		{500, failure{Type: "request_too_large"}, long},
		{400, failure{Message: "Prompt is too long: 9 tokens"}, long},
		{400, failure{Message: "exceeds the context window"}, long},
		{400, failure{Message: "exceeds the context length"}, long},
		{422, failure{Message: "exceeds the context length"}, userRejected},
		{500, failure{Message: "prompt is too long"}, passes},
	} {
		c.f.Message += " sk-secret"
		err := s.classify(c.status, "answered", c.f)
		message := ""
		if e, ok := errors.AsType[*harness.UserError](err); ok {
			message = e.Message
		}
		if message != c.message || err.Retry != (c.message == passes) || err.TooLong != (c.message == long) || err.Rejected != (c.message == userRejected) {
			t.Errorf("%d %+v is told as %q (%+v); want %q", c.status, c.f, message, err, c.message)
		}
		if strings.Contains(err.Error(), s.key) {
			t.Errorf("%d: the key is in %q", c.status, err)
		}
	}
}

// TestClassify_StreamFailures covers failures without a status, which are classified by their type
// or code.
func TestClassify_StreamFailures(t *testing.T) {
	s := &stream{h: OpenAI(nil)}
	for _, c := range []struct {
		f    failure
		want bool
	}{
		{failure{}, true},
		{failure{Message: "?", Code: ""}, true},
		{failure{Code: "invalid"}, false},
		{failure{Type: "invalid_request_error"}, false},
		{failure{Type: "invalid_request_error", Code: ""}, false},
		{failure{Type: "overloaded_error"}, true},
		{failure{Type: "api_error"}, true},
		{failure{Code: 503.0}, true},
		{failure{Code: 400.0}, false},
		{failure{Type: "error", Code: "rate_limit_exceeded"}, true},
	} {
		if got := s.eventError(c.f).Retry; got != c.want {
			t.Errorf("%+v may pass: %v; want %v", c.f, got, c.want)
		}
	}
}

func TestParseFailure(t *testing.T) {
	for body, want := range map[string]failure{
		`{"error":{"message":"m","type":"t","code":"c"}}`: {Message: "m", Type: "t", Code: "c"},
		`{"error":"m"}`:                {Message: "m"},
		`{"error":17}`:                 {Message: "17"},
		`{"error":null,"message":"m"}`: {Message: "m"},
		`{"message":"m","detail":"d"}`: {Message: "m"},
		`{"detail":"d"}`:               {Message: "d"},
		`[{"error":{"message":"first"}},{"error":{"message":"second"}}]`: {Message: "first"},
		`[]`:        {Message: "[]"},
		`<html>502`: {Message: "<html>502"},
		`{}`:        {},
	} {
		if got := parseFailure([]byte(body)); got != want {
			t.Errorf("%s is read as %+v; want %+v", body, got, want)
		}
	}
}
