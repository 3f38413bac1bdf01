package chorus

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// TestPoster_UnknownOnlyIfSent checks that a POST that was redirected and then reached nobody can
// be repeated.
func TestPoster_UnknownOnlyIfSent(t *testing.T) {
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then does the server notice that the client left
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, "http://unreachable.example/", http.StatusTemporaryRedirect)
		case "/around":
			http.Redirect(w, r, "/silent", http.StatusTemporaryRedirect)
		case "/silent":
			<-r.Context().Done()
		}
	}))
	defer front.Close()
	address := front.Listener.Addr().String()
	transport := &http.Transport{DialContext: func(ctx context.Context, network, to string) (net.Conn, error) {
		if to != address {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return new(net.Dialer).DialContext(ctx, network, to)
	}}
	defer transport.CloseIdleConnections()
	p := newPoster(transport, 5*time.Second)
	var posting sync.WaitGroup
	for path, unknown := range map[string]bool{"/silent": true, "/around": true, "/moved": false} {
		posting.Go(func() {
			if err := p.post(t.Context(), front.URL+path, []byte("{}")); err == nil || errors.Is(err, errNoResponse) != unknown {
				t.Errorf("%s: %v; want unknown=%t", path, err, unknown)
			}
		})
	}
	posting.Wait()
}
