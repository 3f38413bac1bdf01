package load

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// A Workload is one measured situation.
type Workload struct {
	Name          string
	Senders       int
	Depth         int // messages in flight per sender
	Messages      int // in total
	Targets       int // subscribers of each message
	Subscriptions int // other subscriptions, which match nothing, over 100 connections
	Idle          int // idle connections
	Size          int // bytes of text
}

// A Server is the target of a workload.
type Server interface {
	rig(ctx context.Context, w Workload, run int64) (*rig, error)
	usage(ctx context.Context) (usage, error)
}

// An EchoFloor is a process that runs ServeEcho, a TCPFloor one with ServeTCP.
type (
	EchoFloor struct{ *Child }
	TCPFloor  struct{ *Child }
)

// A Measurement is one run of a workload.
type Measurement struct {
	Messages    int           `json:"messages"`
	Took        time.Duration `json:"tookNs"`
	PerSecond   float64       `json:"messagesPerSecond"`
	Deliveries  float64       `json:"deliveriesPerSecond"`
	P50         time.Duration `json:"p50Ns"`
	P99         time.Duration `json:"p99Ns"`
	P999        time.Duration `json:"p999Ns"`
	CPU         float64       `json:"cpuSecondsPer100k"`       // of the server, for 100,000 messages
	CPUDelivery float64       `json:"cpuMicrosPerDelivery"`    // of the server
	DriverCPU   float64       `json:"driverCpuSecondsPer100k"` // for 100,000 messages
	RSS         int64         `json:"rssBytes"`                // of the server
}

// A Result is the measurement of a workload, with its floors.
type Result struct {
	Workload string `json:"workload"`
	Measurement
	OfEcho float64     `json:"ofEcho"` // messages per second, as a fraction of the floor's
	OfTCP  float64     `json:"ofTcp"`
	Echo   Measurement `json:"echo"`
	TCP    Measurement `json:"tcp"`
}

// Compare runs a workload repeat times against a bus and its floors in turn. It returns the runs
// with the median rate, and the medians of the ratios.
func (w Workload) Compare(ctx context.Context, bus, echo, tcp Server, repeat int) (Result, error) {
	servers := []Server{echo, tcp, bus}
	runs := make([][]Measurement, len(servers))
	rigs := make([]*rig, len(servers))
	for i, s := range servers {
		r, err := s.rig(ctx, w, time.Now().UnixMilli())
		if err != nil {
			return Result{}, fmt.Errorf("%s: %w", w.Name, err)
		}
		defer r.close()
		rigs[i] = r
	}
	ofEcho, ofTCP := make([]float64, repeat), make([]float64, repeat)
	for n := range repeat {
		for i, s := range servers {
			m, err := w.measure(ctx, s, rigs[i])
			if err != nil {
				return Result{}, fmt.Errorf("%s: %w", w.Name, err)
			}
			runs[i] = append(runs[i], m)
		}
		ofEcho[n] = runs[2][n].PerSecond / runs[0][n].PerSecond
		ofTCP[n] = runs[2][n].PerSecond / runs[1][n].PerSecond
	}
	for i := range runs {
		slices.SortFunc(runs[i], func(a, b Measurement) int { return cmp.Compare(a.PerSecond, b.PerSecond) })
	}
	slices.Sort(ofEcho)
	slices.Sort(ofTCP)
	middle := repeat / 2
	return Result{
		Workload:    w.Name,
		Measurement: runs[2][middle],
		Echo:        runs[0][middle],
		TCP:         runs[1][middle],
		OfEcho:      ofEcho[middle],
		OfTCP:       ofTCP[middle],
	}, nil
}

// measure runs the workload once.
func (w Workload) measure(ctx context.Context, s Server, r *rig) (Measurement, error) {
	before, err := s.usage(ctx)
	if err != nil {
		return Measurement{}, err
	}
	own, start := ownCPU(), time.Now()
	latencies, err := r.drive(w.Messages/w.Senders, w.Depth)
	took := time.Since(start)
	if err != nil {
		return Measurement{}, err
	}
	own = ownCPU() - own
	after, err := s.usage(ctx)
	if err != nil {
		return Measurement{}, err
	}
	slices.Sort(latencies)
	at := func(q float64) time.Duration { return latencies[min(int(q*float64(len(latencies))), len(latencies)-1)] }
	messages := w.Messages / w.Senders * w.Senders
	each := func(seconds float64) float64 { return seconds / float64(messages) }
	return Measurement{
		Messages:    messages,
		Took:        took,
		PerSecond:   float64(messages) / took.Seconds(),
		Deliveries:  float64(messages*w.Targets) / took.Seconds(),
		P50:         at(0.5),
		P99:         at(0.99),
		P999:        at(0.999),
		CPU:         each(after.cpu-before.cpu) * 1e5,
		CPUDelivery: each(after.cpu-before.cpu) * 1e6 / float64(w.Targets),
		DriverCPU:   each(own) * 1e5,
		RSS:         after.rss,
	}, nil
}
