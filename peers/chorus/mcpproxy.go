package chorus

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"hubbub/peers/bridge"
	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/protocol"

	lru "github.com/hashicorp/golang-lru/v2"
)

// proxyPath is where our agents find the tools of a Chorus service; the inbox and the channel
// follow.
const proxyPath = "/tools/"

// proxyURL is the "mcp" address in a chat_message: the gateway's own, which adds the service's
// headers.
func (g *Gateway) proxyURL(channel protocol.PeerID) string {
	inbox, id, _ := strings.Cut(channel.Name(), ".")
	return g.opts.ProxyURL + proxyPath + inbox + "/" + pathSegment(id)
}

// Limits on a call through the proxy.
const (
	maxProxied      = 8 << 20 // of one answer that is not a stream, in bytes
	maxStreamed     = 64 << 20
	proxyTimeout    = 2 * time.Minute
	proxyMaxStream  = time.Hour
	proxyHeaderWait = time.Minute
)

// A toolProxy offers the MCP servers of services to our agents.
type toolProxy struct {
	g        *Gateway
	tokens   *tokenChecker
	combiner *mcpCombiner
}

func newToolProxy(g *Gateway) *toolProxy {
	return &toolProxy{
		g:        g,
		tokens:   newTokenChecker(g.opts.Peer.Buses, g.opts.Now),
		combiner: &mcpCombiner{g: g, servers: map[protocol.PeerID]*combinedServer{}},
	}
}

// serve forwards a call to the MCP servers of a service. An agent authenticates with its bus
// token, or with a token derived from it for this address. It may use the tools of channels to
// which it is assigned.
func (p *toolProxy) serve(w http.ResponseWriter, r *http.Request) error {
	if err := p.g.checkHostAndOrigin(r); err != nil {
		return err
	}
	channel := protocol.PeerID(
		"chorus:" + r.PathValue("inbox") + "." + strings.ReplaceAll(r.PathValue("channel"), ".", "%"),
	)
	servers, err := p.authorize(r, channel)
	if err != nil {
		return err
	}
	leave, err := p.g.limiters.proxied.acquire(r.Context(), string(channel), false)
	if err != nil {
		return err
	}
	defer leave()
	if len(servers) == 1 && servers[0].Name == "" {
		return p.forward(w, r, servers[0])
	}
	return p.combiner.serve(w, r, channel, servers)
}

var (
	errNotAssigned = newHTTPError(http.StatusUnauthorized,
		"send the bus token of an agent that is assigned to this channel")
	errNoTools = newHTTPError(http.StatusNotFound, "this channel has no tools")
)

// authorize returns the servers of a channel if the caller is an agent of the channel.
// Channels that do not exist look like those of others.
func (p *toolProxy) authorize(r *http.Request, channel protocol.PeerID) ([]MCPServer, error) {
	ctx := r.Context()
	servers, err := p.g.store.mcpServersOf(ctx, channel)
	if err != nil {
		return nil, err
	}
	agents, err := store.Read(
		ctx,
		p.g.store.db,
		func(tx *store.Tx) []bridge.Assignment { return p.g.router.Agents(tx, channel) },
	)
	if err != nil {
		return nil, err
	}
	for _, a := range agents {
		may, err := p.tokens.allows(ctx, r.Header.Get("Authorization"), p.g.proxyURL(channel), a.Agent)
		switch {
		case err != nil:
			return nil, err
		case may && len(servers) == 0:
			return nil, errNoTools
		case may:
			return servers, nil
		}
	}
	return nil, errNotAssigned
}

// requestHeaders are the headers of the agent's MCP client that reach the service, and
// responseHeaders those of the service that come back.
var (
	requestHeaders = []string{
		"Accept",
		"Content-Type",
		"Last-Event-Id",
		"Mcp-Protocol-Version",
		"Mcp-Session-Id",
		"Mcp-Method",
		"Mcp-Name",
	}
	responseHeaders = []string{
		"Cache-Control",
		"Content-Type",
		"Mcp-Protocol-Version",
		"Mcp-Session-Id",
		"Retry-After",
		"Allow",
		"Www-Authenticate",
	}
)

// forward forwards one MCP request with the service's headers, exactly as they came with its latest
// message.
func (p *toolProxy) forward(w http.ResponseWriter, r *http.Request, server MCPServer) error {
	switch r.Method {
	case http.MethodGet, http.MethodPost, http.MethodDelete:
	default:
		return newHTTPError(http.StatusMethodNotAllowed, "MCP uses GET, POST and DELETE")
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
		return newHTTPError(http.StatusBadGateway, "the address of the service's tools cannot be used")
	}
	copyHeaders(req.Header, r.Header, requestHeaders)
	req.Header.Set("User-Agent", userAgent)
	setHeaders(req.Header, server.Headers)
	resp, err := p.g.egress.tools.Do(req)
	if err != nil {
		return newHTTPError(http.StatusBadGateway, "the service's tools could not be reached: "+withoutURL(err).Error())
	}
	defer resp.Body.Close()
	stream := strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream")
	limit := int64(maxProxied)
	if stream {
		deadline.Reset(proxyMaxStream)
		limit = maxStreamed
	}
	copyHeaders(w.Header(), resp.Header, responseHeaders)
	if resp.StatusCode == http.StatusUnauthorized && w.Header().Get("WWW-Authenticate") == "" {
		w.Header().Set("WWW-Authenticate", "Bearer") // a 401 must say what is required
	}
	w.WriteHeader(resp.StatusCode)
	copyFlushing(w, io.LimitReader(resp.Body, limit))
	return nil
}

func copyHeaders(to, from http.Header, names []string) {
	for _, name := range names {
		if values := from.Values(name); len(values) > 0 {
			to[name] = values
		}
	}
}

// setHeaders sets a service's headers on a request, with unchanged spelling.
func setHeaders(h http.Header, headers map[string]string) {
	for name, value := range headers {
		h.Del(name)
		h[name] = []string{value}
	}
}

// copyFlushing forwards a body as it arrives.
func copyFlushing(w http.ResponseWriter, body io.Reader) {
	control := http.NewResponseController(w)
	buf := make([]byte, 32<<10)
	for {
		n, err := body.Read(buf)
		if n > 0 {
			_ = control.SetWriteDeadline(time.Now().Add(writeTimeout)) // disconnects an agent that does not read
			if _, err := w.Write(buf[:n]); err != nil {
				return
			}
			_ = control.Flush() // a writer that cannot flush forwards everything at the end
		}
		if err != nil {
			return
		}
	}
}

// newToolsClient makes the client for the services' MCP servers. It follows no redirect to
// another host, for which the headers were not meant.
func newToolsClient(transport http.RoundTripper) *http.Client {
	return &http.Client{
		Transport: transport,
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if req.URL.Host != via[0].URL.Host {
				return errRedirect
			}
			return checkRedirect(req, via)
		},
	}
}

// A tokenChecker asks the bus for the owner of a bearer token. It caches answers for less than a
// second, within which a revoked token must become invalid.
type tokenChecker struct {
	buses []string
	now   func() time.Time

	cache *lru.Cache[string, cachedToken] // keyed by the hash of the Authorization header and the address
}

type cachedToken struct {
	patterns []string
	until    time.Time
}

const (
	tokenCacheTTL   = 500 * time.Millisecond
	maxCachedTokens = 1024
	whoamiTimeout   = 5 * time.Second
)

var errBusUnreachable = newHTTPError(http.StatusServiceUnavailable, "the bus cannot identify this token now; try again")

func newTokenChecker(buses []string, now func() time.Time) *tokenChecker {
	return &tokenChecker{buses: buses, now: now, cache: newCache[string, cachedToken](maxCachedTokens)}
}

// allows reports whether an Authorization header, used at an address, permits acting as id on the
// bus.
func (b *tokenChecker) allows(ctx context.Context, authorization, address string, id protocol.PeerID) (bool, error) {
	patterns, err := b.patterns(ctx, authorization, address)
	return slices.ContainsFunc(patterns, func(text string) bool {
		p, err := protocol.ParsePattern(text)
		return err == nil && p.Matches(protocol.Topic(id))
	}), err
}

func (b *tokenChecker) patterns(ctx context.Context, authorization, address string) ([]string, error) {
	key := hashSecret(authorization + "\n" + address)
	if kept, found := b.cache.Get(key); found && b.now().Before(kept.until) {
		return kept.patterns, nil
	}
	for _, bus := range b.buses {
		patterns, ok := whoami(ctx, bus, authorization, address)
		if !ok {
			continue
		}
		b.cache.Add(key, cachedToken{patterns, b.now().Add(tokenCacheTTL)})
		return patterns, nil
	}
	return nil, errBusUnreachable
}

// whoami returns the identities of a token, or of a token derived for an address. It returns none
// if the bus does not know the token, and ok is false if the bus does not answer.
func whoami(ctx context.Context, bus, authorization, address string) (identities []string, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, whoamiTimeout)
	defer cancel()
	call := peer.HTTPCall{
		Bus:           bus,
		Method:        http.MethodGet,
		Path:          "whoami",
		Query:         url.Values{"for": {address}},
		Authorization: authorization,
		Limit:         1 << 20,
	}
	status, body, err := call.Do(ctx)
	if err == nil && (status == http.StatusUnauthorized || status == http.StatusForbidden) {
		return nil, true
	}
	var answer struct {
		Identities []string `json:"identities"`
	}
	ok = err == nil && status == http.StatusOK && json.Unmarshal(body, &answer) == nil
	return answer.Identities, ok
}
