package bus

import (
	"time"

	"hubbub/bus/report"
)

// Counters returns the current counters. The caller may change the maps. It blocks no other
// goroutine, but takes a moment with very many sessions.
func (srv *Server) Counters() report.Counters {
	m, total := &srv.metrics, srv.totals()
	s := report.Counters{
		Name:       srv.options.Name,
		Version:    srv.options.Version,
		Frames:     m.frames.Load(),
		Accepted:   m.accepted.Load(),
		Finished:   m.finished.Load(),
		Refused:    m.refused.Load(),
		Deliveries: make(map[string]uint64, len(outcomes)),
		Limits:     make(map[string]uint64, len(limitNames)),
		Redacted:   srv.options.Redact.Found(),
		Sessions:   total.sessions,
		Peers:      total.peers,
		Unanswered: total.unanswered,
		Queued:     total.queued,
		Bounds:     srv.options.limits(),
		Used:       total.used(srv.quotas.highest()),
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
		b := report.Bucket{Upper: limit, Count: m.latency.buckets[i].Load()}
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
	if c := srv.options.Cluster; c != nil {
		s.Cluster, s.Missing = c.Status(), c.Missing()
		s.Partial = s.Missing != nil
	}
	return s
}
