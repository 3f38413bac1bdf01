package model

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/protocol/text"
)

// A failure is what an API says went wrong.
type failure struct {
	Message string `json:"message"`
	Type    string `json:"type"`
	Code    any    `json:"code"` // a string, a number or nil
}

// parseFailure reads the error bodies of the APIs in use: {"error":{...}},
// {"error":"..."}, {"message":...}, {"detail":...}, an array of the first, or
// plain text.
func parseFailure(raw []byte) failure {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil && len(list) > 0 {
		raw = list[0]
	}
	if f, ok := failureIn(raw); ok {
		return f
	}
	var body struct {
		Message string          `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(raw, &body) != nil {
		return failure{Message: string(raw)}
	}
	return failure{Message: cmp.Or(body.Message, string(bytes.Trim(body.Detail, `"`)))}
}

// failureIn returns the failure that an answer or an event of a stream tells of.
// It reports false if there is none.
func failureIn(data []byte) (f failure, ok bool) {
	var body struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(data, &body) != nil || len(body.Error) == 0 || string(body.Error) == "null" {
		return failure{}, false
	}
	if json.Unmarshal(body.Error, &f.Message) != nil && json.Unmarshal(body.Error, &f) != nil {
		f = failure{Message: string(body.Error)}
	}
	return f, true
}

// errorOf says what a status and the API's own words mean for the turn.
func (e *endpoint) errorOf(status int, what string, f failure, key string) *requestError {
	said := text.Clip(text.Line(harness.Redact(f.Message, key)), 400) // in this order: half a key would not be found
	at := fmt.Sprintf("%s %s: %s", e.opts.BaseURL, what, cmp.Or(said, http.StatusText(status)))
	permanent := func(advice string) *requestError {
		return &requestError{Err: fmt.Errorf("%s (%s)", at, advice)}
	}
	switch {
	case tooLong(status, f):
		return &requestError{TooLong: true, Err: fmt.Errorf("%s (the event is longer than the model can read)", at)}
	case f.Code == "insufficient_quota" || f.Type == "insufficient_quota" || f.Type == "billing_error" || status == http.StatusPaymentRequired:
		return permanent("the account has no credit left; top it up or use another key in " + e.keyName)
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return permanent("check " + e.keyName + " or " + e.keyName + "_FILE")
	case status == http.StatusNotFound:
		return permanent("check --model and --base-url, which includes the version such as /v1")
	case status >= 300 && status < 400:
		return permanent("redirects are not followed; set --base-url to the address where the API is")
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooEarly,
		status == http.StatusTooManyRequests, status >= 500 && status != http.StatusNotImplemented:
		return &requestError{Retry: true, Err: fmt.Errorf("%s", at)}
	default:
		refused := permanent("the API refuses the request; does it take chat tools and streaming?")
		refused.Refused = true
		return refused
	}
}

func tooLong(status int, f failure) bool {
	if status == http.StatusRequestEntityTooLarge || f.Code == "context_length_exceeded" || f.Type == "request_too_large" {
		return true
	}
	if status != http.StatusBadRequest {
		return false
	}
	said := strings.ToLower(f.Message)
	return strings.Contains(said, "prompt is too long") || strings.Contains(said, "context length") || strings.Contains(said, "context window")
}

// passing are the words in types and codes of failures that may pass.
var passing = []string{"server_error", "overloaded", "rate_limit", "api_error", "timeout", "unavailable", "internal", "429", "500", "502", "503", "529"}

// failed makes the error of a failure that came inside a stream, where there is
// no status: overload and internal errors may pass.
func (s *stream) failed(f failure) *requestError {
	status := http.StatusBadRequest
	if f.Type == "" && (f.Code == nil || f.Code == "") {
		status = http.StatusServiceUnavailable
	}
	for _, word := range passing {
		if strings.Contains(f.Type, word) || strings.Contains(fmt.Sprint(f.Code), word) {
			status = http.StatusServiceUnavailable
		}
	}
	return s.endpoint.errorOf(status, "failed in the middle of its answer", f, s.key)
}

// maxRetryAfter is the longest wait that an API may ask of us.
const maxRetryAfter = 10 * time.Minute

// retryAfter reads how long the API wants us to wait: retry-after-ms, or
// Retry-After in seconds or as a date.
func retryAfter(h http.Header, now time.Time) time.Duration {
	var wait time.Duration
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil {
		wait = time.Duration(min(ms, 1e9) * float64(time.Millisecond))
	} else if s, err := strconv.ParseFloat(h.Get("Retry-After"), 64); err == nil {
		wait = time.Duration(min(s, 1e6) * float64(time.Second))
	} else if at, err := http.ParseTime(h.Get("Retry-After")); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, 0), maxRetryAfter)
}
