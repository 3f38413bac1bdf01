package console_test

import (
	"encoding/json"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"hubbub/bus/console"
)

// linkOf asks for a link with a token and returns its path.
func (s *stage) linkOf(t *testing.T, name string) string {
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

// enter follows a link and returns the cookie as a header line.
func (s *stage) enter(t *testing.T, name string) string {
	t.Helper()
	a := s.ask(t, http.MethodGet, s.linkOf(t, name), "")
	if a.status != http.StatusOK {
		t.Fatalf("entering: %d %s", a.status, a.body)
	}
	cookie, _, _ := strings.Cut(a.header.Get("Set-Cookie"), ";")
	return "Cookie: " + cookie
}

func TestOnlyCredentialsSeeTheConsole(t *testing.T) {
	s := newStage(t, newDoor())
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

func TestALinkLetsInOnce(t *testing.T) {
	s := newStage(t, newDoor())
	path := s.linkOf(t, "operator")
	a := s.ask(t, http.MethodGet, path, "")
	set := a.header.Get("Set-Cookie")
	for _, want := range []string{"hubbub_console_", "HttpOnly", "SameSite=Strict", "Path=/console/"} {
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
	cookie, _, _ := strings.Cut(set, ";")
	if body := s.page(t, "/console/", "Cookie: "+cookie); !strings.Contains(body, "operator") {
		t.Error("the page does not say who looks")
	}

	late := s.linkOf(t, "operator")
	s.now.Store(int64(3 * time.Minute))
	if a := s.ask(t, http.MethodGet, late, ""); a.status != http.StatusUnauthorized {
		t.Errorf("a link of three minutes ago works: %d", a.status)
	}
	s.page(t, "/console/", "Cookie: "+cookie) // the visit goes on
	s.now.Store(int64(13 * time.Hour))
	if a := s.ask(t, http.MethodGet, "/console/", "", "Cookie: "+cookie); a.status != http.StatusUnauthorized {
		t.Errorf("a visit goes on after 13 hours of silence: %d", a.status)
	}
}

func TestARevokedCredentialIsOutAtOnce(t *testing.T) {
	gate := newDoor()
	s := newStage(t, gate)
	cookie, link := s.enter(t, "operator"), s.linkOf(t, "operator")
	s.page(t, "/console/", cookie)
	gate.revoke("operator")
	if a := s.ask(t, http.MethodGet, "/console/", "", cookie); a.status != http.StatusUnauthorized {
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

func TestActionsNeedTheRightAndAFormOfOurs(t *testing.T) {
	s := newStage(t, newDoor())
	s.dead.list = []console.DeadLetter{{ID: "7", Queue: "telegram", Destination: "42", State: "dead", Text: "<b>hi</b>", Error: "<script>alert(1)</script>"}}
	cookie := s.enter(t, "operator")
	body := s.page(t, "/console/work", cookie)
	if !strings.Contains(body, `value="retry"`) || strings.Contains(body, "<script>alert") {
		t.Error("the dead letter is not shown, or not escaped")
	}
	token := formToken(t, body)
	post := func(form string, header ...string) answer {
		return s.ask(t, http.MethodPost, "/console/deadletter", form, header...)
	}
	for what, a := range map[string]answer{
		"no form token":        post("id=7&do=retry", cookie),
		"a wrong form token":   post("id=7&do=retry&form=x", cookie),
		"another site":         post("id=7&do=retry&form="+token, cookie, "Sec-Fetch-Site: cross-site", "Origin: https://evil.example"),
		"a reader":             post("id=7&do=retry", s.enter(t, "watcher")),
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
	if a := post("id=7&do=retry&form="+token, cookie, "Sec-Fetch-Site: same-origin"); a.status != http.StatusSeeOther {
		t.Errorf("retry: %d %s", a.status, a.body)
	}
	if a := post("id=7&do=drop", "Authorization: Bearer token-of-operator"); a.status != http.StatusSeeOther {
		t.Errorf("drop by a program: %d", a.status)
	}
	if did := s.dead.did(); did != "retry 7, drop 7" {
		t.Errorf("done: %s", did)
	}
	if body := s.page(t, "/console/work", s.enter(t, "watcher")); strings.Contains(body, `value="retry"`) {
		t.Error("a reader is offered actions")
	}
}

func TestLeaving(t *testing.T) {
	s := newStage(t, newDoor())
	cookie := s.enter(t, "operator")
	token := formToken(t, s.page(t, "/console/", cookie))
	if a := s.ask(t, http.MethodPost, "/console/leave", "form="+token, cookie); a.status != http.StatusOK {
		t.Errorf("leaving: %d", a.status)
	}
	if a := s.ask(t, http.MethodGet, "/console/", "", cookie); a.status != http.StatusUnauthorized {
		t.Errorf("after leaving: %d", a.status)
	}
}

func TestAnOpenBusNeedsNoLink(t *testing.T) {
	s := newStage(t, nil)
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

func TestPagesMayLoadOnlyOurFiles(t *testing.T) {
	s := newStage(t, nil)
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
