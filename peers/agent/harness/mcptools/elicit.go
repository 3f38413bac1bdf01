package mcptools

import (
	"context"
	"encoding/json"
	"time"

	"hubbub/peers/agent/harness"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// An activeCall is a running call of a tool.
type activeCall struct {
	tool     string
	approver harness.Approver // answers the server's questions; nil means nobody
	ctx      context.Context
	timer    *time.Timer // ends the call; stopped while a person is asked
}

// activeCallKey is the key of an activeCall in the context of its call.
type activeCallKey struct{}

// turnTools are the tools of a server for one turn.
type turnTools struct {
	*conn
	approver harness.Approver
}

// Call calls a tool once.
func (a *turnTools) Call(ctx context.Context, name string, arguments json.RawMessage) harness.Result {
	return a.call(ctx, a.approver, name, arguments)
}

// beginCall registers a call; the caller must call end afterwards.
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

// callFor returns the call for which a server asks something. If the protocol names the call, it
// is in the context. Otherwise it is the only running call, or nil if several run.
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

// elicit asks a person to decide about a question of a server whose tool is running. The person
// sees the question and the proposed answer. A question that a yes does not answer is canceled.
func (c *conn) elicit(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	k := c.callFor(ctx)
	content, plain := acceptForm(r.Params.RequestedSchema)
	if k == nil || k.approver == nil || !plain || len(r.Params.Message) > maxDescription {
		return &mcp.ElicitResult{Action: "cancel"}, nil
	}
	question, err := json.Marshal(map[string]any{"asks": r.Params.Message, "answer": content})
	if err != nil {
		return nil, err
	}
	if k.timer.Stop() { // a person may take longer than a server
		defer k.timer.Reset(callTimeout)
	}
	until, cancel := context.WithCancelCause(k.ctx)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	if err := k.approver.Approve(until, harness.ElicitPrefix+c.server.Name+"."+k.tool, question); err != nil {
		if until.Err() != nil {
			return &mcp.ElicitResult{Action: "cancel"}, nil
		}
		return &mcp.ElicitResult{Action: "decline"}, nil
	}
	return &mcp.ElicitResult{Action: "accept", Content: content}, nil
}

// acceptForm returns the answer to a form if the person says yes, and whether that answers the
// whole form. It confirms required booleans, uses defaults, and leaves out optional members.
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
