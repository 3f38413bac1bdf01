package chorus

import (
	"context"
	"encoding/json"
	"fmt"

	"hubbub/peers/agent/harness"
	"hubbub/protocol/chorus"
)

// A PostFunc delivers a turn: p holds the channel and the message, revision says which words of
// the turn these are, chat is the chat whose tools go with it. It returns nil when the agent
// elsewhere has the turn, and an error if it never will. A turn that is given again
// with the same message is the same delivery, also after a restart.
type PostFunc func(ctx context.Context, turn, revision, chat string, p *chorus.Post) error

// A Harness drives one agent elsewhere.
type Harness struct {
	post    PostFunc
	knocks  bool
	started chan struct{} // closed when host is set
	host    harness.Host
}

var _ harness.Harness = (*Harness)(nil)

// New makes a harness that delivers turns with post, and knocks, too, if the agent
// elsewhere wants them. It starts nothing.
func New(post PostFunc, knocks bool) *Harness {
	return &Harness{post: post, knocks: knocks, started: make(chan struct{})}
}

// Run makes the harness take what the agent elsewhere says, until ctx ends (nil).
func (h *Harness) Run(ctx context.Context, host harness.Host) error {
	h.host = host
	close(h.started)
	<-ctx.Done()
	return nil
}

// Capabilities returns what an agent elsewhere takes.
func (h *Harness) Capabilities(context.Context) (harness.Capabilities, error) {
	return harness.Capabilities{
		Injection:    harness.Injection{Immediate: true, Buffered: true, Notify: h.knocks, ToolMailbox: true},
		Asynchronous: true, UsesSystemPrompt: true,
	}, nil
}

// Turn delivers a turn. The tools of the turn are not used: the agent elsewhere
// calls those of its chat.
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

// Cancel does nothing: the protocol has no word for it.
func (h *Harness) Cancel(string, string) {}

// Handle stores one event of the callback of a turn. Key names it among all events of
// the agent, and revision is that with which the turn was delivered. A *harness.RefusedError says
// that policy forbids it.
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

// RefuseStale records that the agent elsewhere answered words that the turn has no more,
// and returns the *harness.RefusedError for it.
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
