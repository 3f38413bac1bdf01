package chorus

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"hubbub/peers/netguard"
	"hubbub/peers/outbox"

	"github.com/a2aproject/a2a-go/v2/a2asrv"
)

// An httpError is a response that is not 200: a status and a sentence. It contains nothing that
// the caller did not send or may not know.
type httpError struct {
	status int
	text   string
}

func (e *httpError) Error() string { return e.text }

func newHTTPError(status int, text string) *httpError { return &httpError{status, text} }

// Errors shared by several endpoints.
var (
	errTooLarge      = newHTTPError(http.StatusRequestEntityTooLarge, "the body is larger than 1 MiB")
	errFrameTooLarge = newHTTPError(http.StatusRequestEntityTooLarge,
		"the message does not fit into a frame of the bus")
	errUnknownSecret = newHTTPError(http.StatusNotFound, "not found")
	errInternal      = newHTTPError(http.StatusInternalServerError, "the gateway could not store this; try again")
	errBusy          = newHTTPError(http.StatusServiceUnavailable, "too many concurrent calls; try again")
	errHost          = newHTTPError(http.StatusForbidden, "this Host is not a host of the gateway")
	errOrigin        = newHTTPError(http.StatusForbidden, "pages of other origins must not call this")
)

// routes returns the handler for everything that the listener serves.
func (g *Gateway) routes() http.Handler {
	mux := http.NewServeMux()
	for _, route := range []struct {
		pattern, step string
		serve         func(http.ResponseWriter, *http.Request) error
	}{
		{inboxPath + "{secret}", "inbox", g.serveInbox},
		{hookPath + "{name}", "hook", g.webhooks.serve},
		{callbackPath + "{secret}", "callback", g.serveCallback},
		{toolsPath + "{agent}/{channel}", "tools", g.serveTools},
		{a2aPath, "a2a", g.serveA2A},
		{restPath + "/", restStep, g.serveA2ARest},
		{"GET " + a2asrv.WellKnownAgentCardPath, "card", g.serveCard},
		{proxyPath + "{inbox}/{channel}", "proxy", g.proxy.serve},
		{"GET /healthz", "health", func(w http.ResponseWriter, _ *http.Request) error { return writeOK(w) }},
		{"/", "nowhere", func(http.ResponseWriter, *http.Request) error { return errUnknownSecret }},
	} {
		mux.HandleFunc(route.pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := route.serve(w, r); err != nil {
				g.writeError(w, err, route.step)
			}
		})
	}
	return limitBodyTime(mux)
}

// readBody reads the body of a POST, at most maxBody bytes. Its errors are HTTP errors.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > maxBody {
		return nil, errTooLarge
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	switch _, tooLarge := errors.AsType[*http.MaxBytesError](err); {
	case tooLarge:
		return nil, errTooLarge
	case err != nil:
		return nil, newHTTPError(http.StatusBadRequest, "the body could not be read")
	}
	return body, nil
}

// writeOK answers 200 with an empty object.
func writeOK(w http.ResponseWriter) error {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, "{}\n")
	return nil
}

// asHTTPError logs an error and returns its response. Any error but an httpError is internal, and
// its text is only logged.
func (g *Gateway) asHTTPError(err error, step string) *httpError {
	if r, refused := errors.AsType[*httpError](err); refused {
		g.opts.Log.Debug().Str("step", step).Int("status", r.status).Str("error", r.text).Msg("call refused")
		return r
	}
	g.opts.Log.Error().Str("step", step).Err(err).Msg("call failed")
	if errors.Is(err, outbox.ErrFull) {
		return errBusy
	}
	return errInternal
}

// writeError answers with the status and the text of an error. It never logs the URL.
func (g *Gateway) writeError(w http.ResponseWriter, err error, step string) {
	r := g.asHTTPError(err, step)
	writeStatus(w, r.status)
	body := map[string]any{"error": r.text}
	if step == restStep {
		body["error"] = map[string]any{"code": r.status, "status": restStatus[r.status], "message": r.text}
	}
	_ = json.NewEncoder(w).Encode(body)
}

// writeStatus writes the status and the headers of an answer in JSON.
func writeStatus(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	switch status {
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", http.MethodPost)
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	w.WriteHeader(status)
}

// checkHostAndOrigin refuses requests that another site's web page can make a browser send: those
// with a foreign Host (DNS rebinding) or Origin.
func (g *Gateway) checkHostAndOrigin(r *http.Request) error {
	if !g.isOwnHost(r.Host) {
		return errHost
	}
	origin := r.Header.Get("Origin")
	if u, err := url.Parse(origin); origin != "" &&
		(err != nil || u.Scheme != "http" && u.Scheme != "https" || !g.isOwnHost(u.Host)) {
		return errOrigin
	}
	return nil
}

// isOwnHost reports whether a Host header names this gateway: its public host, its listening
// address, or a loopback address.
func (g *Gateway) isOwnHost(host string) bool {
	for _, own := range []string{g.opts.PublicURL, g.opts.ProxyURL, "http://" + g.listener.Addr().String()} {
		if u, err := url.Parse(own); err == nil && u.Host != "" && strings.EqualFold(host, u.Host) {
			return true
		}
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return netguard.IsLoopback(host)
}
