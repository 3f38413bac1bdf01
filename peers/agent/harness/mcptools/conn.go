package mcptools

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/subprocess"
	"hubbub/protocol/http1"
	"hubbub/protocol/redact"
	"hubbub/protocol/text"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Limits on what a server may send.
const (
	maxFrame       = 8 << 20
	maxTools       = 128
	maxImages      = 4 << 20 // bytes of the images of one result
	maxSchema      = 64 << 10
	maxDescription = 4 << 10
)

// A conn is a connection to one server. Pool.mu guards the fields that change.
type conn struct {
	pool   *Pool
	key    string
	server harness.MCPServer
	stop   context.CancelFunc // ends run
	ready  chan struct{}      // closed once the connection is open or err is set

	err     error
	session *mcp.ClientSession
	process *subprocess.Process // the server's process; nil for a URL

	lastUsed time.Time
	calls    map[*activeCall]bool
	tools    []harness.Tool
	listedAt time.Time // zero after a failed call, so that the next turn lists the tools again
}

// run keeps the connection until ctx ends.
func (c *conn) run(ctx context.Context) {
	c.err = c.open(ctx)
	close(c.ready)
	if c.err == nil {
		<-ctx.Done()
	}
	if c.process != nil {
		c.process.Stop()
	}
	if c.session != nil {
		c.session.Close() //nolint:errcheck // the server may be gone
	}
}

// open connects to the server and lists its tools.
func (c *conn) open(ctx context.Context) error {
	timeout := c.pool.opts.ConnectTimeout
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("it did not answer within %s", timeout))
	defer cancel()
	transport, err := c.transport()
	if err != nil {
		return err
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "hubbub-agent", Version: "1"}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{
			Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}},
		},
		ElicitationHandler: c.elicit,
	})
	if c.session, err = client.Connect(ctx, transport, nil); err != nil {
		return causeOf(ctx, err)
	}
	return c.listTools(ctx)
}

// transport starts a command, or prepares requests to a URL.
func (c *conn) transport() (mcp.Transport, error) {
	switch {
	case c.server.URL != "" && len(c.server.Command) > 0:
		return nil, errors.New("it has both a url and a command; give only one of them")
	case c.server.URL != "":
		u, err := url.Parse(c.server.URL)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, errors.New("its url is not an http(s) address")
		}
		return &mcp.StreamableClientTransport{
			Endpoint: c.server.URL, MaxEventSize: maxFrame,
			HTTPClient: &http.Client{
				Transport:     &headerTransport{add: c.server.Headers, host: u.Host},
				CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			},
		}, nil
	case len(c.server.Command) > 0:
		process, err := subprocess.Start(c.server.Command,
			&subprocess.Options{Dir: c.server.Dir, Env: c.server.Env, HideEnv: c.pool.opts.HideEnv})
		if err != nil {
			return nil, err
		}
		c.process = process
		return &mcp.IOTransport{Reader: process.Stdout, Writer: process.Stdin, MaxLineLength: maxFrame}, nil
	default:
		return nil, errors.New("it has neither a url nor a command")
	}
}

// A headerTransport adds a server's headers, exactly as given, to each request to that server.
type headerTransport struct {
	add  map[string]string
	host string
}

func (h *headerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host != h.host {
		return nil, fmt.Errorf("the server refers to another host; only its own is called")
	}
	r = r.Clone(r.Context())
	for name, value := range h.add {
		r.Header.Del(name)
		r.Header[name] = []string{value}
	}
	dial := func() (*http.Response, error) {
		response, err := http.DefaultTransport.RoundTrip(r)
		if err == nil {
			response.Body = http1.LimitBody(response.Body, 2*maxFrame, errors.New("the answer is too long"))
		}
		return response, err
	}
	if isStreamRequest(r) {
		return (&eventStream{ctx: r.Context(), dial: dial}).response(r), nil
	}
	return dial()
}

// listTools requests the tools. It leaves out tools that are too large to show to a model, and
// those whose names are not valid.
func (c *conn) listTools(ctx context.Context) error {
	timeout := c.pool.opts.ConnectTimeout
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("it did not list its tools within %s", timeout))
	defer cancel()
	var tools []harness.Tool
	names := map[string]bool{"": true}
	for t, err := range c.allTools(ctx) {
		if err != nil {
			return causeOf(ctx, err)
		}
		if names[t.Name] || !text.IsCleanName(t.Name) {
			continue
		}
		names[t.Name] = true
		schema, err := json.Marshal(t.InputSchema)
		if err != nil || len(schema) > maxSchema || len(t.Name) > 256 {
			continue
		}
		tool := harness.Tool{
			Name:        t.Name,
			Title:       t.Title,
			Description: text.Cut(t.Description, maxDescription),
			InputSchema: schema,
		}
		if tools = append(tools, tool); len(tools) == maxTools {
			break
		}
	}
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	c.tools, c.listedAt = tools, time.Now()
	return nil
}

// allTools lists the tools page by page. It ends at a repeated cursor, and at a page after the
// first that the server does not send; the tools before that page can be used.
func (c *conn) allTools(ctx context.Context) iter.Seq2[*mcp.Tool, error] {
	return func(yield func(*mcp.Tool, error) bool) {
		cursors := map[string]bool{"": true}
		for params := new(mcp.ListToolsParams); ; {
			page, err := c.session.ListTools(ctx, params)
			if err != nil && params.Cursor != "" {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
			for _, t := range page.Tools {
				if t != nil && !yield(t, nil) {
					return
				}
			}
			if cursors[page.NextCursor] || len(cursors) > maxTools {
				return
			}
			cursors[page.NextCursor] = true
			params = &mcp.ListToolsParams{Cursor: page.NextCursor}
		}
	}
}

// List returns the most recently listed tools.
func (c *conn) List() []harness.Tool {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	return c.tools
}

// errCallTimeout is the cause when a call takes too long.
var errCallTimeout = fmt.Errorf("it did not answer within %s", callTimeout)

// call calls a tool once. If the server asks something meanwhile, people answer. A server that has
// ended, that cannot be connected to, or that no longer knows the session has not run the tool, so
// the call is made in a new session.
func (c *conn) call(
	ctx context.Context,
	people harness.Approver,
	name string,
	arguments json.RawMessage,
) harness.Result {
	if len(arguments) == 0 {
		arguments = json.RawMessage("{}")
	}
	var result *mcp.CallToolResult
	err := mcp.ErrSessionMissing
	if !c.isDropped() && !c.hasEnded() {
		result, err = c.callOnce(ctx, people, name, arguments)
	}
	if err != nil && isLostSession(err) {
		c.pool.mu.Lock()
		c.pool.dropLocked(c)
		c.pool.mu.Unlock()
		var fresh *conn
		if fresh, err = c.pool.connect(ctx, c.server); err == nil {
			c = fresh
			result, err = c.callOnce(ctx, people, name, arguments)
		} else {
			err = fmt.Errorf("its session is lost, and no new one could be opened: %w", err)
		}
	}
	if err != nil {
		c.pool.mu.Lock()
		c.listedAt = time.Time{}
		c.pool.mu.Unlock()
		failed := "the tool returned no result, and may or may not have acted: "
		if answer, ok := errors.AsType[*jsonrpc.Error](err); ok && (answer.Code == jsonrpc.CodeInvalidParams ||
			answer.Code == jsonrpc.CodeMethodNotFound) {
			failed = "the server refused the call: "
		}
		return harness.ErrorResult(failed+redactError(&c.server, err), nil).Redacted(c.pool.opts.Redact)
	}
	return toResult(result, c.pool.opts.Redact, c.pool.opts.ResultBytes)
}

func (c *conn) callOnce(ctx context.Context, people harness.Approver, name string,
	arguments json.RawMessage) (*mcp.CallToolResult, error) {
	k, end := c.beginCall(ctx, name, people)
	defer end()
	result, err := c.session.CallTool(k.ctx, &mcp.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		return nil, causeOf(k.ctx, err)
	}
	return result, nil
}

// isDropped reports whether the pool no longer keeps the connection.
func (c *conn) isDropped() bool {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	return c.pool.conns[c.key] != c && c.pool.ctx != nil
}

// hasEnded reports whether the server's process has ended.
func (c *conn) hasEnded() bool {
	if c.process == nil {
		return false
	}
	select {
	case <-c.process.Done():
		return true
	default:
		return false
	}
}

// isLostSession reports whether a call did not reach a server, or was refused because the server
// does not know the session. Some servers respond with 400 instead, and the library does not report
// their message. Others respond with an error of the protocol.
func isLostSession(err error) bool {
	closed := errors.Is(err, mcp.ErrConnectionClosed) && strings.Contains(err.Error(), "client is closing") // not sent
	answer, answered := errors.AsType[*jsonrpc.Error](err)
	return errors.Is(err, mcp.ErrSessionMissing) || errors.Is(err, syscall.ECONNREFUSED) || closed ||
		strings.HasSuffix(err.Error(), ": "+http.StatusText(http.StatusBadRequest)) ||
		answered && answer.Code != jsonrpc.CodeInternalError && unknownSession().MatchString(answer.Message)
}

// unknownSession matches the message of a server that does not know the session.
var unknownSession = text.Pattern(`(?i)\bsession(?:[ _-]?id)?\b.*\b(?:not found|unknown|invalid|expired|terminated|` +
	`does not exist|not initialized)\b|\b(?:unknown|invalid|no valid|no active|no such|missing|expired|not find|` +
	`no transport found for)\b.*\bsession(?:[ _-]?id)?\b|\bserver not initialized\b`)

// toResult converts a result for a model: without secrets, and cut to most bytes. It redacts
// before it cuts, since half a secret would not be recognized.
func toResult(r *mcp.CallToolResult, secrets *redact.Redactor, most int) harness.Result {
	out, left, images := harness.Result{IsError: r.IsError}, most, maxImages
	for _, c := range r.Content {
		piece, known := contentText(c)
		if !known || left <= 0 {
			continue
		}
		if piece = secrets.String(piece); len(piece) > left {
			piece = text.Prefix(piece, left) + "\n[cut: the result is too long to show; ask for less]"
		}
		left -= len(piece)
		content := harness.Content{Type: "text", Text: piece}
		if i, ok := c.(*mcp.ImageContent); ok && visibleImages[i.MIMEType] && len(i.Data) <= images {
			images -= len(i.Data)
			content.Image = &harness.Image{MimeType: i.MIMEType, Data: i.Data}
		}
		out.Content = append(out.Content, content)
	}
	if r.StructuredContent != nil && len(out.Content) == 0 {
		if raw, err := json.Marshal(r.StructuredContent); err == nil && len(raw) <= most {
			out.StructuredContent = secrets.Bytes(raw)
		}
	}
	return out
}

// visibleImages are the types of images that models are shown.
var visibleImages = map[string]bool{"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true}

// contentText returns a piece of a result as text, and whether its kind is known.
func contentText(c mcp.Content) (content string, known bool) {
	switch c := c.(type) {
	case *mcp.TextContent:
		return c.Text, true
	case *mcp.ResourceLink:
		return "[resource " + c.URI + "]", true
	case *mcp.EmbeddedResource:
		if c.Resource != nil && c.Resource.Text != "" {
			return c.Resource.Text, true
		}
		return "[an embedded resource that is not text]", true
	case *mcp.ImageContent:
		return "[an image, " + c.MIMEType + "]", true
	case *mcp.AudioContent:
		return "[audio, " + c.MIMEType + "]", true
	}
	return "", false
}

// causeOf returns the cause of ctx if ctx has ended, else err.
func causeOf(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// connectError adds the name of the server to an error.
func connectError(s *harness.MCPServer, err error) error {
	where := cmp.Or(origin(s), s.URL)
	if len(s.Command) > 0 {
		where = s.Command[0]
	}
	return fmt.Errorf("the MCP server %q (%s) is left out: %s", s.Name, where, redactError(s, err))
}

// origin returns the part of a server's URL that is not secret, or "".
func origin(s *harness.MCPServer) string {
	if u, err := url.Parse(s.URL); err == nil && u.Host != "" {
		return u.Scheme + "://" + u.Host
	}
	return ""
}

// redactError returns the text of an error without the server's secrets: its headers, its
// environment, and everything in its URL but the host.
func redactError(s *harness.MCPServer, err error) string {
	message := err.Error()
	if where := origin(s); where != "" {
		message = strings.ReplaceAll(message, s.URL, where)
	}
	var secrets []string
	for _, values := range []map[string]string{s.Headers, s.Env} {
		for _, v := range values {
			secrets = append(secrets, v, strings.TrimPrefix(v, "Bearer "))
		}
	}
	return harness.Redact(message, secrets...)
}
