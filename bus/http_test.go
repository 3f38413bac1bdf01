package bus_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/activitylog/write"
	"hubbub/bus"
	"hubbub/bus/bustest"
	"hubbub/bus/grant"
	"hubbub/protocol"
	"hubbub/protocol/timetest"
)

// answer returns the response of a bus with these options to a request. The bus
// does not run: its HTTP side needs no more.
func answer(t *testing.T, o *bus.Options, method, path string, change func(*http.Request)) (status int, body string, header http.Header) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "http://127.0.0.1:7892"+path, nil)
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	bus.New(nil, o).Handler().ServeHTTP(w, r)
	raw, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, string(raw), w.Header()
}

func TestProbes_NeedNoToken(t *testing.T) {
	file := grant.NewFile(filepath.Join(t.TempDir(), grant.FileName))
	if _, err := file.Create(grant.Credential{Name: "x", Identities: []string{"cli:x"}}); err != nil {
		t.Fatal(err)
	}
	o := &bus.Options{Credentials: file, Name: "east"}
	for _, path := range []string{"/healthz", "/readyz"} {
		status, body, _ := answer(t, o, "GET", path, func(r *http.Request) { r.Host = "10.1.2.3:7892" })
		var state struct{ Status, Bus string }
		if err := json.Unmarshal([]byte(body), &state); err != nil || status != http.StatusOK || state.Status == "" {
			t.Errorf("%s: %d %s, %v", path, status, body, err)
		}
	}
	for _, path := range []string{"/metrics", "/peers", "/whoami"} {
		if status, body, _ := answer(t, o, "GET", path, nil); status != http.StatusUnauthorized || !strings.Contains(body, "token") {
			t.Errorf("%s without a token: %d %s", path, status, body)
		}
	}
}

// TestMetrics_ShowEveryLimit checks the names and the defaults of the limits.
func TestMetrics_ShowEveryLimit(t *testing.T) {
	log := write.NewWriter(filepath.Join(t.TempDir(), "activity.db"), nil)
	w := httptest.NewRecorder()
	bus.New(log, nil).Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "http://127.0.0.1:7892/metrics", nil))
	for name, value := range map[string]string{
		"delivery_timeout_seconds": "30", "initialize_timeout_seconds": "5", "write_timeout_seconds": "10", "ping_interval_seconds": "20",
		"peer_window": "256", "peer_queue": "1024", "peer_queue_bytes": "6.7108864e+07", "peer_buffer_bytes": "8.388608e+06", "slow_bytes": "1.34217728e+08",
		"max_frame_bytes": "1.048576e+06", "max_subscriptions": "1024", "max_sessions": "100000",
		"topic_bytes": "256", "pattern_bytes": "128", "pattern_stars": "8", "client_id_bytes": "256", "message_id_bytes": "256", "json_depth": "64",
		"activity_queue_rows": "65536", "activity_queue_bytes": "6.7108864e+07", "activity_wal_bytes": "4.294967296e+09",
	} {
		if line := `hubbub_limit{limit="` + name + `"} ` + value + "\n"; !strings.Contains(w.Body.String(), line) {
			t.Errorf("/metrics has no line %s", line)
		}
	}
}

func TestHTTP_RedirectsBrowserToConsole(t *testing.T) {
	status, _, header := answer(t, nil, "GET", "/", nil)
	if status != http.StatusFound || header.Get("Location") != "console/" {
		t.Errorf("%d to %q", status, header.Get("Location"))
	}
}

// TestGuard_RefusesForeignHosts goes through the host names and origins with which
// a page elsewhere could reach a bus.
func TestGuard_RefusesForeignHosts(t *testing.T) {
	file := grant.NewFile(filepath.Join(t.TempDir(), grant.FileName))
	token, err := file.Create(grant.Credential{Name: "x", Identities: []string{"cli:x"}})
	if err != nil {
		t.Fatal(err)
	}
	open := func(o bus.Options) *bus.Options { return &o }
	guarded := func(o bus.Options) *bus.Options { o.Credentials = file; return &o }
	bearer := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
	wrong := func(r *http.Request) { r.Header.Set("Authorization", "Bearer nonsense") }
	subprotocol := func(r *http.Request) { r.Header.Set("Sec-WebSocket-Protocol", protocol.BearerSubprotocol+token) }
	sameOrigin := func(r *http.Request) { bearer(r); r.Header.Set("Sec-Fetch-Site", "same-origin") }
	forwarded := func(host string) func(r *http.Request) {
		return func(r *http.Request) {
			bearer(r)
			r.Header.Set("X-Forwarded-Proto", "https")
			r.Header.Set("X-Forwarded-Host", host)
		}
	}
	for _, c := range []struct {
		name    string
		options *bus.Options
		host    string
		origin  string
		more    func(*http.Request)
		refused bool
	}{
		{"loopback", open(bus.Options{}), "localhost:7892", "", nil, false},
		{"loopback of version 6", open(bus.Options{}), "[::1]:7892", "", nil, false},
		{"a rebound name", open(bus.Options{}), "evil.example:7892", "", nil, true},
		{"an address on an open bus", open(bus.Options{}), "10.0.0.5:7892", "", nil, true},
		{"own origin", open(bus.Options{}), "127.0.0.1:7892", "http://127.0.0.1:7892", nil, false},
		{"foreign origin", open(bus.Options{}), "127.0.0.1:7892", "https://evil.example", nil, true},
		{"origin null", open(bus.Options{}), "127.0.0.1:7892", "null", nil, true},
		{"listed origin", open(bus.Options{AllowOrigins: []string{"https://ops.example"}}), "127.0.0.1:7892", "https://ops.example", nil, false},
		{"a name with a token", guarded(bus.Options{Listen: "0.0.0.0:7892"}), "bus.internal:7892", "", bearer, false},
		{"a name with a wrong token", guarded(bus.Options{Listen: "0.0.0.0:7892"}), "bus.internal:7892", "", wrong, false}, // 401
		{"a name with a token as subprotocol", guarded(bus.Options{}), "bus.internal", "", subprotocol, false},
		{"a rebound name with a token on an open bus", open(bus.Options{}), "evil.example", "", bearer, true},
		{"a rebound name with a token as subprotocol on an open bus", open(bus.Options{}), "evil.example", "", subprotocol, true},
		{"a rebound name of the same origin", open(bus.Options{}), "evil.example", "http://evil.example", sameOrigin, true},
		{"a proxy with TLS", guarded(bus.Options{}), "bus.internal", "https://bus.internal", forwarded("bus.internal"), false},
		{"a proxy with TLS that replaces the host", guarded(bus.Options{}), "127.0.0.1:7892", "https://bus.internal:18443", forwarded("bus.internal:18443"), false},
		{"a proxy for another origin", guarded(bus.Options{}), "127.0.0.1:7892", "https://evil.example", forwarded("bus.internal:18443"), true},
		{"the same origin behind a silent proxy", guarded(bus.Options{}), "127.0.0.1:7892", "https://bus.internal:18443", sameOrigin, false},
		{"a name without a token", guarded(bus.Options{Listen: "0.0.0.0:7892"}), "bus.internal:7892", "", nil, true},
		{"an address", guarded(bus.Options{Listen: "0.0.0.0:7892"}), "10.0.0.5:7892", "", nil, false},
		{"an address of a bus on loopback", guarded(bus.Options{Listen: "127.0.0.1:7892"}), "10.0.0.5:7892", "", nil, true},
		{"the name that it listens on", guarded(bus.Options{Listen: "bus.internal:7892"}), "bus.internal:7892", "", nil, false},
		{"the host of a listed origin", guarded(bus.Options{AllowOrigins: []string{"https://ops.example"}}), "ops.example", "", nil, false},
	} {
		status, body, _ := answer(t, c.options, "GET", "/", func(r *http.Request) {
			r.Host = c.host
			if c.origin != "" {
				r.Header.Set("Origin", c.origin)
			}
			if c.more != nil {
				c.more(r)
			}
		})
		if refused := status == http.StatusForbidden; refused != c.refused {
			t.Errorf("%s: %d %s", c.name, status, body)
		}
	}
}

// TestHTTP_ClosesRequestWithoutBody covers handlers that do not read the body.
func TestHTTP_ClosesRequestWithoutBody(t *testing.T) {
	for _, path := range []string{"/", "/healthz", "/credentials", "/nowhere"} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			l := bustest.Listen()
			ended := make(chan error, 1)
			go func() { ended <- bus.New(nil, nil).Serve(ctx, l) }()
			start := time.Now()
			if err := l.HoldBody("POST", path); err != nil {
				t.Error(err)
			}
			if held := time.Since(start); held > time.Minute {
				t.Errorf("%s: held for %v", path, held)
			}
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestHTTP_ClosesUnreadAnswer sends requests and does not read the answers,
// with and without a token.
func TestHTTP_ClosesUnreadAnswer(t *testing.T) {
	for _, host := range []string{"127.0.0.1:7892", "elsewhere.example"} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			l := bustest.Listen()
			ended := make(chan error, 1)
			go func() { ended <- bus.New(nil, nil).Serve(ctx, l) }()
			conn, err := l.Dial()
			if err != nil {
				t.Fatal(err)
			}
			ask := []byte("GET /metrics HTTP/1.1\r\nHost: " + host + "\r\n\r\n")
			if _, err := conn.Write(ask); err != nil {
				t.Fatal(err)
			}
			if err := conn.SetWriteDeadline(time.Now().Add(6 * time.Minute)); err != nil {
				t.Fatal(err)
			}
			timetest.Advance(5 * time.Minute)
			if _, err := conn.Write(ask); !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("after 5 minutes: %v; want a connection that the bus has closed", err)
			}
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}
