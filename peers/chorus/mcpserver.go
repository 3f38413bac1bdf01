package chorus

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// toolsPath begins the path of the chat tools of external agents. The agent and the
// channel follow it.
const toolsPath = "/mcp/"

// toolsURL is the address of one channel's tools.
func (g *Gateway) toolsURL(agent AgentName, channel string) string {
	return g.opts.PublicURL + toolsPath + string(agent) + "/" + pathSegment(escapeName(channel))
}

// toolTimeout bounds one call of a tool, the wait for a claim included.
const toolTimeout = 45 * time.Second

// newToolsHandler makes the MCP endpoint. It keeps no sessions: every request shows
// its token, and is answered by the tools of the chat that it opens.
func (g *Gateway) newToolsHandler() http.Handler {
	return g.localOnly(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := g.serveTools(w, r); err != nil {
			g.logCall(err, "tools")
			writeRefusal(w, err)
		}
	}))
}

func (g *Gateway) serveTools(w http.ResponseWriter, r *http.Request) error {
	d, err := g.opened(r)
	if err != nil {
		return err
	}
	leave, ok := g.toolCalls.enter(toolsPath + string(d.agent))
	if !ok {
		return errBusy
	}
	defer leave()
	agent := g.members.of(d.agent)
	if agent == nil {
		return errAway
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(toolTimeout + writeTimeout))
	ctx, cancel := context.WithTimeout(r.Context(), toolTimeout)
	defer cancel()
	agent.Tools(d.chat).ServeHTTP(w, r.WithContext(ctx))
	return nil
}

var errToken = refuse(http.StatusUnauthorized, "the token is missing, wrong or expired; use the one that came with the latest message")

// opened checks a request's bearer token against the agent and the channel of its
// path, and returns the delivery that it came with.
func (g *Gateway) opened(r *http.Request) (*liveDelivery, error) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return nil, errToken
	}
	d, err := g.store.deliveryWith(r.Context(), "token_sha256", strings.TrimSpace(token))
	if errors.Is(err, errNobody) {
		return nil, errToken
	}
	if err != nil {
		return nil, err
	}
	if !d.live(g.store.now()) || r.PathValue("agent") != string(d.agent) || r.PathValue("channel") != pathSegment(escapeName(d.channel)) {
		return nil, errToken
	}
	return d, nil
}

var (
	errHost   = refuse(http.StatusForbidden, "this Host is not one of the gateway's")
	errOrigin = refuse(http.StatusForbidden, "pages of other origins may not call this")
)

// localOnly refuses what a foreign web page can make a browser send: requests with a
// Host that is not the gateway's (DNS rebinding) and those of another Origin.
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
