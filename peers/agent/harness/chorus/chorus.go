package chorus

import (
	"context"
	"encoding/json"
	"fmt"

	"hubbub/peers/agent/harness"
)

// A PostFunc delivers a turn: body is a JSON object with the channel and the
// message, chat the chat whose tools go with it. It returns nil when the agent
// elsewhere has the turn, and an error if it never will. A turn that is given again
// with the same body is the same delivery, also after a restart.
type PostFunc func(ctx context.Context, turn, chat string, body []byte) error

// A Harness drives one agent elsewhere.
type Harness struct {
	post    PostFunc
	knocks  bool
	running chan struct{} // closed when host is set
	host    harness.Host
}

var _ harness.Harness = (*Harness)(nil)

// New makes a harness that delivers turns with post, and knocks, too, if the agent
// elsewhere wants them. It starts nothing.
func New(post PostFunc, knocks bool) *Harness {
	return &Harness{post: post, knocks: knocks, running: make(chan struct{})}
}

// Run makes the harness take what the agent elsewhere says, until ctx ends (nil).
func (h *Harness) Run(ctx context.Context, host harness.Host) error {
	h.host = host
	close(h.running)
	<-ctx.Done()
	return nil
}

// Capabilities returns what an agent elsewhere takes.
func (h *Harness) Capabilities(context.Context) (harness.Capabilities, error) {
	return harness.Capabilities{
		Injection: harness.Injection{Immediate: true, Buffered: true, Notify: h.knocks, ToolMailbox: true},
		OwnTime:   true, ReadsSystem: true,
	}, nil
}

// Turn delivers a turn. The tools of the turn are not used: the agent elsewhere
// calls those of its chat.
func (h *Harness) Turn(ctx context.Context, t *harness.Turn, _ harness.Tools) (harness.Outcome, error) {
	body, err := json.Marshal(bodyOf(t))
	if err != nil {
		return harness.Outcome{}, fmt.Errorf("writing a delivery: %w", err)
	}
	switch err := h.post(ctx, t.ID, t.Chat, body); {
	case err == nil:
		return harness.Outcome{State: harness.Accepted, Attempt: t.Attempt}, nil
	case ctx.Err() != nil:
		return harness.Outcome{}, context.Cause(ctx)
	default:
		return harness.Outcome{}, fmt.Errorf("%w: %w", harness.ErrUnreached, err)
	}
}

// Cancel does nothing: the protocol has no word for it.
func (h *Harness) Cancel(string, string) {}

// An event is what comes to a callback.
type event struct {
	Type    harness.ProgressKind `json:"type"` // or message
	Content json.RawMessage      `json:"content"`
	Name    string               `json:"name"`
	Args    json.RawMessage      `json:"args"`
	ID      string               `json:"id"`
	Status  string               `json:"status"`
	Message string               `json:"message"`
	Code    string               `json:"code"`
}

// Take stores one event of the callback of a turn, a checked JSON object. Key names
// it among all events of the agent. A *harness.RefusedError says that policy forbids
// it.
func (h *Harness) Take(ctx context.Context, turn, key string, body []byte) error {
	var e event
	if err := json.Unmarshal(body, &e); err != nil {
		return fmt.Errorf("reading an event: %w", err)
	}
	o := harness.Output{TurnID: turn, Key: key}
	switch e.Type {
	case "message":
		if json.Unmarshal(e.Content, &o.Text) != nil {
			o.Text = string(e.Content)
		}
	case harness.ProgressToolCall:
		o.Report = &harness.Progress{Kind: e.Type, Tool: e.Name, CallID: e.ID, Content: e.Args}
	case harness.ProgressToolResult:
		o.Report = &harness.Progress{Kind: e.Type, CallID: e.ID, Content: e.Content}
	case harness.ProgressError:
		o.Report = &harness.Progress{Kind: e.Type, Message: e.Message, Code: e.Code}
	default:
		o.Report = &harness.Progress{Kind: harness.ProgressStatus, Message: e.Status}
	}
	return h.output(ctx, o)
}

// Refuse records that the agent elsewhere answered words that the turn has no more,
// and returns the *harness.RefusedError for it.
func (h *Harness) Refuse(ctx context.Context, turn string) error {
	return h.output(ctx, harness.Output{TurnID: turn, Stale: true})
}

func (h *Harness) output(ctx context.Context, o harness.Output) error {
	select {
	case <-h.running:
		return h.host.Output(ctx, o)
	case <-ctx.Done():
		return harness.ErrStopped
	}
}
