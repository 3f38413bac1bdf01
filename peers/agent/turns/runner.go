package turns

import (
	"context"
	"errors"
	"sync"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/mailbox"
	"hubbub/peers/agent/tools"
	"hubbub/peers/attention"
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
	ReadsSystem   bool          // see harness.Capabilities
	Parallel      int           // turns at once
	MaxTries      int           // of a turn that fails for now
	FirstRetry    time.Duration // before a failed turn runs again, doubling

	SystemPrompt string
	Workspace    string
	ChatServer   func(chat string) harness.MCPServer // nil = none
	// Servers returns the MCP servers of the turn of an event; e is nil for a digest.
	Servers func(e *mailbox.Entry) ([]harness.MCPServer, error)
	Fence   func() string

	Begun func() // called when a turn has begun
}

// A Runner runs the turns of one agent.
type Runner struct {
	box     *mailbox.Mailbox
	harness harness.Harness
	kit     *tools.Kit
	broker  Broker
	opts    Options
	runs    runs
	wake    chan struct{}

	downSince time.Time // when the harness stopped being ready; zero while it is. Used only by Run
}

// New returns the runner of a mailbox whose turns h runs with the tools of kit.
func New(box *mailbox.Mailbox, h harness.Harness, kit *tools.Kit, broker Broker, opts Options) *Runner {
	if opts.OwnTime {
		opts.Parallel = max(opts.Parallel, 64) // its turns take no time of ours
	}
	return &Runner{box: box, harness: h, kit: kit, broker: broker, opts: opts, runs: newRuns(), wake: make(chan struct{}, 1)}
}

// Poke makes Run look again at the mailbox. It never blocks.
func (r *Runner) Poke() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Busy reports whether a turn is with the harness that is not in its own time.
func (r *Runner) Busy() bool { return r.runs.busy() > 0 }

// Run takes events to turns until ctx ends, or until the harness can never work. It
// waits for the turns that it started, whose contexts end with work. Recover must
// have been called.
func (r *Runner) Run(ctx, work context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	pruneAt := time.Now()
	for {
		next, err := r.round(ctx, work, &wg)
		if err == nil && !time.Now().Before(pruneAt) {
			pruneAt = time.Now().Add(time.Hour)
			err = r.box.Prune(ctx)
		}
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, harness.ErrPermanent) {
			return err
		}
		if err != nil {
			r.opts.Log.Error().Err(err).Msg("mailbox round failed; trying again")
			next = soonest(next, time.Now().Add(time.Second))
		}
		timer := time.NewTimer(time.Until(soonest(next, pruneAt)))
		select {
		case <-ctx.Done():
		case <-r.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// round does everything that is due, and returns when the next thing is.
func (r *Runner) round(ctx, work context.Context, wg *sync.WaitGroup) (next time.Time, err error) {
	if err := r.stopWithdrawn(ctx); err != nil {
		return next, err
	}
	if next, err = r.passDeadlines(ctx); err != nil {
		return next, err
	}
	caps, ready, err := r.capabilities(ctx)
	if err != nil {
		return next, err
	}
	if !ready { // until the harness is initialized, events wait
		return soonest(next, time.Now().Add(250*time.Millisecond)), r.giveUpWaiting(ctx)
	}
	r.downSince = time.Time{}
	for more := true; more; {
		if more, err = r.decideStored(ctx, caps); err != nil {
			return next, err
		}
	}
	steps := []func() (time.Time, error){
		func() (time.Time, error) { return r.compose(ctx, caps) },
		func() (time.Time, error) { return r.digest(ctx, caps) },
		func() (time.Time, error) { return time.Time{}, r.stopWithdrawn(ctx) },
		func() (time.Time, error) { return r.startTurns(ctx, work, caps, wg) },
	}
	for _, step := range steps {
		due, err := step()
		if err != nil {
			return next, err
		}
		next = soonest(next, due)
	}
	return next, nil
}

// capabilities asks the harness what it takes, and reports whether it is
// initialized.
func (r *Runner) capabilities(ctx context.Context) (caps harness.Capabilities, ready bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	caps, err = r.harness.Capabilities(ctx)
	if err != nil && !errors.Is(err, harness.ErrPermanent) {
		return caps, false, nil
	}
	return caps, err == nil, err
}

// config is how decisions are made for a harness.
func (r *Runner) config(caps harness.Capabilities) attention.Config {
	cfg := r.opts.Attention
	if v, err := attention.ParseVersion(caps.ProtocolVersion); err == nil && caps.ProtocolVersion != "" {
		cfg.Version = v
	}
	cfg.Inject = &caps.Injection
	return cfg
}

// soonest returns the earlier of two times; the zero time is none.
func soonest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
