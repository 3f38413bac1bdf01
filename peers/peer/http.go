package peer

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"hubbub/protocol/wire"
)

// An HTTPCall is one request to the HTTP side of a bus, such as GET /whoami.
type HTTPCall struct {
	Bus           string // WebSocket address of the bus
	Method, Path  string
	Query         url.Values
	Authorization string // header; empty for none
	Body          []byte // JSON; nil for none
	Limit         int64  // bytes of the answer to read; the rest is ignored
}

// Bearer returns the Authorization header for a token, or "" for an empty token.
func Bearer(token string) string {
	if token == "" {
		return ""
	}
	return "Bearer " + token
}

// HTTPAddress returns the address of the HTTP side of the bus with a WebSocket address. Its path
// ends with a slash.
func HTTPAddress(bus string) (*url.URL, error) {
	u, err := url.Parse(bus)
	if err != nil {
		return nil, err
	}
	u.Scheme, u.RawQuery = strings.Replace(u.Scheme, "ws", "http", 1), ""
	return u.JoinPath("/"), nil
}

// busClient sends no token to a proxy or to the target of a redirect.
var busClient = wire.NewHTTPClient()

// callTimeout bounds the call to one bus. A bus that does not answer leaves time for the next one.
const callTimeout = 10 * time.Second

var errNoAnswer = fmt.Errorf("no answer within %s", callTimeout)

// Do sends the request and returns the status and the body of the answer. If the bus has a path,
// such as wss://example.com/hubbub, its HTTP side has the same path. Do takes at most ten seconds.
func (c *HTTPCall) Do(ctx context.Context) (status int, answer []byte, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, errNoAnswer)
	defer cancel()
	u, err := HTTPAddress(c.Bus)
	if err != nil {
		return 0, nil, err
	}
	u = u.JoinPath(c.Path)
	u.RawQuery = c.Query.Encode()
	request, err := http.NewRequestWithContext(ctx, c.Method, u.String(), bytes.NewReader(c.Body))
	if err != nil {
		return 0, nil, err
	}
	if c.Authorization != "" {
		request.Header.Set("Authorization", c.Authorization)
	}
	if c.Body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := busClient.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(response.Body, c.Limit))
	return response.StatusCode, answer, err
}

// Buses returns the addresses of the peer's buses.
func (p *Peer) Buses() []string { return p.options.Buses }

// Token returns the current token of the peer, or "" without one.
func (p *Peer) Token() (string, error) { return p.options.TokenFunc() }

// CallHTTP sends a request to the HTTP side of the first bus that answers. It uses the peer's
// token unless the call has an Authorization. A proxy that does not reach its bus counts
// as no answer. If no bus answers, the result is that of the last one.
func (p *Peer) CallHTTP(ctx context.Context, c HTTPCall) (status int, answer []byte, err error) {
	if c.Authorization == "" {
		token, err := p.Token()
		if err != nil {
			return 0, nil, err
		}
		c.Authorization = Bearer(token)
	}
	for _, c.Bus = range p.options.Buses {
		if status, answer, err = c.Do(ctx); err == nil && !isProxyFailure(status) {
			break
		}
	}
	return status, answer, err
}

// isProxyFailure reports whether a status is that of a proxy that does not reach its bus.
func isProxyFailure(status int) bool {
	switch status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}
