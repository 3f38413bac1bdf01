package chorus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"hubbub/peers/netguard"
	"hubbub/protocol"
	"hubbub/protocol/retry"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Limits on combined servers.
const (
	maxCombined    = 64               // connected channels with a list of servers
	combinedIdle   = 10 * time.Minute // until an unused connection is closed
	connectTimeout = 10 * time.Second // to one server, including the list of tools
	retryFailed    = 30 * time.Second // until a failed server is tried again
	maxTools       = 256              // of one server
)

// An mcpCombiner offers the tools of several MCP servers as one server, for channels whose
// service gave a list. Tools are called name__tool. A failed server is left out and tried again
// later.
type mcpCombiner struct {
	g *Gateway

	mu      sync.Mutex
	servers map[protocol.PeerID]*combinedServer
}

// A combinedServer holds the connected servers of one channel. mcpCombiner.mu guards usedAt and
// failed. server and sessions are set once connect has returned.
type combinedServer struct {
	key            string // of its configuration
	madeAt, usedAt time.Time
	failed         bool
	connect        func() // connects once
	server         *mcp.Server
	sessions       []*mcp.ClientSession
}

// serve answers one MCP request for a channel with a list of servers.
func (c *mcpCombiner) serve(
	w http.ResponseWriter,
	r *http.Request,
	channel protocol.PeerID,
	servers []MCPServer,
) error {
	m, err := c.get(channel, servers)
	if err != nil {
		return err
	}
	m.connect()
	mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return m.server }, &mcp.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, MaxRequestBodyBytes: maxBody, DisableLocalhostProtection: true,
	}).ServeHTTP(w, r)
	return nil
}

// get returns the combined server of a configuration. A server of another configuration, or a
// failed one, is closed when the new one connects.
func (c *mcpCombiner) get(channel protocol.PeerID, servers []MCPServer) (*combinedServer, error) {
	raw, err := json.Marshal(servers)
	if err != nil {
		return nil, fmt.Errorf("encoding a configuration: %w", err)
	}
	key, now := hashSecret(string(raw)), c.g.store.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.servers[channel]
	if before != nil && before.key == key && !(before.failed && now.Sub(before.madeAt) > retryFailed) {
		before.usedAt = now
		return before, nil
	}
	if before == nil && len(c.servers) >= maxCombined {
		return nil, errBusy
	}
	m := &combinedServer{key: key, madeAt: now, usedAt: now}
	m.connect = sync.OnceFunc(func() {
		if before != nil {
			before.close()
		}
		c.connect(m, servers)
	})
	c.servers[channel] = m
	return m, nil
}

// connect connects to all servers concurrently and lists their tools.
func (c *mcpCombiner) connect(m *combinedServer, servers []MCPServer) {
	m.server = mcp.NewServer(&mcp.Implementation{Name: "hubbub-chorus", Version: c.g.opts.Version}, &mcp.ServerOptions{
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
	})
	var wg sync.WaitGroup
	for _, s := range servers {
		wg.Go(func() {
			session, tools, err := connectTools(c.g, s)
			c.mu.Lock()
			defer c.mu.Unlock()
			if err != nil {
				m.failed = true
				c.g.opts.Log.Warn().
					Str("server", s.Name).
					Str("host", netguard.HostForLog(s.URL)).
					Err(withoutURL(err)).
					Msg("MCP server of a service unusable")
				return
			}
			m.sessions = append(m.sessions, session)
			for _, t := range tools {
				m.addTool(s.Name, session, t)
			}
		})
	}
	wg.Wait()
}

func connectTools(g *Gateway, s MCPServer) (*mcp.ClientSession, []*mcp.Tool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
	defer cancel()
	client := mcp.NewClient(&mcp.Implementation{Name: "hubbub-chorus", Version: g.opts.Version}, nil)
	httpClient := *g.egress.tools
	httpClient.Transport = withHeaders{httpClient.Transport, s.Headers}
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: s.URL, HTTPClient: &httpClient, DisableStandaloneSSE: true, MaxEventSize: maxProxied,
	}, nil)
	if err != nil {
		return nil, nil, err
	}
	var tools []*mcp.Tool
	for t, err := range session.Tools(ctx, nil) {
		if err == nil && len(tools) >= maxTools {
			err = errors.New("it has too many tools")
		}
		if err != nil {
			_ = session.Close()
			return nil, nil, err
		}
		tools = append(tools, t)
	}
	return session, tools, nil
}

// toolSeparator separates the name of a server from that of its tool.
const toolSeparator = "__"

// addTool offers one tool of a server under its combined name.
func (m *combinedServer) addTool(server string, session *mcp.ClientSession, t *mcp.Tool) {
	offered := *t
	offered.Name = server + toolSeparator + t.Name
	if offered.InputSchema == nil {
		offered.InputSchema = json.RawMessage(`{"type":"object"}`)
	}
	offered.OutputSchema = nil // results are passed on unchanged
	m.server.AddTool(&offered, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		ctx, cancel := context.WithTimeout(ctx, proxyTimeout)
		defer cancel()
		result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: t.Name, Arguments: req.Params.Arguments})
		if err != nil {
			return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{
				Text: "the tool's server failed: " + withoutURL(err).Error()}}}, nil
		}
		return result, nil
	})
}

// close waits for the connections and closes them.
func (m *combinedServer) close() {
	m.connect()
	for _, s := range m.sessions {
		_ = s.Close()
	}
}

// run closes idle connections, and all connections when ctx ends.
func (c *mcpCombiner) run(ctx context.Context) error {
	for retry.Sleep(ctx, time.Minute) {
		c.closeIdle(combinedIdle)
	}
	c.closeIdle(0)
	return nil
}

func (c *mcpCombiner) closeIdle(idle time.Duration) {
	now := c.g.store.now()
	var old []*combinedServer
	c.mu.Lock()
	for channel, m := range c.servers {
		if now.Sub(m.usedAt) >= idle {
			delete(c.servers, channel)
			old = append(old, m)
		}
	}
	c.mu.Unlock()
	for _, m := range old {
		m.close()
	}
}

// withHeaders adds a service's headers to every request.
type withHeaders struct {
	next    http.RoundTripper
	headers map[string]string
}

// RoundTrip sends a copy of the request with the headers.
func (t withHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	setHeaders(r.Header, t.headers)
	return t.next.RoundTrip(r)
}
