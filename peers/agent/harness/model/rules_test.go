package model

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"hubbub/peers/agent/harness"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestWhatHoldsWithoutOptions: the bounds that the documentation names, and each
// provider's own address and model.
func TestWhatHoldsWithoutOptions(t *testing.T) {
	for _, h := range []*Harness{OpenAI(nil), Anthropic(nil)} {
		want := Options{
			BaseURL: h.provider.baseURL, Model: h.provider.model, Idle: 90 * time.Second, MaxRounds: 16, TokenBudget: 400_000, Time: 5 * time.Minute,
			Retries: 5, HistoryTurns: 20, HistoryBytes: 64 << 10,
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

// TestWhatAModelReadsOfAResult: the words, else what is structured; both of an error whose
// words do not have it; within the limit, in whole characters.
func TestWhatAModelReadsOfAResult(t *testing.T) {
	result := func(text, structured string, fails bool) harness.Result {
		r := harness.Result{IsError: fails, StructuredContent: json.RawMessage(structured)}
		if text != "" {
			r.Content = harness.Refused(text, nil).Content
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

// TestNamesOfToolsAreToldApart: a number stays whole where a long name is cut.
func TestNamesOfToolsAreToldApart(t *testing.T) {
	long := strings.Repeat("x", 80)
	for _, c := range []struct {
		name string
		n    int
		want string
	}{
		{"chat.react", 1, "chat_react"}, {"chat.react", 2, "chat_react_2"}, {"chat.react", 10, "chat_react_10"},
		{long[:64], 1, long[:64]}, {long[:64], 2, long[:62] + "_2"}, {long[:62], 2, long[:62] + "_2"},
	} {
		if got := numbered(c.name, c.n); got != c.want {
			t.Errorf("%s, number %d, is called %s; want %s", c.name, c.n, got, c.want)
		}
	}
	if one, other := numbered(long+"a", 1), numbered(long+"b", 1); one == other || len(one) != 64 || len(other) != 64 {
		t.Errorf("two long names become %s and %s", one, other)
	}
}
