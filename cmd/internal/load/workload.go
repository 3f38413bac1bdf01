package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"hubbub/protocol/wire"
)

// A Workload is one thing to measure.
type Workload struct {
	Name     string
	Senders  int
	Depth    int // messages in flight per sender
	Messages int // in all
	Targets  int // subscribers of each message
	Patterns int // subscriptions in all that match nothing but their own topic
	Size     int // bytes of text
}

// A Result is what was measured.
type Result struct {
	Workload    string        `json:"workload"`
	Messages    int           `json:"messages"`
	Deliveries  int           `json:"deliveries"`
	Took        time.Duration `json:"tookNs"`
	PerSecond   float64       `json:"messagesPerSecond"`
	P50         time.Duration `json:"p50Ns"`
	P99         time.Duration `json:"p99Ns"`
	P999        time.Duration `json:"p999Ns"`
	ServerCPU   float64       `json:"serverCpuSecondsPer100k"`
	ServerRSS   int64         `json:"serverRssBytes"`
	FloorRatio  float64       `json:"ratioToFloor,omitempty"`
	PerIdleConn int64         `json:"bytesPerIdleConnection,omitempty"`
}

// Run runs the workload against a bus.
func (w Workload) Run(ctx context.Context, t Target) (Result, error) {
	run := time.Now().UnixMilli()
	setup, err := w.connect(ctx, t, run)
	if err != nil {
		return Result{}, fmt.Errorf("%s: %w", w.Name, err)
	}
	defer setup.close()
	before, err := t.usage(ctx)
	if err != nil {
		return Result{}, err
	}
	start := time.Now()
	latencies, err := setup.drive(w, run)
	took := time.Since(start)
	if err != nil {
		return Result{}, fmt.Errorf("%s: %w", w.Name, err)
	}
	after, err := t.usage(ctx)
	if err != nil {
		return Result{}, err
	}
	r := summary(w.Name, latencies, took)
	r.Deliveries = r.Messages * w.Targets
	r.ServerCPU = (after.cpu - before.cpu) / float64(r.Messages) * 100_000
	r.ServerRSS = after.rss
	return r, nil
}

func summary(name string, latencies []time.Duration, took time.Duration) Result {
	slices.Sort(latencies)
	at := func(q float64) time.Duration { return latencies[min(int(q*float64(len(latencies))), len(latencies)-1)] }
	return Result{
		Workload: name, Messages: len(latencies), Took: took, PerSecond: float64(len(latencies)) / took.Seconds(),
		P50: at(0.5), P99: at(0.99), P999: at(0.999),
	}
}

// A rig is the connections of a workload.
type rig struct {
	senders   []*wire.WebSocket
	topics    []string
	ids       []string
	receivers []*wire.WebSocket
	answering sync.WaitGroup
}

func (r *rig) close() {
	var closing sync.WaitGroup
	for _, s := range slices.Concat(r.senders, r.receivers) {
		closing.Go(func() { s.Close(wire.CloseNormal, "") })
	}
	closing.Wait()
	r.answering.Wait()
}

// connect opens the connections: each sender has a topic with Targets
// subscribers of its own; the further patterns are spread over 100 connections.
func (w Workload) connect(ctx context.Context, t Target, run int64) (_ *rig, err error) {
	r := &rig{}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	for i := range w.Senders {
		topic := fmt.Sprintf("bench:%d:%d", run, i)
		for j := range w.Targets {
			if err := r.receive(ctx, t, fmt.Sprintf("cli:bench-%d-r%d-%d", run, i, j), topic); err != nil {
				return nil, err
			}
		}
		id := fmt.Sprintf("cli:bench-%d-s%d", run, i)
		s, err := t.dial(ctx, id)
		if err != nil {
			return nil, err
		}
		r.senders, r.topics, r.ids = append(r.senders, s), append(r.topics, topic), append(r.ids, id)
	}
	const holders = 100
	for i := 0; w.Patterns > 0 && i < holders; i++ {
		patterns := make([]string, 0, w.Patterns/holders)
		for j := range w.Patterns / holders {
			patterns = append(patterns, fmt.Sprintf("bench-%d:*:%d", i, j))
		}
		if err := r.receive(ctx, t, fmt.Sprintf("cli:bench-%d-h%d", run, i), patterns...); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *rig) receive(ctx context.Context, t Target, id string, patterns ...string) error {
	s, err := t.dial(ctx, id, patterns...)
	if err != nil {
		return err
	}
	r.receivers = append(r.receivers, s)
	r.answering.Go(func() { answerLoop(s) })
	return nil
}

// drive sends every message and waits for every answer.
func (r *rig) drive(w Workload, run int64) ([]time.Duration, error) {
	each := w.Messages / w.Senders
	all := make([][]time.Duration, w.Senders)
	errs := make([]error, w.Senders)
	var senders sync.WaitGroup
	for i, s := range r.senders {
		m := newMessage(r.topics[i], r.ids[i], w.Size)
		senders.Go(func() {
			all[i], errs[i] = sendAll(s, each, w.Depth, func(dst []byte, n int) []byte {
				return m.append(dst, run+int64(i), n)
			})
		})
	}
	senders.Wait()
	return slices.Concat(all...), errors.Join(errs...)
}

// sendAll keeps depth frames in flight until total have been answered, and
// returns how long each took.
func sendAll(s *wire.WebSocket, total, depth int, compose func(dst []byte, n int) []byte) ([]time.Duration, error) {
	sent := make([]time.Time, total)
	latencies := make([]time.Duration, 0, total)
	var out []byte
	send := func(n int) error {
		out = compose(out[:0], n)
		sent[n] = time.Now()
		return s.Write(out)
	}
	next := 0
	for ; next < min(depth, total); next++ {
		if err := send(next); err != nil {
			return nil, err
		}
	}
	for len(latencies) < total {
		frame, err := s.Read()
		if err != nil {
			return nil, err
		}
		n, err := strconv.Atoi(string(frameID(frame)))
		if err != nil || n < 0 || n >= total {
			return nil, fmt.Errorf("an answer to nothing: %.200s", frame)
		}
		latencies = append(latencies, time.Since(sent[n]))
		if next < total {
			if err := send(next); err != nil {
				return nil, err
			}
			next++
		}
	}
	return latencies, nil
}

// Idle opens connections that do nothing and measures what one costs.
func Idle(ctx context.Context, t Target, count int) (Result, error) {
	run := time.Now().UnixMilli()
	before, err := t.usage(ctx)
	if err != nil {
		return Result{}, err
	}
	r := &rig{}
	defer r.close()
	start := time.Now()
	for i := range count {
		if err := r.receive(ctx, t, fmt.Sprintf("cli:bench-%d-i%d", run, i)); err != nil {
			return Result{}, err
		}
	}
	took := time.Since(start)
	after, err := t.usage(ctx)
	if err != nil {
		return Result{}, err
	}
	return Result{
		Workload: fmt.Sprintf("idle, %d connections", count), Took: took, ServerRSS: after.rss,
		PerIdleConn: (after.rss - before.rss) / int64(count),
	}, nil
}
