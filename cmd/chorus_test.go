package cmd_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"hubbub/bus/bustest"
	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
)

// TestChorus connects both sides of Chorus to a system: an HTTP agent that answers a Telegram
// chat, and a service whose channel an agent of the system answers. Both are checked in the
// activity log.
func TestChorus(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	built(t, "hubbub-chorus")
	gateway := bustest.FreeAddress(t)
	env := []string{"HUBBUB_DATA=" + s.data, "HUBBUB_BUS=ws://" + s.bus, "HUBBUB_LOG_FORMAT=json"}
	s.run["chorus"] = start(t, t, "hubbub-chorus", env, "--listen", gateway, "--allow-target", "127.0.0.0/8", "--compose-window", "50ms")
	hubbub := func(args ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		cmd := exec.CommandContext(ctx, built(t, "hubbub"), args...)
		cmd.Env = append(os.Environ(), env...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("hubbub %s: %v\n%s%s", strings.Join(args, " "), err, out, stderr.String())
		}
		return strings.TrimSpace(string(out))
	}

	t.Run("an agent elsewhere answers a Telegram chat", func(t *testing.T) { checkAnswersTelegram(t, s.in(t), hubbub) })
	t.Run("an agent in Python answers with lines", func(t *testing.T) { checkAnswersWithLines(t, s.in(t), hubbub) })
	t.Run("an agent of ours answers a channel elsewhere", func(t *testing.T) { checkAnswersChannel(t, s.in(t), hubbub) })
	t.Run("two agents of ours in one channel elsewhere end by themselves", func(t *testing.T) { checkRelaysEnd(t, hubbub) })
	t.Run("our agents pass the kit for Chorus agents", func(t *testing.T) { checkChorusKit(t, hubbub) })
}

// checkChorusKit lets the kit play a service for two of our agents.
func checkChorusKit(t *testing.T, hubbub func(...string) string) {
	args := []string{"conformance", "chorus", "--quiet", "2s"}
	for _, name := range []string{"alpha", "beta"} {
		file := filepath.Join(t.TempDir(), name+".txt")
		if err := os.WriteFile(file, []byte(hubbub("chorus", "inbox", "create", name)), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, file)
	}
	if out := hubbub(args...); !strings.Contains(out, "10 passed, 0 failed, 0 skipped") {
		t.Errorf("the kit says\n%s", out)
	}
}

// An externalAgent is the HTTP server of an external agent or service.
type externalAgent struct {
	*httptest.Server
	got chan map[string]any
}

func newExternalAgent(t *testing.T) *externalAgent {
	t.Helper()
	side := &externalAgent{got: make(chan map[string]any, 100)}
	side.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var body map[string]any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Errorf("a body that is no object: %v", err)
		}
		side.got <- body
	}))
	t.Cleanup(side.Close)
	return side
}

func (side *externalAgent) next(t *testing.T) map[string]any {
	t.Helper()
	select {
	case body := <-side.got:
		return body
	case <-time.After(patience):
		t.Fatal("nothing was POSTed")
		return nil
	}
}

func postJSON(t *testing.T, url string, body any) {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post(url, "application/json", bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if answer, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		t.Fatalf("POST: %d %s", resp.StatusCode, answer)
	}
}

// assignExternal assigns an HTTP agent to a chat, in which somebody has said hello.
func assignExternal(s *fixture, hubbub func(...string) string, name, url string, chat models.Chat, by models.User) {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), name+".txt")
	if err := os.WriteFile(file, []byte(url+"/inbox/sk_a1b2c3\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.api.Say(chat, by, "is anybody here?")
	s.await("the chat", func() bool { return strings.Contains(s.run["tg"].whole(), strconv.FormatInt(chat.ID, 10)) })
	hubbub("chorus", "add", name, "--connection-string-file", file)
	s.await("the agent", func() bool { return strings.Contains(hubbub("peers"), "agent:"+name) })
	hubbub("chorus", "assign", name, string(topicOf(chat)))
}

// checkAnswersWithLines lets an agent in Python answer with a body of NDJSON: in order, and without
// the line that has no content, which alone is refused.
func checkAnswersWithLines(t *testing.T, s *fixture, hubbub func(...string) string) {
	if exec.CommandContext(t.Context(), "python3", "--version").Run() != nil {
		t.Skip("python3 is missing")
	}
	p := &process{t: t, name: "the agent in Python", sign: regexp.MustCompile(`(?m)^listening on (\d+)$`)}
	p.cmd = exec.CommandContext(context.Background(), "python3", filepath.Join("testdata", "chorus", "agent.py"))
	p.cmd.Stderr = p
	p.start(t)
	ann, chat := s.api.User("Ann"), s.api.Supergroup(-100778, "numbers")
	assignExternal(s, hubbub, "counter", "http://127.0.0.1:"+p.sign.FindStringSubmatch(p.whole())[1], chat, ann)
	s.api.Say(chat, ann, "@counter count to two")
	s.await("both numbers", func() bool {
		said := strings.Join(s.api.Texts(chat.ID), "\n")
		one, two := strings.Index(said, "One."), strings.Index(said, "Two.")
		return one >= 0 && two > one
	})
	s.await("the answer to the agent", func() bool {
		return regexp.MustCompile(`(?m)^207 1:200: 2:200: 3:400:\S.* 4:200: 5:200:$`).MatchString(p.whole())
	})
}

func checkAnswersTelegram(t *testing.T, s *fixture, hubbub func(...string) string) {
	outside := newExternalAgent(t)
	will := s.api.User("Will")
	chat := s.api.Supergroup(-100777, "the weather")
	assignExternal(s, hubbub, "weather", outside.URL, chat, will)
	s.api.Say(chat, will, "@weather what is it like in Oslo?")
	var delivery map[string]any
	for delivery == nil || !strings.Contains(delivery["message"].(map[string]any)["content"].(string), "Oslo") {
		delivery = outside.next(t)
	}
	callback := delivery["callback"].(string)
	if help := strings.Join(strings.Fields(hubbub("help", "chorus")), " "); !strings.Contains(help, "POSTs to the callback, whose address is its secret") { // as below
		t.Error("the help does not say how a callback is called")
	}
	postJSON(t, callback, map[string]any{"type": "tool_call", "name": "forecast", "args": map[string]any{"city": "Oslo"}, "id": "1"})
	postJSON(t, callback, map[string]any{"type": "tool_result", "id": "1", "content": "3 degrees"})
	postJSON(t, callback, map[string]any{"type": "message", "content": "Oslo has 3 degrees."})
	s.await("the answer in Telegram", func() bool {
		return strings.Contains(strings.Join(s.api.Texts(chat.ID), "\n"), "Oslo has 3 degrees.")
	})
	var seen []string
	s.await("its passes in the log", func() bool {
		seen = nil
		for _, p := range s.publications() {
			if p.message.From == "agent:weather" && protocol.Topic(p.entry.Topic) == topicOf(chat) && p.status != "" && !contentOf[protocol.ChatReply](p).Typing {
				seen = append(seen, string(p.message.Type))
			}
		}
		return len(seen) == 3
	})
	if got := strings.Join(seen, " "); got != "agent_event agent_event tg_reply" {
		t.Errorf("the log has %s", got)
	}
	checkProgressMessages(t, s, outside, chat, will)
}

// checkProgressMessages lets the external agent send a thought in three parts, which must not be
// shown.
func checkProgressMessages(t *testing.T, s *fixture, outside *externalAgent, chat models.Chat, will models.User) {
	t.Helper()
	s.api.Say(chat, will, "@weather and tomorrow?")
	var delivery map[string]any
	for delivery == nil || !strings.Contains(delivery["message"].(map[string]any)["content"].(string), "tomorrow") {
		delivery = outside.next(t)
	}
	for i, part := range []string{"<think>INNER one", "INNER two", "INNER three</think>\n\nTomorrow it snows."} {
		raw, err := json.Marshal(map[string]any{"type": "message", "content": part})
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.Post(delivery["callback"].(string), "application/json", bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if want := []int{http.StatusForbidden, http.StatusForbidden, http.StatusOK}[i]; resp.StatusCode != want {
			t.Errorf("%q is answered %d, want %d", part, resp.StatusCode, want)
		}
	}
	said := func() string { return strings.Join(s.api.Texts(chat.ID), "\n") }
	s.await("the answer after a thought", func() bool { return strings.Contains(said(), "Tomorrow it snows.") })
	if strings.Contains(said(), "INNER") {
		t.Errorf("the chat shows %q", said())
	}
}

func checkAnswersChannel(t *testing.T, s *fixture, hubbub func(...string) string) {
	service := newExternalAgent(t)
	inbox := hubbub("chorus", "inbox", "create", "ops")
	postJSON(t, inbox, map[string]any{
		"channel":  map[string]any{"id": "ch_abc123", "name": "ops-team", "service": "A studio", "context": "A channel for tests."},
		"message":  map[string]any{"id": "msg_1", "sender": "alice", "content": "Is the deploy blocked?"},
		"callback": service.URL + "/channels/ch_abc123/inbox/tok_xyz789",
	})
	var types []string
	answer := ""
	for len(types) == 0 || types[len(types)-1] != "lifecycle idle" {
		body := service.next(t)
		kind := body["type"].(string)
		if kind == "lifecycle" {
			kind += " " + body["status"].(string)
		}
		if kind == "message" {
			answer, _ = body["content"].(string)
		}
		types = append(types, kind)
	}
	if types[0] != "lifecycle processing" || !strings.Contains(answer, "deploy blocked") {
		t.Errorf("the callback got %q, and the answer %q", types, answer)
	}
	want := []protocol.MessageType{
		protocol.TypeSpawnRequest, protocol.TypeRouteAssigned, protocol.TypeConfigure, protocol.TypeChatMessage, protocol.TypeChatReply,
	}
	var steps []protocol.MessageType
	s.await("the steps in the log", func() bool {
		steps = nil
		for _, p := range s.publications() {
			if p.entry.Topic == string(protocol.TopicRoute) {
				continue // a copy for observers of the route
			}
			for _, w := range want {
				reply := contentOf[protocol.ChatReply](p)
				if p.message.Type == w && p.about("chorus:ops.ch_abc123") && !reply.Typing && reply.Signal == "" && p.status != "" {
					steps = append(steps, w)
				}
			}
		}
		return len(steps) >= len(want)
	})
	for i, w := range want {
		if steps[i] != w {
			t.Errorf("the log has %q; want %q", steps, want)
			break
		}
	}
}

// checkRelaysEnd lets a service relay the messages of two agents to each other's inbox under
// other names. The agents must answer the person and not each other.
func checkRelaysEnd(t *testing.T, hubbub func(...string) string) {
	inboxes := map[string]string{"alpha": hubbub("chorus", "inbox", "create", "one"), "beta": hubbub("chorus", "inbox", "create", "two")}
	other := map[string]string{"alpha": "beta", "beta": "alpha"}
	said := make(chan string, 100)
	var service *httptest.Server
	count := 0
	bring := func(to, sender, content string) { // one at a time: the test waits after each
		count++
		postJSON(t, inboxes[to], map[string]any{
			"channel":  map[string]any{"id": "room", "name": "ops-team", "service": "A studio"},
			"message":  map[string]any{"id": fmt.Sprintf("msg_%d", count), "sender": sender, "content": content},
			"callback": service.URL + "/" + to,
		})
	}
	service = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var e struct{ Type, Content string }
		if err := json.NewDecoder(r.Body).Decode(&e); err == nil && e.Type == "message" {
			said <- strings.TrimPrefix(r.URL.Path, "/") + "|" + e.Content
		}
	}))
	defer service.Close()
	for _, step := range []struct{ to, question string }{
		{"alpha", "Is the deploy blocked?"}, {"beta", "Are the tests green?"}, {"alpha", "Is the disk full?"}, {"beta", "Is the queue empty?"},
	} {
		bring(step.to, "alice", step.question)
		select {
		case answer := <-said:
			name, text, _ := strings.Cut(answer, "|")
			if name != step.to || !strings.Contains(text, strings.TrimSuffix(strings.ToLower(step.question[7:]), "?")) {
				t.Fatalf("%s was asked %q, and then came %q", step.to, step.question, answer)
			}
			bring(other[name], name, text)
		case <-time.After(patience):
			t.Fatalf("%s never answered %q", step.to, step.question)
		}
	}
}
