package netguard

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"
)

const (
	dialTimeout   = 10 * time.Second
	maxAnswerHead = 64 << 10
)

// NewTransport makes a transport that connects only where the guard allows it, even after a
// redirect. If HTTPS_PROXY, HTTP_PROXY and NO_PROXY name a proxy for a URL, the transport looks
// up the host, checks each of its addresses, and leaves the connection to the proxy. It directly
// calls addresses that the guard was given.
func NewTransport(g *Policy) *Transport {
	return newTransportWith(g, http.ProxyFromEnvironment, net.DefaultResolver.LookupNetIP)
}

// A Transport uses separate connections, with separate checks, for TLS, plaintext and a proxy.
type Transport struct {
	tls, plaintext, proxied *http.Transport
	policy                  *Policy
	lookup                  lookupFunc
}

// A lookupFunc returns the addresses of a host.
type lookupFunc func(ctx context.Context, network, host string) ([]netip.Addr, error)

func newTransportWith(g *Policy, proxy func(*http.Request) (*url.URL, error), lookup lookupFunc) *Transport {
	t := &Transport{
		tls:       newTransport(g.control(false)),
		plaintext: newTransport(g.control(true)),
		proxied:   newTransport(nil),
		policy:    g,
		lookup:    lookup,
	}
	t.proxied.Proxy = proxy
	return t
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	proxy, err := t.proxied.Proxy(r)
	direct := proxy == nil
	if err == nil && !direct {
		direct, err = t.checkHost(r.Context(), r.URL.Hostname(), r.URL.Scheme == "http")
	}
	switch {
	case err == nil && !direct:
		return t.proxied.RoundTrip(r)
	case err != nil:
		if r.Body != nil {
			r.Body.Close() //nolint:errcheck // nothing was read
		}
		return nil, err
	case r.URL.Scheme == "https":
		return t.tls.RoundTrip(r)
	}
	return t.plaintext.RoundTrip(r)
}

// checkHost checks a host before a proxy dials it, and reports whether it is called directly,
// because an operator allowed its addresses. The proxy looks up the name again. A name that is
// unknown here is refused, unless the guard allows every address. If the lookup fails for another
// reason, such as a timeout, the host is neither called nor refused: the caller may try again.
func (t *Transport) checkHost(ctx context.Context, host string, clear bool) (direct bool, err error) {
	addrs := []netip.Addr{}
	if addr, err := netip.ParseAddr(host); err == nil {
		addrs = append(addrs, addr)
	} else {
		ctx, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		if addrs, err = t.lookup(ctx, "ip", host); err != nil && !t.policy.allowsAll() {
			err = fmt.Errorf("%w: %s is not called through a proxy, because its address is unknown", err, host)
			if failed, ok := errors.AsType[*net.DNSError](err); ok && !failed.IsNotFound {
				return false, err
			}
			return false, fmt.Errorf("%w: %w", err, ErrRefused)
		}
	}
	direct = len(addrs) > 0
	for _, addr := range addrs {
		if err := t.policy.Check(addr, clear); err != nil {
			return false, err
		}
		direct = direct && t.policy.isNamed(addr)
	}
	return direct, nil
}

// CloseIdleConnections closes the connections that are not in use.
func (t *Transport) CloseIdleConnections() {
	t.tls.CloseIdleConnections()
	t.plaintext.CloseIdleConnections()
	t.proxied.CloseIdleConnections()
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
