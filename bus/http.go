package bus

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"runtime"
	"slices"
	"strings"

	"hubbub/bus/grant"
	"hubbub/bus/report"
	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"
	"hubbub/protocol/wire"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/rs/zerolog"
)

// An httpAPI answers the HTTP requests of a bus.
type httpAPI struct{ srv *Server }

// Handler returns the HTTP handler of the bus. It serves the upgrade on /, health,
// readiness, metrics, the list of peers, credentials, and the console.
func (srv *Server) Handler() http.Handler {
	api := httpAPI{srv}
	metrics := promhttp.HandlerFor(srv.registry(), promhttp.HandlerOpts{})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", api.health)
	mux.HandleFunc("GET /readyz", api.readiness)
	mux.HandleFunc("GET /metrics", api.authenticated(func(w http.ResponseWriter, r *http.Request, _ *grant.Credential) {
		metrics.ServeHTTP(w, r)
	}))
	mux.HandleFunc("GET /peers", api.authenticated(api.listPeers))
	mux.HandleFunc("GET /whoami", api.whoami)
	mux.HandleFunc("POST /credentials", api.authenticated(api.issue))
	mux.HandleFunc("DELETE /credentials/{name}", api.authenticated(api.revoke))
	if srv.options.Console != nil {
		mux.Handle("/console/", srv.options.Console)
		mux.HandleFunc("GET /console", func(w http.ResponseWriter, _ *http.Request) { redirect(w, "console/") })
	}
	mux.HandleFunc("GET /{$}", api.root)
	return api.guard(mux)
}

// root upgrades the request to a session, or redirects a browser to the console.
func (api httpAPI) root(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.EqualFold(r.Header.Get("Upgrade"), "websocket"):
	case r.Header.Get("Sec-WebSocket-Key") != "":
		w.Header().Set("Upgrade", "websocket")
		w.Header().Set("Connection", "Upgrade")
		refuseHTTP(w, http.StatusUpgradeRequired, "the upgrade was lost on the way to the bus: "+
			"the proxy in between must pass the headers Upgrade and Connection")
		return
	default:
		redirect(w, "console/")
		return
	}
	credential, err := api.authenticate(r)
	if err != nil {
		refuseHTTP(w, http.StatusUnauthorized, err.Error())
		return
	}
	stream, err := wire.Accept(w, r, bearerSubprotocol(r), api.srv.wire())
	if err != nil {
		return // Accept has answered
	}
	api.srv.start(stream, r.RemoteAddr, credential) // returns at once, so that the HTTP server frees its buffers
}

// redirect sends a browser to a relative path. http.Redirect would make it absolute, and lose a
// prefix that a proxy has removed.
func redirect(w http.ResponseWriter, path string) {
	w.Header().Set("Location", path)
	w.WriteHeader(http.StatusFound)
}

// upgrades bounds the upgrades that run at once. When thousands of peers connect together,
// connected peers must not wait for all of them.
var upgrades = make(chan struct{}, runtime.GOMAXPROCS(0))

// httpErrors writes the HTTP server's messages, such as failed TLS handshakes, to the
// program's log.
type httpErrors struct{ log *zerolog.Logger }

func (h httpErrors) Write(line []byte) (int, error) {
	h.log.Info().Msg(strings.TrimSpace(string(line)))
	return len(line), nil
}

func (api httpAPI) health(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// readiness reports whether the bus accepts messages. It shows a failing activity log, but that
// makes the bus unready only if the log is required.
func (api httpAPI) readiness(w http.ResponseWriter, _ *http.Request) {
	state := map[string]any{"status": "ready", "bus": api.srv.options.Name}
	if api.srv.log != nil {
		s := api.srv.log.Stats()
		log := map[string]any{"queuedRows": s.QueuedRows, "lost": s.Lost, "stalled": s.Stalled}
		if s.Failing {
			log["error"] = s.LastError
		}
		state["activityLog"] = log
	}
	if api.srv.options.Cluster != nil {
		state["cluster"] = api.srv.options.Cluster.Status()
	}
	if err := api.srv.acceptsMessages(); err != nil {
		state["status"], state["reason"] = "unready", err.Error()
		writeJSON(w, http.StatusServiceUnavailable, state)
		return
	}
	writeJSON(w, http.StatusOK, state)
}

// Peers lists the connected peers, sorted by clientId.
func (srv *Server) Peers() []report.Peer {
	list := []report.Peer{}
	for _, s := range srv.sessions.all() {
		if s.lifecycle.ready.Load() {
			list = append(list, s.info())
		}
	}
	slices.SortFunc(list, func(a, b report.Peer) int { return strings.Compare(a.ID, b.ID) })
	return list
}

func (s *session) info() report.Peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	info := report.Peer{
		ID:            string(s.id),
		Role:          string(protocol.RoleOf(s.id)),
		Remote:        s.conn.remote,
		ConnectedAt:   protocol.FormatTime(s.conn.opened),
		Unanswered:    s.window.unanswered,
		Queued:        len(s.window.queue),
		Buffered:      s.stream.Buffered(),
		Subscriptions: []report.Subscription{},
	}
	for p, observe := range s.patterns {
		info.Subscriptions = append(info.Subscriptions, report.Subscription{Pattern: string(p), Observe: observe})
	}
	slices.SortFunc(info.Subscriptions, func(a, b report.Subscription) int {
		return strings.Compare(a.Pattern, b.Pattern)
	})
	return info
}

// listPeers lists the peers that the credential may see.
func (api httpAPI) listPeers(w http.ResponseWriter, _ *http.Request, c *grant.Credential) {
	list := api.srv.Peers()
	if c != nil {
		list = slices.DeleteFunc(list, func(p report.Peer) bool { return !c.MaySee(protocol.PeerID(p.ID)) })
	}
	writeJSON(w, http.StatusOK, list)
}

// whoami returns what the token of a request grants. For a derived token, it returns what the
// original token grants, if the request names the address that the token was derived for.
func (api httpAPI) whoami(w http.ResponseWriter, r *http.Request) {
	c, err := api.authenticate(r)
	if holder, ok := derivedCredential(api.srv.options.Credentials, r); ok && errors.Is(err, errWrongToken) {
		c, err = holder, nil
	}
	if err != nil {
		refuseHTTP(w, http.StatusUnauthorized, err.Error())
		return
	}
	if c == nil {
		all := []string{"*"}
		writeJSON(w, http.StatusOK, map[string]any{
			"open": true, "name": "", "identities": all, "subscribe": all, "publish": all, "names": all,
		})
		return
	}
	writeJSON(w, http.StatusOK, c)
}

// maxCredentialBody bounds the request of POST /credentials, in bytes.
const maxCredentialBody = 64 << 10

// credentialMembers are the members of the request of POST /credentials.
var credentialMembers = func() (names []string) {
	for _, field := range reflect.VisibleFields(reflect.TypeFor[grant.Credential]()) {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" && name != "-" {
			names = append(names, name)
		}
	}
	return names
}()

// readCredential reads the request of POST /credentials as strictly as the bus reads frames. It
// refuses repeated members and members that differ only by case, which readers could interpret
// differently.
func readCredential(r io.Reader) (c grant.Credential, err error) {
	body, err := io.ReadAll(r)
	if err != nil {
		return c, err
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&c); err != nil {
		return c, err
	}
	if decoder.More() {
		return c, errors.New("there is more after the object")
	}
	var p jsonrpc.Parser
	m, err := p.Parse(slices.Concat([]byte(`{"jsonrpc":"2.0","method":"issue","params":`), body, []byte("}")))
	if err != nil {
		return c, err
	}
	return c, p.Object(m.Params, credentialMembers, make([][]byte, len(credentialMembers)))
}

// issue creates a credential within what the caller may issue.
func (api httpAPI) issue(w http.ResponseWriter, r *http.Request, c *grant.Credential) {
	if c == nil {
		refuseHTTP(w, http.StatusForbidden, "this bus has no credentials; create the first with: hubbub token create")
		return
	}
	child, err := readCredential(io.LimitReader(r.Body, maxCredentialBody))
	if err != nil {
		refuseHTTP(w, http.StatusBadRequest, `the body must be {"name","identities","subscribe","publish"}: `+
			err.Error())
		return
	}
	if err := c.MayIssue(&child); err != nil {
		refuseHTTP(w, http.StatusForbidden, err.Error())
		return
	}
	usual := api.srv.options.CredentialLimits
	child.Limits = child.Limits.CappedAt(c.Limits.WithDefaults(usual), usual)
	token, err := api.srv.options.Credentials.Issue(c, child)
	switch {
	case errors.Is(err, grant.ErrRevoked): // revoked while the change was waiting
		refuseHTTP(w, http.StatusUnauthorized, errWrongToken.Error())
	case errors.Is(err, grant.ErrFull):
		refuseHTTP(w, http.StatusTooManyRequests, err.Error())
	case errors.Is(err, grant.ErrExists):
		refuseHTTP(w, http.StatusConflict, err.Error())
	case err != nil:
		refuseHTTP(w, http.StatusBadRequest, err.Error())
	default:
		api.srv.options.Log.Info().Str("credential", child.Name).Str("issuer", c.Name).Msg("credential issued")
		writeJSON(w, http.StatusCreated, map[string]string{"name": child.Name, "token": token})
	}
}

// revoke removes a credential that the caller could have issued, and all credentials that it has
// issued.
func (api httpAPI) revoke(w http.ResponseWriter, r *http.Request, c *grant.Credential) {
	if c == nil {
		refuseHTTP(w, http.StatusForbidden, "this bus has no credentials")
		return
	}
	name := r.PathValue("name")
	names, err := api.srv.options.Credentials.Revoke(name, c.MayIssue)
	switch {
	case errors.Is(err, grant.ErrUnknown):
		refuseHTTP(w, http.StatusNotFound, err.Error())
	case err != nil:
		refuseHTTP(w, http.StatusForbidden, err.Error())
	default:
		api.srv.options.Log.Info().Strs("credentials", names).Str("by", c.Name).Msg("credentials revoked")
		w.WriteHeader(http.StatusNoContent)
	}
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v) //nolint:errcheck // the client went away
}

func refuseHTTP(w http.ResponseWriter, status int, reason string) {
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="hubbub"`)
	}
	writeJSON(w, status, map[string]string{"error": reason})
}
