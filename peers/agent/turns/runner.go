package turns

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"hubbub/peers/agent/files"
	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/mailbox"
	"hubbub/peers/agent/tools"
	"hubbub/peers/attention"
	"hubbub/protocol/notify"
)

// ErrStopping is the cause with which turns end when the agent stops.
var ErrStopping = errors.New("the agent is stopping")

// A Broker is what turns need of the collaboration broker.
type Broker interface {
	// Contract returns the text that tells the agent who it is and how it works with
	// others, and reports whether it is the broker's. If o is not nil, the broker is
	// asked for it as it stands now, with the conversation and the work of that wake.
	Contract(ctx context.Context, o *mailbox.Origin) (text string, given bool)
	// Started tells that a turn of an event has begun.
	Started(tx *mailbox.Tx, e *mailbox.Entry)
}

// Options are the settings of a Runner.
type Options struct {
	mailbox.Settings
	ComposeWindow time.Duration // after the last fragment
	ComposeCap    time.Duration // after the first fragment
	DigestEvery   time.Duration // 0 = no digests
	Budget        attention.Budget
	ReadsSystem   bool          // see harness.Capabilities
	Parallel      int           // turns at once; half of them in one chat
	MaxAttempts   int           // of a turn that fails for now
	FirstRetry    time.Duration // before a failed turn runs again, doubling

	SystemPrompt string
	Workspace    string
	ChatServer   func(chat string) harness.MCPServer // nil = none
	// Servers returns the MCP servers of the turn of an event; e is nil for a digest.
	Servers func(e *mailbox.Entry) ([]harness.MCPServer, error)
	Fence   func() string
	Files   *files.Cache // of what came with messages

	OnTurnStart func()                                 // called when a turn has begun
	Approver    func(t *mailbox.Turn) harness.Approver // has people decide for a turn
}

// A Runner runs the turns of one agent.
type Runner struct {
	mailbox    *mailbox.Mailbox
	harness    harness.Harness
	tools      *tools.Provider
	broker     Broker
	opts       Options
	executions executions
	failures   failures
	wake       notify.Signal
	typists    typists

	waiting   map[string]bool // turns that could not start when Run looked last. Used only by Run
	downSince time.Time       // when the harness stopped being ready; zero while it is. Used only by Run
}

// New returns the runner of a mailbox whose turns h runs with the tools of kit.
func New(box *mailbox.Mailbox, h harness.Harness, kit *tools.Provider, broker Broker, opts Options) *Runner {
	if opts.Async {
		opts.Parallel = max(opts.Parallel, 64) // its turns take no time of ours
	}
	return &Runner{mailbox: box, harness: h, tools: kit, broker: broker, opts: opts, wake: notify.New(),
		executions: executions{byID: map[string]*execution{}, entering: map[string]chan struct{}{}}}
}

// Notify makes Run look again at the mailbox. It never blocks.
func (r *Runner) Notify() { r.wake.Notify() }

// Busy reports whether a turn is with the harness that is not in its own time.
func (r *Runner) Busy() bool {
	all, _ := r.executions.busy("")
	return all > 0
}

// Run takes events to turns until ctx ends, or until the harness can never work. It
// waits for the turns that it started, whose contexts end with work. Recover must
// have been called.
func (r *Runner) Run(ctx, work context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	pruneAt := time.Now()
	for {
		next, err := r.iterate(ctx, work, &wg)
		if err == nil && !time.Now().Before(pruneAt) {
			pruneAt = time.Now().Add(time.Hour)
			err = r.mailbox.Prune(ctx)
		}
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, harness.ErrPermanent) {
			return err
		}
		if err != nil {
			r.opts.Log.Error().Err(err).Msg("mailbox round failed; trying again")
			next = earliest(next, time.Now().Add(time.Second))
		}
		select {
		case <-ctx.Done():
		case <-r.wake.C():
		case <-time.After(time.Until(earliest(next, pruneAt))):
		}
	}
}

// A iteration is one look at everything that may be due. Its view remembers the first error:
// from then on nothing more is found, and nothing done.
type iteration struct {
	*Runner
	*mailbox.View
	work     context.Context // of the turns that it starts
	wg       *sync.WaitGroup // of their goroutines
	caps     harness.Capabilities
	notReady error     // why the harness is not ready
	next     time.Time // when the next thing is due; zero: nothing is
}

// iterate does everything that is due, and returns when the next thing is.
func (r *Runner) iterate(ctx, work context.Context, wg *sync.WaitGroup) (next time.Time, err error) {
	now := &iteration{Runner: r, View: r.mailbox.View(ctx), work: work, wg: wg}
	now.stopWithdrawn()
	now.handleDeadlines()
	if ready := now.askHarness(); ready {
		r.downSince = time.Time{}
		now.process()
	} else if now.Err() == nil { // until the harness is initialized, events wait
		now.schedule(time.Now().Add(250 * time.Millisecond))
		now.failUnready()
	}
	return now.next, now.Err()
}

// process takes events to turns, and turns to the harness.
func (r *iteration) process() {
	for more := true; more; {
		more = r.decideStored()
	}
	r.compose()
	r.digest()
	r.stopWithdrawn()
	r.startTurns()
}

// schedule notes when something is due; the zero time is never.
func (r *iteration) schedule(at time.Time) { r.next = earliest(r.next, at) }

// inTx runs do in a transaction. what is done begins its error.
func (r *iteration) inTx(what string, do func(tx *mailbox.Tx)) {
	if r.Err() != nil {
		return
	}
	if err := r.mailbox.InTx(r.Context(), do); err != nil {
		r.Fail(fmt.Errorf("%s: %w", what, err))
	}
}

// inTurn runs do in a transaction with a turn, if that is still in a state.
func (r *iteration) inTurn(what, id string, state mailbox.TurnState, do func(tx *mailbox.Tx, t *mailbox.Turn)) {
	r.inTx(what, func(tx *mailbox.Tx) {
		if t := tx.Turn(id); t != nil && t.State == state {
			do(tx, t)
		}
	})
}

// inEntry runs do in a transaction with an event, if that is still in its state.
func (r *iteration) inEntry(what string, e *mailbox.Entry, do func(tx *mailbox.Tx, e *mailbox.Entry)) {
	r.inTx(what, func(tx *mailbox.Tx) {
		if fresh := tx.Entry(e.EventID); fresh != nil && fresh.State == e.State {
			do(tx, fresh)
		}
	})
}

// askHarness asks the harness what it takes, and reports whether it is initialized.
func (r *iteration) askHarness() (ready bool) {
	if r.Err() != nil {
		return false
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), time.Second, errUnready)
	defer cancel()
	caps, err := r.harness.Capabilities(ctx)
	if errors.Is(err, harness.ErrPermanent) {
		r.Fail(err)
	}
	r.caps, r.notReady = caps, err
	if err != nil && !errors.Is(err, errUnready) {
		r.notReady = fmt.Errorf("%w: %v", errUnready, err) //nolint:errorlint // its words alone
	}
	return err == nil
}

// config is how decisions are made for the harness.
func (r *iteration) config() attention.Config {
	cfg := r.opts.Attention
	if v, err := attention.ParseVersion(r.caps.ProtocolVersion); err == nil && r.caps.ProtocolVersion != "" {
		cfg.Version = v
	}
	cfg.Inject = &r.caps.Injection
	return cfg
}

// earliest returns the earlier of two times; the zero time is none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
