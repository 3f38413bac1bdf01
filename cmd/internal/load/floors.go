package load

import (
	"context"
	"fmt"
	"net"
	"net/url"
)

// rig connects a workload to the echo, with as many connections and round trips as the workload
// has.
func (f EchoFloor) rig(ctx context.Context, w Workload, run int64) (*rig, error) {
	r := newRig(ctx)
	for i := range w.Senders {
		for range 1 + w.Targets {
			l, err := dialWebSocket(ctx, f.Address, "", textFrame)
			if err != nil {
				r.close()
				return nil, fmt.Errorf("the echo server: %w", err)
			}
			m := newMessage(fmt.Sprintf("bench:%d:%d", run, i), "cli:bench", w.Size)
			r.senders = append(r.senders, &sender{l, m.append, inOrder()})
		}
	}
	r.pause()
	return r, nil
}

// rig connects a workload to the TCP floor.
func (f TCPFloor) rig(ctx context.Context, w Workload, run int64) (_ *rig, err error) {
	r := newRig(ctx)
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	u, err := url.Parse(f.Address)
	if err != nil {
		return nil, err
	}
	join := func(role byte, name string) (*link, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", u.Host)
		if err != nil {
			return nil, fmt.Errorf("the TCP floor: %w", err)
		}
		l := newLink(conn, lengthFrames{}, nil)
		l.send(append([]byte{role}, name...))
		if _, err := l.next(); err != nil {
			return nil, fmt.Errorf("the TCP floor: %w", err)
		}
		return l, nil
	}
	answer := append(append(append([]byte{}, requestHead...), "12345"...), okTail...)
	for i := range w.Senders {
		topic := fmt.Sprintf("bench:%d:%d", run, i)
		for range w.Targets {
			l, err := join(floorReceiver, topic)
			if err != nil {
				return nil, err
			}
			r.answer(l, func(dst, _ []byte) []byte { return append(dst, answer...) })
		}
		l, err := join(floorSender, topic)
		if err != nil {
			return nil, err
		}
		m := newMessage(topic, "cli:bench", w.Size)
		r.senders = append(r.senders, &sender{l, m.append, inOrder()})
	}
	r.pause()
	return r, nil
}

// inOrder numbers answers that come in the order of the messages.
func inOrder() func([]byte) (int, error) {
	n := -1
	return func([]byte) (int, error) { n++; return n, nil }
}
