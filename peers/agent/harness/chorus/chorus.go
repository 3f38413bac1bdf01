package chorus

import (
	"context"
	"encoding/json"
	"fmt"

	"hubbub/peers/agent/harness"
	"hubbub/protocol/chorus"
)

// A PostFunc delivers a turn. The post p holds the channel and the message, revision is the
// revision of the turn's text, and chat is the chat whose tools belong to the turn. It returns
// nil when the remote agent has the turn, and an error if the agent will never get it. Delivering
// a turn again with the same message is the same delivery, even after a restart.
type PostFunc func(ctx context.Context, turn, revision, chat string, p *chorus.Post) error

// A Harness drives one remote agent.
type Harness struct {
	post    PostFunc
	knocks  bool
	started chan struct{} // closed when host is set
	host    harness.Host
}

var _ harness.Harness = (*Harness)(nil)

// New makes a harness that delivers turns with post. It delivers knocks only if knocks is true.
// It starts nothing.
func New(post PostFunc, knocks bool) *Harness {
	return &Harness{post: post, knocks: knocks, started: make(chan struct{})}
}

// Run lets the harness accept events of the remote agent until ctx ends (nil).
func (h *Harness) Run(ctx context.Context, host harness.Host) error {
	h.host = host
	close(h.started)
	<-ctx.Done()
	return nil
}

// Capabilities returns what a remote agent supports.
func (h *Harness) Capabilities(context.Context) (harness.Capabilities, error) {
	return harness.Capabilities{
		Injection:    harness.Injection{Immediate: true, Buffered: true, Notify: h.knocks, ToolMailbox: true},
		Asynchronous: true, UsesSystemPrompt: true,
	}, nil
}

// Turn delivers a turn. It does not use the turn's tools: the remote agent calls those of its
// chat.
func (h *Harness) Turn(ctx context.Context, t *harness.Turn, _ harness.Tools) (harness.Outcome, error) {
	switch err := h.post(ctx, t.ID, t.Event.Revision, t.Chat, newPost(t)); {
	case err == nil:
		return harness.Outcome{State: harness.Accepted, Attempt: t.Attempt}, nil
	case ctx.Err() != nil:
		return harness.Outcome{}, context.Cause(ctx)
	default:
		return harness.Outcome{}, fmt.Errorf("%w: %w", harness.ErrUnreachable, err)
	}
}

// Cancel does nothing: the protocol has no cancellation.
func (h *Harness) Cancel(string, string) {}

// Handle stores one event that came to the callback of a turn. The key is unique among all events
// from the agent, and revision is the revision with which the turn was delivered. A
// *harness.RefusedError means that policy forbids the event.
func (h *Harness) Handle(ctx context.Context, turn, revision, key string, e *chorus.Event) error {
	o := harness.Output{TurnID: turn, Revision: revision, Key: key}
	switch e.Type {
	case chorus.EventMessage:
		if json.Unmarshal(e.Content, &o.Text) != nil {
			o.Text = string(e.Content)
		}
	case chorus.EventToolCall:
		o.Report = &harness.Progress{Kind: harness.ProgressToolCall, Tool: e.Name, CallID: e.ID, Content: e.Args}
	case chorus.EventToolResult:
		o.Report = &harness.Progress{Kind: harness.ProgressToolResult, CallID: e.ID, Content: e.Content}
	case chorus.EventError:
		o.Report = &harness.Progress{Kind: harness.ProgressError, Message: e.Message, Code: e.Code}
	default:
		o.Report = &harness.Progress{Kind: harness.ProgressStatus, Message: e.Status}
	}
	return h.output(ctx, o)
}

// RefuseStale records that the remote agent answered an old text of the turn, and returns the
// *harness.RefusedError for it.
func (h *Harness) RefuseStale(ctx context.Context, turn string) error {
	return h.output(ctx, harness.Output{TurnID: turn, Stale: true})
}

func (h *Harness) output(ctx context.Context, o harness.Output) error {
	select {
	case <-h.started:
		return h.host.Output(ctx, o)
	case <-ctx.Done():
		return harness.ErrStopped
	}
}
