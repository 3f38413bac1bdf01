package chorus

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"hubbub/protocol"
)

// proxyPath is where our agents find the tools of a Chorus service; the inbox and
// the channel follow it.
const proxyPath = "/tools/"

// proxyURL is what a chat_message carries as "mcp": the gateway's own address,
// which adds the service's headers.
func (g *Gateway) proxyURL(channel protocol.PeerID) string {
	inbox, id, _ := strings.Cut(channel.Name(), ".")
	return g.opts.ProxyURL + proxyPath + inbox + "/" + pathSegment(id)
}

// Limits on a call through the proxy.
const (
	maxProxied      = 8 << 20 // bytes of one answer that is not a stream
	maxStreamed     = 64 << 20
	proxyTimeout    = 2 * time.Minute
	proxyMaxStream  = time.Hour
	proxyHeaderWait = time.Minute
)

// newProxyHandler makes the proxy to the services' MCP servers. An agent shows
// its bus token; what it may reach are the tools of channels that it is
// assigned to.
func (g *Gateway) newProxyHandler() http.Handler {
	return g.localOnly(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		channel := protocol.PeerID("chorus:" + r.PathValue("inbox") + "." + strings.ReplaceAll(r.PathValue("channel"), ".", "%"))
		servers, err := g.mayUseTools(r, channel)
		if err != nil {
			g.logCall(err, "proxy")
			writeRefusal(w, err)
			return
		}
		leave, ok := g.proxied.enter(proxyPath + string(channel))
		if !ok {
			writeRefusal(w, errBusy)
			return
		}
		defer leave()
		if len(servers) == 1 && servers[0].Name == "" {
			if err := g.proxy(w, r, servers[0]); err != nil {
				g.logCall(err, "proxy")
				writeRefusal(w, err)
			}
			return
		}
		g.serveCombined(w, r, channel, servers)
	}))
}

var (
	errStranger = refuse(http.StatusUnauthorized, "show the bus token of the agent that this channel is assigned to")
	errNoTools  = refuse(http.StatusNotFound, "this channel has no tools")
)

// mayUseTools returns the servers of a channel if the caller is the agent that
// talks to it. Channels that do not exist look like those of others.
func (g *Gateway) mayUseTools(r *http.Request, channel protocol.PeerID) ([]MCPServer, error) {
	ctx := r.Context()
	servers, err := g.store.toolsOf(ctx, channel)
	if err != nil {
		return nil, err
	}
	agents, err := g.surface.Agents(ctx, g.store.db, channel)
	if err != nil {
		return nil, err
	}
	for _, a := range agents {
		may, err := g.who.mayBe(ctx, r.Header.Get("Authorization"), a.Agent)
		switch {
		case err != nil:
			return nil, err
		case may && len(servers) == 0:
			return nil, errNoTools
		case may:
			return servers, nil
		}
	}
	return nil, errStranger
}

// passedOn are the headers of the agent's MCP client that reach the service,
// and those of the service that come back.
var (
	passedOn = []string{"Accept", "Content-Type", "Last-Event-Id", "Mcp-Protocol-Version", "Mcp-Session-Id", "Mcp-Method", "Mcp-Name"}
	comeBack = []string{"Cache-Control", "Content-Type", "Mcp-Protocol-Version", "Mcp-Session-Id", "Retry-After", "Allow"}
)

// proxy passes one MCP request on, with the service's headers exactly as they
// came with its latest message.
func (g *Gateway) proxy(w http.ResponseWriter, r *http.Request, server MCPServer) error {
	switch r.Method {
	case http.MethodGet, http.MethodPost, http.MethodDelete:
	default:
		return refuse(http.StatusMethodNotAllowed, "MCP uses GET, POST and DELETE")
	}
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	deadline := time.AfterFunc(proxyTimeout, cancel)
	defer deadline.Stop()
	req, err := http.NewRequestWithContext(ctx, r.Method, server.URL, bytes.NewReader(body))
	if err != nil {
		return refuse(http.StatusBadGateway, "the service's tools have an address that cannot be used")
	}
	for _, name := range passedOn {
		if values := r.Header.Values(name); len(values) > 0 {
			req.Header[name] = values
		}
	}
	req.Header.Set("User-Agent", userAgent)
	setHeaders(req.Header, server.Headers)
	resp, err := g.tools.Do(req)
	if err != nil {
		return refuse(http.StatusBadGateway, "the service's tools could not be reached: "+withoutURL(err).Error())
	}
	defer resp.Body.Close()
	stream := strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream")
	limit := int64(maxProxied)
	if stream {
		deadline.Reset(proxyMaxStream)
		limit = maxStreamed
	}
	for _, name := range comeBack {
		if values := resp.Header.Values(name); len(values) > 0 {
			w.Header()[name] = values
		}
	}
	w.WriteHeader(resp.StatusCode)
	copyFlushing(w, io.LimitReader(resp.Body, limit))
	return nil
}

// setHeaders puts a service's headers on a request, spelled as they came.
func setHeaders(h http.Header, headers map[string]string) {
	for name, value := range headers {
		h.Del(name)
		h[name] = []string{value}
	}
}

// copyFlushing passes a body on as it arrives.
func copyFlushing(w http.ResponseWriter, body io.Reader) {
	control := http.NewResponseController(w)
	buf := make([]byte, 32<<10)
	for {
		n, err := body.Read(buf)
		if n > 0 {
			_ = control.SetWriteDeadline(time.Now().Add(writeTimeout)) // an agent that reads nothing is let go
			if _, err := w.Write(buf[:n]); err != nil {
				return
			}
			_ = control.Flush() // a writer that cannot flush passes it on at the end
		}
		if err != nil {
			return
		}
	}
}

// newToolsClient makes the client of the services' MCP servers. A redirect to
// another host is not followed: the headers were given for this one.
func newToolsClient(transport http.RoundTripper) *http.Client {
	return &http.Client{
		Transport: transport,
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if req.URL.Host != via[0].URL.Host {
				return errRedirect
			}
			return keepMethod(req, via)
		},
	}
}
