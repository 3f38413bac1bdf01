package acp

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/subprocess"
	"hubbub/protocol/defaults"
	"hubbub/protocol/retry"

	"github.com/rs/zerolog"
)

// Options are the optional settings of a Harness. Nil is valid.
type Options struct {
	Dir        string            // working directory of turns that name none; default the owner's
	Env        map[string]string // added to the program's environment
	Permission Permission        `default:"reading"`
	// for answering initialize and opening a session; default 60 s, extended for slow programs
	InitTimeout   time.Duration `positive:"1m"`
	CancelTimeout time.Duration `positive:"10s"` // for a canceled turn to end
	Grace         time.Duration // for the program to end; default 2 s
	MaxSessions   int           `positive:"64"` // conversations that the program keeps
	Backoff       retry.Backoff // between restarts of the program; default 1 s to 60 s
	Log           *zerolog.Logger
}

func (o *Options) withDefaults() Options {
	out := defaults.Of(o)
	defaults.Log(&out.Log)
	return out
}

// A Harness drives one ACP program.
type Harness struct {
	harness.Synchronous
	argv            []string
	opts            Options
	processes       processPool
	extendedTimeout atomic.Int64 // in nanoseconds; 0 before the first extension
}

var _ harness.Harness = (*Harness)(nil)

// New makes a harness that runs the program argv. It starts nothing.
func New(argv []string, opts *Options) *Harness {
	h := &Harness{argv: argv, opts: opts.withDefaults()}
	h.processes = processPool{
		supervise: h.supervise,
		main:      subprocess.NewSupervisor[agentProcess](),
		extra:     map[string]*extraProcess{},
	}
	return h
}

// maxInitTimeout limits the extension of InitTimeout.
const maxInitTimeout = 4 * time.Minute

// startTimeout limits what a program does before it can take a turn. If the time was too short,
// for example on a busy machine, the next attempt has twice as long; otherwise a slow program
// would never start. The caller must call cancel.
func (h *Harness) startTimeout(ctx context.Context, late string) (bounded context.Context, cancel func()) {
	timeout := max(h.opts.InitTimeout, time.Duration(h.extendedTimeout.Load()))
	bounded, end := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%s within %s", late, timeout))
	return bounded, func() {
		if bounded.Err() != nil && ctx.Err() == nil {
			h.extendedTimeout.Store(int64(max(timeout, min(2*timeout, maxInitTimeout))))
		}
		end()
	}
}

// Run keeps the program running. It returns nil when ctx ends, and an error that wraps
// harness.ErrPermanent if the program can never work.
func (h *Harness) Run(ctx context.Context, host harness.Host) error {
	h.Attach(host)
	return h.processes.run(ctx)
}

// supervise keeps one process of the program running.
func (h *Harness) supervise(ctx context.Context, supervisor *subprocess.Supervisor[agentProcess]) error {
	program := &subprocess.Options{Dir: h.opts.Dir, Env: h.opts.Env, Grace: h.opts.Grace, Log: h.opts.Log}
	return supervisor.Run(ctx, h.opts.Backoff, h.opts.Log, func(ctx context.Context) error {
		return subprocess.Run(
			ctx,
			h.argv,
			program,
			func(ctx context.Context, process *subprocess.Process) error { return h.serve(ctx, supervisor, process) },
		)
	})
}

// Capabilities waits until the program is initialized. Every injection mode is supported.
func (h *Harness) Capabilities(ctx context.Context) (harness.Capabilities, error) {
	p, err := h.processes.main.Await(ctx)
	if err != nil {
		return harness.Capabilities{UsesSystemPrompt: true}, err
	}
	return harness.Capabilities{Injection: harness.AllInjection, Images: p.images, UsesSystemPrompt: true}, nil
}

// Turn prompts the program and waits until it has ended its turn. It does not call the tools: the
// program calls those of Turn.ChatServer. Their names serve to recognize permission requests.
func (h *Harness) Turn(ctx context.Context, t *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
	p, done, err := h.processes.acquire(ctx, t)
	defer done()
	if err != nil {
		return harness.Outcome{State: harness.Finished, Attempt: t.Attempt}, err
	}
	outcome, err := h.Begin(ctx, t)
	if err != nil {
		return outcome, err
	}
	s, err := p.openSession(ctx, t)
	if err == nil {
		err = p.runPrompt(ctx, s, t, tools, &outcome)
	}
	return outcome, classifyError(ctx, err)
}

// classifyError decides what an error means for the turn.
func classifyError(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, errDenied),
		errors.Is(err, harness.ErrPermanent),
		errors.Is(err, harness.ErrBudget),
		errors.Is(err, harness.ErrTemporary):
		return err
	default:
		return fmt.Errorf("%w: %w", harness.ErrTemporary, err)
	}
}
