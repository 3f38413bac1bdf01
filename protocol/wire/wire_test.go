package wire_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"hubbub/protocol/jsonrpc"
	"hubbub/protocol/wire"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair returns the two ends of a real WebSocket.
func pair(t *testing.T, o *wire.Options) (server, client *wire.WebSocket) {
	return pairOver(t, httptest.NewServer, o)
}

func pairOver(t *testing.T, start func(http.Handler) *httptest.Server, o *wire.Options) (server, client *wire.WebSocket) {
	t.Helper()
	accepted := make(chan *wire.WebSocket, 1)
	s := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := wire.Accept(w, r, "", o)
		if err != nil {
			t.Errorf("accepting: %v", err)
			return
		}
		accepted <- ws
	}))
	d := &wire.DialOptions{}
	if s.TLS != nil {
		d.TLS = s.Client().Transport.(*http.Transport).TLSClientConfig
	}
	client, err := wire.Dial(t.Context(), strings.Replace(s.URL, "http", "ws", 1), d)
	if err != nil {
		t.Fatal(err)
	}
	server = <-accepted
	t.Cleanup(func() {
		var closing sync.WaitGroup
		closing.Go(func() { server.Close(wire.CloseNormal, "") })
		closing.Go(func() { client.Close(wire.CloseNormal, "") })
		closing.Wait()
		s.Close()
	})
	return server, client
}

// both runs a test over both kinds of stream.
func both(t *testing.T, test func(t *testing.T, a, b jsonrpc.Stream)) {
	t.Run("websocket", func(t *testing.T) {
		a, b := pair(t, nil)
		test(t, a, b)
	})
	t.Run("pipe", func(t *testing.T) {
		a, b := wire.Pipe(nil)
		test(t, a, b)
	})
}

func TestFrames_KeepOrderAndBytes(t *testing.T) {
	both(t, func(t *testing.T, a, b jsonrpc.Stream) {
		sizes := []int{0, 1, 125, 126, 65535, 65536, 300_000}
		var writing sync.WaitGroup
		writing.Go(func() {
			for i, size := range sizes {
				if err := a.Write(bytes.Repeat([]byte{byte('a' + i)}, size)); err != nil {
					t.Error(err)
				}
			}
			a.Flush()
		})
		for i, size := range sizes {
			frame, err := b.Read()
			if err != nil || len(frame) != size || len(bytes.Trim(frame, string(rune('a'+i)))) != 0 {
				t.Fatalf("frame %d: %d bytes, %v; want %d", i, len(frame), err, size)
			}
		}
		writing.Wait()
	})
}

func TestWrite_DoesNotInterleave(t *testing.T) {
	both(t, func(t *testing.T, a, b jsonrpc.Stream) {
		const writers, each = 8, 200
		var writing sync.WaitGroup
		for w := range writers {
			writing.Go(func() {
				for i := range each {
					if err := a.Write(fmt.Appendf(nil, "%d:%d:%s", w, i, strings.Repeat("x", i))); err != nil {
						t.Error(err)
					}
					if i%7 == 0 {
						a.Flush()
					}
				}
				a.Flush()
			})
		}
		next := [writers]int{}
		for range writers * each {
			frame, err := b.Read()
			if err != nil {
				t.Fatal(err)
			}
			var w, i int
			var text string
			if _, err := fmt.Sscanf(strings.ReplaceAll(string(frame), ":", " ")+" .", "%d %d %s", &w, &i, &text); err != nil {
				t.Fatalf("%q: %v", frame, err)
			}
			if i != next[w] || i > 0 && text != strings.Repeat("x", i) {
				t.Fatalf("writer %d: frame %d; want %d, whole", w, i, next[w])
			}
			next[w]++
		}
		writing.Wait()
	})
}

func TestRead_FlushesBeforeWaiting(t *testing.T) {
	server, client := pair(t, nil)
	var waits int
	server.BeforeWait(func() { waits++; server.Flush() })
	var serving sync.WaitGroup
	serving.Go(func() {
		frame, err := server.Read()
		if err != nil || server.Write(frame) != nil { // and no flush of its own
			return
		}
		server.Read() //nolint:errcheck // ends with the test
	})
	if err := client.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if frame, err := client.Read(); err != nil || string(frame) != "hello" { // the client flushes before it waits, too
		t.Fatalf("%q, %v", frame, err)
	}
	client.Close(wire.CloseNormal, "")
	serving.Wait()
	if waits == 0 {
		t.Error("BeforeWait was never called")
	}
}

func TestPing_PassesWithoutFlush(t *testing.T) {
	server, client := pair(t, nil)
	var reading sync.WaitGroup
	reading.Go(func() { server.Read() }) //nolint:errcheck // answers pings until the end
	reading.Go(func() { client.Read() }) //nolint:errcheck // reads the pongs
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 3 {
		if err := client.Ping(ctx); err != nil {
			t.Fatal(err)
		}
	}
	client.Close(wire.CloseNormal, "")
	reading.Wait()
}

func TestClose_CodesArrive(t *testing.T) {
	both(t, func(t *testing.T, a, b jsonrpc.Stream) {
		var closing sync.WaitGroup
		closing.Go(func() { a.Close(4001, "replaced") })
		_, err := b.Read()
		var closed *wire.CloseError
		if !errors.As(err, &closed) || closed.Code != 4001 || closed.Reason != "replaced" {
			t.Errorf("Read = %v; want 4001 replaced", err)
		}
		b.Close(wire.CloseNormal, "")
		closing.Wait()
		if err := b.Write([]byte("x")); err == nil {
			b.Flush()
		}
	})
}

// TestSlowConsumer writes more than kernel buffers hold to a side that reads
// nothing: Write never waits, and the stream ends as a slow consumer. When the
// side reads again, it gets whole frames, and then 1008.
func TestSlowConsumer(t *testing.T) {
	for name, start := range map[string]func(http.Handler) *httptest.Server{"plain": httptest.NewServer, "TLS": httptest.NewTLSServer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			readsTooLate(t, start)
		})
	}
}

func readsTooLate(t *testing.T, start func(http.Handler) *httptest.Server) {
	server, client := pairOver(t, start, &wire.Options{WriteTimeout: 3 * time.Second}) // long enough for a busy machine to read again in
	for i := range 64 {
		if server.Write(bytes.Repeat([]byte{byte('a' + i%26)}, 1<<20)) != nil {
			break
		}
		server.Flush()
	}
	_, err := server.Read()
	if wire.CloseCode(err) != wire.ClosePolicy {
		t.Errorf("Read = %v; want 1008 slow consumer", err)
	}
	var closing sync.WaitGroup
	closing.Go(func() { server.Close(wire.ClosePolicy, "slow consumer") })
	for frames := 0; ; frames++ {
		frame, err := client.Read()
		if err != nil {
			if wire.CloseCode(err) != wire.ClosePolicy {
				t.Errorf("after %d frames the slow side gets %v; want 1008", frames, err)
			}
			break
		}
		if want := byte('a' + frames%26); len(frame) != 1<<20 || frame[0] != want || frame[len(frame)-1] != want {
			t.Fatalf("frame %d is not whole", frames)
		}
	}
	closing.Wait()
}

// TestSlowConsumer_ThatSendsGets1008 continues to send while it reads the rest:
// it must still get the close frame.
func TestSlowConsumer_ThatSendsGets1008(t *testing.T) {
	server, client := pair(t, &wire.Options{WriteTimeout: time.Second})
	for range 64 {
		if server.Write(make([]byte, 512<<10)) != nil {
			break
		}
		server.Flush()
	}
	var closing sync.WaitGroup
	closing.Go(func() {
		_, err := server.Read()
		server.Close(wire.CloseCode(err), "slow consumer")
	})
	for {
		_, err := client.Read()
		if err != nil {
			if wire.CloseCode(err) != wire.ClosePolicy {
				t.Errorf("the slow side gets %v; want 1008", err)
			}
			break
		}
		if server.Failed() {
			client.Write([]byte("an answer")) //nolint:errcheck // it may be late
			client.Flush()
			continue
		}
		for !server.Failed() { // let it become slow
			<-time.After(time.Millisecond)
		}
	}
	closing.Wait()
}

// TestSlowConsumer_IsNotOneThatReadsSlowly reads less in a write timeout than
// the kernel needs to accept more bytes.
func TestSlowConsumer_IsNotOneThatReadsSlowly(t *testing.T) {
	for name, start := range map[string]func(http.Handler) *httptest.Server{"plain": httptest.NewServer, "TLS": httptest.NewTLSServer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			readsSlowly(t, start)
		})
	}
}

func readsSlowly(t *testing.T, start func(http.Handler) *httptest.Server) {
	accepted := make(chan *wire.WebSocket, 1)
	s := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := wire.Accept(w, r, "", &wire.Options{WriteTimeout: 2 * time.Second})
		if err != nil {
			t.Errorf("accepting: %v", err)
			return
		}
		accepted <- ws
	}))
	defer s.Close()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.(*net.TCPConn).SetReadBuffer(32 << 10); err != nil {
		t.Fatal(err)
	}
	if s.TLS != nil {
		conn = tls.Client(conn, &tls.Config{RootCAs: s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs, ServerName: "example.com"})
	}
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
	server := <-accepted
	for range 16 {
		if err := server.Write(make([]byte, 512<<10)); err != nil {
			t.Fatal(err)
		}
	}
	server.Flush()
	part := make([]byte, 16<<10)
	for range 100 { // for longer than the write timeout
		if _, err := io.ReadFull(conn, part); err != nil {
			t.Fatalf("the side that reads slowly was closed: %v", err)
		}
		<-time.After(30 * time.Millisecond) // a side that is slow, but reads
	}
	if server.Failed() {
		t.Error("the side that reads slowly counts as one that does not read")
	}
	conn.Close()
	server.Close(wire.CloseNormal, "")
}

// TestRead_StopsForPeerThatOnlySends fills the return path: the stream then reads no more until
// it is drained, so its bytes stay bounded.
func TestRead_StopsForPeerThatOnlySends(t *testing.T) {
	server, client := pair(t, &wire.Options{MaxBuffered: 1 << 20, WriteTimeout: 20 * time.Second})
	big := bytes.Repeat([]byte("x"), 256<<10)
	const asks = 100 // 25 MiB of answers
	var serving sync.WaitGroup
	most := 0
	serving.Go(func() {
		for {
			if _, err := server.Read(); err != nil {
				return
			}
			if server.Write(big) != nil {
				return
			}
			most = max(most, server.Buffered())
		}
	})
	for range asks {
		if err := client.Write([]byte("more")); err != nil {
			t.Fatal(err)
		}
	}
	client.Flush()
	for range asks {
		if frame, err := client.Read(); err != nil || len(frame) != len(big) {
			t.Fatalf("%d bytes, %v", len(frame), err)
		}
	}
	client.Close(wire.CloseNormal, "")
	serving.Wait()
	// The requests in one read of the socket are in addition to the bound.
	if limit := 26 << 20; most > limit {
		t.Errorf("%d bytes were buffered; want at most %d", most, limit)
	}
}

func TestDial_FollowsNoRedirects(t *testing.T) {
	hits := 0
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			hits++
		}
	}))
	defer thief.Close()
	bus := httptest.NewServer(http.RedirectHandler(thief.URL, http.StatusFound))
	defer bus.Close()
	_, err := wire.Dial(t.Context(), strings.Replace(bus.URL, "http", "ws", 1), &wire.DialOptions{Token: "secret"})
	var status *wire.StatusError
	if !errors.As(err, &status) || status.Code != http.StatusFound || hits != 0 {
		t.Errorf("Dial = %v, %d requests with the token at the other place; want a refusal and none", err, hits)
	}
	if err != nil && strings.Contains(err.Error(), "secret") {
		t.Error("the error shows the token")
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

func TestDial_ReportsMissingServer(t *testing.T) {
	const addr = "127.0.0.1:1" // no program listens there
	if _, err := wire.Dial(t.Context(), "ws://"+addr, nil); err == nil || !strings.Contains(err.Error(), addr) {
		t.Errorf("Dial = %v; want an error that names the address", err)
	}
}

// TestHasUnread asks a server whether its client has sent unread input, over a
// socket and over TLS.
func TestHasUnread(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("it cannot be known here")
	}
	for name, start := range map[string]func(http.Handler) *httptest.Server{"tcp": httptest.NewServer, "tls": httptest.NewTLSServer} {
		server, client := pairOver(t, start, nil)
		if server.HasUnread() {
			t.Errorf("%s: something has come before anything was sent", name)
		}
		if err := client.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		client.Flush()
		wait, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for !server.HasUnread() {
			select {
			case <-wait.Done():
				t.Fatalf("%s: what was sent is not seen", name)
			case <-time.After(time.Millisecond):
			}
		}
		if frame, err := server.Read(); err != nil || string(frame) != "hello" || server.HasUnread() {
			t.Errorf("%s: %q, %v; and there is more: %t", name, frame, err, server.HasUnread())
		}
	}
}

// TestSlowConsumer_ThatRecoversIsServed fills the kernel's buffers, lets the other side
// read everything, and continues for longer than a drain checks progress.
func TestSlowConsumer_ThatRecoversIsServed(t *testing.T) {
	const timeout = 10 * time.Second
	begun := time.Now()
	server, client := pair(t, &wire.Options{WriteTimeout: timeout})
	const frames = 24
	for range frames {
		if err := server.Write(bytes.Repeat([]byte("x"), 1<<20)); err != nil {
			t.Fatal(err)
		}
		server.Flush()
	}
	if server.Buffered() == 0 {
		t.Fatal("the kernel took 24 MiB: nothing was drained")
	}
	for i := range frames {
		if frame, err := client.Read(); err != nil || len(frame) != 1<<20 {
			t.Fatalf("frame %d: %d bytes, %v", i, len(frame), err)
		}
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			frame, err := server.Read()
			if err != nil || server.Write(frame) != nil {
				return
			}
		}
	})
	next := time.NewTicker(100 * time.Millisecond)
	defer next.Stop()
	for ; time.Since(begun) < timeout+time.Second; <-next.C { // past the time at which it would have been closed
		if err := client.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		if frame, err := client.Read(); err != nil || string(frame) != "hello" {
			t.Fatalf("after %v: %q, %v", time.Since(begun), frame, err)
		}
	}
	client.Close(wire.CloseNormal, "")
	serving.Wait()
}

// TestMaxWrite_FromServer uses a server that reads larger frames than a client
// by default, and sends one.
func TestMaxWrite_FromServer(t *testing.T) {
	server, client := pair(t, &wire.Options{MaxFrame: 20 << 20})
	if server.MaxWrite() != 0 || client.MaxWrite() != 20<<20 {
		t.Errorf("the server may write %d, the client %d; want 0, which is unknown, and %d", server.MaxWrite(), client.MaxWrite(), 20<<20)
	}
	var writing sync.WaitGroup
	writing.Go(func() {
		if err := server.Write(make([]byte, 20<<20)); err != nil {
			t.Error(err)
		}
		server.Flush()
	})
	if frame, err := client.Read(); err != nil || len(frame) != 20<<20 {
		t.Errorf("the client read %d bytes, %v", len(frame), err)
	}
	writing.Wait()
}

// TestDial_RefusedOneKeepsNoConnection dials a server that would keep the
// connection open.
func TestDial_RefusedOneKeepsNoConnection(t *testing.T) {
	closed := make(chan struct{}, 1)
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no bus here", http.StatusBadGateway)
	}))
	web.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateClosed {
			closed <- struct{}{}
		}
	}
	web.Start()
	defer web.Close()
	var status *wire.StatusError
	if _, err := wire.Dial(t.Context(), "ws"+strings.TrimPrefix(web.URL, "http"), nil); !errors.As(err, &status) || status.Code != http.StatusBadGateway {
		t.Fatalf("Dial: %v; want the refusal", err)
	}
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Error("the connection stays open")
	}
}
