package botapi_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"hubbub/peers/tg/botapi"
)

// A silentNet is a listener whose connections can fall silent: their output is dropped, and they
// stay open, as when a router forgets them.
type silentNet struct {
	net.Listener

	mu    sync.Mutex
	conns []*silentConn
}

func (s *silentNet) Accept() (net.Conn, error) {
	conn, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &silentConn{Conn: conn}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns = append(s.conns, c)
	return c, nil
}

// silence drops what the connections of this moment send, and returns their number.
func (s *silentNet) silence() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		c.mu.Lock()
		c.silent = true
		c.mu.Unlock()
	}
	return len(s.conns)
}

type silentConn struct {
	net.Conn

	mu     sync.Mutex
	silent bool
}

func (c *silentConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.silent {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// TestCall_SilentConnectionCostsOneCall uses a server that speaks HTTP/2, as Telegram's
// does: calls that share a connection must not all be lost with it.
func TestCall_SilentConnectionCostsOneCall(t *testing.T) {
	asked := make(chan struct{}, 3)
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked <- struct{}{}
		io.WriteString(w, `{"ok":true,"result":true}`) //nolint:errcheck // it may be silent
	}))
	silent := &silentNet{Listener: web.Listener}
	web.Listener = silent
	web.EnableHTTP2 = true
	web.StartTLS()
	defer web.Close()
	transport := botapi.NewTransport()
	if transport.TLSClientConfig == nil { // what is there stays
		transport.TLSClientConfig = &tls.Config{}
	}
	transport.TLSClientConfig.RootCAs = x509.NewCertPool()
	transport.TLSClientConfig.RootCAs.AddCert(web.Certificate())

	c := botapi.New("123456:secret", &botapi.Options{URL: web.URL, Transport: transport})
	defer c.Close()
	if err := c.Call(t.Context(), "getMe", nil, nil); err != nil {
		t.Fatal(err)
	}
	if n := silent.silence(); n != 1 {
		t.Fatalf("%d connections; want one", n)
	}
	<-asked
	lost, giveUp := context.WithCancel(t.Context())
	go func() {
		<-asked
		giveUp()
	}()
	if err := c.Call(lost, "sendMessage", nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("the call on the silent connection: %v", err)
	}
	next, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := c.Call(next, "sendMessage", nil, nil); err != nil {
		t.Errorf("the call after it: %v", err)
	}
}
