package http1

import (
	"net"
	"net/http"
	"time"
)

// NewTransport makes a transport that closes connections after they were idle for that
// long.
//
// Over HTTP/2 all calls would share one connection. If that fell silent, for example
// because a router forgot it, the kernel would notice only after a quarter of an hour,
// and until then every call would fail or end with an unknown outcome. The transport is
// not a clone of http.DefaultTransport, whose TLS settings offer HTTP/2 whatever the
// protocols of the clone are.
func NewTransport(idle time.Duration) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Protocols:           protocols,
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: 8,
		IdleConnTimeout:     idle,
	}
}
