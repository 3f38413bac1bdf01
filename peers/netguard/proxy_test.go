package netguard

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

// TestTransport_ChecksBeforeTheProxy checks that a proxy is used only for hosts that have only
// public addresses, and not for hosts that an operator allowed.
func TestTransport_ChecksBeforeTheProxy(t *testing.T) {
	var asked []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.Host)
		http.Error(w, "this is the proxy", http.StatusTeapot)
	}))
	defer proxy.Close()
	own := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+", without the proxy")
	}))
	defer own.Close()
	through, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	hosts := map[string][]netip.Addr{
		"public.example":   {netip.MustParseAddr("8.8.8.8"), netip.MustParseAddr("2606:4700::1111")},
		"internal.example": {netip.MustParseAddr("10.1.2.3")},
		"mixed.example":    {netip.MustParseAddr("8.8.8.8"), netip.MustParseAddr("169.254.169.254")},
	}
	lookup := func(_ context.Context, _, host string) ([]netip.Addr, error) {
		if list := hosts[host]; list != nil {
			return list, nil
		}
		return nil, errors.New("no such host")
	}
	allowing := func(allow ...netip.Prefix) *Transport {
		return newTransportWith(New(allow), http.ProxyURL(through), lookup)
	}
	usual, all := allowing(netip.MustParsePrefix("127.0.0.1/32")), allowing(AllAddresses...)
	for _, c := range []struct {
		transport *Transport
		url       string
		asks      string // "" if it is refused
	}{
		{usual, "https://public.example/hook", "CONNECT public.example:443"},
		{usual, "https://8.8.4.4:8443/hook", "CONNECT 8.8.4.4:8443"},
		{usual, own.URL, "POST, without the proxy"},
		{usual, "http://public.example/hook", ""},
		{usual, "https://internal.example/hook", ""},
		{usual, "https://mixed.example/hook", ""},
		{usual, "https://unknown.example/hook", ""},
		{usual, "https://127.0.0.2/hook", ""},
		{usual, "https://[fd00:ec2::254]/latest", ""},
		{all, "https://unknown.example/hook", "CONNECT unknown.example:443"},
		{all, "http://internal.example/hook", "POST internal.example"},
	} {
		asked = nil
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.url, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.transport.RoundTrip(r)
		if err == nil {
			resp.Body.Close()
		}
		if got := strings.Join(asked, ", "); got != c.asks || errors.Is(err, ErrRefused) != (c.asks == "") {
			t.Errorf("%s: the proxy is asked for %q, want %q: %v", c.url, got, c.asks, err)
		}
	}
}

// TestTransport_DoesNotRefuseWhatMayBeLookedUpLater checks that a failed lookup is not a refusal,
// which callers take as final. An unknown name is refused.
func TestTransport_DoesNotRefuseWhatMayBeLookedUpLater(t *testing.T) {
	proxy := http.ProxyURL(&url.URL{Scheme: "http", Host: "192.0.2.1:3128"})
	for _, c := range []struct {
		failure net.DNSError
		refused bool
	}{
		{net.DNSError{Err: "i/o timeout", IsTimeout: true, IsTemporary: true}, false},
		{net.DNSError{Err: "server misbehaving", IsTemporary: true}, false},
		{net.DNSError{Err: "operation was canceled"}, false},
		{net.DNSError{Err: "no such host", IsNotFound: true}, true},
	} {
		lookup := func(context.Context, string, string) ([]netip.Addr, error) { return nil, &c.failure }
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://public.example/hook", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := newTransportWith(New(nil), proxy, lookup).RoundTrip(r)
		if err == nil {
			resp.Body.Close()
		}
		if err == nil || errors.Is(err, ErrRefused) != c.refused {
			t.Errorf("%v: refused: %v; want %v", err, !c.refused, c.refused)
		}
	}
}
