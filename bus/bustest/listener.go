package bustest

import (
	"net"
	"sync"
)

// A Listener is a net.Listener in memory, for HTTP inside a synctest bubble.
type Listener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// Listen returns a listener that appears to be on loopback.
func Listen() *Listener {
	return &Listener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Dial connects to the listener. It waits for Accept.
func (l *Listener) Dial() (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Accept waits for a Dial.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and Dial.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr returns a loopback address without a listener.
func (*Listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7892} }

// HoldBody sends the head of a request without its body, and waits until the server has closed
// the connection.
func (l *Listener) HoldBody(method, path string) error {
	conn, err := l.Dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	head := method + " " + path + " HTTP/1.1\r\nHost: 127.0.0.1:7892\r\nContent-Length: 1000\r\n\r\n{"
	if _, err := conn.Write([]byte(head)); err != nil {
		return err
	}
	buf := make([]byte, 4096)
	for {
		if _, err := conn.Read(buf); err != nil {
			return nil //nolint:nilerr // the server has closed the connection
		}
	}
}
