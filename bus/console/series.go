package console

import (
	"net/http"
	"slices"
	"sync"
	"time"

	"hubbub/bus/report"
)

// keptSamples is how many samples are kept: half an hour of them.
const keptSamples = 900

// A sample is the counters at one moment.
type sample struct {
	at time.Time
	report.Counters
}

// series keeps the last samples, the oldest first.
type series struct {
	mu   sync.Mutex
	list []sample
}

func newSeries() *series { return &series{list: make([]sample, 0, 2*keptSamples)} }

func (s *series) add(at time.Time, c report.Counters) {
	c.Bounds, c.Used, c.Cluster = nil, nil, nil // not worth keeping
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = appendKept(keptSamples, s.list, sample{at, c})
}

// last returns at most n samples.
func (s *series) last(n int) []sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = min(n, keptSamples, len(s.list))
	return slices.Clone(s.list[len(s.list)-n:])
}

// A point is what happened between two samples, per second.
type point struct {
	at          time.Time
	rates       StateRates
	queued      float64
	unanswered  float64
	logQueued   float64
	logLag      float64 // milliseconds
	limits      float64
	connections float64
}

// columns are the columns of the charts; a negative value is unknown.
var columns = []struct {
	name string
	of   func(*point) float64
}{
	{"t", func(p *point) float64 { return float64(p.at.UnixMilli()) / 1000 }},
	{"accepted", func(p *point) float64 { return p.rates.Accepted }},
	{"delivered", func(p *point) float64 { return p.rates.Delivered }},
	{"failed", func(p *point) float64 { return p.rates.Failed }},
	{"rows", func(p *point) float64 { return p.rates.Rows }},
	{"p50", func(p *point) float64 { return p.rates.P50 }},
	{"p99", func(p *point) float64 { return p.rates.P99 }},
	{"queued", func(p *point) float64 { return p.queued }},
	{"unanswered", func(p *point) float64 { return p.unanswered }},
	{"logQueued", func(p *point) float64 { return p.logQueued }},
	{"logLag", func(p *point) float64 { return p.logLag }},
	{"limits", func(p *point) float64 { return p.limits }},
	{"connections", func(p *point) float64 { return p.connections }},
}

// between compares two samples.
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
	p := point{at: b.at, rates: StateRates{Accepted: rate(a.Accepted, b.Accepted)}, queued: float64(b.Queued), unanswered: float64(b.Unanswered), connections: float64(b.Sessions)}
	for outcome, n := range b.Deliveries {
		if outcome == "ok" {
			p.rates.Delivered += rate(a.Deliveries[outcome], n)
		} else {
			p.rates.Failed += rate(a.Deliveries[outcome], n)
		}
	}
	for name, n := range b.Limits {
		p.limits += rate(a.Limits[name], n)
	}
	p.rates.P50, p.rates.P99 = quantile(a.Latency, b.Latency, 0.5), quantile(a.Latency, b.Latency, 0.99)
	if a.Log != nil && b.Log != nil {
		p.rates.Rows = rate(uint64(a.Log.Written), uint64(b.Log.Written))
		p.logQueued, p.logLag = float64(b.Log.QueuedRows), float64(b.Log.Lag.Microseconds())/1000
	}
	return p
}

// quantile estimates, in milliseconds, how long at most the q-th part of the
// messages took that were finished between two samples; -1 if none was.
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

// points returns at most n points.
func (s *series) points(n int) []point {
	list := s.last(n + 1)
	var points []point
	for i := 1; i < len(list); i++ {
		points = append(points, between(list[i-1], list[i]))
	}
	return points
}

// now returns what happened over the last samples.
func (s *series) now() point {
	list := s.last(6)
	if len(list) < 2 {
		return point{rates: StateRates{P50: -1, P99: -1}}
	}
	return between(list[0], list[len(list)-1])
}

// seriesJSON serves the points as columns for the charts.
func (c *Console) seriesJSON(w http.ResponseWriter, _ *http.Request, _ *visitor) {
	points := c.series.points(keptSamples)
	answer := map[string][]any{}
	for _, column := range columns {
		values := make([]any, len(points))
		for i := range points {
			if v := column.of(&points[i]); v >= 0 {
				values[i] = v
			}
		}
		answer[column.name] = values
	}
	writeJSON(w, http.StatusOK, answer)
}
