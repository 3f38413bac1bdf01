package model

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/protocol/text"
)

// A failure is an error that an API reports.
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
	if f, ok := findFailure(raw); ok {
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

// brokenOff are the finish reasons of answers that OpenRouter, SGLang and DeepSeek could not complete.
var brokenOff = []string{"error", "abort", "insufficient_system_resource"}

// findFailure returns the failure in an answer or an event of a stream, and whether there is one.
func findFailure(data []byte) (f failure, ok bool) {
	var body struct {
		Error   json.RawMessage `json:"error"`
		Object  string          `json:"object"`
		Choices json.RawMessage `json:"choices"`
	}
	if json.Unmarshal(data, &body) != nil {
		return failure{}, false
	}
	var choices []struct { // OpenRouter also reports errors here
		Error        json.RawMessage `json:"error"`
		FinishReason string          `json:"finish_reason"`
	}
	if isNull(body.Error) && json.Unmarshal(body.Choices, &choices) == nil && len(choices) > 0 &&
		slices.Contains(brokenOff, choices[0].FinishReason) {
		if body.Error = choices[0].Error; isNull(body.Error) {
			body.Error = json.RawMessage(`"its answer ended in an error"`)
		}
	}
	if body.Object == "error" && json.Unmarshal(data, &f) == nil { // vLLM
		return f, true
	}
	if isNull(body.Error) {
		return failure{}, false
	}
	if json.Unmarshal(body.Error, &f.Message) != nil && json.Unmarshal(body.Error, &f) != nil {
		f = failure{Message: string(body.Error)}
	}
	return f, true
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

var (
	errIdle    = errors.New("the model's stream was silent for too long")
	errTooLong = fmt.Errorf("it is longer than %d MiB", maxAnswer>>20)
)

// incompleteFormat describes an answer that ended too early or is invalid.
const incompleteFormat = "the answer of %s is incomplete: %s"

// readError makes the error for an answer that could not be read completely. The arguments of the
// format are the address of the API and the cause.
func (s *stream) readError(format string, err error) error {
	cause := context.Cause(s.ctx)
	if cause != nil && !errors.Is(cause, errIdle) {
		return cause
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	if s.bytesRead > maxAnswer { // the limit may have cut the last line
		err = errTooLong
	} else if cause != nil {
		err = cause
	}
	return &requestError{
		Retry: !errors.Is(err, errTooLong) && !errors.Is(err, bufio.ErrTooLong),
		Err:   fmt.Errorf(format, s.h.opts.BaseURL, harness.Redact(err.Error(), s.key)),
	}
}

// maxErrorBody is how many bytes of an error response are read.
const maxErrorBody = 64 << 10

// statusError makes the error for a response that is not 2xx.
func (s *stream) statusError(response *http.Response) error {
	raw, _ := io.ReadAll(io.LimitReader(response.Body, maxErrorBody)) //nolint:errcheck // the status says enough
	err := s.classify(response.StatusCode, fmt.Sprintf("answered %d", response.StatusCode), parseFailure(raw))
	err.RetryAfter = retryAfter(response.Header, time.Now())
	return err
}

// What people in a chat read about failures that sending again does not fix.
const (
	userNoCredit = "I can't answer: the account that pays for my model is out of credit. Please tell whoever runs " +
		"me; sending this again won't help."
	userBadKey = "I can't answer: my model's key was rejected. Please tell whoever runs me; sending this again " +
		"won't help."
	userBadSettings = "I'm misconfigured and can't answer: my model isn't at the configured address. Please tell " +
		"whoever runs me; sending this again won't help."
	userFiltered = "My model's provider withheld its answer to this. Rephrasing may help."
	userRejected = "I can't answer this: my model rejected the request. Whoever runs me can find out why; sending " +
		"this again won't help."
)

// wrongAPIError makes the error for a response that is not of this API.
func (s *stream) wrongAPIError(what string) error {
	err := fmt.Errorf("%s answered with %s (check --base-url, which includes the version such as /v1, and --harness)",
		s.h.opts.BaseURL, what)
	return &requestError{Err: &harness.UserError{Message: userBadSettings, Err: err}}
}

// classify decides what a status and the API's error mean for the turn.
func (s *stream) classify(status int, what string, f failure) *requestError {
	detail := text.Clip(
		text.OneLine(harness.Redact(f.Message, s.key)),
		400,
	) // redact first: half a key would not be recognized
	at := fmt.Sprintf("%s %s: %s", s.h.opts.BaseURL, what, cmp.Or(detail, http.StatusText(status)))
	permanent := func(told, advice string) *requestError {
		return &requestError{Err: &harness.UserError{Message: told, Err: fmt.Errorf("%s (%s)", at, advice)}}
	}
	switch {
	case isTooLong(status, f):
		long := permanent("This is longer than my model can read. Please send less at a time.",
			"the event is longer than the model can read")
		long.TooLong = true
		return long
	case f.Code == "insufficient_quota" || f.Type == "insufficient_quota" || f.Type == "billing_error" ||
		status == http.StatusPaymentRequired:
		return permanent(userNoCredit,
			"the account has no credit left; top it up or use another key in "+s.h.endpoint.KeyName)
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return permanent(userBadKey, "check "+s.h.endpoint.KeyName+" or "+s.h.endpoint.KeyName+"_FILE")
	case status == http.StatusNotFound:
		return permanent(userBadSettings, "check --model and --base-url, which includes the version such as /v1")
	case status >= 300 && status < 400:
		return permanent(userBadSettings, "redirects are not followed; set --base-url to the API's own address")
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooEarly,
		status == http.StatusTooManyRequests, status >= 500 && status != http.StatusNotImplemented:
		return &requestError{Retry: true, Err: errors.New(at)}
	default:
		refused := permanent(userRejected, "the API rejected the request; does it support chat tools and streaming?")
		refused.Rejected = true
		return refused
	}
}

var tooLongPattern = text.Pattern(`(?i)prompt is too long|context (length|window)`)

func isTooLong(status int, f failure) bool {
	return status == http.StatusRequestEntityTooLarge || f.Code == "context_length_exceeded" ||
		f.Type == "request_too_large" ||
		status == http.StatusBadRequest && tooLongPattern().MatchString(f.Message)
}

// temporaryPattern matches the types and codes of temporary failures.
var temporaryPattern = text.Pattern(
	`server_error|overloaded|rate_limit|api_error|timeout|unavailable|internal|429|500|502|503|529`,
)

// eventError makes the error for a failure inside a stream, which has no status. Overload and
// internal errors are temporary.
func (s *stream) eventError(f failure) *requestError {
	status := http.StatusBadRequest
	if f.Type == "" && (f.Code == nil || f.Code == "") ||
		temporaryPattern().MatchString(fmt.Sprint(f.Type, " ", f.Code)) {
		status = http.StatusServiceUnavailable
	}
	return s.classify(status, "failed in the middle of its answer", f)
}

// maxRetryAfter is the longest wait that an API may request.
const maxRetryAfter = 10 * time.Minute

// retryAfter returns how long the API asks to wait: Retry-After-Ms, or Retry-After in seconds or
// as a date.
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
