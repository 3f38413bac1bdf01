// Package report defines the records in which a bus reports its peers and its
// counters. The bus fills them in; the console, /peers and the command line show
// them.
//
// The records are Hubbub's own: the Agent Communication Protocol does not define
// them.
package report

import (
	"time"

	"hubbub/activitylog/write"
)

// A Peer is one connected peer.
type Peer struct {
	ID            string         `json:"clientId"`
	Role          string         `json:"role"`
	Remote        string         `json:"remote"`
	ConnectedAt   string         `json:"connectedAt"` // RFC 3339
	Subscriptions []Subscription `json:"subscriptions"`
	Unanswered    int            `json:"unanswered"` // deliveries that were written but not answered
	Queued        int            `json:"queued"`     // deliveries that wait for room
	Buffered      int            `json:"buffered"`   // bytes that the network has not taken
}

// A Subscription is one pattern of a peer.
type Subscription struct {
	Pattern string `json:"pattern"`
	Observe bool   `json:"observe,omitempty"`
}

// Counters are the numbers of a bus at one moment. Those of the first group only
// grow.
type Counters struct {
	Frames     uint64            `json:"framesRead"`
	Accepted   uint64            `json:"accepted"`   // messages
	Finished   uint64            `json:"finished"`   // messages whose every delivery has an outcome
	Refused    uint64            `json:"refused"`    // requests answered with an error
	Deliveries map[string]uint64 `json:"deliveries"` // by outcome
	Limits     map[string]uint64 `json:"limits"`     // how often each limit was reached
	Redacted   map[string]uint64 `json:"redacted"`   // secrets removed from rows of the log, by rule
	Latency    []Bucket          `json:"-"`          // from acceptance to the last outcome
	LatencySum time.Duration     `json:"-"`

	Sessions      int                `json:"sessions"`
	Peers         int                `json:"peers"`
	Subscriptions int                `json:"subscriptions"`
	Unanswered    int                `json:"unanswered"`
	Queued        int                `json:"queued"`
	Bounds        map[string]float64 `json:"bounds"` // in force
	// use of the limits that can fill up; for a per-peer limit, the highest use by any peer
	Used map[string]float64 `json:"-"`

	Log     *write.Stats `json:"activityLog,omitempty"` // nil if the bus keeps no log
	Cluster any          `json:"cluster,omitempty"`     // nil if the bus stands alone
	Partial bool         `json:"partial,omitempty"`     // buses of the cluster are out of reach
	Missing []string     `json:"missing,omitempty"`     // those that are known
	Name    string       `json:"bus"`
	Version string       `json:"version"`
	Started time.Time    `json:"started"` // zero before Run
}

// A Bucket counts the messages that took at most Upper and longer than the bucket
// before.
type Bucket struct {
	Upper time.Duration // 0 in the last one, which has no limit
	Count uint64
}
