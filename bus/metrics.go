package bus

import (
	"maps"
	"sync/atomic"
	"syscall"
	"time"

	"hubbub/activitylog/write"
	"hubbub/bus/report"
	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// A limitName identifies a limit that can be reached.
type limitName int

const (
	limitPeerQueue limitName = iota
	limitSlow
	limitObserver
	limitWrite
	limitFrame
	limitSubscriptions
	limitSessions
	limitInitialize
	limitPing
	limitCredentialSessions // the limits of credentials are adjacent
	limitCredentialSubscriptions
	limitCredentialMessages
	limitCredentialBytes
	limitCredentialLogBytes
	limitCount
)

var limitNames = [limitCount]string{
	"peer_queue", "slow_bytes", "observer_buffer", "write_timeout", "max_frame",
	"max_subscriptions", "max_sessions", "initialize_timeout", "ping",
	"credential_sessions", "credential_subscriptions", "credential_messages", "credential_bytes",
	"credential_log_bytes",
}

var outcomes = [...]protocol.Outcome{
	protocol.OutcomeOK, protocol.OutcomeError, protocol.OutcomeRejected,
	protocol.OutcomeTimeout, protocol.OutcomeOffline, protocol.OutcomeOverflow,
}

// metrics are the counters of all goroutines. Each goroutine adds to them through a
// batchCounters.
type metrics struct {
	frames   atomic.Uint64 // read
	accepted atomic.Uint64 // messages
	finished atomic.Uint64 // messages answered
	refused  atomic.Uint64 // requests answered with an error
	outcomes [len(outcomes)]atomic.Uint64
	limits   [limitCount]atomic.Uint64
	latency  histogram
}

func (m *metrics) limit(name limitName) { m.limits[name].Add(1) }

// firstBucket is the upper bound of a histogram's first bucket.
const firstBucket = 64 * time.Microsecond

// A histogram counts durations in buckets. Each upper bound is twice the one before, starting
// with firstBucket.
type histogram struct {
	buckets [20]atomic.Uint64
	sum     atomic.Uint64 // nanoseconds
}

// bucketOf returns the index of the bucket for a duration.
func bucketOf(d time.Duration) (i int) {
	for limit := firstBucket; d > limit && i < len(histogram{}.buckets)-1; limit *= 2 {
		i++
	}
	return i
}

// registry returns the metrics in the form of Prometheus.
func (srv *Server) registry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	process := collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})
	r.MustRegister(collectors.NewGoCollector(), process, &collector{srv})
	return r
}

type collector struct{ srv *Server }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("hubbub_"+name, help, labels, nil)
}

// A metric is one number in a report of type R.
type metric[R any] struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(*R) float64
}

// A number is the value of a metric.
type number interface {
	~int | ~int64 | ~uint64 | ~float64
}

func gauge[R any, N number](name, help string, read func(*R) N) metric[R] {
	return metric[R]{desc(name, help), prometheus.GaugeValue, func(r *R) float64 { return float64(read(r)) }}
}

func counter[R any, N number](name, help string, read func(*R) N) metric[R] {
	return metric[R]{desc(name, help), prometheus.CounterValue, func(r *R) float64 { return float64(read(r)) }}
}

type (
	counters = report.Counters
	logStats = write.Stats
)

var busMetrics = []metric[counters]{
	gauge("sessions", "Connections that are open or being closed.", func(c *counters) int { return c.Sessions }),
	gauge("peers", "Peers that are connected and initialized.", func(c *counters) int { return c.Peers }),
	gauge("subscriptions", "Subscriptions of all sessions.", func(c *counters) int { return c.Subscriptions }),
	gauge("deliveries_unanswered", "Deliveries that peers have not answered.",
		func(c *counters) int { return c.Unanswered }),
	gauge("deliveries_queued", "Deliveries that wait for room at their peer.",
		func(c *counters) int { return c.Queued }),
	counter("frames_read_total", "Frames read from peers.", func(c *counters) uint64 { return c.Frames }),
	counter("messages_accepted_total", "Messages accepted by sendMessage.",
		func(c *counters) uint64 { return c.Accepted }),
	counter("messages_finished_total", "Messages whose deliveries all have an outcome.",
		func(c *counters) uint64 { return c.Finished }),
	counter("requests_refused_total", "Requests answered with an error.",
		func(c *counters) uint64 { return c.Refused }),
}

var logMetrics = []metric[logStats]{
	gauge("activity_queue_rows", "Rows that wait to be written to the activity log.",
		func(s *logStats) int { return s.QueuedRows }),
	gauge("activity_queue_bytes", "Bytes that wait to be written to the activity log.",
		func(s *logStats) int { return s.QueuedBytes }),
	gauge("activity_lag_seconds", "Age of the oldest row that is not written.",
		func(s *logStats) float64 { return s.Lag.Seconds() }),
	gauge("activity_wal_bytes", "Size of the activity log's write-ahead file.",
		func(s *logStats) int64 { return s.WALBytes }),
	gauge("activity_stalled", "1 while the activity log makes no progress.", func(s *logStats) float64 {
		return map[bool]float64{true: 1}[s.Stalled]
	}),
	counter("activity_rows_written_total", "Rows committed to the activity log.",
		func(s *logStats) int64 { return s.Written }),
	counter("activity_rows_lost_total", "Rows that did not fit in the queue of the activity log.",
		func(s *logStats) int64 { return s.Lost }),
	counter("activity_gaps_total", "log_gap rows written.", func(s *logStats) int64 { return s.Gaps }),
}

var (
	descDeliveries = desc("deliveries_total", "Deliveries by outcome.", "outcome")
	descLimits     = desc("limit_reached_total", "How often a limit was reached.", "limit")
	descRedacted   = desc("activity_redacted_total", "Secrets removed from rows of the activity log.", "rule")
	descBound      = desc("limit", "The current limits.", "limit")
	descUsed       = desc("limit_used", "Use of a limit; for limits of peers or credentials, the highest use of any.",
		"limit")
	descLatency = desc("message_seconds", "Time from acceptance to the last outcome.")
	descCPU     = desc("cpu_seconds_total",
		"Processor time of the program, more precise than process_cpu_seconds_total.")
)

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector. It sends the values of Counters.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	s := c.srv.Counters()
	collectMetrics(ch, busMetrics, &s)
	collectLabelled(ch, descDeliveries, prometheus.CounterValue, s.Deliveries)
	collectLabelled(ch, descLimits, prometheus.CounterValue, s.Limits)
	collectLabelled(ch, descRedacted, prometheus.CounterValue, s.Redacted)
	collectLabelled(ch, descBound, prometheus.GaugeValue, s.Bounds)
	collectLabelled(ch, descUsed, prometheus.GaugeValue, s.Used)
	if cpu, err := processorTime(); err == nil {
		ch <- prometheus.MustNewConstMetric(descCPU, prometheus.CounterValue, cpu.Seconds())
	}
	ch <- latencyMetric(&s)
	if l := s.Log; l != nil {
		collectMetrics(ch, logMetrics, l)
		collectLabelled(ch, descBound, prometheus.GaugeValue, map[string]float64{
			"activity_queue_rows":          float64(l.MaxRows),
			"activity_queue_bytes":         float64(l.MaxBytes),
			"activity_wal_bytes":           float64(l.MaxWAL),
			"activity_hold_seconds":        l.Hold.Seconds(),
			"activity_segment_rows":        float64(l.SegmentRows),
			"activity_segment_bytes":       float64(l.SegmentBytes),
			"activity_segment_age_seconds": l.SegmentAge.Seconds(),
		})
		collectLabelled(ch, descUsed, prometheus.GaugeValue, map[string]int64{
			"activity_queue_rows":  int64(l.QueuedRows),
			"activity_queue_bytes": int64(l.QueuedBytes),
			"activity_wal_bytes":   l.WALBytes,
		})
	}
}

func collectMetrics[R any](ch chan<- prometheus.Metric, list []metric[R], from *R) {
	for _, m := range list {
		ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.read(from))
	}
}

func collectLabelled[V number](
	ch chan<- prometheus.Metric, d *prometheus.Desc, kind prometheus.ValueType, values map[string]V,
) {
	for label, v := range values {
		ch <- prometheus.MustNewConstMetric(d, kind, float64(v), label)
	}
}

// processorTime returns the processor time of this program. process_cpu_seconds_total, from
// Linux's /proc, has steps of 10 ms.
func processorTime() (time.Duration, error) {
	var r syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano()), err
}

func latencyMetric(s *report.Counters) prometheus.Metric {
	buckets := make(map[float64]uint64, len(s.Latency))
	var total uint64
	for _, b := range s.Latency {
		total += b.Count
		if b.Upper > 0 {
			buckets[b.Upper.Seconds()] = total
		}
	}
	return prometheus.MustNewConstHistogram(descLatency, total, s.LatencySum.Seconds(), buckets)
}

// limits returns the current limits, named after their flags.
func (o *Options) limits() map[string]float64 {
	return map[string]float64{
		"delivery_timeout_seconds":   o.DeliveryTimeout.Seconds(),
		"initialize_timeout_seconds": o.InitializeTimeout.Seconds(),
		"write_timeout_seconds":      o.WriteTimeout.Seconds(),
		"ping_interval_seconds":      o.PingInterval.Seconds(),
		"peer_window":                float64(o.PeerWindow),
		"peer_queue":                 float64(o.PeerQueue),
		"peer_queue_bytes":           float64(o.PeerQueueBytes),
		"peer_buffer_bytes":          float64(o.PeerBuffer),
		"slow_bytes":                 float64(o.SlowBytes),
		"max_frame_bytes":            float64(o.MaxFrame),
		"max_subscriptions":          float64(o.MaxSubscriptions),
		"max_sessions":               float64(o.MaxSessions),
		"credential_sessions":        float64(o.CredentialLimits.Sessions),
		"credential_subscriptions":   float64(o.CredentialLimits.Subscriptions),
		"credential_messages":        float64(o.CredentialLimits.Messages),
		"credential_bytes":           float64(o.CredentialLimits.Bytes),
		"credential_log_bytes":       float64(o.CredentialLimits.LogBytes),
		"topic_bytes":                protocol.MaxTopic,
		"pattern_bytes":              protocol.MaxPattern,
		"pattern_stars":              protocol.MaxStars,
		"client_id_bytes":            protocol.MaxPeerID,
		"message_id_bytes":           protocol.MaxMessageID,
		"json_depth":                 jsonrpc.MaxDepth,
	}
}

// totals are sums over all sessions. The fields of most are maximums over all sessions.
type totals struct {
	sessions, peers, unanswered, queued int
	slow                                int64
	most                                struct{ unanswered, queued, queuedBytes, buffered, patterns int }
}

func (srv *Server) totals() totals {
	t := totals{slow: srv.backlog.Bytes(), sessions: srv.sessions.openStreams()}
	for _, s := range srv.sessions.all() {
		if s.lifecycle.ready.Load() {
			t.peers++
		}
		t.add(s)
	}
	return t
}

func (t *totals) add(s *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.unanswered += s.window.unanswered
	t.queued += len(s.window.queue)
	m := &t.most
	m.unanswered, m.queued = max(m.unanswered, s.window.unanswered), max(m.queued, len(s.window.queue))
	m.queuedBytes, m.patterns = max(m.queuedBytes, s.window.queuedBytes), max(m.patterns, len(s.patterns))
	m.buffered = max(m.buffered, s.stream.Buffered())
}

// used adds the current use of each limit that can fill up.
func (t *totals) used(of map[string]float64) map[string]float64 {
	maps.Copy(of, map[string]float64{
		"max_sessions":      float64(t.sessions),
		"peer_window":       float64(t.most.unanswered),
		"peer_queue":        float64(t.most.queued),
		"peer_queue_bytes":  float64(t.most.queuedBytes),
		"peer_buffer_bytes": float64(t.most.buffered),
		"slow_bytes":        float64(t.slow),
		"max_subscriptions": float64(t.most.patterns),
	})
	return of
}
