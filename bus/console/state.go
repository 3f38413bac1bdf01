package console

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"hubbub/activitylog/view"
	"hubbub/bus/report"
)

// A State is the answer to GET /console/state.json: the state of the bus, for programs such as
// `hubbub top`.
type State struct {
	At       time.Time       `json:"at"`
	Counters report.Counters `json:"counters"`
	Rates    StateRates      `json:"rates"`
	Peers    []StatePeer     `json:"peers"` // the busiest first
	Edges    []StateEdge     `json:"talk"`  // the busiest first
	Failures []StateFailure  `json:"failures"`
	Agents   int             `json:"agents"` // number of known agents
	Skipped  int64           `json:"skippedRows"`
}

// StateRates are per second. Latencies are in milliseconds, or -1 if no message was finished.
type StateRates struct {
	Accepted  float64 `json:"accepted"`
	Delivered float64 `json:"delivered"`
	Failed    float64 `json:"failed"`
	Rows      float64 `json:"rows"`
	P50       float64 `json:"p50Millis"`
	P99       float64 `json:"p99Millis"`
}

// A StatePeer is an identity, with the approximate number of messages that it sent and received
// in the last minute.
type StatePeer struct {
	report.Peer
	Title     string  `json:"title,omitempty"`
	Connected bool    `json:"connected"`
	In        float64 `json:"inPerMinute"`
	Out       float64 `json:"outPerMinute"`
	StateFailureStats
}

// StateFailureStats are the number of failures of an identity, and the last one.
type StateFailureStats struct {
	Failures int64     `json:"failures"`
	LastFail time.Time `json:"lastFailure,omitzero"`
	Status   string    `json:"lastStatus,omitempty"`
	Error    string    `json:"lastError,omitempty"`
}

// A StateEdge is a sender and a recipient, with the messages between them.
type StateEdge struct {
	From   string  `json:"from"`
	To     string  `json:"to"`
	Rate   float64 `json:"perMinute"`
	Total  int64   `json:"total"`
	Failed int64   `json:"failed"`
}

// A StateFailure is a failed delivery or a refused message.
type StateFailure struct {
	At        time.Time `json:"at"`
	MessageID string    `json:"messageId"`
	Type      string    `json:"type,omitempty"`
	From      string    `json:"from,omitempty"`
	Peer      string    `json:"peer,omitempty"`
	Topic     string    `json:"topic"`
	Status    string    `json:"status"`
	Error     string    `json:"error,omitempty"`
}

const statePeers = 500

// stateJSON serves the state.
func (r *request) stateJSON() error {
	f := r.lockModel()
	s := State{
		At: r.Now, Counters: r.Counters, Rates: r.series.now(), Skipped: f.Skipped, Agents: f.agents.Len(),
		Peers: []StatePeer{}, Edges: []StateEdge{}, Failures: append([]StateFailure{}, lastOf(f.failures, 20, nil)...),
	}
	for _, p := range firstN(statePeers, f.peerLines(r.bus.Peers(), nil, r.Now)) {
		s.Peers = append(s.Peers, p.StatePeer)
	}
	for _, e := range firstN(pageEdges, f.edgeLines(r.Now)) {
		s.Edges = append(s.Edges, e.StateEdge)
	}
	r.Page = s
	return nil
}

func (r *request) health() error {
	f := r.lockModel()
	r.Title = "Health"
	r.Page = map[string]any{
		"Status":   r.busStatus(),
		"Failures": lastOf(f.failures, 60, nil),
		"Gaps":     lastOf(f.gaps, 50, nil),
	}
	if r.Header.Get("HX-Request") != "" && r.FormValue("part") != "" {
		r.part = "health-live"
	}
	return nil
}

// boundNames are descriptions of the limits, by the names of their metrics.
var boundNames = map[string]string{
	// Limits with a value.
	"delivery_timeout_seconds":   "Time to answer a delivery",
	"initialize_timeout_seconds": "Time to initialize a session",
	"write_timeout_seconds":      "Time in which a peer must read something",
	"ping_interval_seconds":      "Time between pings of a silent connection",
	"peer_window":                "Unanswered deliveries of a peer",
	"peer_queue":                 "Waiting deliveries of a peer",
	"peer_queue_bytes":           "Bytes of a peer's waiting deliveries",
	"peer_buffer_bytes":          "Unread bytes to a slow peer",
	"slow_bytes":                 "Unread bytes to all slow peers",
	"max_frame_bytes":            "Size of a frame",
	"max_subscriptions":          "Subscriptions of a peer",
	"max_sessions":               "Sessions",
	"credential_sessions":        "Sessions of a credential",
	"credential_subscriptions":   "Subscriptions of a credential",
	"credential_messages":        "Messages of a credential each second",
	"credential_bytes":           "Bytes of a credential each second",
	"credential_log_bytes":       "Bytes of a credential in the log each day",
	"topic_bytes":                "Length of a topic",
	"pattern_bytes":              "Length of a pattern",
	"pattern_stars":              "Stars in a pattern",
	"client_id_bytes":            "Length of an identity",
	"message_id_bytes":           "Length of a message id",
	"json_depth":                 "Depth of JSON",
	// Limits that can be reached.
	"observer_buffer":    "Presence messages that wait for an observer",
	"write_timeout":      "A peer read nothing in time",
	"max_frame":          "Size of a frame",
	"initialize_timeout": "A session was not initialized in time",
	"ping":               "A ping had no answer",
}

// boundName returns a description of a limit, and boundValue its value with a unit.
func boundName(name string) string {
	return cmp.Or(boundNames[name], strings.ReplaceAll(name, "_", " "))
}

func boundValue(name string, value float64) string {
	switch {
	case strings.HasSuffix(name, "_seconds"):
		return view.Long(time.Duration(value * float64(time.Second)))
	case strings.HasSuffix(name, "_bytes"):
		return bytesText(value)
	}
	return view.Count(value)
}

func bytesText(v float64) string {
	for _, unit := range []string{"bytes", "KiB", "MiB"} {
		if v < 1024 {
			return view.Count(v) + " " + unit
		}
		v /= 1024
	}
	return view.Count(v) + " GiB"
}

// keptSamples is the number of samples that are kept, enough for half an hour.
const keptSamples = 900

// A sample holds the counters at one time.
type sample struct {
	at time.Time
	report.Counters
}

// A series holds the last samples, oldest first.
type series struct {
	mu   sync.Mutex
	list []sample
}

func newSeries() *series { return &series{list: make([]sample, 0, 2*keptSamples)} }

func (s *series) add(at time.Time, c report.Counters) {
	c.Bounds, c.Used, c.Cluster = nil, nil, nil // not used by the charts
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = appendBounded(keptSamples, s.list, sample{at, c})
}

// last returns at most n samples.
func (s *series) last(n int) []sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = min(n, keptSamples, len(s.list))
	return slices.Clone(s.list[len(s.list)-n:])
}

// A point describes the interval between two samples, by column of the charts. A value is per
// second, in milliseconds, or the value at the end. A negative value is unknown.
type point map[string]float64

// between returns the point for two samples.
func between(a, b sample) point {
	seconds := b.at.Sub(a.at).Seconds()
	if seconds <= 0 {
		seconds = 1
	}
	rate := func(before, after uint64) float64 {
		if after < before {
			return 0
		}
		return float64(after-before) / seconds
	}
	p := point{
		"t":           float64(b.at.UnixMilli()) / 1000,
		"accepted":    rate(a.Accepted, b.Accepted),
		"delivered":   0,
		"failed":      0,
		"limits":      0,
		"p50":         quantile(a.Latency, b.Latency, 0.5),
		"p99":         quantile(a.Latency, b.Latency, 0.99),
		"rows":        0,
		"logQueued":   0,
		"logLag":      0,
		"queued":      float64(b.Queued),
		"unanswered":  float64(b.Unanswered),
		"connections": float64(b.Sessions),
	}
	for outcome, n := range b.Deliveries {
		column := "failed"
		if outcome == "ok" {
			column = "delivered"
		}
		p[column] += rate(a.Deliveries[outcome], n)
	}
	for name, n := range b.Limits {
		p["limits"] += rate(a.Limits[name], n)
	}
	if a.Log != nil && b.Log != nil {
		p["rows"] = rate(uint64(a.Log.Written), uint64(b.Log.Written))
		p["logQueued"], p["logLag"] = float64(b.Log.QueuedRows), float64(b.Log.Lag.Microseconds())/1000
	}
	return p
}

// quantile estimates the q-quantile of the latencies, in milliseconds, of the messages that were
// finished between two samples. It returns -1 if there were none.
func quantile(before, after []report.Bucket, q float64) float64 {
	total := uint64(0)
	diff := make([]uint64, len(after))
	for i := range after {
		diff[i] = after[i].Count
		if i < len(before) {
			diff[i] -= min(before[i].Count, diff[i])
		}
		total += diff[i]
	}
	if total == 0 {
		return -1
	}
	want, seen := q*float64(total), 0.0
	lower := time.Duration(0)
	for i, n := range diff {
		upper := after[i].Upper
		if upper == 0 {
			upper = 2 * lower
		}
		if seen+float64(n) >= want && n > 0 {
			part := (want - seen) / float64(n)
			return (float64(lower) + part*float64(upper-lower)) / float64(time.Millisecond)
		}
		seen += float64(n)
		lower = upper
	}
	return float64(lower) / float64(time.Millisecond)
}

// now returns the rates over the last samples.
func (s *series) now() StateRates {
	list := s.last(6)
	if len(list) < 2 {
		return StateRates{P50: -1, P99: -1}
	}
	p := between(list[0], list[len(list)-1])
	return StateRates{p["accepted"], p["delivered"], p["failed"], p["rows"], p["p50"], p["p99"]}
}

// seriesJSON serves the points as columns for the charts.
func (r *request) seriesJSON() error {
	columns := map[string][]any{}
	for name := range between(sample{}, sample{}) {
		columns[name] = []any{}
	}
	list := r.series.last(keptSamples + 1)
	for i := 1; i < len(list); i++ {
		for name, v := range between(list[i-1], list[i]) {
			var value any // null if unknown
			if v >= 0 {
				value = v
			}
			columns[name] = append(columns[name], value)
		}
	}
	r.Page = columns
	return nil
}
