package http1

import (
	"net"
	"net/http"
	"time"
)

// NewTransport makes a transport that keeps an idle connection for so long.
//
// Over HTTP/2 all calls would share one connection: should that fall silent, as
// when a router forgets it, the kernel would find out after a quarter of an hour,
// in which every call would fail, or end with nobody knowing how. It is no clone of
// http.DefaultTransport, whose TLS settings offer HTTP/2 whatever the protocols of
// the clone.
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
