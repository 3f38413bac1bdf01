package console_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hubbub/activitylog/read"
	"hubbub/bus"
	"hubbub/bus/bustest"
	"hubbub/bus/console"
	"hubbub/bus/report"
)

// A fixture is a real bus with its real log, and a console.
type fixture struct {
	*bustest.Bus
	reader      *read.Reader
	console     *console.Console
	http        *httptest.Server
	credentials *fakeCredentials
	dead        *fakeDeadLetters
	now         atomic.Int64 // added to the time, nanoseconds
}

func newFixture(t testing.TB, credentials *fakeCredentials) *fixture {
	t.Helper()
	s := &fixture{Bus: bustest.Start(t, &bus.Options{Name: "bus-test"}), dead: &fakeDeadLetters{}, credentials: credentials}
	s.reader = read.Open(s.Log)
	o := &console.Options{DeadLetters: s.dead, Now: func() time.Time { return time.Now().Add(time.Duration(s.now.Load())) }}
	if credentials != nil {
		o.Credentials = credentials
	}
	s.console = console.New(s, s.reader, o)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.console.Run(ctx); err != nil {
			t.Errorf("the console ended: %v", err)
		}
	})
	s.http = httptest.NewServer(s.console)
	t.Cleanup(func() {
		s.http.Close()
		cancel()
		wg.Wait()
		s.reader.Close()
	})
	return s
}

// Peers implements console.Bus.
func (s *fixture) Peers() []report.Peer { return s.Server().Peers() }

// Counters implements console.Bus.
func (s *fixture) Counters() report.Counters { return s.Server().Counters() }

// A fakeCredentials is a credentials whose tokens are known.
type fakeCredentials struct {
	mu     sync.Mutex // guards tokens
	tokens map[string]console.Access
}

func newFakeCredentials() *fakeCredentials {
	d := &fakeCredentials{tokens: map[string]console.Access{}}
	d.add("operator", true, true)
	d.add("watcher", true, false)
	d.add("agent", false, false)
	return d
}

func (d *fakeCredentials) add(name string, see, act bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	token := "token-of-" + name
	d.tokens[token] = console.Access{Name: name, MayRead: see, MayAct: act, Valid: func() bool {
		_, ok := d.Lookup(token)
		return ok
	}}
}

func (d *fakeCredentials) revoke(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.tokens, "token-of-"+name)
}

func (d *fakeCredentials) Open() bool { return false }

func (d *fakeCredentials) Lookup(token string) (console.Access, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a, ok := d.tokens[token]
	return a, ok
}

// letters are dead letters that remember what was done with them.
type fakeDeadLetters struct {
	mu   sync.Mutex // guards the fields below
	list []console.DeadLetter
	done []string
}

func (l *fakeDeadLetters) List(context.Context, int) ([]console.DeadLetter, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.list, nil
}

func (l *fakeDeadLetters) Retry(_ context.Context, id string) error { return l.do("retry", id) }
func (l *fakeDeadLetters) Drop(_ context.Context, id string) error  { return l.do("drop", id) }

func (l *fakeDeadLetters) do(what, id string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done = append(l.done, what+" "+id)
	return nil
}

func (l *fakeDeadLetters) did() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.done, ", ")
}

// An answer is the response to a request.
type answer struct {
	status int
	header http.Header
	body   string
}

// ask sends a request and does not follow redirects. Header lines are "Name: value".
func (s *fixture) ask(t testing.TB, method, path, body string, header ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.http.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Set(name, value)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if at, err := resp.Location(); err == nil { // it is relative
		resp.Header.Set("Location", at.RequestURI())
	}
	return answer{resp.StatusCode, resp.Header, string(raw)}
}

// page returns the body of a page that must be there.
func (s *fixture) page(t testing.TB, path string, header ...string) string {
	t.Helper()
	a := s.ask(t, http.MethodGet, path, "", header...)
	if a.status != http.StatusOK {
		t.Fatalf("GET %s: %d\n%s", path, a.status, a.body)
	}
	return a.body
}

// awaitText asks for a page until it holds a text.
func (s *fixture) awaitText(t testing.TB, path, text string, header ...string) string {
	t.Helper()
	return s.awaitPage(t, path, fmt.Sprintf("%q", text), func(body string) bool { return strings.Contains(body, text) }, header...)
}

// awaitPage asks for a page until it meets a condition.
func (s *fixture) awaitPage(t testing.TB, path, what string, wanted func(body string) bool, header ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		body := s.page(t, path, header...)
		if wanted(body) {
			return body
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s never showed %s:\n%s", path, what, body)
		}
	}
}

func newServer(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv
}
