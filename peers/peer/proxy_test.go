package peer_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"hubbub/peers/peer"
	"hubbub/protocol/wire"
)

// TestProxyOfEnvironment_IsNotUsedForBus runs this test again with a proxy in the
// environment, because net/http reads the environment once in a process. The bus listens
// on 0.0.0.0: net/http never uses a proxy for a loopback address.
func TestProxyOfEnvironment_IsNotUsedForBus(t *testing.T) {
	if os.Getenv("TEST_PROXY_BUS") != "" {
		connectToBus(t, os.Getenv("TEST_PROXY_BUS"))
		return
	}
	proxy := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the proxy received %s %s with Authorization %q", r.Method, r.URL, r.Header.Get("Authorization"))
	}))
	defer proxy.Close()
	bus := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusUnauthorized)
		}
		if r.URL.Path == "/hub/" {
			w.WriteHeader(http.StatusTeapot)
		}
	}))
	bus.Listener.Close()
	var err error
	if bus.Listener, err = net.Listen("tcp4", "0.0.0.0:0"); err != nil {
		t.Fatal(err)
	}
	bus.Start()
	defer bus.Close()

	again := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=1m")
	again.Env = append(os.Environ(), "TEST_PROXY_BUS="+strings.Replace(bus.URL, "http", "ws", 1), "NO_PROXY=", "no_proxy=")
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		again.Env = append(again.Env, name+"="+proxy.URL)
	}
	if output, err := again.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
}

func connectToBus(t *testing.T, bus string) {
	t.Helper()
	call := peer.HTTPCall{Bus: bus, Method: "GET", Path: "/whoami", Authorization: peer.Bearer("secret"), Limit: 100}
	if status, _, err := call.Do(t.Context()); err != nil || status != http.StatusOK {
		t.Errorf("HTTPCall.Do: %d, %v", status, err)
	}
	p := peer.New("agent:a", &peer.Options{Buses: []string{bus}, Token: "secret"})
	status, _, err := p.CallHTTP(t.Context(), peer.HTTPCall{Method: "GET", Path: "/whoami", Limit: 100})
	if err != nil || status != http.StatusOK {
		t.Errorf("Peer.Ask: %d, %v", status, err)
	}
	_, err = wire.Dial(t.Context(), bus+"/hub", &wire.DialOptions{Token: "secret"})
	if refused, ok := err.(*wire.StatusError); !ok || refused.Code != http.StatusTeapot {
		t.Errorf("wire.Dial: %v; want the answer of the bus", err)
	}
}
