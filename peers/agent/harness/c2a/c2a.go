package c2a

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/subprocess"
	"hubbub/protocol/defaults"
	"hubbub/protocol/notify"
	"hubbub/protocol/retry"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/rs/zerolog"
)

// The drafts of C2A.
const (
	Version0602 = "2026-06-02"
	Version0624 = "2026-06-24"
	Version0811 = "2026-08-11"
)

// Options are the optional settings of a Harness. Nil is valid.
type Options struct {
	Version       string // the version that initialize asks for; default Version0602
	Info          Info   // name and version of this program
	Dir           string // working directory of the program
	Env           map[string]string
	AnswerTimeout time.Duration `positive:"10s"` // after which a delivery is sent again
	InitTimeout   time.Duration `positive:"1m"`  // for answering initialize
	Window        int           `positive:"64"`  // maximum number of unanswered deliveries
	Grace         time.Duration // for the program to end; default 2 s
	Backoff       retry.Backoff // between restarts of the program; default 1 s to 60 s
	Log           *zerolog.Logger
}

// Info is the name and version of a program.
type Info struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

func (o *Options) withDefaults() Options {
	out := defaults.Of(o)
	defaults.Set(&out.Version, Version0602)
	defaults.Set(&out.Info, Info{Name: "hubbub-agent", Version: "1"})
	defaults.Log(&out.Log)
	return out
}

// A Harness drives one C2A program.
type Harness struct {
	argv       []string
	opts       Options
	supervisor *subprocess.Supervisor[session]
	due        notify.Signal // a delivery may be due

	mu        sync.Mutex
	pending   []*delivery                // not accepted yet, ordered by sequence
	accepted  *lru.Cache[string, string] // turn ID -> request ID of the accepted delivery
	tokens    *lru.Cache[string, string] // event, request and idempotency IDs -> turn ID
	withdrawn *lru.Cache[string, bool]   // IDs of turns withdrawn from this run of the program and not accepted since
	revisions *lru.Cache[string, string] // turn ID -> revision of the last accepted text
	requests  int                        // number of request IDs used
}

var _ harness.Harness = (*Harness)(nil)

// New makes a harness that runs the program argv. It starts nothing.
func New(argv []string, opts *Options) *Harness {
	return &Harness{
		argv:       argv,
		opts:       opts.withDefaults(),
		supervisor: subprocess.NewSupervisor[session](),
		due:        notify.New(),
		accepted:   harness.NewCache[string, string](1024),
		tokens:     harness.NewCache[string, string](4096),
		withdrawn:  harness.NewCache[string, bool](1024),
		revisions:  harness.NewCache[string, string](1024),
	}
}

// Run keeps the program running. It returns nil when ctx ends, and an error that wraps
// harness.ErrPermanent if the program can never be started.
func (h *Harness) Run(ctx context.Context, host harness.Host) error {
	program := &subprocess.Options{Dir: h.opts.Dir, Env: h.opts.Env, Grace: h.opts.Grace, Log: h.opts.Log}
	return h.supervisor.Run(ctx, h.opts.Backoff, h.opts.Log, func(ctx context.Context) error {
		return subprocess.Run(
			ctx,
			h.argv,
			program,
			func(ctx context.Context, p *subprocess.Process) error { return h.serve(ctx, p, host) },
		)
	})
}

// Capabilities waits until the program has answered initialize.
func (h *Harness) Capabilities(ctx context.Context) (harness.Capabilities, error) {
	s, err := h.supervisor.Await(ctx)
	if err != nil {
		return harness.Capabilities{Asynchronous: true, UsesSystemPrompt: true}, err
	}
	return s.agreed.capabilities(), nil
}

// Turn delivers an event until the program accepts it. It does not use the turn's tools: the
// program calls Host.Tools.
func (h *Harness) Turn(ctx context.Context, t *harness.Turn, _ harness.Tools) (harness.Outcome, error) {
	d := &delivery{turn: t, attempt: t.Attempt, next: max(t.Attempt, 1), done: make(chan struct{})}
	h.mu.Lock()
	h.enqueueLocked(d)
	h.mu.Unlock()
	h.due.Notify()
	select {
	case <-d.done:
	case <-h.supervisor.Done():
		h.settle(d, h.supervisor.Err())
	case <-ctx.Done():
		h.withdraw(d, context.Cause(ctx))
	}
	<-d.done
	return harness.Outcome{State: harness.Accepted, Attempt: d.attempt}, d.err
}

// Cancel tells the program to stop working on an accepted delivery.
func (h *Harness) Cancel(turnID, reason string) {
	h.mu.Lock()
	request, known := h.accepted.Get(turnID)
	if known {
		h.accepted.Remove(turnID)
		h.withdrawn.Add(turnID, true)
	}
	h.mu.Unlock()
	if live := h.supervisor.Current(); known && live != nil {
		live.sendCancelled(request, reason)
	}
}

// withdraw removes a delivery, and notifies the program if it received the delivery.
func (h *Harness) withdraw(d *delivery, cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if live := h.supervisor.Current(); h.settleLocked(d, cause) && live != nil && d.sentTo == live {
		h.withdrawn.Add(d.turn.ID, true)
		live.sendCancelled(d.lastID, cause.Error())
	}
}

// isStale reports whether the event that a tool call names was withdrawn, and the program has not
// accepted a newer text of it.
func (h *Harness) isStale(event string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	turn, _ := h.tokens.Get(event)
	changed, _ := h.withdrawn.Get(turn)
	return changed
}

// revisionOf returns the turn of the event that a tool call names, and the revision of the text
// that the program has: the one that it accepted, else the one on its way.
func (h *Harness) revisionOf(event string) (turn, revision string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	turn, _ = h.tokens.Get(event)
	revision, accepted := h.revisions.Get(turn)
	if i := slices.IndexFunc(h.pending, func(d *delivery) bool { return d.turn.ID == turn }); i >= 0 && !accepted {
		revision = h.pending[i].turn.Event.Revision
	}
	return turn, revision
}

// settle ends a delivery; nil means accepted.
func (h *Harness) settle(d *delivery, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.settleLocked(d, err)
}

// settleLocked is settle for a caller that holds mu. It reports whether the delivery was pending.
func (h *Harness) settleLocked(d *delivery, err error) bool {
	if d.settled {
		return false
	}
	d.settled, d.err = true, err
	h.pending = slices.DeleteFunc(h.pending, func(p *delivery) bool { return p == d })
	close(d.done)
	return true
}

// requestIDLocked returns a new request ID. The caller must hold mu.
func (h *Harness) requestIDLocked(method string) string {
	h.requests++
	return fmt.Sprintf("%s-%d", method, h.requests)
}

// A delivery is one event on its way to the program. Harness.mu guards it.
type delivery struct {
	turn    *harness.Turn
	next    int       // the next attempt
	attempt int       // the last attempt
	sentTo  *session  // the receiver of the last attempt
	due     time.Time // when the delivery is sent again
	lastID  string    // the request ID of the last attempt
	ids     []string  // the request IDs of all attempts
	settled bool
	err     error
	done    chan struct{} // closed when settled
}

// enqueueLocked inserts a delivery by its sequence, after equal ones.
func (h *Harness) enqueueLocked(d *delivery) {
	h.pending = append(h.pending, d)
	slices.SortStableFunc(
		h.pending,
		func(a, b *delivery) int { return cmp.Compare(a.turn.Event.Sequence, b.turn.Event.Sequence) },
	)
	for _, token := range append([]string{d.turn.Event.EventID, d.turn.Event.IdempotencyKey, d.turn.ID},
		d.turn.Event.MergedEventIDs...) {
		if token != "" {
			h.tokens.Add(token, d.turn.ID)
		}
	}
}

// dueLocked returns the deliveries to send to a session now, ordered by sequence, and when the
// next one is due (zero if none is).
func (h *Harness) dueLocked(s *session, now time.Time) (due []*delivery, next time.Time) {
	open := 0
	for _, d := range h.pending {
		if d.sentTo == s {
			open++
		}
	}
	for _, d := range h.pending {
		switch {
		case d.sentTo != s:
			if open < h.opts.Window {
				open++
				due = append(due, d)
			}
		case !d.due.After(now):
			due = append(due, d)
		case next.IsZero() || d.due.Before(next):
			next = d.due
		}
	}
	return due, next
}

// acceptLocked settles the delivery of a request ID.
func (h *Harness) acceptLocked(id string) {
	for _, d := range h.pending {
		if slices.Contains(d.ids, id) {
			h.accepted.Add(d.turn.ID, id)
			h.withdrawn.Remove(d.turn.ID)
			h.revisions.Add(d.turn.ID, d.turn.Event.Revision)
			h.settleLocked(d, nil)
			h.due.Notify() // the window has room
			return
		}
	}
}
