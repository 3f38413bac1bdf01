package console

import (
	"strings"
	"time"

	"hubbub/activitylog/view"
	"hubbub/bus/report"
)

// A State is what GET /console/state.json answers: how the bus is, for programs
// such as `hubbub top`.
type State struct {
	At       time.Time       `json:"at"`
	Counters report.Counters `json:"counters"`
	Rates    StateRates      `json:"rates"`
	Peers    []StatePeer     `json:"peers"` // the busiest first
	Talk     []StateTalk     `json:"talk"`  // the busiest first
	Failures []StateFailure  `json:"failures"`
	Agents   int             `json:"agents"` // that were heard of
	Skipped  int64           `json:"skippedRows"`
}

// StateRates are per second; latencies are in milliseconds, -1 if nothing was
// finished.
type StateRates struct {
	Accepted  float64 `json:"accepted"`
	Delivered float64 `json:"delivered"`
	Failed    float64 `json:"failed"`
	Rows      float64 `json:"rows"`
	P50       float64 `json:"p50Millis"`
	P99       float64 `json:"p99Millis"`
}

// A StatePeer is an identity and how often, about, it sent and got messages in
// the last minute.
type StatePeer struct {
	report.Peer
	Title     string  `json:"title,omitempty"`
	Connected bool    `json:"connected"`
	In        float64 `json:"inPerMinute"`
	Out       float64 `json:"outPerMinute"`
	StateTrouble
}

// A StateTrouble is how often an identity failed, and how the last time.
type StateTrouble struct {
	Failures int64     `json:"failures"`
	LastFail time.Time `json:"lastFailure,omitzero"`
	Status   string    `json:"lastStatus,omitempty"`
	Error    string    `json:"lastError,omitempty"`
}

// A StateTalk is a pair that talks.
type StateTalk struct {
	From   string  `json:"from"`
	To     string  `json:"to"`
	Rate   float64 `json:"perMinute"`
	Total  int64   `json:"total"`
	Failed int64   `json:"failed"`
}

// A StateFailure is a delivery that came to nothing.
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
func (l *look) stateJSON() error {
	f := l.read()
	s := State{
		At: l.Now, Counters: l.Counters, Rates: l.series.now(), Skipped: f.Skipped, Agents: len(f.agents.m),
		Peers: []StatePeer{}, Talk: []StateTalk{}, Failures: append([]StateFailure{}, lastOf(f.failures, 20, nil)...),
	}
	for _, p := range first(statePeers, f.peerLines(l.bus.Peers(), nil, l.Now)) {
		s.Peers = append(s.Peers, p.StatePeer)
	}
	for _, e := range first(pageEdges, f.edgeLines(l.Now)) {
		s.Talk = append(s.Talk, e.StateTalk)
	}
	l.Page = s
	return nil
}

func (l *look) health() error {
	f := l.read()
	l.Title = "Health"
	l.Page = map[string]any{"Pulse": l.pulse(), "Failures": lastOf(f.failures, 60, nil), "Gaps": lastOf(f.gaps, 50, nil)}
	if l.Header.Get("HX-Request") != "" && l.FormValue("part") != "" {
		l.part = "health-live"
	}
	return nil
}

// boundName returns the words for the name of a bound, and boundValue its value with
// a unit.
func boundName(name string) string {
	name = strings.TrimSuffix(strings.TrimSuffix(name, "_seconds"), "_bytes")
	return strings.ReplaceAll(name, "_", " ")
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
