package wire

import (
	"crypto/tls"
	"net"
	"net/http"
)

// NewHTTPClient returns a client for the HTTP side of a bus, such as GET /whoami.
//
// Requests to a bus carry its token. Like Dial, the client therefore ignores HTTP_PROXY,
// HTTPS_PROXY and ALL_PROXY, and does not follow redirects.
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
