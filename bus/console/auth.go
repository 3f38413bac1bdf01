package console

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	linkTTL     = 2 * time.Minute
	sessionTTL  = 12 * time.Hour   // after the last request
	actTTL      = 30 * time.Minute // after entering: who may act then only looks
	maxSessions = 1000             // and links
)

// A auth lets visitors in.
type auth struct {
	credentials Credentials
	now         func() time.Time
	openForm    string // token of the forms on an open bus
	origin      *http.CrossOriginProtection

	mu       sync.Mutex // guards the fields below
	links    sessions   // without a form
	sessions sessions
}

// A session is a visitor: what a credential, or the secret of a link or visit, allows
// until it expires.
type session struct {
	Access
	Token    string    // that the forms of this visitor carry
	Cookie   bool      // came by a link, and can leave
	ActUntil time.Time // by a link: when a visitor who may act only looks
	bearer   bool      // sent a bearer token, which no page can make a browser do
	expires  time.Time
}

// A sessions keeps sessions by the hashes of their secrets.
type sessions map[[32]byte]*session

// store keeps a session under a secret. The caller must hold g.mu.
func (g *auth) store(kept sessions, secret string, access Access, life time.Duration) {
	now := g.now()
	for k, old := range kept {
		if now.After(old.expires) || len(kept) >= maxSessions {
			delete(kept, k)
		}
	}
	kept[sha256.Sum256([]byte(secret))] = &session{
		Access: access, Token: rand.Text(), Cookie: true, ActUntil: now.Add(actTTL), expires: now.Add(life),
	}
}

// find returns the session of a secret, unless it has expired or its credential no
// longer stands: then it is forgotten. The caller must hold g.mu.
func (g *auth) find(kept sessions, secret string) (s *session, ok bool) {
	key := sha256.Sum256([]byte(secret))
	if s = kept[key]; s == nil || g.now().After(s.expires) || !s.Valid() {
		delete(kept, key)
		return nil, false
	}
	return s, true
}

func newAuth(gate Credentials, now func() time.Time) *auth {
	return &auth{
		credentials: gate, now: now, openForm: rand.Text(), origin: http.NewCrossOriginProtection(), links: sessions{}, sessions: sessions{},
	}
}

func (g *auth) open() bool { return g.credentials == nil || g.credentials.Open() }

// A refusal is an answer that is not the page that was asked for: why not, or, with
// StatusSeeOther, where to go instead.
type refusal struct {
	status int
	text   string
}

func (e *refusal) Error() string { return e.text }

var (
	errNoCredential = &refusal{http.StatusUnauthorized, "the console needs a credential: run `hubbub console` and open the link that it prints"}
	errNoToken      = &refusal{http.StatusUnauthorized, "a token is needed: send it as Authorization: Bearer"}
	errVisitEnded   = &refusal{http.StatusUnauthorized, "this visit has ended: the bus was started anew, the credential revoked, or nothing asked for half a day; run `hubbub console` for a new link"}
	errLinkUsed     = &refusal{http.StatusUnauthorized, "this link was used already, or is older than two minutes: run `hubbub console` for a new one"}
	errInvalidToken = &refusal{http.StatusUnauthorized, "the token is not valid; it may have been revoked"}
	errMayNotRead   = &refusal{http.StatusForbidden, "the console shows everything: it needs a credential that may subscribe to '*'"}
	errActExpired   = &refusal{http.StatusForbidden, "a visit may act for half an hour, and this one only looks now: run `hubbub console` for a new link"}
	errReadOnly     = &refusal{http.StatusForbidden, "this credential may look and not act: that needs one that may be a cli: identity and publish to '*'"}
	errForged       = &refusal{http.StatusForbidden, "this request did not come from a page of the console; go back and try again"}
	errLeft         = &refusal{http.StatusOK, "you have left; `hubbub console` lets you in again"}
)

// admit returns the visitor, or why they may not look.
func (g *auth) admit(r *http.Request) (*session, error) {
	if g.open() {
		return &session{Access: Access{MayAct: true}, Token: g.openForm}, nil
	}
	access, err := g.bearer(r)
	if err != errNoToken {
		return &session{Access: access, bearer: true}, err
	}
	if r.PathValue("visit") == "" {
		return nil, errNoCredential
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	s, ok := g.find(g.sessions, visitSecret(r))
	if !ok {
		return nil, errVisitEnded
	}
	s.expires = g.now().Add(sessionTTL)
	return new(*s), nil
}

// MayAct reports whether the visitor may act now.
func (r *request) MayAct() bool {
	v := r.Visitor
	return v.MayAct && (!v.Cookie || r.Now.Before(v.ActUntil))
}

// bearer returns what the token of a request allows, or why not; errNoToken if it
// has none.
func (g *auth) bearer(r *http.Request) (Access, error) {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return Access{}, errNoToken
	}
	access, ok := g.credentials.Lookup(strings.TrimSpace(token))
	switch {
	case !ok:
		return access, errInvalidToken
	case !access.MayRead:
		return access, errMayNotRead
	}
	return access, nil
}

// A visit has two secrets, and each is worth nothing without the other: a part of the
// path of its pages, which browsers tell no other origin, and a cookie for that path
// alone. Browsers send cookies to every port of a host, but this one only to who
// knows the path.
const cookieName = "hubbub_console"

// home returns where the pages of a visit lie; "" is no visit.
func home(visit string) string {
	if visit == "" {
		return "/console/"
	}
	return "/console/v/" + visit + "/"
}

// visitSecret returns both secrets of the visit that a request belongs to, as one.
func visitSecret(r *http.Request) string {
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return ""
	}
	return r.PathValue("visit") + "." + cookie.Value
}

// link makes the key of a link for the holder of a credential.
func (g *auth) link(access Access) string {
	key := rand.Text()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.store(g.links, key, access, linkTTL)
	return key
}

// redeem turns a link's key, once, into the secrets of a visit.
func (g *auth) redeem(key string) (visit, cookie string, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l, ok := g.find(g.links, key)
	if !ok {
		return "", "", false
	}
	delete(g.links, sha256.Sum256([]byte(key)))
	visit, cookie = rand.Text(), rand.Text()
	g.store(g.sessions, visit+"."+cookie, l.Access, sessionTTL)
	return visit, cookie, true
}

// makeLink answers POST /console/link: a link that lets the holder of a token in.
func (c *Console) makeLink(w http.ResponseWriter, r *http.Request) {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	answer := map[string]any{"url": scheme + "://" + r.Host + "/console/"}
	if !c.auth.open() {
		access, err := c.auth.bearer(r)
		if err != nil {
			c.refuse(w, r, err)
			return
		}
		answer["url"] = fmt.Sprint(answer["url"], "enter/", c.auth.link(access))
		answer["expiresIn"], answer["mayAct"] = int(linkTTL.Seconds()), access.MayAct
	}
	writeJSON(w, http.StatusOK, answer)
}

// enter lets in who follows a link. Its page refreshes to the console, so that the
// browser sends the cookie wherever the link was followed from.
func (c *Console) enter(w http.ResponseWriter, r *http.Request) {
	if c.auth.open() {
		http.Redirect(w, r, "/console/", http.StatusSeeOther)
		return
	}
	visit, cookie, ok := c.auth.redeem(r.PathValue("key"))
	if !ok {
		c.refuse(w, r, errLinkUsed)
		return
	}
	setCookie(w, r, home(visit), cookie, 0)
	c.answer(w, http.StatusOK, "enter", &request{Title: "Welcome", Home: home(visit), Now: c.now()})
}

// setCookie sets the cookie of a visit; a negative age takes it back.
func setCookie(w http.ResponseWriter, r *http.Request, path, value string, age int) {
	http.SetCookie(w, &http.Cookie{
		Name: cookieName, Value: value, Path: path, MaxAge: age, HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
	})
}

func (r *request) leave() error {
	if err := r.checkForm(); err != nil {
		return err
	}
	r.auth.mu.Lock()
	delete(r.auth.sessions, sha256.Sum256([]byte(visitSecret(r.Request))))
	r.auth.mu.Unlock()
	setCookie(r.w, r.Request, r.Home, "", -1)
	return errLeft
}

// maxForm bounds the body of an action, in bytes.
const maxForm = 16 << 10

// checkForm returns nil if an action comes from one of our own pages.
func (r *request) checkForm() error {
	v := r.Visitor
	if !v.bearer && (r.auth.origin.Check(r.Request) != nil || v.Token == "" ||
		subtle.ConstantTimeCompare([]byte(r.PostFormValue("form")), []byte(v.Token)) != 1) {
		return errForged
	}
	return nil
}

// checkAct returns nil if the visitor may act, and does so with a form of ours.
func (r *request) checkAct() error {
	switch {
	case !r.Visitor.MayAct:
		return errReadOnly
	case !r.MayAct():
		return errActExpired
	}
	return r.checkForm()
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
