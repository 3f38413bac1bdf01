package c2a

import (
	"context"
	"fmt"
	"sync"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/child"

	"github.com/rs/zerolog"
)

// The drafts of C2A.
const (
	Version0602 = "2026-06-02"
	Version0624 = "2026-06-24"
)

// ErrMode ends a turn whose injection mode the program, started anew, no
// longer takes: the agent decides again.
var ErrMode = harness.ErrMode

// Options are the optional settings of a Harness. Nil is valid.
type Options struct {
	Version       string // what initialize asks for; default Version0602
	Info          Info   // name and version of this program
	Dir           string // working folder of the program
	Env           map[string]string
	AnswerTimeout time.Duration // until a delivery is sent again; default 10 s
	InitTimeout   time.Duration // until initialize must be answered; default 60 s
	Window        int           // unanswered deliveries; default 64
	MaxLine       int           // bytes of a line from the program; default 1 MiB
	Grace         time.Duration // for the program to end; default 2 s
	Clock         harness.Clock // for the wait between restarts
	Log           *zerolog.Logger
}

// Info names a program and its version.
type Info struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

func (o *Options) withDefaults() Options {
	var out Options
	if o != nil {
		out = *o
	}
	if out.Version == "" {
		out.Version = Version0602
	}
	if out.Info.Name == "" {
		out.Info = Info{Name: "hubbub-agent", Version: "1"}
	}
	if out.AnswerTimeout <= 0 {
		out.AnswerTimeout = 10 * time.Second
	}
	if out.InitTimeout <= 0 {
		out.InitTimeout = time.Minute
	}
	if out.Window <= 0 {
		out.Window = 64
	}
	if out.MaxLine <= 0 {
		out.MaxLine = 1 << 20
	}
	if out.Log == nil {
		nop := zerolog.Nop()
		out.Log = &nop
	}
	return out
}

// A Harness drives one C2A program.
type Harness struct {
	argv []string
	opts Options

	mu       sync.Mutex
	host     harness.Host
	session  *session      // initialized and alive; nil otherwise
	changed  chan struct{} // closed and replaced when session or ended changes
	ended    error         // set when Run has returned
	pending  []*delivery   // not yet accepted, in order of sequence
	accepted recent        // turn id -> request id of the accepted delivery
	tokens   recent        // event, request and idempotency ids -> turn id
	requests int           // ids given
}

var _ harness.Harness = (*Harness)(nil)

// New makes a harness that runs the program argv. It starts nothing.
func New(argv []string, opts *Options) *Harness {
	return &Harness{
		argv: argv, opts: opts.withDefaults(), changed: make(chan struct{}),
		accepted: newRecent(1024), tokens: newRecent(4096),
	}
}

// Run keeps the program running until ctx ends (nil), or until it cannot be
// started at all (an error that wraps harness.ErrPermanent).
func (h *Harness) Run(ctx context.Context, host harness.Host) error {
	h.mu.Lock()
	h.host = host
	h.mu.Unlock()
	err := child.Keep(ctx, h.opts.Clock, h.opts.Log, h.serve)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = harness.ErrStopped
	if err != nil {
		h.ended = err
	}
	h.notifyLocked()
	return err
}

// notifyLocked wakes whoever waits for a session or for a delivery.
func (h *Harness) notifyLocked() {
	close(h.changed)
	h.changed = make(chan struct{})
}

// Capabilities waits until the program has answered initialize.
func (h *Harness) Capabilities(ctx context.Context) (harness.Capabilities, error) {
	for {
		h.mu.Lock()
		session, ended, changed := h.session, h.ended, h.changed
		h.mu.Unlock()
		switch {
		case session != nil:
			return session.caps, nil
		case ended != nil:
			return harness.Capabilities{}, ended
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return harness.Capabilities{}, context.Cause(ctx)
		}
	}
}

// Turn delivers an event, as often as it takes, until the program accepts it.
// The tools of the turn are not used: the program calls Host.Tools.
func (h *Harness) Turn(ctx context.Context, t *harness.Turn, _ harness.Tools) (harness.Outcome, error) {
	none := harness.Outcome{State: harness.Accepted, Attempt: t.Attempt}
	d := &delivery{turn: t, next: max(t.Attempt, 1), done: make(chan struct{})}
	h.mu.Lock()
	if h.ended != nil {
		defer h.mu.Unlock()
		return none, h.ended
	}
	h.enqueueLocked(d)
	h.notifyLocked()
	h.mu.Unlock()
	for {
		h.mu.Lock()
		ended, changed := h.ended, h.changed
		h.mu.Unlock()
		if ended != nil {
			h.settle(d, ended)
		}
		select {
		case <-d.done:
			return harness.Outcome{State: harness.Accepted, Attempt: d.attempt}, d.err
		case <-changed:
		case <-ctx.Done():
			cause := context.Cause(ctx)
			h.withdraw(d, cause)
			<-d.done
			return harness.Outcome{State: harness.Accepted, Attempt: d.attempt}, d.err
		}
	}
}

// Cancel tells the program to stop working on an accepted delivery.
func (h *Harness) Cancel(turnID, reason string) {
	h.mu.Lock()
	request, known := h.accepted.take(turnID)
	session := h.session
	h.mu.Unlock()
	if known && session != nil {
		session.cancelled(request, reason)
	}
}

// withdraw takes a delivery back and tells the program that got it.
func (h *Harness) withdraw(d *delivery, cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.settleLocked(d, cause) || h.session == nil || d.sentTo != h.session {
		return
	}
	h.session.cancelled(d.lastID, cause.Error())
}

// settle ends a delivery; nil means accepted. It reports whether the delivery
// was still pending.
func (h *Harness) settle(d *delivery, err error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.settleLocked(d, err)
}

func (h *Harness) settleLocked(d *delivery, err error) bool {
	if d.settled {
		return false
	}
	d.settled, d.err = true, err
	h.removeLocked(d)
	close(d.done)
	return true
}

// requestID gives the next id of a request.
func (h *Harness) requestIDLocked(method string) string {
	h.requests++
	return fmt.Sprintf("%s-%d", method, h.requests)
}
