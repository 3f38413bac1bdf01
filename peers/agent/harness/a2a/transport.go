package a2a

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"hubbub/peers/agent/harness"
	"hubbub/peers/netguard"
	"hubbub/protocol/http1"
	"hubbub/protocol/text"
)

// maxAnswer is the maximum size of an HTTP response, including a whole stream.
const maxAnswer = 16 << 20

var errTooLong = fmt.Errorf("its answer is longer than %d MiB", maxAnswer>>20)

// A transport calls the remote agent. It sends the token only to its origin, limits responses,
// and returns an error for responses that are not of the protocol.
type transport struct {
	next   http.RoundTripper
	token  func() (string, error)
	origin string // scheme and host
}

// originOf returns the scheme and host of an address.
func originOf(u *url.URL) string { return u.Scheme + "://" + u.Host }

// RoundTrip implements http.RoundTripper.
func (d *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	token, err := d.token()
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Header.Set("User-Agent", "hubbub")
	if token != "" && originOf(r.URL) == d.origin {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := d.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	answer.Body = http1.LimitBody(answer.Body, maxAnswer, errTooLong)
	switch status := answer.StatusCode; {
	case status/100 == 3,
		status == http.StatusUnauthorized,
		status == http.StatusForbidden,
		status == http.StatusTooManyRequests,
		status >= 500:
		answer.Body.Close() //nolint:errcheck // nothing of it is read
		return nil, statusError(status)
	}
	return answer, nil
}

// A statusError is an HTTP response that is not of the protocol.
type statusError int

func (e statusError) Error() string {
	return fmt.Sprintf("it answered %d %s", int(e), http.StatusText(int(e)))
}

// maxErrorText is the maximum length of a described error.
const maxErrorText = 400

// describeError makes an error of the remote agent safe to show. The result is bounded, and
// contains neither the token nor more of the address than its host.
func (h *Harness) describeError(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	message := err.Error()
	if failed, ok := errors.AsType[*url.Error](err); ok {
		message = failed.Err.Error()
	}
	token, _ := h.opts.Token() //nolint:errcheck // then there is none to hide
	message = text.Clip(text.OneLine(harness.Redact(message, token)), maxErrorText)
	return &describedError{text: fmt.Sprintf("the agent at %s: %s", netguard.HostForLog(h.url), message), err: err}
}

// A describedError is an error with a text that is safe to show.
type describedError struct {
	text string
	err  error
}

func (e *describedError) Error() string { return e.text }
func (e *describedError) Unwrap() error { return e.err }

// What people in a chat read about failures that sending again does not fix.
const (
	userBadKey = "I can't answer: the agent behind me rejected my key. Please tell whoever runs me; sending this " +
		"again won't help."
	userMoved = "I'm misconfigured and can't answer: the agent behind me isn't at the configured address. Please " +
		"tell whoever runs me; sending this again won't help."
	userLogin    = "I can't answer: somebody has to log in to the agent behind me first."
	userRejected = "I can't answer this: the agent behind me rejected it. Sending this again won't help."
)

// permanentError makes the error for a failure that sending again does not fix.
func permanentError(words string, err error) error {
	return fmt.Errorf("%w: %w", harness.ErrPermanent, &harness.UserError{Message: words, Err: err})
}

// classifyStatus decides what an HTTP response that is not of the protocol means for a turn. It
// returns nil if err is not such a response.
func classifyStatus(err error, described error) error {
	status, ok := errors.AsType[statusError](err)
	switch {
	case !ok:
		return nil
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return permanentError(userBadKey, fmt.Errorf("%w (set HUBBUB_A2A_TOKEN to a valid token)", described))
	case status/100 == 3:
		return permanentError(userMoved,
			fmt.Errorf("%w (redirects are not followed; set --a2a-url to the agent's own address)", described))
	default:
		return fmt.Errorf("%w: %w", harness.ErrTemporary, described)
	}
}
