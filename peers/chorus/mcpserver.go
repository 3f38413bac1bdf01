package chorus

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"
)

// toolsPath is the path prefix of the chat tools of external agents; the agent and the channel
// follow.
const toolsPath = "/mcp/"

// toolsURL returns the address of one channel's tools.
func (g *Gateway) toolsURL(agent AgentName, channel string) string {
	return g.opts.PublicURL + toolsPath + string(agent) + "/" + pathSegment(escapeName(channel))
}

// toolTimeout limits one call of a tool, including the wait for a claim.
const toolTimeout = 45 * time.Second

// serveTools serves the MCP endpoint. It keeps no sessions: the token of each request selects the
// chat whose tools answer.
func (g *Gateway) serveTools(w http.ResponseWriter, r *http.Request) error {
	if err := g.checkHostAndOrigin(r); err != nil {
		return err
	}
	d, err := g.authenticateTools(r)
	if err != nil {
		return err
	}
	leave, err := g.limiters.toolCalls.acquire(r.Context(), string(d.agent), false)
	if err != nil {
		return err
	}
	defer leave()
	agent := g.agents.lookup(d.agent)
	if agent == nil {
		return errAgentOffline
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(toolTimeout + writeTimeout))
	ctx, cancel := context.WithTimeout(r.Context(), toolTimeout)
	defer cancel()
	agent.Tools(d.chat, d.turn, d.revision).ServeHTTP(w, r.WithContext(ctx))
	return nil
}

var errToken = newHTTPError(
	http.StatusUnauthorized,
	"the token is missing, wrong or expired; use the one that came with the latest message",
)

// authenticateTools checks a request's bearer token against the agent and the channel in its
// path, and returns the delivery of the token.
func (g *Gateway) authenticateTools(r *http.Request) (*delivery, error) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return nil, errToken
	}
	d, err := g.store.deliveryBySecret(r.Context(), "token_sha256", strings.TrimSpace(token))
	switch {
	case err != nil && !errors.Is(err, errUnknownSecret):
		return nil, err
	case err != nil,
		!d.isLive(g.store.now()),
		r.PathValue("agent") != string(d.agent),
		r.PathValue("channel") != pathSegment(escapeName(d.channel)):
		return nil, errToken
	}
	return d, nil
}
