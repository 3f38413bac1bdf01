package bus

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"hubbub/bus/grant"
	"hubbub/protocol"
)

// checkExposure returns an error if the bus must not serve on an address. Without credentials, it
// serves only this machine. Without TLS, it serves others only with Options.Plaintext.
func (srv *Server) checkExposure(addr net.Addr) error {
	open := srv.open()
	if loopbackAddr(addr) {
		if open {
			srv.options.Log.Warn().Msg("the bus has no credentials: " +
				"every program on this machine may connect as anyone; see: hubbub token create")
		}
		return nil
	}
	switch {
	case open:
		return fmt.Errorf("refusing to listen on %s without credentials: "+
			"anyone who reaches it could read and send everything; create some with: hubbub token create", addr)
	case srv.options.TLS == nil && !srv.options.Plaintext:
		return fmt.Errorf("refusing to listen on %s without TLS: tokens would be sent in plaintext; "+
			"give --tls-cert and --tls-key, or --plaintext behind a proxy that adds TLS", addr)
	}
	return nil
}

func loopbackAddr(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

func (srv *Server) open() bool {
	return srv.options.Credentials == nil || srv.options.Credentials.Open()
}

// guard refuses requests that another site could make a browser send: requests with a foreign
// Origin, and requests with a foreign Host without a secret. With DNS rebinding, a site has the
// same origin as the bus for a browser, but does not know the bus's secrets.
func (api httpAPI) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "//") { // from a proxy that replaces /hub with /
			r.URL.Path, r.URL.RawPath = "/"+strings.TrimLeft(r.URL.Path, "/"), ""
		}
		if origin := r.Header.Get("Origin"); origin != "" && !api.originAllowed(origin, r) {
			reason := fmt.Sprintf("the origin %.200q is not allowed; list it with --allow-origin", origin)
			refuseHTTP(w, http.StatusForbidden, reason)
			return
		}
		if !api.hostAllowed(r) {
			refuseHTTP(w, http.StatusForbidden, fmt.Sprintf("the host name %.200q is not allowed here%s", r.Host,
				map[bool]string{false: " without a token"}[api.srv.open()]))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// originAllowed reports whether a browser's request comes from a page of the bus or of an allowed
// origin. A proxy may have removed TLS and replaced the Host. Then the browser or the proxy sends
// the original values in headers that no page can set for another site without the bus's consent.
func (api httpAPI) originAllowed(origin string, r *http.Request) bool {
	if r.Header.Get("Sec-Fetch-Site") == "same-origin" {
		return true
	}
	scheme := "http://"
	if r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https") {
		scheme = "https://"
	}
	for _, host := range []string{r.Host, r.Header.Get("X-Forwarded-Host")} {
		if host != "" && strings.EqualFold(origin, scheme+host) {
			return true
		}
	}
	return slices.ContainsFunc(api.srv.options.AllowOrigins, func(allowed string) bool {
		return strings.EqualFold(allowed, origin)
	})
}

// hostAllowed reports whether a request's Host is allowed. An open bus allows loopback names
// only. With credentials, IP addresses and the hosts of allowed origins are allowed, too. Any
// name is allowed with a token, because another site has no valid one. Any name is also allowed
// for the console, which authenticates every request, and for the probes, which reveal nothing.
func (api httpAPI) hostAllowed(r *http.Request) bool {
	host := hostname(r.Host)
	switch {
	case loopbackName(host), r.URL.Path == "/healthz", r.URL.Path == "/readyz":
		return true
	}
	if api.srv.open() {
		return false
	}
	for _, o := range api.srv.options.AllowOrigins {
		if u, err := url.Parse(o); err == nil && strings.EqualFold(u.Hostname(), host) {
			return true
		}
	}
	if _, err := netip.ParseAddr(host); err == nil && !api.listensOnLoopback() {
		return true
	}
	listen, _, err := net.SplitHostPort(api.srv.options.Listen)
	if err == nil && listen != "" && strings.EqualFold(listen, host) {
		return true
	}
	if api.srv.options.Console != nil && leadsToConsole(r) {
		return true
	}
	_, err = api.authenticate(r)
	return err != errNoToken // a wrong token is refused later, by the handler
}

// leadsToConsole reports whether a request is for the console or is redirected to it.
func leadsToConsole(r *http.Request) bool {
	toConsole := r.URL.Path == "/" && r.Header.Get("Upgrade") == "" && r.Header.Get("Sec-Websocket-Key") == ""
	return toConsole || r.URL.Path == "/console" || strings.HasPrefix(r.URL.Path, "/console/")
}

// derivedCredential returns the credential of the derived token in a request. The request names
// the address that the token was derived for.
func derivedCredential(file *grant.File, r *http.Request) (*grant.Credential, bool) {
	pass, ok := headerToken(r)
	if !ok || file == nil {
		return nil, false
	}
	return file.LookupDerived(pass, r.URL.Query().Get("for"))
}

// lookup returns the credential of a token. If the token is unknown, it reads the file again,
// because the credential may be newer than the last sweep.
func (api httpAPI) lookup(token string) (*grant.Credential, bool) {
	if c, ok := api.srv.options.Credentials.Lookup(token); ok {
		return c, true
	}
	api.srv.readCredentials()
	return api.srv.options.Credentials.Lookup(token)
}

func (api httpAPI) listensOnLoopback() bool {
	host, _, err := net.SplitHostPort(api.srv.options.Listen)
	return err == nil && loopbackName(host)
}

func hostname(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return strings.Trim(hostport, "[]")
}

func loopbackName(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

var errNoToken = errors.New("a token is needed: send it as Authorization: Bearer, or as the WebSocket subprotocol " +
	protocol.BearerSubprotocol + "<token>")

var errWrongToken = errors.New("the token is not valid; it may have been revoked")

// authenticate returns the credential of a request, or nil if the bus is open.
func (api httpAPI) authenticate(r *http.Request) (*grant.Credential, error) {
	if api.srv.open() {
		return nil, nil
	}
	token, ok := headerToken(r)
	if !ok {
		token, ok = strings.CutPrefix(bearerSubprotocol(r), protocol.BearerSubprotocol)
	}
	if !ok || token == "" {
		return nil, errNoToken
	}
	c, ok := api.lookup(token)
	if !ok {
		return nil, errWrongToken
	}
	return c, nil
}

func headerToken(r *http.Request) (string, bool) {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	return strings.TrimSpace(token), true
}

// bearerSubprotocol returns the offered subprotocol that carries a token.
func bearerSubprotocol(r *http.Request) string {
	for _, line := range r.Header.Values("Sec-WebSocket-Protocol") {
		for offered := range strings.SplitSeq(line, ",") {
			if offered = strings.TrimSpace(offered); strings.HasPrefix(offered, protocol.BearerSubprotocol) {
				return offered
			}
		}
	}
	return ""
}

// authenticated returns a handler that calls next with the request's credential, or refuses the
// request. On an open bus the credential is nil.
func (api httpAPI) authenticated(next func(http.ResponseWriter, *http.Request, *grant.Credential)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, err := api.authenticate(r)
		if err != nil {
			refuseHTTP(w, http.StatusUnauthorized, err.Error())
			return
		}
		next(w, r, c)
	}
}
