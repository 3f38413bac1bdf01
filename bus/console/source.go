package console

import (
	"context"
	"time"

	"hubbub/bus/report"
)

// A Bus is what the console shows of one. Its methods are called from any
// goroutine, about once a second and for each page.
type Bus interface {
	Peers() []report.Peer
	Counters() report.Counters
}

// A Gate decides who may look. A nil Gate is open.
type Gate interface {
	// Open reports whether the bus has no credentials: everyone may look and act.
	Open() bool
	// Lookup returns what a token allows; false if it is not valid.
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
