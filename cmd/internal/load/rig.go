package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// An exchange is the part of a connection that the driver uses. See link.
type exchange interface {
	send(frame []byte)
	next() ([]byte, error)
	SetReadDeadline(time.Time) error
	Close() error
}

// A sender sends messages and takes their answers.
type sender struct {
	exchange
	compose func(dst []byte, n int) []byte   // appends message number n to dst
	number  func(answer []byte) (int, error) // number of the answered message; -1 if more answers must follow
}

// A rig has the connections of a workload to one server.
type rig struct {
	senders   []*sender
	others    []exchange
	answering sync.WaitGroup
	stop      func() bool
	sent      int            // messages of each sender, in earlier drives
	paused    sync.WaitGroup // senders between two drives
}

// newRig makes a rig whose connections end with ctx.
func newRig(ctx context.Context) *rig {
	r := &rig{}
	r.stop = context.AfterFunc(ctx, r.hangUp)
	return r
}

// answer adds a connection that answers its input until it ends.
func (r *rig) answer(x exchange, compose func(dst, frame []byte) []byte) {
	r.others = append(r.others, x)
	r.answering.Go(func() {
		var out []byte
		for {
			frame, err := x.next()
			if err != nil {
				return
			}
			if out = compose(out[:0], frame); len(out) > 0 {
				x.send(out)
			}
		}
	})
}

func (r *rig) hangUp() {
	for _, s := range r.senders {
		s.Close() //nolint:errcheck // it ends either way
	}
	for _, x := range r.others {
		x.Close() //nolint:errcheck // it ends either way
	}
}

func (r *rig) close() {
	r.stop()
	r.hangUp()
	r.answering.Wait()
	r.paused.Wait()
}

// drive makes every sender send its share of the messages, with depth of them in flight. It
// returns the duration of each.
func (r *rig) drive(each, depth int) ([]time.Duration, error) {
	all := make([][]time.Duration, len(r.senders))
	errs := make([]error, len(r.senders))
	first := r.sent
	r.sent += each
	if err := r.resume(); err != nil {
		return nil, err
	}
	defer r.pause()
	var sending sync.WaitGroup
	for i, s := range r.senders {
		sending.Go(func() { all[i], errs[i] = s.sendAll(first, each, depth) })
	}
	sending.Wait()
	return slices.Concat(all...), errors.Join(errs...)
}

// pause makes the senders read between two drives, because the server may ping them.
func (r *rig) pause() {
	for _, s := range r.senders {
		r.paused.Go(func() {
			for {
				if _, err := s.next(); err != nil {
					return // woken; after any other error, the next drive fails, too
				}
			}
		})
	}
}

// resume ends the pause.
func (r *rig) resume() error {
	for _, s := range r.senders {
		if err := s.SetReadDeadline(time.Unix(1, 0)); err != nil {
			return err
		}
	}
	r.paused.Wait()
	for _, s := range r.senders {
		if err := s.SetReadDeadline(time.Time{}); err != nil {
			return err
		}
	}
	return nil
}

// sendAll sends the messages from number first on.
func (s *sender) sendAll(first, total, depth int) ([]time.Duration, error) {
	start := time.Now()
	sent := make([]time.Duration, total) // times since start
	latencies := make([]time.Duration, 0, total)
	var out []byte
	send := func(n int, now time.Duration) {
		out = s.compose(out[:0], first+n)
		sent[n] = now
		s.send(out)
	}
	next := 0
	for ; next < min(depth, total); next++ {
		send(next, time.Since(start))
	}
	for len(latencies) < total {
		frame, err := s.next()
		if err != nil {
			return nil, err
		}
		n, err := s.number(frame)
		if err != nil {
			return nil, err
		}
		if n < 0 {
			continue
		}
		if n -= first; n < 0 || n >= next {
			return nil, fmt.Errorf("an answer to message %d, which is none of those from %d to %d", first+n, first,
				first+next)
		}
		now := time.Since(start)
		latencies = append(latencies, now-sent[n])
		if next < total {
			send(next, now)
			next++
		}
	}
	return latencies, nil
}
