package load

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// lengthFrames prefixes each frame with its length in four bytes.
type lengthFrames struct{}

func (lengthFrames) append(dst, frame []byte) []byte {
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(frame))), frame...)
}

func (lengthFrames) next(in []byte, _ *[]byte) (frame []byte, used int, err error) {
	const header = 4
	if len(in) < header {
		return nil, 0, nil
	}
	size := int(binary.BigEndian.Uint32(in))
	if size > maxFrame {
		return nil, 0, fmt.Errorf("a frame of %d bytes; at most %d are expected", size, maxFrame)
	}
	if len(in) < header+size {
		return nil, 0, nil
	}
	return in[header : header+size : header+size], header + size, nil
}

// The first frame of a connection to the TCP floor has one of these bytes, which is its role, and
// the name of its group.
const (
	floorSender   = 's'
	floorReceiver = 'r'
)

// ServeTCP is the TCP floor. It forwards each frame of a group's sender to the group's receivers,
// and their last answer to the sender. It parses, checks and records nothing. It runs until ctx
// ends.
func ServeTCP(ctx context.Context, listener net.Listener) error {
	stop := context.AfterFunc(ctx, func() { listener.Close() }) //nolint:errcheck // it ends either way
	defer stop()
	f := &floor{groups: map[string]*group{}}
	var members sync.WaitGroup
	defer members.Wait()
	for {
		conn, err := listener.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		members.Go(func() {
			defer conn.Close()                                      //nolint:errcheck // it ends either way
			stop := context.AfterFunc(ctx, func() { conn.Close() }) //nolint:errcheck // it ends either way
			defer stop()
			f.serve(conn) //nolint:errcheck // the end of the connection, which the driver sees too
		})
	}
}

// A floor is the server of the TCP floor.
type floor struct {
	mu     sync.Mutex // guards groups
	groups map[string]*group
}

// A group is a sender and the receivers that answer it.
type group struct {
	mu        sync.Mutex // guards the fields below
	sender    []*member  // at most one
	receivers []*member
	waiting   [floorDepth]int // outstanding answers, by the number of the frame
}

// floorDepth bounds the frames of a group that wait for answers.
const floorDepth = 1024

// A member is one connection. What others write to it is buffered until they are about to wait.
type member struct {
	*link
	count int // number of frames sent

	flushing sync.Mutex // held while writing
	mu       sync.Mutex // guards pending
	pending  []byte
	spare    []byte // guarded by flushing
}

func (f *floor) serve(conn net.Conn) error {
	m := &member{link: newLink(conn, lengthFrames{}, nil)}
	hello, err := m.next()
	if err != nil {
		return err
	}
	if len(hello) < 2 {
		return io.ErrUnexpectedEOF
	}
	role := hello[0]
	g := f.join(m, role, string(hello[1:]))
	m.enqueue(hello)
	dirty := []*member{m}
	m.beforeWait = func() error {
		var failed error
		for _, to := range dirty {
			failed = errors.Join(failed, to.flush())
		}
		dirty = dirty[:0]
		return failed
	}
	for {
		frame, err := m.next()
		if err != nil {
			return err
		}
		for _, to := range g.targets(m, role) {
			if to.enqueue(frame) {
				dirty = append(dirty, to)
			}
		}
		m.count++
	}
}

func (f *floor) join(m *member, role byte, name string) *group {
	f.mu.Lock()
	g := f.groups[name]
	if g == nil {
		g = &group{}
		f.groups[name] = g
	}
	f.mu.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	if role == floorSender {
		g.sender = []*member{m}
	} else {
		g.receivers = append(g.receivers, m)
	}
	return g
}

// targets returns the members that get the next frame of m: all receivers, or the sender if the
// frame is the last answer to its frame. A receiver answers in order, so its count identifies the
// answered frame.
func (g *group) targets(m *member, role byte) []*member {
	g.mu.Lock()
	defer g.mu.Unlock()
	place := &g.waiting[m.count%floorDepth]
	if role == floorSender {
		*place = len(g.receivers)
		return g.receivers
	}
	*place--
	if *place > 0 {
		return nil
	}
	return g.sender
}

// enqueue adds a frame to the next flush, and reports whether it is the first.
func (m *member) enqueue(frame []byte) (first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	first = len(m.pending) == 0
	m.pending = m.framing.append(m.pending, frame)
	return first
}

// flush writes the buffered frames.
func (m *member) flush() error {
	m.flushing.Lock()
	defer m.flushing.Unlock()
	m.mu.Lock()
	out := m.pending
	m.pending = m.spare[:0]
	m.mu.Unlock()
	m.spare = out
	if len(out) == 0 {
		return nil
	}
	_, err := m.Conn.Write(out)
	return err
}
