package wire

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// TestFrameHeaders spells out the headers of RFC 6455 section 5.2.
func TestFrameHeaders(t *testing.T) {
	for size, header := range map[int][]byte{
		0: {0x81, 0}, 1: {0x81, 1}, 125: {0x81, 125}, 126: {0x81, 126, 0, 126}, 65535: {0x81, 126, 0xff, 0xff},
		65536: {0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0},
	} {
		payload := bytes.Repeat([]byte("x"), size)
		if got := appendFrame(nil, wholeText, payload, false); !bytes.Equal(got, append(header, payload...)) {
			t.Errorf("%d bytes: the frame begins with % x; want % x", size, got[:min(len(got), 10)], header)
		}
		masked := appendFrame([]byte("before"), wholeText, payload, true)[len("before"):]
		header[1] |= 0x80
		key := masked[len(header) : len(header)+4]
		for i, c := range masked[len(header)+4:] {
			if c^key[i%4] != 'x' {
				t.Fatalf("%d bytes: byte %d is not masked with its key", size, i)
			}
		}
		if !bytes.HasPrefix(masked, header) || len(masked) != len(header)+4+size {
			t.Errorf("%d bytes, masked: the frame begins with % x; want % x", size, masked[:min(len(masked), 14)], header)
		}
	}
}

// FuzzMaskedText checks that whatever is taken from a buffer is one masked text
// frame that lies whole in it.
func FuzzMaskedText(f *testing.F) {
	f.Add([]byte("hello"), []byte{})
	f.Add(bytes.Repeat([]byte("x"), 200), []byte{0x81, 0x80})
	f.Add([]byte{}, []byte{0x89, 0x80, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, payload, rest []byte) {
		frame := appendFrame(nil, wholeText, payload, true)
		got, key, size := maskedText(append(bytes.Clone(frame), rest...))
		if len(payload) <= 0xffff {
			got = bytes.Clone(got)
			mask(got, key)
			if size != len(frame) || !bytes.Equal(got, payload) {
				t.Fatalf("a frame of %d bytes is read as %d bytes: %q; want %q", len(frame), size, got, payload)
			}
		}
		if _, _, size := maskedText(frame[:len(frame)-1]); size != 0 {
			t.Fatalf("a frame of %d bytes without its end is taken as %d bytes", len(frame), size)
		}
		if _, _, size := maskedText(rest); size > len(rest) || size > 0 && (rest[0] != 0x81 || rest[1]&0x80 == 0) {
			t.Fatalf("% x is taken as a frame of %d bytes", rest, size)
		}
	})
}

// TestRead_AnyMixtureOfFrames sends messages whole, in fragments, small and larger
// than the input, with pings between and within them, cut anywhere: Read returns
// the same messages, and every ping is answered.
func TestRead_AnyMixtureOfFrames(t *testing.T) {
	accepted := make(chan *WebSocket, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ws, err := Accept(w, r, "", nil); err == nil {
			accepted <- ws
		}
	}))
	defer s.Close()
	conn, in := upgrade(t, s.Listener.Addr().String())
	server := <-accepted

	random := rand.New(rand.NewSource(1))
	var sent []byte
	var want []string
	pings := 0
	ping := func() {
		sent = append(sent, 0x89, 0x80|2, 0, 0, 0, 0, 'h', 'i')
		pings++
	}
	for i := range 400 {
		text := fmt.Sprint(i, strings.Repeat("é", random.Intn([]int{1, 100, 200, 18000}[random.Intn(4)])))
		want = append(want, text)
		if random.Intn(4) > 0 {
			sent = appendFrame(sent, wholeText, []byte(text), true)
		} else {
			cut := random.Intn(len(text))
			sent = appendFrame(sent, 0x01, []byte(text[:cut]), true)
			if random.Intn(2) == 0 {
				ping()
			}
			sent = appendFrame(sent, 0x80, []byte(text[cut:]), true)
		}
		if random.Intn(5) == 0 {
			ping()
		}
	}
	var both sync.WaitGroup
	both.Go(func() {
		for len(sent) > 0 {
			n := min(1+random.Intn(6000), len(sent))
			if _, err := conn.Write(sent[:n]); err != nil {
				t.Error(err)
				return
			}
			sent = sent[n:]
		}
	})
	both.Go(func() {
		for range pings {
			var pong [4]byte
			if _, err := io.ReadFull(in, pong[:]); err != nil || string(pong[:]) != "\x8a\x02hi" {
				t.Errorf("% x, %v instead of a pong", pong, err)
				return
			}
		}
	})
	for i, text := range want {
		got, err := server.Read()
		if err != nil || string(got) != text {
			t.Fatalf("message %d is %.40q, %v; want %.40q", i, got, err, text)
		}
	}
	both.Wait()
	conn.Close() //nolint:errcheck // read only from here
	if _, err := server.Read(); err == nil {
		t.Error("a message after the last one")
	}
	server.Close(CloseNormal, "")
}

// TestRead_RefusesTooLargeMessageByHeader sends headers without the payload that they
// announce: the close frame comes at once, and not only when the limit has been read.
func TestRead_RefusesTooLargeMessageByHeader(t *testing.T) {
	const limit = 70_000
	key := "\x00\x00\x00\x00"
	whole := func(first byte, n int) string { return string(appendFrame(nil, first, make([]byte, n), true)) }
	ping := "\x89\x80" + key
	for name, sent := range map[string]string{
		"one more than the limit":     "\x81\xff\x00\x00\x00\x00\x00\x01\x11\x71" + key,
		"the greatest that there is":  "\x81\xff\x7f\xff\xff\xff\xff\xff\xff\xff" + key,
		"after messages and a ping":   whole(0x81, 3) + whole(0x81, limit) + ping + "\x81\xff\x00\x00\x00\x00\x00\x02\x00\x00" + key,
		"the second fragment":         whole(0x01, limit-1) + "\x80\x82" + key,
		"the third, after a ping":     whole(0x01, limit-40_000) + whole(0x00, 1) + ping + "\x80\xfe\xff\xff" + key,
		"a binary one, which is more": "\x82\xff\x00\x00\x00\x01\x00\x00\x00\x00" + key,
	} {
		t.Run(name, func(t *testing.T) {
			closed := make(chan error, 1)
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				ws, err := Accept(w, r, "", &Options{MaxFrame: limit})
				for err == nil {
					_, err = ws.Read()
				}
				closed <- err
				ws.Close(CloseCode(err), "")
			}))
			defer s.Close()
			conn, in := upgrade(t, s.Listener.Addr().String())
			defer conn.Close()
			if _, err := conn.Write([]byte(sent)); err != nil {
				t.Fatal(err)
			}
			want := CloseTooLarge
			if sent[0] == 0x82 {
				want = CloseBinary
			}
			if err := <-closed; CloseCode(err) != want {
				t.Errorf("the stream ended with %v; want %d", err, want)
			}
			if strings.Contains(sent, ping) {
				in.Discard(2) //nolint:errcheck // the pong
			}
			var frame [4]byte
			if _, err := io.ReadFull(in, frame[:]); err != nil || frame[0] != 0x88 || int(frame[2])<<8|int(frame[3]) != want {
				t.Errorf("% x, %v came; want a close frame with %d", frame, err, want)
			}
		})
	}
}

// upgrade opens a WebSocket by hand.
func upgrade(t *testing.T, addr string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", addr)
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("upgrading: %v, %v", resp, err)
	}
	return conn, in
}

// TestClose_NothingFollows checks that a message after a close frame is refused.
func TestClose_NothingFollows(t *testing.T) {
	here, there := net.Pipe()
	g := newCoalescingConn(here, nil)
	g.start()
	var reading sync.WaitGroup
	var got []byte
	reading.Go(func() { got, _ = io.ReadAll(there) })
	if err := g.writeMessage(wholeText, []byte("a")); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Write([]byte{closeFrame, 2, 3, 0xe8}); err != nil {
		t.Fatal(err)
	}
	if err := g.writeMessage(wholeText, []byte("b")); err == nil {
		t.Error("a message was taken after the close frame")
	}
	g.flush()
	g.draining.Wait()
	g.Close() //nolint:errcheck // the end of the test
	reading.Wait()
	if want := "\x81\x01a\x88\x02\x03\xe8"; string(got) != want {
		t.Errorf("sent % x; want % x", got, want)
	}
}

// TestRead_FrameStaysValidWhileCloseReads checks that nobody overwrites a frame before
// the next Read, although Close reads from the network meanwhile.
func TestRead_FrameStaysValidWhileCloseReads(t *testing.T) {
	accepted := make(chan *WebSocket, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ws, err := Accept(w, r, "", nil); err == nil {
			accepted <- ws
		}
	}))
	defer s.Close()
	conn, _ := upgrade(t, s.Listener.Addr().String())
	defer conn.Close() //nolint:errcheck // read only by then
	server := <-accepted

	text := strings.Repeat("first", 100)
	if _, err := conn.Write(appendFrame(nil, wholeText, []byte(text), true)); err != nil {
		t.Fatal(err)
	}
	frame, err := server.Read()
	if err != nil {
		t.Fatal(err)
	}
	var rest []byte
	for range 100 {
		rest = appendFrame(rest, wholeText, bytes.Repeat([]byte("other"), 100), true)
	}
	rest = append(rest, closeFrame, maskBit|2, 0, 0, 0, 0, 0x03, 0xe8)
	if _, err := conn.Write(rest); err != nil {
		t.Fatal(err)
	}
	server.Close(CloseNormal, "")
	if string(frame) != text {
		t.Errorf("the frame became %.40q", frame)
	}
	if _, err := server.Read(); err == nil {
		t.Error("a message after Close")
	}
}

// TestHungUp_DespiteUnreadInput closes a connection whose last frames were not read.
func TestHungUp_DespiteUnreadInput(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("it is unknown here")
	}
	accepted := make(chan *WebSocket, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ws, err := Accept(w, r, "", nil); err == nil {
			accepted <- ws
		}
	}))
	defer s.Close()
	conn, _ := upgrade(t, s.Listener.Addr().String())
	server := <-accepted
	defer server.Close(CloseNormal, "")
	if server.HungUp() {
		t.Error("it hung up before it did")
	}
	if _, err := conn.Write(appendFrame(nil, wholeText, []byte("last"), true)); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	for !server.HungUp() {
		runtime.Gosched()
	}
	if frame, err := server.Read(); err != nil || string(frame) != "last" {
		t.Errorf("read %q, %v", frame, err)
	}
}
