package mcptools

import (
	"context"
	"encoding/json"
	"time"

	"hubbub/peers/agent/harness"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A activeCall is one call of a tool while it runs, with who may be asked for it.
type activeCall struct {
	tool     string
	approver harness.Approver // nil: nobody
	ctx      context.Context
	timer    *time.Timer // ends the call; it stands while a person is asked
}

// activeCallKey is the key of a calling in the context of its call.
type activeCallKey struct{}

// An turnTools is the tools of a server as one turn calls them.
type turnTools struct {
	*conn
	approver harness.Approver
}

// Call calls a tool once.
func (a *turnTools) Call(ctx context.Context, name string, arguments json.RawMessage) harness.Result {
	return a.call(ctx, a.approver, name, arguments)
}

// beginCall notes a call, which end forgets.
func (c *conn) beginCall(ctx context.Context, tool string, people harness.Approver) (k *activeCall, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	k = &activeCall{tool: tool, approver: people, timer: time.AfterFunc(callTimeout, func() { cancel(errCallTimeout) })}
	k.ctx = context.WithValue(ctx, activeCallKey{}, k)
	c.pool.mu.Lock()
	c.calls[k] = true
	c.pool.mu.Unlock()
	return k, func() {
		k.timer.Stop()
		cancel(nil)
		c.pool.mu.Lock()
		delete(c.calls, k)
		c.pool.mu.Unlock()
	}
}

// callFor returns the call for which a server asks something: that of the context, where the
// protocol says so, or else the only one that runs; nil if there are several.
func (c *conn) callFor(ctx context.Context) *activeCall {
	if k, ok := ctx.Value(activeCallKey{}).(*activeCall); ok {
		return k
	}
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	if len(c.calls) == 1 {
		for k := range c.calls {
			return k
		}
	}
	return nil
}

// elicit has a person decide about what a server asks while one of its tools runs. They are
// shown its words and what would be answered; what cannot be answered by a yes is not asked.
func (c *conn) elicit(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	k := c.callFor(ctx)
	content, plain := acceptForm(r.Params.RequestedSchema)
	if k == nil || k.approver == nil || !plain || len(r.Params.Message) > maxDescription {
		return &mcp.ElicitResult{Action: "cancel"}, nil
	}
	asked, err := json.Marshal(map[string]any{"asks": r.Params.Message, "answer": content})
	if err != nil {
		return nil, err
	}
	if k.timer.Stop() { // a person may take longer than a server
		defer k.timer.Reset(callTimeout)
	}
	until, cancel := context.WithCancelCause(k.ctx)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	if err := k.approver.Approve(until, harness.ElicitPrefix+c.server.Name+"."+k.tool, asked); err != nil {
		if until.Err() != nil {
			return &mcp.ElicitResult{Action: "cancel"}, nil
		}
		return &mcp.ElicitResult{Action: "decline"}, nil
	}
	return &mcp.ElicitResult{Action: "accept", Content: content}, nil
}

// acceptForm returns what a yes answers to a form, and whether it answers the whole: what must be
// confirmed is, what has a default gets it, and what else may be left out is.
func acceptForm(schema any) (content map[string]any, whole bool) {
	var form struct {
		Properties map[string]struct {
			Type    string `json:"type"`
			Default any    `json:"default"`
		} `json:"properties"`
		Required []string `json:"required"`
	}
	raw, err := json.Marshal(schema)
	if err != nil || json.Unmarshal(raw, &form) != nil {
		return nil, false
	}
	content = map[string]any{}
	for name, p := range form.Properties {
		if p.Default != nil {
			content[name] = p.Default
		}
	}
	for _, name := range form.Required {
		if content[name] != nil {
			continue
		}
		if form.Properties[name].Type != "boolean" {
			return nil, false
		}
		content[name] = true
	}
	return content, true
}
