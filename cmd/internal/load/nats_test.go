package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// serveNATS runs nats-server with a WebSocket listener on an address until ctx ends. With a
// folder it keeps a copy of every message in a JetStream stream there, which is synced at that
// interval; 0 is the server's own two minutes.
func serveNATS(ctx context.Context, address, folder string, syncEvery time.Duration) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	o := server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true, JetStream: folder != "", StoreDir: folder, SyncInterval: syncEvery}
	if o.JetStream { // the stream is there before the first message can come
		if err := runNATS(o, func(s *server.Server) error { return capture(ctx, s.ClientURL()) }); err != nil {
			return err
		}
	}
	o.Websocket = server.WebsocketOpts{Host: at.Addr().String(), Port: int(at.Port()), NoTLS: true}
	return runNATS(o, func(*server.Server) error { <-ctx.Done(); return nil })
}

// runNATS runs a server while f does.
func runNATS(o server.Options, f func(*server.Server) error) error {
	s, err := server.NewServer(&o)
	if err != nil {
		return err
	}
	go s.Start()
	defer func() { s.Shutdown(); s.WaitForShutdown() }()
	if !s.ReadyForConnections(20 * time.Second) {
		return errors.New("nats-server does not start")
	}
	return f(s)
}

// capture creates the stream. NoAck: the sender waits for the subscriber's
// answer, as with our log, and not for the stream.
func capture(ctx context.Context, url string) error {
	nc, err := nats.Connect(url)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{
		Name: "AUDIT", Subjects: []string{"bench.>"}, Storage: jetstream.FileStorage, NoAck: true,
	})
	return err
}

// A natsConn speaks the NATS protocol over a WebSocket. A frame contains one or more whole
// commands.
type natsConn struct {
	*link
	commands []byte // to send
	stream   []byte // came and not used yet
}

func dialNATS(ctx context.Context, address string) (*natsConn, error) {
	l, err := dialNATSWebSocket(ctx, address)
	if err != nil {
		return nil, err
	}
	c := &natsConn{link: l}
	l.beforeWait = func() error {
		if len(c.commands) > 0 {
			l.send(c.commands)
			c.commands = c.commands[:0]
		}
		return l.flush()
	}
	c.send([]byte(`CONNECT {"verbose":false,"pedantic":false,"protocol":1}` + "\r\n"))
	return c, nil
}

// dialNATSWebSocket waits until the server listens.
func dialNATSWebSocket(ctx context.Context, address string) (*link, error) {
	for {
		l, err := dialWebSocket(ctx, address, "", binaryFrame)
		var refused *net.OpError
		if !errors.As(err, &refused) {
			return l, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (c *natsConn) send(command []byte) { c.commands = append(c.commands, command...) }

// next returns the next message, head and payload, or the next PONG.
func (c *natsConn) next() ([]byte, error) {
	for {
		line, rest, whole := bytes.Cut(c.stream, []byte("\r\n"))
		switch {
		case !whole:
			if err := c.more(); err != nil {
				return nil, err
			}
		case bytes.HasPrefix(line, []byte("MSG ")):
			size, err := strconv.Atoi(string(line[bytes.LastIndexByte(line, ' ')+1:]))
			if err != nil {
				return nil, err
			}
			if len(rest) < size+2 {
				if err := c.more(); err != nil {
					return nil, err
				}
				continue
			}
			frame := c.stream[:len(line)+2+size]
			c.stream = rest[size+2:]
			return frame, nil
		case bytes.Equal(line, []byte("PONG")):
			c.stream = rest
			return line, nil
		case bytes.HasPrefix(line, []byte("-ERR")):
			return nil, fmt.Errorf("nats-server: %s", line)
		default:
			if bytes.Equal(line, []byte("PING")) {
				c.send([]byte("PONG\r\n"))
			}
			c.stream = rest
		}
	}
}

func (c *natsConn) more() error {
	chunk, err := c.link.next()
	c.stream = append(append([]byte(nil), c.stream...), chunk...)
	return err
}

// A natsServer is a process that runs serveNATS on an address.
type natsServer struct {
	*Child
	address string
}

func (s natsServer) rig(ctx context.Context, w Workload, run int64) (_ *rig, err error) {
	r := newRig(ctx)
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	join := func(subject string) (*natsConn, error) {
		c, err := dialNATS(ctx, s.address)
		if err != nil {
			return nil, err
		}
		c.send([]byte("SUB " + subject + " 1\r\nPING\r\n"))
		_, err = c.next()
		return c, err
	}
	for i := range w.Senders {
		subject, inbox := fmt.Sprintf("bench.%d.%d", run, i), fmt.Sprintf("_INBOX.%d.%d.", run, i)
		for range w.Targets {
			receiver, err := join(subject)
			if err != nil {
				return nil, err
			}
			r.answer(receiver, answerNATS)
		}
		c, err := join(inbox + "*")
		if err != nil {
			return nil, err
		}
		m := newMessage(subject, "cli:bench", w.Size)
		var payload []byte
		answers := map[int]int{} // of a message that not all have answered
		r.senders = append(r.senders, &sender{c, func(dst []byte, n int) []byte {
			payload = m.append(payload[:0], n)
			dst = append(append(append(dst, "PUB "...), subject...), ' ')
			dst = strconv.AppendInt(append(dst, inbox...), int64(n), 10)
			dst = strconv.AppendInt(append(dst, ' '), int64(len(payload)), 10)
			return append(append(append(dst, "\r\n"...), payload...), "\r\n"...)
		}, func(answer []byte) (int, error) {
			subject, _, _ := strings.Cut(strings.TrimPrefix(string(answer), "MSG "), " ")
			n, err := strconv.Atoi(strings.TrimPrefix(subject, inbox))
			if answers[n]++; err == nil && answers[n] < w.Targets {
				return -1, nil
			}
			delete(answers, n)
			return n, err
		}})
	}
	const holders = 100
	for i := 0; w.Subscriptions > 0 && i < holders; i++ {
		c, err := dialNATS(ctx, s.address)
		if err != nil {
			return nil, err
		}
		for j := range w.Subscriptions / holders {
			c.send(fmt.Appendf(nil, "SUB bench-%d.*.%d %d\r\n", i, j, j+1))
		}
		c.send([]byte("PING\r\n"))
		if _, err := c.next(); err != nil {
			return nil, err
		}
		r.answer(c, answerNATS)
	}
	for range w.Idle {
		c, err := join("bench-idle")
		if err != nil {
			return nil, err
		}
		r.answer(c, answerNATS)
	}
	r.pause()
	return r, nil
}

// answerNATS answers "MSG subject sid reply size".
func answerNATS(dst, frame []byte) []byte {
	line, _, _ := bytes.Cut(frame, []byte("\r\n"))
	if fields := bytes.Fields(line); len(fields) == 5 {
		dst = append(append(append(dst, "PUB "...), fields[3]...), " 18\r\n{\"processed\":true}\r\n"...)
	}
	return dst
}
