package chorus

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"hubbub/peers/netguard"
	"hubbub/peers/outbox"

	"github.com/a2aproject/a2a-go/v2/a2asrv"
)

// A refusal is an answer that is not 200: a status and a sentence for the
// caller. It holds nothing that the caller did not send or may not know.
type refusal struct {
	status int
	text   string
}

func (e *refusal) Error() string { return e.text }

func refuse(status int, text string) *refusal { return &refusal{status, text} }

// Refusals that are the same wherever they occur.
var (
	errTooLarge = refuse(http.StatusRequestEntityTooLarge, "the body is larger than 1 MiB")
	errTooLong  = refuse(http.StatusRequestEntityTooLarge, "the message is larger than a frame of the bus")
	errNobody   = refuse(http.StatusNotFound, "not found")
	errFailed   = refuse(http.StatusInternalServerError, "the gateway could not store this; try again")
	errBusy     = refuse(http.StatusServiceUnavailable, "too many calls at once; try again")
	errHost     = refuse(http.StatusForbidden, "this Host is not one of the gateway's")
	errOrigin   = refuse(http.StatusForbidden, "pages of other origins may not call this")
)

// routes returns the handler of everything that the listener serves.
func (g *Gateway) routes() http.Handler {
	mux := http.NewServeMux()
	for _, route := range []struct {
		pattern, step string
		serve         func(http.ResponseWriter, *http.Request) error
	}{
		{inboxPath + "{secret}", "inbox", g.serveInbox},
		{hookPath + "{name}", "hook", g.serveHook},
		{callbackPath + "{secret}", "callback", g.serveCallback},
		{toolsPath + "{agent}/{channel}", "tools", g.serveTools},
		{a2aPath, "a2a", g.serveA2A},
		{restPath + "/", restStep, g.serveA2ARest},
		{"GET " + a2asrv.WellKnownAgentCardPath, "card", g.serveCard},
		{proxyPath + "{inbox}/{channel}", "proxy", g.serveProxy},
		{"GET /healthz", "health", func(w http.ResponseWriter, _ *http.Request) error { return writeOK(w) }},
		{"/", "nowhere", func(http.ResponseWriter, *http.Request) error { return errNobody }},
	} {
		mux.HandleFunc(route.pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := route.serve(w, r); err != nil {
				g.writeRefusal(w, err, route.step)
			}
		})
	}
	return limitBodyTime(mux)
}

// readBody reads the body of a POST, of at most maxBody bytes. Its errors are refusals.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > maxBody {
		return nil, errTooLarge
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	switch _, tooLarge := errors.AsType[*http.MaxBytesError](err); {
	case tooLarge:
		return nil, errTooLarge
	case err != nil:
		return nil, refuse(http.StatusBadRequest, "the body could not be read")
	}
	return body, nil
}

// writeOK answers 200 with an empty object; nobody reads it.
func writeOK(w http.ResponseWriter) error {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, "{}\n")
	return nil
}

// writeRefusal answers with the status and sentence of a refusal; any other
// error is an internal one, whose text stays with us. It logs nothing of the URL.
func (g *Gateway) writeRefusal(w http.ResponseWriter, err error, step string) {
	r, refused := errors.AsType[*refusal](err)
	switch {
	case refused:
		g.log.Debug().Str("step", step).Int("status", r.status).Str("error", r.text).Msg("call refused")
	default:
		g.log.Error().Str("step", step).Err(err).Msg("call failed")
		r = errFailed
		if errors.Is(err, outbox.ErrFull) {
			r = errBusy
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	switch r.status {
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", http.MethodPost)
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	w.WriteHeader(r.status)
	body := map[string]any{"error": r.text}
	if step == restStep {
		body["error"] = map[string]any{"code": r.status, "status": restStatus[r.status], "message": r.text}
	}
	_ = json.NewEncoder(w).Encode(body)
}

// checkLocal refuses what a foreign web page can make a browser send: requests with a
// Host that is not the gateway's (DNS rebinding) and those of another Origin.
func (g *Gateway) checkLocal(r *http.Request) error {
	if !g.ownHost(r.Host) {
		return errHost
	}
	origin := r.Header.Get("Origin")
	if u, err := url.Parse(origin); origin != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || !g.ownHost(u.Host)) {
		return errOrigin
	}
	return nil
}

// ownHost reports whether a Host header names this gateway: its public host, the
// address it listens on, or this machine.
func (g *Gateway) ownHost(host string) bool {
	if slices.ContainsFunc(g.hosts, func(own string) bool { return strings.EqualFold(host, own) }) {
		return true
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return netguard.IsLoopback(host)
}
