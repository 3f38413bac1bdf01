package console

import (
	"context"
	"time"

	"hubbub/activitylog"
)

// A Bus is what the console shows of one. Its methods are called from any
// goroutine, about once a second and for each page.
type Bus interface {
	Peers() []Peer
	Counters() Counters
}

// A Peer is one connected peer.
type Peer struct {
	ID            string         `json:"clientId"`
	Role          string         `json:"role"`
	Remote        string         `json:"remote"`
	ConnectedAt   string         `json:"connectedAt"` // RFC 3339
	Subscriptions []Subscription `json:"subscriptions"`
	Unanswered    int            `json:"unanswered"` // deliveries written and not answered
	Queued        int            `json:"queued"`     // deliveries that wait for room
	Buffered      int            `json:"buffered"`   // bytes that the network has not taken
}

// A Subscription is one pattern of a peer.
type Subscription struct {
	Pattern string `json:"pattern"`
	Observe bool   `json:"observe,omitempty"`
}

// Counters are the numbers of a bus at one moment; those of the first group
// only grow.
type Counters struct {
	Frames     uint64            `json:"framesRead"`
	Accepted   uint64            `json:"accepted"`
	Finished   uint64            `json:"finished"`
	Refused    uint64            `json:"refused"`
	Deliveries map[string]uint64 `json:"deliveries"` // by outcome
	Limits     map[string]uint64 `json:"limits"`     // how often each bound was reached
	Latency    []Bucket          `json:"-"`          // from acceptance to the last outcome

	Sessions      int                `json:"sessions"`
	Peers         int                `json:"peers"`
	Subscriptions int                `json:"subscriptions"`
	Unanswered    int                `json:"unanswered"`
	Queued        int                `json:"queued"`
	Bounds        map[string]float64 `json:"bounds"`

	Log     *activitylog.Stats `json:"activityLog,omitempty"` // nil: the bus keeps no log
	Cluster any                `json:"cluster,omitempty"`     // of a bus that is one of several
	Name    string             `json:"bus"`
	Version string             `json:"version"`
	Started time.Time          `json:"started"`
}

// A Bucket counts the messages that took at most Upper and longer than the
// bucket before.
type Bucket struct {
	Upper time.Duration // 0 in the last one: any time
	Count uint64
}

// A Gate decides who may look. A nil Gate is open.
type Gate interface {
	// Open reports whether the bus has no credentials: everyone may look and act.
	Open() bool
	// Lookup returns what a token allows; false when it is not valid.
	Lookup(token string) (Access, bool)
}

// An Access is what a credential allows.
type Access struct {
	Name    string      // of the credential
	See     bool        // may read everything
	Act     bool        // may retry and drop as an operator
	Current func() bool // whether the credential still stands, unchanged
}

// DeadLetters are the messages that could not be delivered to the outside and
// wait for a person.
type DeadLetters interface {
	// List returns them, at most limit, the oldest of each program first. Its error
	// says whose are missing; ErrUnreachable is in its chain when the bridge's queues
	// cannot be reached from here.
	List(ctx context.Context, limit int) ([]DeadLetter, error)
	// Retry sends one again, Drop gives it up.
	Retry(ctx context.Context, id string) error
	Drop(ctx context.Context, id string) error
}

// A DeadLetter is one of them.
type DeadLetter struct {
	ID          string
	Queue       string
	Destination string
	State       string // dead, or unknown: it may have arrived
	Attempts    int
	QueuedAt    time.Time
	Agent       string
	Text        string
	Error       string
}
