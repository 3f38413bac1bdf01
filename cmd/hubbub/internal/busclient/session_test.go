package busclient

import (
	"net/http"
	"net/http/httptest"
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
		"TLS without the authority": {strings.Replace(secure.URL, "https:", "wss:", 1), "SSL_CERT_FILE"},
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
	if err = ExplainGet(untrusted, "", err); !strings.Contains(err.Error(), "SSL_CERT_FILE") {
		t.Errorf("a page of a bus that is not trusted: %q", err)
	}
}
