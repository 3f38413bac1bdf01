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

// StateRates are per second; latencies are in milliseconds, -1 when nothing was
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
	now, p := c.now(), c.series.now()
	s := State{At: now, Counters: c.bus.Counters(), Rates: StateRates{p.accepted, p.delivered, p.failed, p.rows, p.p50, p.p99}}
	s.Peers, s.Talk, s.Failures = []StatePeer{}, []StateTalk{}, []StateFailure{}
	connected := c.bus.Peers()
	f := c.facts
	f.mu.RLock()
	defer f.mu.RUnlock()
	s.Skipped = f.skipped
	lines := f.peerLines(connected, nil, now)
	for _, l := range lines[:min(len(lines), statePeers)] {
		s.Peers = append(s.Peers, StatePeer{l.Peer, l.Title, l.Connected, l.In, l.Out, l.Failures, l.LastFail, l.Status, l.LastError})
	}
	edges := f.edgeLines(now)
	for _, e := range edges[:min(len(edges), pageEdges)] {
		s.Talk = append(s.Talk, StateTalk{e.From, e.To, e.Rate, e.Total, e.Failed})
	}
	for _, x := range f.lastFailures(20, func(*failure) bool { return true }) {
		s.Failures = append(s.Failures, StateFailure{x.At, x.MessageID, x.Type, x.From, x.Peer, x.Topic, x.Status, x.Error})
	}
	s.Agents = len(f.agents.m)
	writeJSON(w, http.StatusOK, s)
}
