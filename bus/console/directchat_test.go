package console_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"hubbub/bus"
	"hubbub/bus/bustest"
	"hubbub/bus/console"
	"hubbub/protocol"
	"hubbub/protocol/collab"
)

// A silentAgent is an ActingAs whose agents never answer.
type silentAgent struct{ fakeBroker }

// DirectChat waits until ctx ends.
func (*silentAgent) DirectChat(ctx context.Context, _ protocol.PeerID, _ string) (string, error) {
	<-ctx.Done()
	return "", context.Cause(ctx)
}

// TestActions_TakeTheLongestTextOfEveryScript checks that a box takes as many characters as its
// page allows, whatever bytes they have in a form.
func TestActions_TakeTheLongestTextOfEveryScript(t *testing.T) {
	s, d := newDecisionFixture(t)
	s.Join(t, "agent:lead", "agent:lead")
	d.obligations = []collab.Obligation{{ID: "q_1", Kind: collab.KindQuestion, State: "open", OwedByID: "will"}}
	home, cookie := s.enter(t, "operator")
	for _, c := range []struct {
		page, id, do string
		status       int
	}{
		{"agent?id=agent:lead", "agent:lead", "", http.StatusOK},
		{"owed", "q_1", "answer", http.StatusSeeOther},
	} {
		body := s.page(t, home+c.page, cookie)
		_, rest, _ := strings.Cut(body, `name="said" maxlength="`)
		digits, _, _ := strings.Cut(rest, `"`)
		most, err := strconv.Atoi(digits) // UTF-16 code units
		if err != nil {
			t.Fatalf("%s has no box: %v", c.page, err)
		}
		path, _, _ := strings.Cut(c.page, "?")
		post := func(said string) int {
			form := url.Values{"id": {c.id}, "do": {c.do}, "said": {said}, "form": {formToken(t, body)}}
			return s.ask(t, http.MethodPost, home+path, form.Encode(), cookie).status
		}
		for _, longest := range []string{
			strings.Repeat("x", most), strings.Repeat("я", most), strings.Repeat("漢", most), strings.Repeat("🙂", most/2),
		} {
			if status := post(longest); status != c.status {
				t.Errorf("%s refuses %d bytes of %.4s: %d", c.page, len(longest), longest, status)
			}
		}
		if status := post(strings.Repeat("漢", 4097)); status != http.StatusBadRequest {
			t.Errorf("%s takes 4097 characters: %d", c.page, status)
		}
	}
}

// TestDirectChat_SaysThatNoAnswerCame checks that the page arrives after the longest wait, although
// the bus bounds the time of an HTTP answer.
func TestDirectChat_SaysThatNoAnswerCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *console.Console
		srv := bus.New(nil, &bus.Options{Console: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c.ServeHTTP(w, r)
		})})
		c = console.New(srv, nil, &console.Options{
			ActingAs:    &silentAgent{},
			DeadLetters: &fakeDeadLetters{list: []console.DeadLetter{{ID: "7"}}}, // its page has a form
		})
		ctx, stop := context.WithCancel(t.Context())
		l := bustest.Listen()
		ended := make(chan error, 1)
		go func() { ended <- srv.Serve(ctx, l) }()
		conn, err := l.Dial()
		if err != nil {
			t.Fatal(err)
		}
		fromBus := bufio.NewReader(conn)
		request := func(method, path, body string) *http.Request {
			r, err := http.NewRequestWithContext(ctx, method, "http://127.0.0.1:7892"+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			if err := r.Write(conn); err != nil {
				t.Fatal(err)
			}
			return r
		}
		read := func(r *http.Request) (status int, body string) {
			resp, err := http.ReadResponse(fromBus, r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			raw, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			return resp.StatusCode, string(raw)
		}
		_, work := read(request(http.MethodGet, "/console/work", ""))
		said := url.Values{"id": {"agent:lead"}, "said": {"hello"}, "form": {formToken(t, work)}}
		asked := request(http.MethodPost, "/console/agent", said.Encode())
		if status, body := read(asked); status != http.StatusOK || !strings.Contains(body, "o answer within 2m0s") {
			t.Errorf("after the wait: %d %s", status, body)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
