package console_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"hubbub/bus/console"
)

// linkOf asks for a link with a token and returns its path.
func (s *fixture) linkOf(t *testing.T, name string) string {
	t.Helper()
	a := s.ask(t, http.MethodPost, "/console/link", "", "Authorization: Bearer token-of-"+name)
	var link struct{ URL string }
	if err := json.Unmarshal([]byte(a.body), &link); err != nil || a.status != http.StatusOK {
		t.Fatalf("the link of %s: %d %s", name, a.status, a.body)
	}
	u, err := url.Parse(link.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u.Path
}

// enter follows a link and returns where the pages of the visit are, and the cookie as a header
// line.
func (s *fixture) enter(t *testing.T, name string) (home, cookie string) {
	t.Helper()
	a := s.ask(t, http.MethodGet, s.linkOf(t, name), "")
	if a.status != http.StatusOK {
		t.Fatalf("entering: %d %s", a.status, a.body)
	}
	return visitOf(t, a)
}

// visitOf reads the response to a followed link.
func visitOf(t *testing.T, a answer) (home, cookie string) {
	t.Helper()
	cookie, _, _ = strings.Cut(a.header.Get("Set-Cookie"), ";")
	_, rest, _ := strings.Cut(a.body, "0;url=")
	home, _, ok := strings.Cut(rest, `"`)
	home = strings.Replace(home, "../", "/console/", 1) // from /console/enter/
	if !ok || len(home) < len("/console/v/")+20 || cookie == "" {
		t.Fatalf("entering leads to %q with the cookie %q", home, cookie)
	}
	return home, "Cookie: " + cookie
}

func TestAuth_NeedsCredential(t *testing.T) {
	s := newFixture(t, newFakeCredentials())
	for _, path := range []string{
		"/console/", "/console/topology", "/console/activity", "/console/activity/rows?after=1", "/console/message?id=x", "/console/agents", "/console/agent?id=x",
		"/console/chat?id=x", "/console/peer?id=x", "/console/work", "/console/item?id=x", "/console/health", "/console/series.json", "/console/state.json", "/console/nothing",
	} {
		if a := s.ask(t, http.MethodGet, path, ""); a.status != http.StatusUnauthorized || strings.Contains(a.body, "bus-test") {
			t.Errorf("%s without a credential: %d\n%s", path, a.status, a.body)
		}
		if a := s.ask(t, http.MethodGet, path, "", "Authorization: Bearer wrong"); a.status != http.StatusUnauthorized {
			t.Errorf("%s with a wrong token: %d", path, a.status)
		}
		if a := s.ask(t, http.MethodGet, path, "", "Authorization: Bearer token-of-agent"); a.status != http.StatusForbidden {
			t.Errorf("%s with a credential that may not hear everything: %d", path, a.status)
		}
	}
	s.page(t, "/console/", "Authorization: Bearer token-of-operator")
	if a := s.ask(t, http.MethodPost, "/console/link", "", "Authorization: Bearer token-of-agent"); a.status != http.StatusForbidden {
		t.Errorf("a link for a credential that may not see: %d", a.status)
	}
	if a := s.ask(t, http.MethodPost, "/console/link", ""); a.status != http.StatusUnauthorized {
		t.Errorf("a link for nobody: %d", a.status)
	}
}

func TestLink_OpensOneVisit(t *testing.T) {
	s := newFixture(t, newFakeCredentials())
	path := s.linkOf(t, "operator")
	a := s.ask(t, http.MethodGet, path, "")
	set := a.header.Get("Set-Cookie")
	home, cookie := visitOf(t, a)
	for _, want := range []string{"hubbub_console=", "HttpOnly", "SameSite=Strict", "Path=" + home + ";"} {
		if !strings.Contains(set, want) {
			t.Errorf("the cookie %q lacks %s", set, want)
		}
	}
	if strings.Contains(set, "token-of-operator") || strings.Contains(a.body, "token-of-operator") {
		t.Error("the token is in the answer")
	}
	if again := s.ask(t, http.MethodGet, path, ""); again.status != http.StatusUnauthorized || again.header.Get("Set-Cookie") != "" {
		t.Errorf("the link worked twice: %d", again.status)
	}
	if body := s.page(t, home, cookie); !strings.Contains(body, "operator") {
		t.Error("the page does not say who looks")
	}

	late := s.linkOf(t, "operator")
	s.now.Store(int64(3 * time.Minute))
	if a := s.ask(t, http.MethodGet, late, ""); a.status != http.StatusUnauthorized {
		t.Errorf("a link of three minutes ago works: %d", a.status)
	}
	s.page(t, home, cookie) // the visit goes on
	s.now.Store(int64(13 * time.Hour))
	if a := s.ask(t, http.MethodGet, home, "", cookie); a.status != http.StatusUnauthorized {
		t.Errorf("a visit goes on after 13 hours of silence: %d", a.status)
	}
}

// TestLink_OpensWhereTheBusIsForTheBrowser asks for links at addresses of a proxy.
func TestLink_OpensWhereTheBusIsForTheBrowser(t *testing.T) {
	s := newFixture(t, newFakeCredentials())
	ask := func(base string) answer {
		return s.ask(t, http.MethodPost, "/console/link?"+url.Values{"address": {base}}.Encode(), "", "Authorization: Bearer token-of-operator")
	}
	for base, want := range map[string]struct {
		link, path string
		secure     bool
	}{
		"https://host:18443/hub/":   {"https://host:18443/hub/console/enter/", "/hub/console/v/", true},
		"https://host:18443/hub":    {"https://host:18443/hub/console/enter/", "/hub/console/v/", true},
		"http://10.0.0.5:8080/a/b/": {"http://10.0.0.5:8080/a/b/console/enter/", "/a/b/console/v/", false},
		"https://host":              {"https://host/console/enter/", "/console/v/", true},
		"https://[::1]:1/~x%20y/":   {"https://[::1]:1/~x%20y/console/enter/", "/~x%20y/console/v/", true},
		"":                          {s.http.URL + "/console/enter/", "/console/v/", false},
	} {
		var link struct{ URL string }
		if err := json.Unmarshal([]byte(ask(base).body), &link); err != nil || !strings.HasPrefix(link.URL, want.link) {
			t.Errorf("at %q: the link is %s, %v; want %s", base, link.URL, err, want.link)
			continue
		}
		a := s.ask(t, http.MethodGet, "/console/enter/"+strings.TrimPrefix(link.URL, want.link), "")
		set := a.header.Get("Set-Cookie")
		if !strings.Contains(set, "; Path="+want.path) || strings.Contains(set, "; Secure") != want.secure {
			t.Errorf("at %q: the cookie is %q; want the path %s, secure: %v", base, set, want.path, want.secure)
		}
		home, cookie := visitOf(t, a)
		a = s.ask(t, http.MethodPost, home+"leave", "form="+formToken(t, s.page(t, home, cookie)), cookie)
		if set := a.header.Get("Set-Cookie"); !strings.Contains(set, "=; Path="+want.path) || !strings.Contains(set, "Max-Age=0") {
			t.Errorf("at %q: leaving sets %q", base, set)
		}
	}
	for _, bad := range []string{"ftp://host/", "host:18443", "/hub/", "https://u:p@host/", "https://host/?q", "https://host/;Path=/", "javascript:alert(1)", "https:///x", "https://host/\n"} {
		if a := ask(bad); a.status != http.StatusBadRequest {
			t.Errorf("at %q: %d %s", bad, a.status, a.body)
		}
	}
}

// TestPages_NameNothingByAnAbsolutePath looks for addresses that would leave the prefix of a proxy.
func TestPages_NameNothingByAnAbsolutePath(t *testing.T) {
	s := newFixture(t, newFakeCredentials())
	s.playHostileChat(t)
	enter := s.ask(t, http.MethodGet, s.linkOf(t, "operator"), "")
	home, cookie := visitOf(t, enter)
	pages := map[string]string{"enter": enter.body, "a link again": s.ask(t, http.MethodGet, "/console/enter/x", "").body}
	for _, page := range []string{"", "activity", "activity/rows?after=1", "message?id=x", "agents", "agent?id=agent:lead", "chat?id=tg:42", "peer?id=x", "work", "decisions", "owed", "health", "a/b/c"} {
		pages[page] = s.ask(t, http.MethodGet, home+page, "", cookie).body
	}
	absolute := regexp.MustCompile(`(?:href|src|action|hx-get|url|data-series)="?/[^"]*`)
	for page, body := range pages {
		if found := absolute.FindString(body); found != "" || body == "" {
			t.Errorf("%s holds %q", page, found)
		}
	}
}

func TestAuth_RefusesRevokedCredential(t *testing.T) {
	credentials := newFakeCredentials()
	s := newFixture(t, credentials)
	home, cookie := s.enter(t, "operator")
	link := s.linkOf(t, "operator")
	s.page(t, home, cookie)
	credentials.revoke("operator")
	if a := s.ask(t, http.MethodGet, home, "", cookie); a.status != http.StatusUnauthorized {
		t.Errorf("the visit of a revoked credential: %d", a.status)
	}
	if a := s.ask(t, http.MethodGet, link, ""); a.status != http.StatusUnauthorized {
		t.Errorf("the link of a revoked credential: %d", a.status)
	}
}

// formToken finds what the forms of a page carry.
func formToken(t *testing.T, body string) string {
	t.Helper()
	_, rest, ok := strings.Cut(body, `name="form" value="`)
	token, _, ok2 := strings.Cut(rest, `"`)
	if !ok || !ok2 || token == "" {
		t.Fatal("the page has no form")
	}
	return token
}

func TestActions_NeedRightAndOwnForm(t *testing.T) {
	s := newFixture(t, newFakeCredentials())
	s.dead.list = []console.DeadLetter{{ID: "7", Queue: "telegram", Destination: "42", State: "dead", Text: "<b>hi</b>", Error: "<script>alert(1)</script>"}}
	home, cookie := s.enter(t, "operator")
	body := s.page(t, home+"work", cookie)
	if !strings.Contains(body, `value="retry"`) || strings.Contains(body, "<script>alert") {
		t.Error("the dead letter is not shown, or not escaped")
	}
	token := formToken(t, body)
	post := func(form string, header ...string) answer {
		return s.ask(t, http.MethodPost, home+"deadletter", form, header...)
	}
	reading, reader := s.enter(t, "watcher")
	for what, a := range map[string]answer{
		"no form token":        post("id=7&do=retry", cookie),
		"a wrong form token":   post("id=7&do=retry&form=x", cookie),
		"another site":         post("id=7&do=retry&form="+token, cookie, "Sec-Fetch-Site: cross-site", "Origin: https://evil.example"),
		"a reader":             s.ask(t, http.MethodPost, reading+"deadletter", "id=7&do=retry&form="+formToken(t, s.page(t, reading, reader)), reader),
		"a reader's own token": post("id=7&do=retry", "Authorization: Bearer token-of-watcher"),
	} {
		if a.status != http.StatusForbidden {
			t.Errorf("%s: %d", what, a.status)
		}
	}
	if a := post("id=7&do=retry&form=" + token); a.status != http.StatusUnauthorized {
		t.Errorf("nobody: %d", a.status)
	}
	if a := post("id=7&do=explode&form="+token, cookie); a.status != http.StatusBadRequest {
		t.Errorf("an unknown action: %d", a.status)
	}
	if did := s.dead.did(); did != "" {
		t.Fatalf("refused requests did %s", did)
	}
	a := post("id=7&do=retry&form="+token, cookie, "Sec-Fetch-Site: same-origin")
	if where := a.header.Get("Location"); a.status != http.StatusSeeOther || !strings.HasPrefix(where, home+"work?done=") {
		t.Errorf("retry: %d to %q %s", a.status, where, a.body)
	}
	if a := post("id=7&do=drop", "Authorization: Bearer token-of-operator"); a.status != http.StatusSeeOther {
		t.Errorf("drop by a program: %d", a.status)
	}
	if did := s.dead.did(); did != "retry 7, drop 7" {
		t.Errorf("done: %s", did)
	}
	if body := s.page(t, reading+"work", reader); strings.Contains(body, `value="retry"`) {
		t.Error("a reader is offered actions")
	}
}

// TestVisit_SecretsDoNotReachAnotherPort opens the console as a browser would that keeps its
// cookies in a jar, and then another server of the same host.
func TestVisit_SecretsDoNotReachAnotherPort(t *testing.T) {
	s := newFixture(t, newFakeCredentials())
	s.dead.list = []console.DeadLetter{{ID: "7", State: "dead"}}
	var got []string // cookies that the other server received
	other := newServer(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = append(got, r.Header["Cookie"]...) }))
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	visit := func(url string) answer {
		resp, err := browser.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer{resp.StatusCode, resp.Header, string(body)}
	}
	home, cookie := visitOf(t, visit(s.http.URL+s.linkOf(t, "operator")))
	page := visit(s.http.URL + home + "work")
	token := formToken(t, page.body)
	if page.header.Get("Referrer-Policy") != "same-origin" {
		t.Error("another origin is told where the pages of a visit lie")
	}

	for _, path := range []string{"/", "/console", "/console/", "/console/work", "/console/v/", "/console/v/x/", "/console/leave", "/console/deadletter"} {
		visit(other.URL + path)
	}
	if len(got) > 0 {
		t.Errorf("the other port received %q", got)
	}

	for what, a := range map[string]answer{
		"the cookie without its path":    s.ask(t, http.MethodGet, "/console/work", "", cookie),
		"the cookie on another visit":    s.ask(t, http.MethodGet, "/console/v/x/work", "", cookie),
		"the path without its cookie":    s.ask(t, http.MethodGet, home+"work", ""),
		"an act without the path":        s.ask(t, http.MethodPost, "/console/deadletter", "id=7&do=drop&form="+token, cookie),
		"an act without the cookie":      s.ask(t, http.MethodPost, home+"deadletter", "id=7&do=drop&form="+token),
		"the path with a visit's cookie": s.ask(t, http.MethodGet, home+"work", "", func() string { _, c := s.enter(t, "watcher"); return c }()),
	} {
		if a.status != http.StatusUnauthorized || s.dead.did() != "" {
			t.Errorf("%s: %d, did %q", what, a.status, s.dead.did())
		}
	}
}

// TestVisit_MayActForHalfAnHour replays everything that a visit had.
func TestVisit_MayActForHalfAnHour(t *testing.T) {
	s := newFixture(t, newFakeCredentials())
	s.dead.list = []console.DeadLetter{{ID: "7", State: "dead"}}
	home, cookie := s.enter(t, "operator")
	token := formToken(t, s.page(t, home+"work", cookie))
	act := func() answer {
		return s.ask(t, http.MethodPost, home+"deadletter", "id=7&do=retry&form="+token, cookie)
	}
	s.now.Store(int64(29 * time.Minute))
	if a := act(); a.status != http.StatusSeeOther {
		t.Errorf("acting after 29 minutes: %d %s", a.status, a.body)
	}
	s.now.Store(int64(31 * time.Minute)) // acting does not prolong it
	if a := act(); a.status != http.StatusForbidden || !strings.Contains(a.body, "hubbub console") {
		t.Errorf("acting after 31 minutes: %d %s", a.status, a.body)
	}
	if did := s.dead.did(); did != "retry 7" {
		t.Errorf("done: %s", did)
	}
	if body := s.page(t, home+"work", cookie); strings.Contains(body, `value="retry"`) || !strings.Contains(body, "now read-only") {
		t.Error("a visit that only looks is offered actions, or is not told")
	}
	if a := s.ask(t, http.MethodPost, home+"leave", "form="+token, cookie); a.status != http.StatusOK {
		t.Errorf("leaving a visit that only looks: %d", a.status)
	}
}

func TestLeave_EndsVisit(t *testing.T) {
	s := newFixture(t, newFakeCredentials())
	home, cookie := s.enter(t, "operator")
	token := formToken(t, s.page(t, home, cookie))
	if a := s.ask(t, http.MethodPost, home+"leave", "form="+token, cookie); a.status != http.StatusOK {
		t.Errorf("leaving: %d", a.status)
	}
	if a := s.ask(t, http.MethodGet, home, "", cookie); a.status != http.StatusUnauthorized {
		t.Errorf("after leaving: %d", a.status)
	}
}

func TestAuth_OpenBusNeedsNoLink(t *testing.T) {
	s := newFixture(t, nil)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Jar: jar}).Post(s.http.URL+"/console/link", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var link struct{ URL string }
	if err := json.NewDecoder(resp.Body).Decode(&link); err != nil || link.URL != s.http.URL+"/console/" {
		t.Errorf("the link is %q, %v", link.URL, err)
	}
	s.dead.list = []console.DeadLetter{{ID: "3", State: "unknown"}}
	token := formToken(t, s.page(t, "/console/work"))
	if a := s.ask(t, http.MethodPost, "/console/deadletter", "id=3&do=drop"); a.status != http.StatusForbidden {
		t.Errorf("an action without a form of ours: %d", a.status)
	}
	if a := s.ask(t, http.MethodPost, "/console/deadletter", "id=3&do=drop&form="+token); a.status != http.StatusSeeOther {
		t.Errorf("an action: %d", a.status)
	}
}

func TestPages_LoadOnlyOwnFiles(t *testing.T) {
	s := newFixture(t, nil)
	for _, path := range []string{"/console/", "/console/activity", "/console/agents", "/console/work", "/console/health"} {
		a := s.ask(t, http.MethodGet, path, "")
		csp := a.header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"} {
			if !strings.Contains(csp, want) {
				t.Errorf("%s: the policy %q lacks %s", path, csp, want)
			}
		}
		if strings.Contains(csp, "unsafe") {
			t.Errorf("%s: the policy %q is not strict", path, csp)
		}
		for _, bad := range []string{"<script>", " style=", " onclick=", "javascript:", "http://", "https://"} {
			if strings.Contains(a.body, bad) {
				t.Errorf("%s holds %q", path, bad)
			}
		}
		for part := range strings.SplitSeq(a.body, `"/console/assets/`) {
			name, _, _ := strings.Cut(part, `"`)
			if strings.Contains(name, "?v=") {
				asset := s.ask(t, http.MethodGet, "/console/assets/"+name, "")
				if asset.status != http.StatusOK || !strings.Contains(asset.header.Get("Cache-Control"), "immutable") {
					t.Errorf("the asset %s: %d %s", name, asset.status, asset.header.Get("Cache-Control"))
				}
			}
		}
	}
	if a := s.ask(t, http.MethodGet, "/console/assets/..%2fconsole.go", ""); a.status != http.StatusNotFound {
		t.Errorf("a file outside: %d", a.status)
	}
}
