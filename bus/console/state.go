package console

import (
	"net/http"
	"time"

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
	Title     string    `json:"title,omitempty"`
	Connected bool      `json:"connected"`
	In        float64   `json:"inPerMinute"`
	Out       float64   `json:"outPerMinute"`
	Failures  int64     `json:"failures"`
	LastFail  time.Time `json:"lastFailure,omitzero"`
	Status    string    `json:"lastStatus,omitempty"`
	Error     string    `json:"lastError,omitempty"`
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
func (c *Console) stateJSON(w http.ResponseWriter, r *http.Request, _ *visitor) {
	c.current(r.Context())
	now := c.now()
	s := State{
		At: now, Counters: c.bus.Counters(), Rates: c.series.now().rates,
		Peers: []StatePeer{}, Talk: []StateTalk{}, Failures: []StateFailure{},
	}
	connected := c.bus.Peers()
	f := c.facts
	f.mu.RLock()
	defer f.mu.RUnlock()
	s.Skipped, s.Agents = f.skipped, len(f.agents.m)
	for _, l := range first(statePeers, f.peerLines(connected, nil, now)) {
		s.Peers = append(s.Peers, l.StatePeer)
	}
	for _, e := range first(pageEdges, f.edgeLines(now)) {
		s.Talk = append(s.Talk, e.StateTalk)
	}
	s.Failures = append(s.Failures, lastOf(f.failures, 20, nil)...)
	writeJSON(w, http.StatusOK, s)
}
