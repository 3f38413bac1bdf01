package peer_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"hubbub/peers/peer"
)

// TestHTTP_StaysWithItsBus also covers a bus behind a path, and one that redirects.
func TestHTTP_StaysWithItsBus(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/away" {
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
			return
		}
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %q %q %s", r.Method, r.URL.Path, r.Header.Get("Authorization"), r.Header.Get("Content-Type"), body)
	}))
	defer server.Close()
	bus := strings.Replace(server.URL, "http", "ws", 1)
	for _, tt := range []struct {
		call   peer.HTTPCall
		status int
		want   string
	}{
		{peer.HTTPCall{Bus: bus, Method: "GET", Path: "/peers", Limit: 100}, 200, `GET /peers "" "" `},
		{peer.HTTPCall{Bus: bus + "/hubbub/", Method: "GET", Path: "/peers", Limit: 100}, 200, `GET /hubbub/peers "" "" `},
		{peer.HTTPCall{Bus: bus, Method: "POST", Path: "/x", Authorization: peer.Bearer("t"), Body: []byte("{}"), Limit: 100}, 200, `POST /x "Bearer t" "application/json" {}`},
		{peer.HTTPCall{Bus: bus, Method: "GET", Path: "/peers", Authorization: peer.Bearer(""), Limit: 3}, 200, `GET`},
		{peer.HTTPCall{Bus: bus, Method: "GET", Path: "/away"}, 302, ``},
	} {
		if status, answer, err := tt.call.Do(t.Context()); err != nil || status != tt.status || string(answer) != tt.want {
			t.Errorf("%s%s: %d %q, %v; want %d %q", tt.call.Bus, tt.call.Path, status, answer, err, tt.status, tt.want)
		}
	}
	if _, _, err := (&peer.HTTPCall{Bus: "ws://127.0.0.1:1", Method: "GET", Path: "/peers"}).Do(t.Context()); err == nil {
		t.Error("a bus that is not there answered")
	}
}

// TestHTTP_AsksTheFirstBusThatAnswers asks with the peer's own token, and with another.
func TestHTTP_AsksTheFirstBusThatAnswers(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header.Get("Authorization"))
	}))
	defer server.Close()
	p := peer.New("agent:a", &peer.Options{Buses: []string{"ws://127.0.0.1:1", strings.Replace(server.URL, "http", "ws", 1)}, Token: "own"})
	for token, want := range map[string]string{"": "Bearer own", "other": "Bearer other"} {
		status, answer, err := p.CallHTTP(t.Context(), peer.HTTPCall{Method: "GET", Path: "/whoami", Authorization: peer.Bearer(token), Limit: 100})
		if err != nil || status != 200 || string(answer) != want {
			t.Errorf("%d %q, %v; want %q", status, answer, err, want)
		}
	}
}

// TestCallHTTP_AsksTheNextBusIfAProxyAnswers also covers buses that are all out of reach.
func TestCallHTTP_AsksTheNextBusIfAProxyAnswers(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, err := strconv.Atoi(strings.Split(r.URL.Path, "/")[1])
		if err != nil {
			t.Error(err)
		}
		w.WriteHeader(status)
	}))
	defer server.Close()
	bus := strings.Replace(server.URL, "http", "ws", 1)
	for buses, want := range map[string]int{
		"502 200": 200, "503 504 201": 201, "502 401 200": 401, "200 502": 200, "502 504": 504, "404 200": 404,
	} {
		o := &peer.Options{}
		for status := range strings.FieldsSeq(buses) {
			o.Buses = append(o.Buses, bus+"/"+status)
		}
		call := peer.HTTPCall{Method: "GET", Path: "/whoami"}
		if status, _, err := peer.New("agent:a", o).CallHTTP(t.Context(), call); err != nil || status != want {
			t.Errorf("%s: %d, %v; want %d", buses, status, err, want)
		}
	}
}
