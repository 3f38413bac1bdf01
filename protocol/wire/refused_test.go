package wire_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"hubbub/protocol/wire"
)

// TestDial_SaysWhoRefusedTheUpgrade dials servers such as those in front of a bus, or in its place.
func TestDial_SaysWhoRefusedTheUpgrade(t *testing.T) {
	const ready, page = `{"status":"ready","bus":"b"}`, "<html><h1>It works</h1></html>"
	for name, c := range map[string]struct {
		status              int
		media, body, health string // health: the answer to /readyz; empty: the same page
		by                  wire.Answerer
		says                string
	}{
		"the bus: a wrong token":         {401, "application/json", `{"error":"the token is not valid"}`, ready, wire.BusItself, "the token is not valid"},
		"the bus: a host name":           {403, "application/json", `{"error":"the host name \"x\" is not allowed here"}`, ready, wire.BusItself, "host name"},
		"the bus: the upgrade was lost":  {426, "application/json", `{"error":"the upgrade was lost"}`, ready, wire.ProxyOfBus, "Upgrade and Connection"},
		"a proxy: 200 and a page":        {200, "text/html", page, ready, wire.ProxyOfBus, "does not pass the upgrade"},
		"a proxy: 400 and a page":        {400, "text/html; charset=utf-8", page, ready, wire.ProxyOfBus, "does not pass the upgrade"},
		"a proxy: 426 and a page":        {426, "text/html", page, ready, wire.ProxyOfBus, "does not pass the upgrade"},
		"a proxy: 405 without a body":    {405, "", "", ready, wire.ProxyOfBus, "does not pass the upgrade"},
		"a proxy: redirected":            {302, "", "", `{"status":"unready","bus":""}`, wire.ProxyOfBus, "does not pass the upgrade"},
		"a proxy: 502 and a page":        {502, "text/html", page, "", wire.BrokenProxy, "does not reach"},
		"a proxy: 503":                   {503, "text/plain", "no", "", wire.BrokenProxy, "does not reach"},
		"a proxy: 504":                   {504, "text/html", page, "", wire.BrokenProxy, "does not reach"},
		"a web server: 200":              {200, "text/html", page, "", wire.Stranger, "200 OK instead"},
		"a web server: 404":              {404, "text/html", page, "", wire.Stranger, "404 Not Found instead"},
		"a web server: 426":              {426, "text/html", page, "", wire.Stranger, "426 Upgrade Required instead"},
		"a service with other health":    {404, "text/html", page, `{"status":"ok"}`, wire.Stranger, "404 Not Found instead"},
		"a service with other errors":    {404, "application/json", `{"message":"no"}`, "[]", wire.Stranger, "404 Not Found instead"},
		"a status that nobody knows":     {599, "", "", "", wire.Stranger, "answered 599 instead"},
		"TLS with an address without it": {400, "text/plain", "no", "", wire.Stranger, "begins with wss:"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case c.health != "" && r.URL.Path == "/hub/readyz":
				if r.Header.Get("Authorization") != "" {
					t.Errorf("%s: the question for its health carries the token", name)
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, c.health)
			case strings.HasPrefix(r.URL.Path, "/hub/"):
				w.Header().Set("Content-Type", c.media)
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			default:
				t.Errorf("%s: a request for %s", name, r.URL)
			}
		}))
		_, err := wire.Dial(t.Context(), strings.Replace(server.URL, "http", "ws", 1)+"/hub", &wire.DialOptions{Token: "secret"})
		server.Close()
		var status *wire.StatusError
		if !errors.As(err, &status) || status.By != c.by || status.Code != c.status || !strings.Contains(fmt.Sprint(err), c.says) {
			t.Errorf("%s: %v; want it to say %q", name, err, c.says)
		}
	}
}

// TestDial_SaysThatARedirectLeadsToTLS dials a proxy that redirects every request.
func TestDial_SaysThatARedirectLeadsToTLS(t *testing.T) {
	for to, c := range map[string]struct {
		by   wire.Answerer
		says string
	}{
		"https://example.com/hub/": {wire.TLSRedirect, "301 Moved Permanently instead of upgrading; the address of a bus with TLS begins with wss:"},
		"http://example.com/hub/":  {wire.Stranger, "301 Moved Permanently instead of upgrading"},
	} {
		server := httptest.NewServer(http.RedirectHandler(to, http.StatusMovedPermanently))
		_, err := wire.Dial(t.Context(), strings.Replace(server.URL, "http", "ws", 1)+"/hub", nil)
		server.Close()
		var status *wire.StatusError
		if !errors.As(err, &status) || status.By != c.by || !strings.HasSuffix(fmt.Sprint(err), c.says) {
			t.Errorf("to %s: %v; want it to say %q", to, err, c.says)
		}
	}
}
