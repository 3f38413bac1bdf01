package wire

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/coder/websocket"
)

// maxFrameHeader is the response header of an upgrade that gives the largest frame that the
// server reads, in bytes.
const maxFrameHeader = "Hubbub-Max-Frame"

// Accept upgrades a request to a stream. The caller must have checked the Origin. A subprotocol
// that is not empty is echoed. If Accept returns an error, it has written the response.
func Accept(w http.ResponseWriter, r *http.Request, subprotocol string, o *Options) (*WebSocket, error) {
	o = o.withDefaults()
	h := &hijacker{ResponseWriter: w, options: o}
	w.Header().Set(maxFrameHeader, strconv.Itoa(o.MaxFrame))
	s := new(WebSocket)
	accept := &websocket.AcceptOptions{InsecureSkipVerify: true, CompressionMode: websocket.CompressionDisabled,
		OnPingReceived: s.pinged}
	if subprotocol != "" {
		accept.Subprotocols = []string{subprotocol}
	}
	if o.Upgrades != nil {
		o.Upgrades <- struct{}{}
	}
	conn, err := websocket.Accept(h, r, accept)
	if o.Upgrades != nil {
		<-o.Upgrades
	}
	if err != nil {
		return nil, err
	}
	if err := h.writeHead(); err != nil {
		conn.CloseNow() //nolint:errcheck // it ends either way
		return nil, err
	}
	s.open(conn, h.conn, h.in, o)
	return s, nil
}

// A hijacker gives the library a connection that coalesces writes, with buffers as small as an
// idle connection should have. It defers the answer to the upgrade, because writing blocks if the
// client has not read earlier answers.
type hijacker struct {
	http.ResponseWriter
	options *Options
	conn    *coalescingConn
	in      *bufio.Reader
}

const (
	readBuffer  = 64  // for frames that are not read from the input directly
	writeBuffer = 128 // fits any control frame, so the connection receives it in one write
)

// WriteHeader implements http.ResponseWriter.
func (h *hijacker) WriteHeader(status int) {
	if status != http.StatusSwitchingProtocols {
		h.ResponseWriter.WriteHeader(status)
	}
}

// writeHead writes the answer to the upgrade.
func (h *hijacker) writeHead() error {
	head := bytes.NewBufferString("HTTP/1.1 101 Switching Protocols\r\n")
	h.Header().Write(head) //nolint:errcheck // it never fails
	head.WriteString("\r\n")
	h.conn.SetWriteDeadline(time.Now().Add(h.options.WriteTimeout)) //nolint:errcheck // the write fails then
	if _, err := h.conn.Write(head.Bytes()); err != nil {
		return err
	}
	return h.conn.SetWriteDeadline(time.Time{})
}

// Hijack implements http.Hijacker.
func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	inner, ok := h.ResponseWriter.(http.Hijacker)
	if !ok {
		return nil, nil, fmt.Errorf("%T cannot be upgraded", h.ResponseWriter)
	}
	conn, rw, err := inner.Hijack()
	if err != nil {
		return nil, nil, err
	}
	early, err := rw.Reader.Peek(rw.Reader.Buffered())
	if err != nil {
		return nil, nil, err
	}
	h.conn = newCoalescingConn(conn, h.options)
	h.conn.in = bytes.Clone(early)
	h.conn.frames.max = h.options.MaxFrame
	h.in = bufio.NewReaderSize(h.conn, readBuffer)
	return h.conn, bufio.NewReadWriter(h.in, bufio.NewWriterSize(h.conn, writeBuffer)), nil
}
