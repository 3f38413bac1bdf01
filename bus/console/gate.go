package console

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	linkLife    = 2 * time.Minute
	sessionLife = 12 * time.Hour // after the last request
	maxLinks    = 1000
	maxSessions = 1000
)

// A visitor is who sent a request, and what they may do.
type visitor struct {
	Name   string // of the credential; empty on an open bus
	Act    bool
	Token  string // that the forms of this visitor carry
	Cookie bool   // came by a link, and can leave
	bearer bool   // sent a bearer token, which no page can make a browser do
}

// A gatekeeper lets visitors in.
type gatekeeper struct {
	gate     Gate
	now      func() time.Time
	openForm string // token of the forms on an open bus
	origin   *http.CrossOriginProtection

	mu       sync.Mutex            // guards the fields below
	links    map[[32]byte]*session // without a form
	sessions map[[32]byte]*session
}

// A session is what a secret opens until it expires. Sessions are kept by the hashes
// of their secrets.
type session struct {
	access  Access
	form    string // token of the forms
	expires time.Time
}

// add keeps a session under a secret. The caller holds g.mu.
func (g *gatekeeper) add(kept map[[32]byte]*session, limit int, secret string, s *session) {
	now := g.now()
	for k, old := range kept {
		if now.After(old.expires) || len(kept) >= limit {
			delete(kept, k)
		}
	}
	kept[sha256.Sum256([]byte(secret))] = s
}

// valid reports whether a session has not expired and its credential stands.
func (g *gatekeeper) valid(s *session) bool {
	return s != nil && !g.now().After(s.expires) && s.access.Current()
}

func newGatekeeper(gate Gate, now func() time.Time) *gatekeeper {
	return &gatekeeper{
		gate: gate, now: now, openForm: rand.Text(), origin: http.NewCrossOriginProtection(),
		links: map[[32]byte]*session{}, sessions: map[[32]byte]*session{},
	}
}

func (g *gatekeeper) open() bool { return g.gate == nil || g.gate.Open() }

var (
	errNobody    = errors.New("the console needs a credential: run `hubbub console` and open the link that it prints")
	errEnded     = errors.New("this visit has ended: the bus was started anew, the credential revoked, or nothing asked for half a day; run `hubbub console` for a new link")
	errNotValid  = errors.New("the token is not valid; it may have been revoked")
	errNotSeeing = errors.New("the console shows everything: it needs a credential that may subscribe to '*'")
	errReadOnly  = errors.New("this credential may look and not act: that needs one that may be a cli: identity and publish to '*'")
	errForged    = errors.New("this request did not come from a page of the console; go back and try again")
)

// admit returns the visitor, or why they may not look.
func (g *gatekeeper) admit(r *http.Request) (*visitor, error) {
	if g.open() {
		return &visitor{Act: true, Token: g.openForm}, nil
	}
	if token, ok := bearer(r); ok {
		access, ok := g.gate.Lookup(token)
		if !ok {
			return nil, errNotValid
		}
		if !access.See {
			return nil, errNotSeeing
		}
		return &visitor{Name: access.Name, Act: access.Act, bearer: true}, nil
	}
	cookie, err := r.Cookie(cookieName(r))
	if err != nil {
		return nil, errNobody
	}
	key := sha256.Sum256([]byte(cookie.Value))
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.sessions[key]
	if !g.valid(s) {
		delete(g.sessions, key)
		return nil, errEnded
	}
	s.expires = g.now().Add(sessionLife)
	return &visitor{Name: s.access.Name, Act: s.access.Act, Token: s.form, Cookie: true}, nil
}

func bearer(r *http.Request) (string, bool) {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	return strings.TrimSpace(token), true
}

// cookieName is different for each bus of a machine: browsers send cookies to
// every port.
func cookieName(r *http.Request) string {
	if _, port, err := net.SplitHostPort(r.Host); err == nil {
		return "hubbub_console_" + port
	}
	return "hubbub_console"
}

// link makes the key of a link for the holder of a credential.
func (g *gatekeeper) link(access Access) string {
	key := rand.Text()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.add(g.links, maxLinks, key, &session{access: access, expires: g.now().Add(linkLife)})
	return key
}

// redeem turns a link's key, once, into a session's secret.
func (g *gatekeeper) redeem(key string) (secret string, ok bool) {
	hash := sha256.Sum256([]byte(key))
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.links[hash]
	delete(g.links, hash)
	if !g.valid(l) {
		return "", false
	}
	secret = rand.Text() + rand.Text()
	g.add(g.sessions, maxSessions, secret, &session{access: l.access, form: rand.Text(), expires: g.now().Add(sessionLife)})
	return secret, true
}

func (g *gatekeeper) forget(r *http.Request) {
	if cookie, err := r.Cookie(cookieName(r)); err == nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.sessions, sha256.Sum256([]byte(cookie.Value)))
	}
}

// makeLink answers POST /console/link: a link that lets the holder of a token in.
func (c *Console) makeLink(w http.ResponseWriter, r *http.Request) {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	address := scheme + "://" + r.Host + "/console/"
	if c.gate.open() {
		writeJSON(w, http.StatusOK, map[string]any{"url": address})
		return
	}
	err, status := errors.New("a token is needed: send it as Authorization: Bearer"), http.StatusUnauthorized
	if token, ok := bearer(r); ok {
		access, known := c.gate.gate.Lookup(token)
		switch {
		case known && access.See:
			writeJSON(w, http.StatusOK, map[string]any{
				"url": address + "enter/" + c.gate.link(access), "expiresIn": int(linkLife.Seconds()), "mayAct": access.Act,
			})
			return
		case known:
			err, status = errNotSeeing, http.StatusForbidden
		default:
			err = errNotValid
		}
	}
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="hubbub"`)
	}
	writeJSON(w, status, map[string]string{"error": err.Error()})
}

// enter lets in who follows a link. Its page refreshes to the console, so that the
// browser sends the cookie wherever the link was followed from.
func (c *Console) enter(w http.ResponseWriter, r *http.Request) {
	if c.gate.open() {
		http.Redirect(w, r, "/console/", http.StatusSeeOther)
		return
	}
	secret, ok := c.gate.redeem(r.PathValue("key"))
	if !ok {
		c.refuse(w, r, http.StatusUnauthorized, errors.New("this link was used already, or is older than two minutes: run `hubbub console` for a new one"))
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: cookieName(r), Value: secret, Path: "/console/", HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
	})
	c.render(w, http.StatusOK, "enter", &frame{Title: "Welcome", Now: c.now()})
}

func (c *Console) leave(w http.ResponseWriter, r *http.Request, v *visitor) {
	if err := c.gate.checkForm(r, v); err != nil {
		c.refuse(w, r, http.StatusForbidden, err)
		return
	}
	c.gate.forget(r)
	http.SetCookie(w, &http.Cookie{Name: cookieName(r), Path: "/console/", MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteStrictMode})
	c.refuse(w, r, http.StatusOK, errors.New("you have left; `hubbub console` lets you in again"))
}

// checkForm returns nil if an action comes from one of our own pages.
func (g *gatekeeper) checkForm(r *http.Request, v *visitor) error {
	if v.bearer {
		return nil
	}
	if g.origin.Check(r) != nil || v.Token == "" ||
		subtle.ConstantTimeCompare([]byte(r.PostFormValue("form")), []byte(v.Token)) != 1 {
		return errForged
	}
	return nil
}

// seen wraps a page: it refuses who may not look.
func (c *Console) seen(page func(http.ResponseWriter, *http.Request, *visitor)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := c.gate.admit(r)
		switch {
		case errors.Is(err, errNotSeeing):
			c.refuse(w, r, http.StatusForbidden, err)
		case err != nil:
			w.Header().Set("WWW-Authenticate", `Bearer realm="hubbub"`)
			c.refuse(w, r, http.StatusUnauthorized, err)
		default:
			c.noticed()
			page(w, r, v)
		}
	}
}

// maxForm bounds the body of an action, in bytes.
const maxForm = 16 << 10

// acting wraps an action: it needs a credential that may act and a form of ours.
func (c *Console) acting(action func(http.ResponseWriter, *http.Request, *visitor)) http.HandlerFunc {
	return c.seen(func(w http.ResponseWriter, r *http.Request, v *visitor) {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		if !v.Act {
			c.refuse(w, r, http.StatusForbidden, errReadOnly)
			return
		}
		if err := c.gate.checkForm(r, v); err != nil {
			c.refuse(w, r, http.StatusForbidden, err)
			return
		}
		action(w, r, v)
	})
}

// policy is what pages may load and do: our own files, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// secure sets the headers of every answer.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin") // not no-referrer, with which forms come from the origin "null"
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v) //nolint:errcheck // the client went away
}
