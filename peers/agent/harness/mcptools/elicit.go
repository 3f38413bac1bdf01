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

// Call implements [harness.Tools]. It never runs a tool twice for a call.
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

// elicit asks a person a question from a server whose tool is running; see harness.Elicit.
func (c *conn) elicit(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	k := c.callFor(ctx)
	if k == nil || k.approver == nil {
		return &mcp.ElicitResult{Action: harness.ElicitCancel}, nil
	}
	if k.timer.Stop() { // a person may take longer than a server
		defer k.timer.Reset(callTimeout)
	}
	until, cancel := context.WithCancelCause(k.ctx)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	action, content := harness.Elicit(until, k.approver, c.server.Name+"."+k.tool, r.Params.Message,
		r.Params.RequestedSchema)
	return &mcp.ElicitResult{Action: action, Content: content}, nil
}
