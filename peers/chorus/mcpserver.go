package chorus

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// toolsPath is where external agents find the chat.* tools: agent and channel
// follow it.
const toolsPath = "/mcp/"

// toolsURL is the address of one channel's tools.
func (g *Gateway) toolsURL(agent AgentName, channel string) string {
	return g.opts.PublicURL + toolsPath + string(agent) + "/" + pathSegment(escapeName(channel))
}

type scopeKey struct{}

// newToolsHandler makes the MCP endpoint. It keeps no sessions: every request
// shows its token, and is answered for what that token opens.
func (g *Gateway) newToolsHandler() http.Handler {
	endpoint := mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {
		s, _ := r.Context().Value(scopeKey{}).(scope)
		return g.toolServer(s)
	}, &mcp.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, MaxRequestBodyBytes: maxBody,
		DisableLocalhostProtection: true, // localOnly checks the Host, and knows the public one
	})
	return g.localOnly(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s, err := g.scopeOf(r)
		if err != nil {
			g.logCall(err, "tools")
			writeRefusal(w, err)
			return
		}
		leave, ok := g.toolCalls.enter(toolsPath + string(s.agent))
		if !ok {
			writeRefusal(w, errBusy)
			return
		}
		defer leave()
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(toolTimeout + writeTimeout))
		endpoint.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), scopeKey{}, s)))
	}))
}

var errToken = refuse(http.StatusUnauthorized, "the token is missing, wrong or expired; use the one that came with the latest message")

// scopeOf checks a request's bearer token against the agent and the channel of
// its path.
func (g *Gateway) scopeOf(r *http.Request) (scope, error) {
	var s scope
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return s, errToken
	}
	var due int64
	var state string
	err := g.store.db.QueryRowContext(r.Context(), `SELECT agent, channel, state, due_at FROM turn WHERE token_sha256 = ?`, hashSecret(strings.TrimSpace(token))).
		Scan(&s.agent, &s.channel, &state, &due)
	if errors.Is(err, sql.ErrNoRows) {
		return s, errToken
	}
	if err != nil {
		return s, fmt.Errorf("looking for a token: %w", err)
	}
	if state == turnClosed || due <= micros(g.store.now()) ||
		r.PathValue("agent") != string(s.agent) || r.PathValue("channel") != pathSegment(escapeName(s.channel)) {
		return s, errToken
	}
	return s, nil
}

var (
	errHost   = refuse(http.StatusForbidden, "this Host is not one of the gateway's")
	errOrigin = refuse(http.StatusForbidden, "pages of other origins may not call this")
)

// localOnly refuses what a web page elsewhere may make a browser send: requests
// under a Host that is not the gateway's (DNS rebinding), and requests of
// another Origin.
func (g *Gateway) localOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.ownHost(r.Host) {
			writeRefusal(w, errHost)
			return
		}
		if origin := r.Header.Get("Origin"); origin != "" && !g.ownOrigin(origin) {
			writeRefusal(w, errOrigin)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// ownHost reports whether a Host header names this gateway: its public host, the
// address it listens on, or this machine.
func (g *Gateway) ownHost(host string) bool {
	for _, own := range g.hosts {
		if strings.EqualFold(host, own) {
			return true
		}
	}
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	return isLoopbackHost(name)
}

func (g *Gateway) ownOrigin(origin string) bool {
	u, err := url.Parse(origin)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && g.ownHost(u.Host)
}
