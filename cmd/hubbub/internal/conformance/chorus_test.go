package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hubbub/peers/agent/harness/conformance"
)

// A foreignAgent is a small Chorus agent with a fault. Without one it conforms.
type foreignAgent struct {
	name, fault string
	mu          sync.Mutex
	known       map[string]bool
	inARow      int // messages of programs in a row
	room        *foreignRoom
}

// A foreignRoom is the state that the agents of a channel share: the claimed messages.
type foreignRoom struct {
	mu      sync.Mutex
	claimed map[string]bool
}

func (a *foreignAgent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var p chorusPost
	raw, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(raw, &p)
	}
	switch {
	case a.fault == "accepts anything":
	case r.URL.Path != "/inbox/sk_"+a.name:
		http.NotFound(w, r)
		return
	case err != nil, p.Channel.ID == "", p.Callback == "", strings.TrimSpace(p.Message.Content) == "":
		http.Error(w, "no", http.StatusBadRequest)
		return
	}
	if a.answers(&p) {
		body := `{"type":"message","content":"I heard you."}`
		if a.fault == "unknown events" {
			http.Post(p.Callback, "application/json", strings.NewReader(`{"type":"shout"}`)) //nolint:errcheck,bodyclose // a fault
		}
		resp, err := http.Post(p.Callback, "application/json", bytes.NewReader([]byte(body)))
		if err == nil {
			resp.Body.Close()
		}
	}
}

func (a *foreignAgent) answers(p *chorusPost) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	m := &p.Message
	if again := a.known[m.ID]; again && a.fault != "answers again" {
		return false
	}
	a.known[m.ID] = true
	if a.inARow++; m.Sender == "alice" || m.Sender == a.name {
		a.inARow = 0
	}
	_, name, _ := strings.Cut(strings.TrimPrefix(p.Channel.ID, "conformance-"), "-")
	shared := slices.Contains([]string{"ambient", "role", "mention"}, name)
	switch {
	case a.fault == "mute":
		return false
	case m.Sender == a.name:
		return a.fault != "takes namesakes for itself"
	case m.SenderKind != "":
		return a.fault == "answers agents"
	case a.inARow > 9 && a.fault != "endless":
		return false
	case shared && strings.Contains(m.Content, "@backend-agents"):
		a.room.mu.Lock()
		defer a.room.mu.Unlock()
		first := !a.room.claimed[m.ID]
		a.room.claimed[m.ID] = true
		return first || a.fault == "claims nothing"
	case shared:
		return strings.Contains(m.Content, "@"+a.name) || a.fault == "answers for all"
	}
	return true
}

// checkForeign checks two agents with a fault, and returns the verdicts by case.
func checkForeign(t *testing.T, fault, only string, timeout time.Duration) map[string]conformance.Verdict {
	t.Helper()
	return checkNamed(t, []string{"alpha", "beta"}, fault, only, timeout)
}

func checkNamed(t *testing.T, names []string, fault, only string, timeout time.Duration) map[string]conformance.Verdict {
	t.Helper()
	room := &foreignRoom{claimed: map[string]bool{}}
	var agents []*chorusAgent
	for _, name := range names {
		server := httptest.NewServer(&foreignAgent{name: name, fault: fault, known: map[string]bool{}, room: room})
		t.Cleanup(server.Close)
		agents = append(agents, &chorusAgent{name: name, connection: server.URL + "/inbox/sk_" + url.PathEscape(name)})
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	verdicts := map[string]conformance.Verdict{}
	opts := chorusOptions{only: only, timeout: timeout, quiet: 20 * time.Millisecond}
	if err := checkChorus(t.Context(), listener, agents, opts, func(v conformance.Verdict) { verdicts[v.Case] = v }); err != nil {
		t.Fatal(err)
	}
	return verdicts
}

func TestChorus_ConformingAgentsPass(t *testing.T) {
	verdicts := checkForeign(t, "", "", time.Minute)
	if len(verdicts) != 10 {
		t.Errorf("%d cases", len(verdicts))
	}
	for _, v := range verdicts {
		if v.Result != conformance.OK {
			t.Errorf("%s: %s", v.Case, v.Error)
		}
	}
}

// TestChorus_FindsFaults checks that each fault fails its case. A foreign agent answers before it
// accepts, so no answer is missed.
func TestChorus_FindsFaults(t *testing.T) {
	for _, c := range []struct{ fault, failed, says string }{
		{"mute", "answer", "no message within"},
		{"answers again", "again", "got 2 answers"},
		{"accepts anything", "refused", "a message with blank content got the status 200"},
		{"takes namesakes for itself", "namesake", "no message within"},
		{"answers agents", "declared", "alpha answered"},
		{"endless", "program", fmt.Sprintf("answered a program %d times", maxExchange)},
		{"answers for all", "ambient", "answered"},
		{"answers for all", "mention", "alpha is named, and beta answered"},
		{"claims nothing", "role", "2 agents answered"},
		{"unknown events", "events", `the type "shout"`},
	} {
		t.Run(c.failed, func(t *testing.T) {
			t.Parallel() // some wait for events that never come
			timeout, only := time.Minute, c.failed
			if strings.HasPrefix(c.says, "no message") {
				timeout = 15 * time.Second // it never comes, but the other answers do
			}
			if c.failed == "events" {
				only = "" // any case makes events
			}
			v, ran := checkForeign(t, c.fault, only, timeout)[c.failed]
			if !ran || v.Result != conformance.Failed || !strings.Contains(v.Error, c.says) {
				t.Errorf("%+v; want a failure that says %q", v, c.says)
			}
			if strings.Contains(v.Error, "sk_") {
				t.Errorf("it shows a secret: %s", v.Error)
			}
		})
	}
}

func TestChorus_SkipsRoomsOfOneAgent(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	opts := chorusOptions{only: "channel of two", timeout: time.Minute, quiet: time.Millisecond}
	if err := checkChorus(t.Context(), listener, []*chorusAgent{{name: "alpha"}}, opts, func(v conformance.Verdict) { counts[v.Result]++ }); err != nil || counts[conformance.Skipped] != 3 || len(counts) != 1 {
		t.Errorf("%v, %v", counts, err)
	}
}

// TestChorus_TakesAnyName checks an agent that is named after a file, so its name may not fit
// into a URL.
func TestChorus_TakesAnyName(t *testing.T) {
	const name = "build 100%? #1"
	if v := checkNamed(t, []string{name}, "", "is answered at its callback", time.Minute)["answer"]; v.Result != conformance.OK {
		t.Errorf("%+v", v)
	}
}
