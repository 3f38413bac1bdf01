package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	neturl "net/url"
	"strconv"
	"time"

	"hubbub/protocol/defaults"

	"github.com/coder/websocket"
)

// DialOptions are the settings of Dial. Nil is valid.
type DialOptions struct {
	Options
	Token string      // bearer token; empty for none
	TLS   *tls.Config // for wss; nil for the system's roots
}

const (
	// clientMaxFrame is the default for the largest frame that a client reads. It exceeds every
	// frame of a bus with the default limit, including the envelope.
	clientMaxFrame = 16 << 20

	dialTimeout = 10 * time.Second

	envelopeRoom = 64 << 10 // how much larger than its own limit a frame from the bus may be
)

// Dial opens a stream to a bus at a ws:// or wss:// URL. The path of the URL is a folder, as on
// the HTTP side of the bus: ws://host/hub means ws://host/hub/. If the upgrade is refused, the
// error is a StatusError.
func Dial(ctx context.Context, address string, o *DialOptions) (*WebSocket, error) {
	settings := defaults.Of(o)
	options := settings.Options
	url, err := neturl.Parse(address)
	if err != nil {
		return nil, err
	}
	url = url.JoinPath("/")
	var g *coalescingConn
	wrap := func(conn net.Conn, err error) (net.Conn, error) {
		if err != nil {
			return nil, err
		}
		g = newCoalescingConn(conn, &options)
		g.client = true
		return g, nil
	}
	dialer := &net.Dialer{Timeout: dialTimeout}
	transport := &http.Transport{ // no Proxy: the token is only for the bus
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return wrap(dialer.DialContext(ctx, network, addr))
		},
		DialTLSContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return wrap((&tls.Dialer{NetDialer: dialer, Config: settings.TLS}).DialContext(ctx, network, addr))
		},
	}
	header := http.Header{}
	if settings.Token != "" {
		header.Set("Authorization", "Bearer "+settings.Token)
	}
	conn, resp, err := websocket.Dial(ctx, url.String(), &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: transport, CheckRedirect: noRedirect},
		HTTPHeader: header, CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil {
		transport.CloseIdleConnections() // the server may keep the connection open, and a peer retries for days
		if resp != nil && resp.StatusCode != http.StatusSwitchingProtocols {
			return nil, refusal(ctx, newHTTPClient(settings.TLS), address, resp)
		}
		return nil, fmt.Errorf("dialing %s: %w", address, cause(err))
	}
	told, err := strconv.ParseUint(resp.Header.Get(maxFrameHeader), 10, 31)
	if err != nil {
		told = 0
	}
	theirs := int(told)
	if options.MaxFrame <= 0 {
		options.MaxFrame = max(clientMaxFrame, theirs+envelopeRoom)
	}
	s := new(WebSocket)
	s.open(conn, g, nil, &options)
	s.maxWrite = theirs
	return s, nil
}

// cause returns the network error without its wrappers, which only repeat the address.
func cause(err error) error {
	var layers *neturl.Error
	if errors.As(err, &layers) {
		return layers.Err
	}
	return err
}

// noRedirect prevents a token from being sent to another server.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
