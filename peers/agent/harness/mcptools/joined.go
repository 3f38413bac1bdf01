package mcptools

import (
	"context"
	"encoding/json"
	"fmt"

	"hubbub/peers/agent/harness"
	"hubbub/protocol/text"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// joinedTools are the tools of several servers.
type joinedTools struct {
	pool   *Pool
	tools  []harness.Tool
	source map[string]remoteTool
}

type remoteTool struct {
	conn *conn
	name string
}

// add joins the tools of one server as name__tool. A name that is taken gets a
// number.
func (j *joinedTools) add(c *conn) {
	prefix := c.server.Name
	if prefix == "" {
		prefix = "mcp"
	}
	j.pool.mu.Lock()
	tools := c.tools
	j.pool.mu.Unlock()
	for _, t := range tools {
		name := prefix + "__" + t.Name
		for n := 2; j.source[name].conn != nil; n++ {
			name = fmt.Sprintf("%s%d__%s", prefix, n, t.Name)
		}
		j.source[name] = remoteTool{conn: c, name: t.Name}
		t.Name = name
		j.tools = append(j.tools, t)
	}
}

// List returns the tools.
func (j *joinedTools) List() []harness.Tool { return j.tools }

// Call calls a tool once.
func (j *joinedTools) Call(ctx context.Context, name string, arguments json.RawMessage) harness.Result {
	tool, ok := j.source[name]
	if !ok {
		return harness.Refused(fmt.Sprintf("there is no tool %q; use one of the listed tools", name), nil)
	}
	if len(arguments) == 0 {
		arguments = json.RawMessage("{}")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, j.pool.opts.CallTimeout, fmt.Errorf("it did not answer in %s", j.pool.opts.CallTimeout))
	defer cancel()
	result, err := tool.conn.call(ctx, tool.name, arguments)
	if err != nil {
		return harness.Refused(fmt.Sprintf("the tool gave no result, and may or may not have acted: %s", cleaned(&tool.conn.server, causeOf(ctx, err))), nil)
	}
	return j.read(result)
}

// read takes what a model can read of a result, within the bound.
func (j *joinedTools) read(r *mcp.CallToolResult) harness.Result {
	out := harness.Result{IsError: r.IsError}
	left := j.pool.opts.ResultBytes
	add := func(said string) {
		if left <= 0 {
			return
		}
		if len(said) > left {
			said = text.Prefix(said, left) + "\n[cut: the result is longer than what may be shown; ask for less]"
		}
		left -= len(said)
		out.Content = append(out.Content, harness.Content{Type: "text", Text: said})
	}
	for _, c := range r.Content {
		switch c := c.(type) {
		case *mcp.TextContent:
			add(c.Text)
		case *mcp.ResourceLink:
			add("[resource " + c.URI + "]")
		case *mcp.EmbeddedResource:
			if c.Resource != nil && c.Resource.Text != "" {
				add(c.Resource.Text)
			} else {
				add("[an embedded resource that is not text]")
			}
		case *mcp.ImageContent:
			add("[an image, " + c.MIMEType + "]")
		case *mcp.AudioContent:
			add("[a sound, " + c.MIMEType + "]")
		}
	}
	if r.StructuredContent != nil {
		if raw, err := json.Marshal(r.StructuredContent); err == nil && len(raw) <= j.pool.opts.ResultBytes && len(out.Content) == 0 {
			out.StructuredContent = raw
		}
	}
	return out
}
