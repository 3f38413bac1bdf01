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

// ErrStopping is the cancellation cause of turns when the agent stops.
var ErrStopping = errors.New("the agent is stopping")

// A Broker is the part of the collaboration broker that turns use.
type Broker interface {
	// Contract returns the text that explains to the agent who it is and how it works with
	// others. given reports whether the text is the broker's. If o is not nil, the broker is
	// asked for the current text with the conversation and work item of that wake.
	Contract(ctx context.Context, o *mailbox.Origin) (text string, given bool)
	// Started notifies the broker that the turn of an event has started.
	Started(tx *mailbox.Tx, e *mailbox.Entry)
}

// Options are the settings of a Runner.
type Options struct {
	mailbox.Settings
	ComposeWindow time.Duration // after the last fragment
	ComposeCap    time.Duration // after the first fragment
	DigestEvery   time.Duration // 0 = no digests
	Budget        attention.Budget
	ReadsSystem   bool // see harness.Capabilities, as for OnlyEvent
	OnlyEvent     bool
	Parallel      int           // turns at once; half of them in one chat
	MaxAttempts   int           // of a turn with temporary failures
	FirstRetry    time.Duration // before a failed turn runs again, doubling

	SystemPrompt string
	Workspace    string
	ChatServer   func(chat string) harness.MCPServer // may be nil
	// Servers returns the MCP servers for the turn of an event. e is nil for a digest.
	Servers func(e *mailbox.Entry) ([]harness.MCPServer, error)
	Fence   func() string
	Files   *files.Cache // that came with messages

	OnTurnStart func()                                 // called when a turn has started
	OnIdle      func()                                 // called idleAfter after the last change of an event or turn
	Approver    func(t *mailbox.Turn) harness.Approver // lets people decide for a turn
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
	tracker    typingTracker

	waiting   map[string]bool // turns that could not start in the last iteration; used only by Run
	downSince time.Time       // when the harness stopped being ready, or zero; used only by Run
}

// New returns the runner of a mailbox. h runs its turns, with the tools of kit.
func New(box *mailbox.Mailbox, h harness.Harness, kit *tools.Provider, broker Broker, opts Options) *Runner {
	if opts.Async {
		opts.Parallel = max(opts.Parallel, 64) // asynchronous turns do not occupy the runner
	}
	return &Runner{mailbox: box, harness: h, tools: kit, broker: broker, opts: opts, wake: notify.New(),
		executions: executions{byID: map[string]*execution{}, entering: map[string]chan struct{}{}}}
}

// Notify makes Run check the mailbox. It never blocks.
func (r *Runner) Notify() { r.wake.Notify() }

// Busy reports whether the harness has a turn that it does not run asynchronously.
func (r *Runner) Busy() bool {
	all, _ := r.executions.busy("")
	return all > 0
}

// idleAfter is the time without changes after which Options.OnIdle is called.
const idleAfter = 10 * time.Second

// Run processes events and turns until ctx ends, or until the harness fails permanently. The
// contexts of its turns end with work. Run waits for the turns to end. Recover must have been
// called before.
func (r *Runner) Run(ctx, work context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	pruneAt := time.Now()
	idle := time.NewTimer(idleAfter)
	defer idle.Stop()
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
			r.opts.Log.Error().Err(err).Msg("processing the mailbox failed; trying again")
			next = earliest(next, time.Now().Add(time.Second))
		}
		select {
		case <-ctx.Done():
		case <-r.wake.C():
			idle.Reset(idleAfter)
		case <-idle.C:
			r.opts.OnIdle()
		case <-time.After(time.Until(earliest(next, pruneAt))):
		}
	}
}

// An iteration handles everything that is due at one time. Its view remembers the first error;
// after it, the iteration does nothing more.
type iteration struct {
	*Runner
	*mailbox.View
	work     context.Context // of the turns that it starts
	wg       *sync.WaitGroup // of their goroutines
	caps     harness.Capabilities
	notReady error     // why the harness is not ready
	next     time.Time // when the next thing is due; zero if nothing is
}

// iterate does everything that is due, and returns when the next thing is.
func (r *Runner) iterate(ctx, work context.Context, wg *sync.WaitGroup) (next time.Time, err error) {
	now := &iteration{Runner: r, View: r.mailbox.View(ctx), work: work, wg: wg}
	now.handleDeadlines()
	if ready := now.askHarness(); ready {
		r.downSince = time.Time{}
		now.process()
	} else if now.Err() == nil { // events wait until the harness is initialized
		now.stopWithdrawn()
		now.schedule(time.Now().Add(250 * time.Millisecond))
		now.failUnready()
	}
	return now.next, now.Err()
}

// process turns events into turns and starts turns.
func (r *iteration) process() {
	for more := true; more; {
		more = r.decideStored()
	}
	r.compose()
	r.digest()
	r.stopWithdrawn()
	r.startTurns()
}

// schedule records when something is due. The zero time means never.
func (r *iteration) schedule(at time.Time) { r.next = earliest(r.next, at) }

// inTx runs do in a transaction. what prefixes its error.
func (r *iteration) inTx(what string, do func(tx *mailbox.Tx)) { r.run(r.mailbox.InTx, what, do) }

// inTxUnsynced is inTx for decisions, which a restart repeats if a power cut undoes them.
// Their consequences, such as the start of a turn, are synced, and the decisions with them.
func (r *iteration) inTxUnsynced(what string, do func(tx *mailbox.Tx)) {
	r.run(r.mailbox.InTxUnsynced, what, do)
}

func (r *iteration) run(inTx func(context.Context, func(*mailbox.Tx)) error, what string, do func(tx *mailbox.Tx)) {
	if r.Err() != nil {
		return
	}
	if err := inTx(r.Context(), do); err != nil {
		r.Fail(fmt.Errorf("%s: %w", what, err))
	}
}

// inTurn runs do in a transaction with a turn, if the turn is still in the given state.
func (r *iteration) inTurn(what, id string, state mailbox.TurnState, do func(tx *mailbox.Tx, t *mailbox.Turn)) {
	r.inTx(what, func(tx *mailbox.Tx) {
		if t := tx.Turn(id); t != nil && t.State == state {
			do(tx, t)
		}
	})
}

// inEntry runs do in a transaction with an event, if the state of the event has not changed.
func (r *iteration) inEntry(what string, e *mailbox.Entry, do func(tx *mailbox.Tx, e *mailbox.Entry)) {
	r.inTx(what, func(tx *mailbox.Tx) {
		if fresh := tx.Entry(e.EventID); fresh != nil && fresh.State == e.State {
			do(tx, fresh)
		}
	})
}

// askHarness queries the harness's capabilities and reports whether it is ready.
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

// config returns the decision settings for the harness.
func (r *iteration) config() attention.Config {
	cfg := r.opts.Attention
	if v, err := attention.ParseVersion(r.caps.ProtocolVersion); err == nil && r.caps.ProtocolVersion != "" {
		cfg.Version = v
	}
	cfg.Inject = &r.caps.Injection
	return cfg
}

// earliest returns the earlier of two times. The zero time means none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
