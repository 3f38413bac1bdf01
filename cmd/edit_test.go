package cmd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"hubbub/peers/agent/harness/harnesstest"

	"github.com/go-telegram/bot/models"
)

// A heldModel holds the first program that works on the old text of a message at a moment, until
// it may continue.
type heldModel struct {
	*httptest.Server
	moment  string
	came    chan struct{} // closed when a program is held
	proceed chan struct{}
	once    sync.Once

	mu      sync.Mutex
	refused []int // status codes of a callback
}

func newHeldModel(t *testing.T, moment string) *heldModel {
	h := &heldModel{moment: moment, came: make(chan struct{}), proceed: make(chan struct{})}
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

// at is called at a moment by a program that works on a message. It holds the first one.
func (h *heldModel) at(ctx context.Context, moment string) {
	if moment != h.moment {
		return
	}
	h.once.Do(func() { close(h.came) })
	select {
	case <-h.proceed:
	case <-ctx.Done():
	}
}

// ServeHTTP serves the programs that ask whether to continue, a model of Anthropic's API, and an
// external agent that speaks Chorus.
func (h *heldModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	switch {
	case r.Method == http.MethodGet:
		h.at(r.Context(), strings.TrimPrefix(r.URL.Path, "/"))
	case strings.HasSuffix(r.URL.Path, "/messages"):
		h.at(r.Context(), "given")
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"content": []any{map[string]any{"type": "text", "text": harnesstest.HoldReply(string(raw))}}, "stop_reason": "end_turn"}) // the agent may be gone
	default:
		h.at(r.Context(), "given")
		go h.call(raw)
	}
}

// call answers a POST to its callback.
func (h *heldModel) call(raw []byte) {
	var post struct {
		Message  struct{ Content string }
		Callback string
	}
	words := harnesstest.HoldReply(string(raw))
	if json.Unmarshal(raw, &post) != nil || words == "" {
		return
	}
	h.at(context.Background(), "accepted")
	resp, err := http.Post(post.Callback, "application/json", strings.NewReader(fmt.Sprintf(`{"type":"message","content":%q}`, words)))
	if err != nil {
		return
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		h.mu.Lock()
		h.refused = append(h.refused, resp.StatusCode)
		h.mu.Unlock()
	}
}

// TestEdit_DuringTurn edits a message while an agent works on it. In every harness, the work
// continues only when the agent has the new text. The new text is answered once, the old text
// never.
func TestEdit_DuringTurn(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts programs")
	}
	s := newFixture(t)
	s.start("chorus", "--allow-target", "127.0.0.0/8", "--compose-window", "50ms")
	for _, c := range []struct {
		harness string
		moments []string
		args    func(h *heldModel) []string
	}{
		{"anthropic", []string{"given"}, func(h *heldModel) []string { return []string{"--model=m", "--base-url=" + h.URL} }},
		{"acp", []string{"given"}, func(*heldModel) []string {
			return []string{"--harness-command=env " + harnesstest.ACPRoleEnv + "=fake " + os.Args[0]}
		}},
		{"c2a", []string{"given", "accepted"}, func(h *heldModel) []string {
			return []string{"--harness-command=env " + harnesstest.HoldEnv + "=" + h.URL + " " + os.Args[0]}
		}},
		{"a2a", []string{"given"}, func(h *heldModel) []string {
			return []string{"--a2a-url=" + harnesstest.A2AAgent(func(ctx context.Context, heard string) string {
				h.at(ctx, "given")
				return harnesstest.HoldReply(heard)
			}).Serve(t)}
		}},
		{"chorus", []string{"given", "accepted"}, nil},
	} {
		for _, moment := range c.moments {
			t.Run(c.harness+", "+moment, func(t *testing.T) {
				h, name := newHeldModel(t, moment), c.harness+"-"+moment
				s := s.in(t)
				if c.args != nil {
					s.startAgent(name, append(c.args(h), "--harness="+c.harness)...)
				} else {
					file := filepath.Join(t.TempDir(), "url")
					if err := os.WriteFile(file, []byte(h.URL+"/inbox/sk_held\n"), 0o600); err != nil {
						t.Fatal(err)
					}
					s.hubbub("chorus", "add", name, "--connection-string-file", file)
					s.await("the agent elsewhere", func() bool { return strings.Contains(s.hubbub("peers"), "agent:"+name) })
				}
				checkEdited(s, h, name)
				if c.harness == "chorus" && moment == "accepted" {
					s.await("a refused callback", func() bool {
						h.mu.Lock()
						defer h.mu.Unlock()
						return slices.Equal(h.refused, []int{http.StatusForbidden})
					})
				}
			})
		}
	}
}

// checkEdited edits a message while an agent is held.
func checkEdited(s *fixture, h *heldModel, agent string) {
	s.t.Helper()
	room, will, address := s.groupOf(agent)
	hold := "hold " + h.URL + "/" + h.moment
	asked := s.api.Say(room, will, hold+" old words"+address)
	s.await("whoever is held", func() bool {
		select {
		case <-h.came:
			return true
		default:
			return false
		}
	})
	s.api.EditText(asked, hold+" new words"+address)
	s.await("the edit", func() bool {
		return slices.ContainsFunc(s.publications(), func(p *publication) bool {
			return p.status == "ok" && p.entry.Topic == "agent:"+agent && strings.Contains(string(p.message.Content), "new words")
		})
	})
	close(h.proceed)
	s.awaitTexts(room, 2)
	s.api.Say(room, will, hold+" last words"+address)
	if got := s.awaitTexts(room, 3); !slices.Equal(got[1:], []string{"I read “new”.", "I read “last”."}) {
		s.t.Errorf("it said %q", got[1:])
	}
}

// startAgent starts an agent in addition to those of the system.
func (s *fixture) startAgent(name string, args ...string) {
	s.t.Helper()
	env := []string{"HUBBUB_DATA=" + s.data, "HUBBUB_BUS=" + s.tap.address(), "HUBBUB_LOG_FORMAT=json", transcribeKey}
	s.run[name] = start(s.t, s.whole, "hubbub-agent", env, append([]string{"--id=" + name, "--compose-window=50ms"}, args...)...)
}

// groupOf returns a group with the agent and the system's agent, a user of it, and the words that
// address the agent.
func (s *fixture) groupOf(agent string) (room models.Chat, will models.User, address string) {
	s.t.Helper()
	*s.rooms++
	will, room = s.api.User("Will"), s.api.Group(int64(-100-*s.rooms), "Team of "+agent)
	s.api.Say(room, will, "@"+s.api.Bot().Username+" hello")
	s.awaitTexts(room, 1)
	s.hubbub("chorus", "assign", agent, string(topicOf(room)))
	return room, will, " @" + agent
}
