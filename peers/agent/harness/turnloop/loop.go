package turnloop

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"hubbub/peers/agent/harness"
)

// Servers connects to MCP servers; *mcptools.Pool does.
type Servers interface {
	// Run keeps connections until ctx ends, and closes them.
	Run(ctx context.Context) error
	// Tools returns the tools of those servers that can be reached, and an
	// error for each other one.
	Tools(ctx context.Context, servers []harness.MCPServer) (harness.Tools, []error)
}

// A Loop is a harness over a Model.
type Loop struct {
	model   Model
	servers Servers
	opts    Options
	mu      sync.Mutex
	host    harness.Host
}

var _ harness.Harness = (*Loop)(nil)

// New makes a loop over a model. Servers may be nil: then turns get no other
// tools than the agent's.
func New(model Model, servers Servers, opts *Options) *Loop {
	return &Loop{model: model, servers: servers, opts: opts.withDefaults()}
}

// Run keeps the connections to MCP servers until ctx ends. It fails at once
// with harness.ErrPermanent where the model cannot be asked.
func (l *Loop) Run(ctx context.Context, host harness.Host) error {
	if err := l.model.Check(); err != nil {
		return fmt.Errorf("%w: %w", harness.ErrPermanent, err)
	}
	l.mu.Lock()
	l.host = host
	l.mu.Unlock()
	if l.servers == nil {
		<-ctx.Done()
		return nil
	}
	return l.servers.Run(ctx)
}

// Capabilities answers at once: every injection mode, progress, cancellation.
func (l *Loop) Capabilities(context.Context) (harness.Capabilities, error) {
	if err := l.model.Check(); err != nil {
		return harness.Capabilities{ReadsSystem: true}, fmt.Errorf("%w: %w", harness.ErrPermanent, err)
	}
	return harness.Capabilities{Injection: harness.AllInjection, Progress: true, Cancellation: true, ReadsSystem: true}, nil
}

// Cancel does nothing: turns end Finished.
func (l *Loop) Cancel(string, string) {}

// Turn asks the model and runs its tools until it ends its turn.
func (l *Loop) Turn(ctx context.Context, t *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
	none := harness.Outcome{State: harness.Finished, Attempt: t.Attempt}
	if err := l.model.Check(); err != nil {
		return none, fmt.Errorf("%w: %w", harness.ErrPermanent, err)
	}
	if t.Attempted != nil {
		if err := t.Attempted(t.Attempt); err != nil {
			return none, err
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, l.opts.Time, fmt.Errorf("%w: it took longer than %s", harness.ErrBudget, l.opts.Time))
	defer cancel()

	conversation := t.Memory()
	past := l.recall(ctx, conversation)
	run := &run{loop: l, turn: t, tools: l.gather(ctx, t, tools), said: []Message{{Role: RoleUser, Text: t.Prompt}}}
	for _, messages := range past.Turns {
		run.past = append(run.past, messages...)
	}
	final, err := run.rounds(ctx)
	if err == nil || run.usage.ToolCalls > 0 {
		if run.past == nil { // the model could not read it
			past = remembered{}
		}
		l.remember(ctx, conversation, past, run.said)
	}
	outcome := harness.Outcome{State: harness.Finished, Attempt: t.Attempt, Usage: run.usage}
	outcome.Usage.Model = l.model.Name()
	if err != nil {
		return outcome, verdict(ctx, err)
	}
	outcome.FinalText, outcome.Truncated = strings.TrimSpace(final.Text), final.Truncated
	return outcome, nil
}

// verdict says whether a failed turn may be tried again.
func verdict(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var request *RequestError
	switch {
	case errors.As(err, &request) && request.Retry:
		return &harness.LaterError{After: request.After, Err: err}
	case errors.As(err, &request):
		return fmt.Errorf("%w: %w", harness.ErrPermanent, err)
	default:
		return err
	}
}

// gather joins the agent's tools and those of the turn's MCP servers. A server
// that cannot be reached is reported and left out.
func (l *Loop) gather(ctx context.Context, t *harness.Turn, tools harness.Tools) *toolset {
	if l.servers == nil || len(t.MCP) == 0 {
		return newToolset(tools)
	}
	more, failures := l.servers.Tools(ctx, t.MCP)
	for _, err := range failures {
		l.opts.Log.Warn().Err(err).Str("turn", t.ID).Msg("a turn runs without an MCP server")
		l.report(harness.Progress{TurnID: t.ID, Kind: harness.ProgressStatus, Message: err.Error()})
	}
	return newToolset(tools, more)
}

func (l *Loop) report(p harness.Progress) {
	l.mu.Lock()
	report := l.host.Progress
	l.mu.Unlock()
	if report != nil {
		report(p)
	}
}
