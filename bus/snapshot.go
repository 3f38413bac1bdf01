package bus

import (
	"time"

	"hubbub/activitylog"
)

// A Snapshot holds the counters of a bus at one moment: what its metrics say.
// The maps are the caller's own.
type Snapshot struct {
	Name    string
	Version string
	Started time.Time // zero before Run

	Frames     uint64 // read from peers
	Accepted   uint64 // messages
	Finished   uint64 // messages whose every delivery has an outcome
	Refused    uint64 // requests answered with an error
	Deliveries map[string]uint64
	Limits     map[string]uint64 // how often each bound was reached
	Latency    []LatencyBucket
	LatencySum time.Duration // of the finished messages

	Sessions      int
	Peers         int
	Subscriptions int
	Unanswered    int
	Queued        int
	Bounds        map[string]float64 // in force
	Used          map[string]float64 // of those that fill up; of a bound of each peer, by the one that uses most

	Log     *activitylog.Stats // nil without an activity log
	Cluster any                // Cluster.Status; nil without a cluster
}

// A LatencyBucket counts the messages that took at most Upper and longer than
// the bucket before. Upper is 0 in the last one, which has no limit.
type LatencyBucket struct {
	Upper time.Duration
	Count uint64
}

// Snapshot returns the counters now. It stops nobody; with very many sessions it
// takes a moment.
func (srv *Server) Snapshot() Snapshot {
	m, total := &srv.metrics, srv.totals()
	s := Snapshot{
		Name: srv.options.Name, Version: srv.options.Version,
		Frames: m.frames.Load(), Accepted: m.accepted.Load(), Finished: m.finished.Load(), Refused: m.refused.Load(),
		Deliveries: make(map[string]uint64, len(outcomes)), Limits: make(map[string]uint64, len(limitNames)),
		Sessions: total.sessions, Peers: total.peers, Unanswered: total.unanswered, Queued: total.queued, Bounds: srv.options.bounds(), Used: total.used(),
	}
	if at := srv.started.Load(); at != nil {
		s.Started = *at
	}
	s.Subscriptions, _ = srv.index.size()
	for i, o := range outcomes {
		s.Deliveries[string(o)] = m.outcomes[i].Load()
	}
	for i, name := range limitNames {
		s.Limits[name] = m.limits[i].Load()
	}
	s.LatencySum = time.Duration(m.latency.sum.Load())
	limit := firstBucket
	for i := range m.latency.buckets {
		b := LatencyBucket{Upper: limit, Count: m.latency.buckets[i].Load()}
		if i == len(m.latency.buckets)-1 {
			b.Upper = 0
		}
		s.Latency = append(s.Latency, b)
		limit *= 2
	}
	if srv.log != nil {
		stats := srv.log.Stats()
		s.Log = &stats
	}
	if srv.options.Cluster != nil {
		s.Cluster = srv.options.Cluster.Status()
	}
	return s
}
