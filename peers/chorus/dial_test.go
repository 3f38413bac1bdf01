package chorus

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"hubbub/peers/netguard"
)

// TestEgress_DialsNoRefusedAddress asks for pages over the gateway's own transport, at names and redirects that
// lead to refused addresses. The names resolve here alone, and no connection is made.
func TestEgress_DialsNoRefusedAddress(t *testing.T) {
	accepted := 0
	inner := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { accepted++ }))
	defer inner.Close()
	allowed, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Skip(err)
	}
	outer := &httptest.Server{Listener: allowed, Config: &http.Server{Handler: http.RedirectHandler(inner.URL, http.StatusTemporaryRedirect)}}
	outer.Start()
	defer outer.Close()
	transport := netguard.NewTransport(netguard.New([]netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}))
	defer transport.CloseIdleConnections()
	p := newPoster(transport, time.Minute)
	port := inner.Listener.Addr().(*net.TCPAddr).Port
	for _, target := range []string{
		inner.URL, outer.URL, fmt.Sprintf("http://localhost:%d/", port), fmt.Sprintf("http://[::ffff:7f00:1]:%d/", port), fmt.Sprintf("https://localhost:%d/", port),
	} {
		if err := p.post(t.Context(), target, nil); !errors.Is(err, netguard.ErrRefused) {
			t.Errorf("%s: %v; want it refused", target, err)
		}
	}
	if accepted > 0 {
		t.Errorf("%d refused calls arrived", accepted)
	}
}
