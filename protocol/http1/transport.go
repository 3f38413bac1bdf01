package http1

import (
	"net"
	"net/http"
	"time"
)

// NewTransport returns a transport that closes connections after they were idle for the given
// time.
//
// Over HTTP/2, all calls would share one connection. If that became silent, for example because a
// router dropped its state, the kernel would notice only after 15 minutes. Until then, every call
// would fail or have an unknown outcome. The transport is not a clone of http.DefaultTransport,
// whose TLS settings always offer HTTP/2.
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
