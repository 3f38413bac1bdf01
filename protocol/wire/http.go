package wire

import (
	"crypto/tls"
	"net"
	"net/http"
)

// NewHTTPClient makes a client for the HTTP side of a bus, such as GET /whoami.
//
// Requests to a bus carry its token. Like Dial, the client therefore connects to the
// bus directly, whatever HTTP_PROXY, HTTPS_PROXY and ALL_PROXY say, and follows no
// redirects.
func NewHTTPClient() *http.Client { return newHTTPClient(nil) }

func newHTTPClient(settings *tls.Config) *http.Client {
	return &http.Client{
		CheckRedirect: noRedirect,
		Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: dialTimeout}).DialContext,
			TLSClientConfig:     settings,
			TLSHandshakeTimeout: dialTimeout,
			DisableKeepAlives:   true, // requests are rare
		},
	}
}
