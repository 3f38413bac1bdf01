package console

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	linkTTL   = 2 * time.Minute
	visitTTL  = 12 * time.Hour   // after the last request
	actTTL    = 30 * time.Minute // of acting, after entering
	maxVisits = 1000             // also of links
)

// An auth decides which visitors may read the console, and which may act.
type auth struct {
	credentials Credentials
	now         func() time.Time
	openForm    string // token of the forms on an open bus

	mu     sync.Mutex // guards the fields below
	links  visitorTable
	visits visitorTable
}

// A visitor has the access of a credential, or of the secret of a link or visit, until it
// expires.
type visitor struct {
	Access
	Token    string    // for the forms on this visitor's pages
	Cookie   bool      // entered by a link, and can leave
	ActUntil time.Time // time until which a visitor who entered by a link may act
	address  *url.URL  // of a link: the address of the bus for the browser
	bearer   bool      // sent a bearer token, so no other page caused the request
	expires  time.Time
}

// A visitorTable holds the last visitors by the hashes of their secrets.
type visitorTable = *simplelru.LRU[[sha256.Size]byte, *visitor]

func newVisitorTable() visitorTable {
	table, err := simplelru.NewLRU[[sha256.Size]byte, *visitor](maxVisits, nil)
	if err != nil {
		panic(err) // the size is not positive
	}
	return table
}

// store adds a visitor with a secret to a table. The caller must hold a.mu.
func (a *auth) store(table visitorTable, secret string, access Access, address *url.URL, ttl time.Duration) {
	now := a.now()
	table.Add(sha256.Sum256([]byte(secret)), &visitor{
		Access:   access,
		Token:    rand.Text(),
		Cookie:   true,
		address:  address,
		ActUntil: now.Add(actTTL),
		expires:  now.Add(ttl),
	})
}

// find returns the visitor with a secret. If the visitor has expired, or the credential is no
// longer valid, it removes the visitor and returns false. The caller must hold a.mu.
func (a *auth) find(table visitorTable, secret string) (v *visitor, ok bool) {
	key := sha256.Sum256([]byte(secret))
	if v, ok = table.Get(key); !ok || a.now().After(v.expires) || !v.Valid() {
		table.Remove(key)
		return nil, false
	}
	return v, true
}

func newAuth(credentials Credentials, now func() time.Time) *auth {
	return &auth{
		credentials: credentials,
		now:         now,
		openForm:    rand.Text(),
		links:       newVisitorTable(),
		visits:      newVisitorTable(),
	}
}

func (a *auth) open() bool { return a.credentials == nil || a.credentials.Open() }

// A refusal is an answer other than the requested page: an error, or, with StatusSeeOther, the
// address of another page.
type refusal struct {
	status int
	text   string
}

func (e *refusal) Error() string { return e.text }

var (
	errNoCredential = &refusal{http.StatusUnauthorized,
		"the console needs a credential: run `hubbub console` and open the link that it prints"}
	errNoToken    = &refusal{http.StatusUnauthorized, "a token is needed: send it as Authorization: Bearer"}
	errVisitEnded = &refusal{http.StatusUnauthorized,
		"this visit has ended: the bus was restarted, the credential was revoked, or you were away for twelve hours; " +
			"run `hubbub console` for a new link"}
	errLinkUsed = &refusal{http.StatusUnauthorized,
		"this link was already used, or is older than two minutes: run `hubbub console` for a new one"}
	errInvalidToken = &refusal{http.StatusUnauthorized, "the token is not valid; it may have been revoked"}
	errMayNotRead   = &refusal{http.StatusForbidden,
		"the console shows everything: it needs a credential that may subscribe to '*'"}
	errActExpired = &refusal{http.StatusForbidden,
		"this visit is now read-only, since a visit may act for half an hour: run `hubbub console` for a new link"}
	errReadOnly = &refusal{http.StatusForbidden,
		"this credential is read-only: to act, it must grant a cli: identity and publishing to '*'"}
	errForged = &refusal{http.StatusForbidden,
		"this request did not come from a page of the console; go back and try again"}
	errLeft = &refusal{http.StatusOK, "you have left; run `hubbub console` to come back"}
)

// admit returns the visitor, or the reason to refuse the request.
func (a *auth) admit(r *http.Request) (*visitor, error) {
	if a.open() {
		return &visitor{Access: Access{MayAct: true}, Token: a.openForm}, nil
	}
	access, err := a.bearer(r)
	if err != errNoToken {
		return &visitor{Access: access, bearer: true}, err
	}
	if r.PathValue("visit") == "" {
		return nil, errNoCredential
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s, ok := a.find(a.visits, visitSecret(r))
	if !ok {
		return nil, errVisitEnded
	}
	s.expires = a.now().Add(visitTTL)
	return new(*s), nil
}

// MayAct reports whether the visitor may act now.
func (r *request) MayAct() bool {
	v := r.Visitor
	return v.MayAct && (!v.Cookie || r.Now.Before(v.ActUntil))
}

// bearer returns the access of a request's token. The error is errNoToken if there is no token.
func (a *auth) bearer(r *http.Request) (Access, error) {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return Access{}, errNoToken
	}
	access, ok := a.credentials.Lookup(strings.TrimSpace(token))
	switch {
	case !ok:
		return access, errInvalidToken
	case !access.MayRead:
		return access, errMayNotRead
	}
	return access, nil
}

// cookieName is the name of the cookie of a visit. A visit has two secrets, each useless alone.
// One is a part of the path of its pages, which browsers reveal to no other origin. The other is
// a cookie for only that path. Browsers send cookies to every port of a host, but this one only
// if the client knows the path.
const cookieName = "hubbub_console"

// home returns the path of the pages of a visit, as the bus sees it. An empty visit is for an
// open bus or a bearer token.
func home(visit string) string {
	if visit == "" {
		return "/console/"
	}
	return "/console/v/" + visit + "/"
}

// visitSecret returns both secrets in a request for a visit, joined.
func visitSecret(r *http.Request) string {
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return ""
	}
	return r.PathValue("visit") + "." + cookie.Value
}

// link returns the key of a new link.
func (a *auth) link(access Access, address *url.URL) string {
	key := rand.Text()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.store(a.links, key, access, address, linkTTL)
	return key
}

// redeem exchanges the key of a link, once, for the secrets of a visit. It also returns the
// address of the link.
func (a *auth) redeem(key string) (visit, cookie string, address *url.URL, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	l, ok := a.find(a.links, key)
	if !ok {
		return "", "", nil, false
	}
	a.links.Remove(sha256.Sum256([]byte(key)))
	visit, cookie = rand.Text(), rand.Text()
	a.store(a.visits, visit+"."+cookie, l.Access, l.address, visitTTL)
	return visit, cookie, l.address, true
}

// makeLink answers POST /console/link with a link for opening a visit.
func (c *Console) makeLink(w http.ResponseWriter, r *http.Request) {
	address, err := visitedAddress(r)
	if err != nil {
		c.refuse(w, r, err)
		return
	}
	answer := map[string]any{"url": address.JoinPath("console/").String()}
	if !c.auth.open() {
		access, err := c.auth.bearer(r)
		if err != nil {
			c.refuse(w, r, err)
			return
		}
		answer["url"] = address.JoinPath("console/enter", c.auth.link(access, address)).String()
		answer["expiresIn"], answer["mayAct"] = int(linkTTL.Seconds()), access.MayAct
	}
	writeJSON(w, http.StatusOK, answer)
}

// visitedAddress returns the address of the bus for the browser that will open a link. If a proxy
// adds TLS, a port or a path, only the caller knows it, and sends it as the parameter "address".
// The default is the address of the request.
func visitedAddress(r *http.Request) (*url.URL, error) {
	text := r.URL.Query().Get("address")
	if text == "" {
		scheme := "http"
		if r.TLS != nil {
			scheme = "https"
		}
		return &url.URL{Scheme: scheme, Host: r.Host, Path: "/"}, nil
	}
	address, err := url.Parse(text)
	if err != nil || address.Scheme != "http" && address.Scheme != "https" || address.Host == "" ||
		address.User != nil || address.RawQuery != "" || strings.ContainsFunc(address.Path, notInCookiePath) {
		return nil, &refusal{http.StatusBadRequest,
			"the parameter address must be that of the bus for a browser, such as https://example.com/hub/"}
	}
	address.Fragment = ""
	return address.JoinPath("/"), nil
}

func notInCookiePath(r rune) bool { return r < ' ' || r > '~' || r == ';' }

// enter opens the visit of a link. Its page refreshes to the console, so that the browser sends
// the cookie even if another site linked to it.
func (c *Console) enter(w http.ResponseWriter, r *http.Request) {
	if c.auth.open() {
		redirect(w, root(r))
		return
	}
	visit, cookie, address, ok := c.auth.redeem(r.PathValue("key"))
	if !ok {
		c.refuse(w, r, errLinkUsed)
		return
	}
	setCookie(w, address, visit, cookie, 0)
	page := newPage(r, visit, c.now())
	page.Title = "Welcome"
	c.answer(w, http.StatusOK, "enter", page)
}

// setCookie sets the cookie of a visit, for a browser that sees the bus at address. A negative
// age removes it.
func setCookie(w http.ResponseWriter, address *url.URL, visit, value string, age int) {
	http.SetCookie(w, &http.Cookie{
		Name:     cookieName,
		Value:    value,
		Path:     strings.TrimSuffix(address.EscapedPath(), "/") + home(visit),
		MaxAge:   age,
		HttpOnly: true,
		Secure:   address.Scheme == "https",
		SameSite: http.SameSiteStrictMode,
	})
}

func (r *request) leave() error {
	if err := r.checkForm(); err != nil {
		return err
	}
	r.auth.mu.Lock()
	r.auth.visits.Remove(sha256.Sum256([]byte(visitSecret(r.Request))))
	r.auth.mu.Unlock()
	if r.Visitor.address != nil {
		setCookie(r.w, r.Visitor.address, r.PathValue("visit"), "", -1)
	}
	return errLeft
}

// maxForm bounds the body of an action, in bytes. A character of maxChatText has up to 12 of them.
const maxForm = 64 << 10

// checkForm returns an error unless an action comes from a page of the console. It does not
// compare Origin and Host, because a proxy may have replaced the Host. The bus checks the Origin
// of all requests.
func (r *request) checkForm() error {
	v := r.Visitor
	site, form := r.Header.Get("Sec-Fetch-Site"), []byte(r.PostFormValue("form"))
	if !v.bearer && (site != "" && site != "same-origin" && site != "none" || v.Token == "" ||
		subtle.ConstantTimeCompare(form, []byte(v.Token)) != 1) {
		return errForged
	}
	return nil
}

// checkAct returns an error unless the visitor may act and the action comes from a page of the
// console.
func (r *request) checkAct() error {
	switch {
	case !r.Visitor.MayAct:
		return errReadOnly
	case !r.MayAct():
		return errActExpired
	}
	return r.checkForm()
}

// policy allows pages only the console's own files and forms.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// secure sets the headers of every answer.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin") // with no-referrer, forms would come from the origin "null"
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v) //nolint:errcheck // the client went away
}
