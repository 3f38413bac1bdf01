package chorus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"hubbub/peers/netguard"
)

// Limits on the gateway's own calls.
const (
	maxRedirects = 3
	maxAnswer    = 64 << 10 // bytes of an answer that are read and discarded
)

// A poster POSTs JSON to secret URLs. Its errors never contain the URL.
type poster struct {
	client  *http.Client
	timeout time.Duration // of one POST, including the answer
}

func newPoster(transport http.RoundTripper, timeout time.Duration) *poster {
	return &poster{client: &http.Client{Transport: transport, CheckRedirect: checkRedirect}, timeout: timeout}
}

// errNoResponse means that a POST was sent but not answered in time. It may have taken effect.
var errNoResponse = errors.New("it did not answer in time")

// errRedirect means that a redirect would change the request or never ends.
var errRedirect = errors.New("the target sent a redirect that is not followed")

// checkRedirect follows only redirects that repeat the same request (307 and 308), and never from
// https to http. Each hop is dialed through the guard.
func checkRedirect(req *http.Request, via []*http.Request) error {
	first := via[0]
	switch {
	case len(via) > maxRedirects, req.Method != first.Method:
		return errRedirect
	case via[len(via)-1].URL.Scheme == "https" && req.URL.Scheme != "https":
		return errRedirect
	}
	req.Header.Del("Referer") // it would reveal the previous URL, including its secret, to the next host
	return nil
}

// A statusError is the status of an answer that is not 2xx.
type statusError int

func (e statusError) Error() string {
	return fmt.Sprintf("it answered HTTP %d %s", int(e), http.StatusText(int(e)))
}

// post sends one JSON object and waits for the answer. If the answer is not 2xx, the error is a
// statusError. Every other error means that no answer arrived.
func (p *poster) post(ctx context.Context, target string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	var left atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		// also called after a redirect: the redirecting host has done nothing
		GetConn:      func(string) { left.Store(false) },
		WroteRequest: func(i httptrace.WroteRequestInfo) { left.Store(i.Err == nil) },
	})
	req, err := http.NewRequestWithContext(traced, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return errors.New("its URL cannot be used") // the parser's error would contain the URL
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", userAgent)
	resp, err := p.client.Do(req)
	if err != nil && left.Load() && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return errNoResponse
	}
	if err != nil {
		return withoutURL(err)
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, maxAnswer) // to reuse the connection
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return statusError(resp.StatusCode)
	}
	return nil
}

const userAgent = "hubbub-chorus"

// withoutURL removes the URL from an error of an HTTP client.
func withoutURL(err error) error {
	for u, ok := errors.AsType[*url.Error](err); ok; u, ok = errors.AsType[*url.Error](err) {
		err = u.Err
	}
	return err
}

// isRetryable reports whether a failed POST may succeed if repeated: after a 5xx answer or a
// failed connection, but not after a 4xx answer or for a refused target.
func isRetryable(err error) bool {
	if status, ok := errors.AsType[statusError](err); ok {
		return status >= http.StatusInternalServerError
	}
	return !errors.Is(err, netguard.ErrRefused) && !errors.Is(err, errRedirect)
}
