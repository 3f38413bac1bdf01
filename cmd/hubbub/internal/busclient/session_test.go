package busclient

import (
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"hubbub/protocol/wire"
)

// TestExplainDial_WrongAddress dials existing servers in the wrong way.
func TestExplainDial_WrongAddress(t *testing.T) {
	plain, secure := httptest.NewServer(nil), httptest.NewTLSServer(nil)
	defer plain.Close()
	defer secure.Close()
	for what, c := range map[string]struct{ url, says string }{
		"TLS without the authority": {strings.Replace(secure.URL, "https:", "wss:", 1), trustAdvice(runtime.GOOS)},
		"no TLS, but asked for":     {strings.Replace(plain.URL, "http:", "wss:", 1), "begins with ws:"},
		"TLS, but not asked for":    {strings.Replace(secure.URL, "https:", "ws:", 1), "begins with wss:"},
		"nobody":                    {"ws://127.0.0.1:1", "hubbub up"},
		"a web server":              {strings.Replace(plain.URL, "http:", "ws:", 1), "is not a bus"},
	} {
		_, err := wire.Dial(t.Context(), c.url, nil)
		if err == nil {
			t.Errorf("%s: connected", what)
			continue
		}
		if err := explainDial(c.url, "", err); !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %q; want it to say %q", what, err, c.says)
		}
	}
	untrusted := strings.Replace(secure.URL, "https:", "wss:", 1)
	_, err := http.Get(secure.URL) //nolint:bodyclose,noctx // it fails
	if err = ExplainGet(untrusted, "", err); !strings.Contains(err.Error(), trustAdvice(runtime.GOOS)) {
		t.Errorf("a page of a bus that is not trusted: %q", err)
	}
}

func TestTrustAdvice_IsForTheSystem(t *testing.T) {
	for goos, want := range map[string]string{"linux": "SSL_CERT_FILE", "darwin": "System keychain"} {
		if got := trustAdvice(goos); !strings.Contains(got, want) {
			t.Errorf("%s: %q; want it to say %q", goos, got, want)
		}
	}
}

// TestFetch_SaysWhoAnswered asks for a link to the console of servers such as those in front of a bus,
// in its place, and of a bus.
func TestFetch_SaysWhoAnswered(t *testing.T) {
	page := func(status int, media, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", media)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	bus := func(status int, media, body string) http.HandlerFunc { // with this answer to all but upgrades
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Upgrade") == "" {
				page(status, media, body)(w, r)
			} else if stream, err := wire.Accept(w, r, "", nil); err == nil {
				stream.Close(wire.CloseNormal, "done")
			}
		}
	}
	const html, plain, object = "text/html", "text/plain", "application/json"
	for what, c := range map[string]struct {
		handler http.HandlerFunc
		says    string
	}{
		"a proxy without its bus":     {page(502, html, "<h1>502 Bad Gateway</h1>"), "does not reach the bus behind it"},
		"a proxy that lets nobody in": {page(403, html, "<h1>403 Forbidden</h1>"), "403 Forbidden instead of upgrading"},
		"a proxy that wants TLS":      {http.RedirectHandler("https://example.com", http.StatusMovedPermanently).ServeHTTP, "begins with wss:"},
		"a web server":                {page(404, html, "<h1>404 Not Found</h1>"), "is not a bus"},
		"a web server of files":       {page(405, html, "<h1>405 Not Allowed</h1>"), "is not a bus"},
		"a web server of one page":    {page(200, html, "<h1>It works</h1>"), "is not a bus"},
		"a bus without a console":     {bus(404, plain, "404 page not found"), "it runs with --no-console"},
		"a bus behind half a proxy":   {bus(502, html, "<h1>502 Bad Gateway</h1>"), "not HTTP requests (HTTP 502 Bad Gateway)"},
		"a bus that refuses":          {bus(403, object, `{"error":"not for you"}`), "403 Forbidden: not for you"},
		"a bus with another token":    {bus(401, object, `{"error":"no"}`), "does not know this token"},
		"a bus":                       {bus(200, object, `{"url":"x"}`), ""},
	} {
		server := httptest.NewServer(c.handler)
		url := strings.Replace(server.URL, "http:", "ws:", 1)
		raw, err := fetchFrom(t.Context(), url, "token", http.MethodPost, "/console/link")
		server.Close()
		if c.says == "" {
			if err != nil || string(raw) != `{"url":"x"}` {
				t.Errorf("%s: %q, %v", what, raw, err)
			}
			continue
		}
		if err == nil {
			t.Errorf("%s: %q", what, raw)
		} else if err = ExplainConsole(url, "token", err); !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %q; want it to say %q", what, err, c.says)
		}
	}
}
