package netguard

import (
	"crypto/tls"
	"net"
	"net/http"
	"syscall"
	"time"
)

const (
	dialTimeout   = 10 * time.Second
	maxAnswerHead = 64 << 10
)

// NewTransport makes a transport that connects only where the guard allows it, also after a
// redirect. It ignores proxies of the environment, because they would dial unchecked.
func NewTransport(g *Policy) *Transport {
	return &Transport{tls: newTransport(g.control(false)), plaintext: newTransport(g.control(true))}
}

// A Transport uses separate connections, with separate checks, for TLS and plaintext.
type Transport struct{ tls, plaintext *http.Transport }

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme == "https" {
		return t.tls.RoundTrip(r)
	}
	return t.plaintext.RoundTrip(r)
}

// CloseIdleConnections closes the connections that are not in use.
func (t *Transport) CloseIdleConnections() {
	t.tls.CloseIdleConnections()
	t.plaintext.CloseIdleConnections()
}

func newTransport(control func(network, address string, _ syscall.RawConn) error) *http.Transport {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second, Control: control}
	return &http.Transport{
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    dialTimeout,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           64,
		MaxIdleConnsPerHost:    4,
		MaxConnsPerHost:        32,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: maxAnswerHead,
	}
}
