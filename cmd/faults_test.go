package cmd_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
)

// A faultyModel is the endpoint of a model that rejects the key while keyless is true, and that
// holds hard questions until the test continues. It answers anything else with its cost.
type faultyModel struct {
	proceed chan struct{} // closed to continue

	mu      sync.Mutex
	keyless bool
	asked   []string
}

func (m *faultyModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	m.mu.Lock()
	prompt := string(raw)[strings.LastIndex(string(raw), `\nMESSAGE\n`)+1:] // the newest message
	m.asked = append(m.asked, prompt)
	keyless, n := m.keyless, len(m.asked)
	m.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case keyless:
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"error":{"message":"Incorrect API key provided","code":"invalid_api_key"}}`)) // the agent may be gone
		return
	case strings.Contains(prompt, "a hard one"):
		select {
		case <-m.proceed:
		case <-r.Context().Done():
			return
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"choices": []any{map[string]any{"message": map[string]any{"role": "assistant", "content": fmt.Sprint("answer ", n)}, "finish_reason": "stop"}},
		"usage":   map[string]any{"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": map[string]any{"cached_tokens": 60}, "cost": 0.25},
	})
}

// times counts the requests whose message has a text.
func (m *faultyModel) times(text string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(m.asked), func(one string) bool { return !strings.Contains(one, text) }))
}

// doctor returns the output of hubbub doctor.
func (s *fixture) doctor() string {
	cmd := exec.CommandContext(s.t.Context(), built(s.t, "hubbub"), "doctor", "--api-url="+s.tgArgs[1], "--bus=ws://"+s.bus, "--data="+s.data)
	cmd.Env = append(os.Environ(), "TELEGRAM_BOT_TOKEN="+s.botToken)
	out, _ := cmd.CombinedOutput()
	return string(out)
}

// TestModelKey_RejectionIsReported checks that the chat is notified that repeating does not help,
// and that doctor and the agent's log have the reason, once and then counted, without the key.
// The tokens and cost of an answer are recorded, including cached tokens.
func TestModelKey_RejectionIsReported(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts programs")
	}
	model := &faultyModel{keyless: true}
	web := httptest.NewServer(model)
	t.Cleanup(web.Close)
	t.Setenv("OPENAI_API_KEY", "sk-this-is-the-wrong-key")
	s := newFixture(t, "--harness=openai", "--model=moody", "--base-url="+web.URL+"/v1")
	will := s.api.User("Will")
	dm := s.api.DM(will)
	for i := range 10 {
		s.api.Say(dm, will, fmt.Sprintf("question %d?", i))
		if said := s.awaitTexts(dm, i+1)[i]; said != "I can't answer: my model's key was rejected. Please tell whoever runs me; sending this again won't help." {
			t.Fatalf("the chat is told %q", said)
		}
	}
	var log string
	var told []string
	s.await("the tenth failure in the agent's log", func() bool {
		log, told = s.logs("tg-1001")["agent"], nil
		for line := range strings.Lines(log) {
			if strings.Contains(line, `"message":"turn failed"`) && strings.Contains(line, "Incorrect API key") {
				told = append(told, line)
			}
		}
		return len(told) > 1
	})
	if len(told) != 2 || !strings.Contains(told[0], `"times":1,`) || !strings.Contains(told[1], `"times":10,`) {
		t.Errorf("the agent's log tells of it %d times: %q", len(told), told)
	}
	doctor := s.doctor()
	if !strings.Contains(doctor, "All turns of agent:tg-1001 have failed since") || !strings.Contains(doctor, "(10): ") || !strings.Contains(doctor, "Incorrect API key provided") {
		t.Errorf("the doctor says\n%s", doctor)
	}
	if strings.Contains(doctor+log, "sk-this-is") {
		t.Error("the key is told")
	}

	model.mu.Lock()
	model.keyless = false
	model.mu.Unlock()
	s.api.Say(dm, will, "and now?")
	if said := s.awaitTexts(dm, 11)[10]; said != "answer 11" {
		t.Errorf("with the key mended it said %q", said)
	}
	s.await("a doctor that finds no failing turns", func() bool { return !strings.Contains(s.doctor(), "have failed since") })
	var spent string
	s.await("what the answer took", func() bool {
		for _, p := range s.publications() {
			if text := string(p.message.Content); strings.Contains(text, `"event":"turn"`) && strings.Contains(text, `"inputTokens"`) {
				spent = text
			}
		}
		return spent != ""
	})
	for _, want := range []string{`"model":"moody"`, `"inputTokens":100`, `"cachedTokens":60`, `"outputTokens":7`, `"usd":0.25`} {
		if !strings.Contains(spent, want) {
			t.Errorf("the turn's record has no %s: %s", want, spent)
		}
	}
}

// TestSlowChat_DoesNotDelayOthers checks an agent in two chats. Half of its turns may hang in one
// chat; further turns there wait and say why; the other chat is answered. Two messages from
// another agent cost one turn.
func TestSlowChat_DoesNotDelayOthers(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts programs")
	}
	model := &faultyModel{proceed: make(chan struct{})}
	web := httptest.NewServer(model)
	t.Cleanup(web.Close)
	s := newFixture(t, "--harness=openai", "--model=moody", "--base-url="+web.URL+"/v1")
	will := s.api.User("Will")
	slow, quick := s.api.Forum(-100500, "Slow"), s.api.AddChat(models.Chat{ID: -100, Type: "group", Title: "Quick"})
	bot := "@" + s.api.Bot().Username
	for _, c := range []models.Chat{slow, quick} {
		s.api.Say(c, will, bot+" hello")
		s.awaitTexts(c, 1)
	}
	s.hubbub("pub", "system:spawn", "--type", "spawn_request", "--content", `{"topic":"tg:-100","agent":"tg--100500"}`)
	s.await("the agent of both chats", func() bool {
		n := 0
		for _, p := range s.publications() {
			if p.status != "" && p.message.Type == "configure" {
				n++
			}
		}
		return n == 3
	})

	for i := range 8 {
		s.api.SayIn(slow, s.api.Topic(slow, fmt.Sprint("topic ", i)), will, fmt.Sprintf("%s a hard one, number %d?", bot, i))
	}
	s.await("the turns that hang", func() bool { return model.times("a hard one") == 4 })
	const why = "the limit of 4 running turns in one chat is reached"
	s.await("the four that wait", func() bool {
		n := 0
		for _, p := range s.publications() {
			if text := string(p.message.Content); strings.Contains(text, `"state":"waiting"`) && strings.Contains(text, why) {
				n++
			}
		}
		return n == 4
	})
	for range 2 {
		n := len(s.api.Texts(quick.ID))
		s.api.Say(quick, will, "@tg--100500 are you there?")
		s.awaitTexts(quick, n+1)
	}
	if model.times("a hard one") != 4 || len(s.api.Texts(slow.ID)) != 1 {
		t.Errorf("%d turns in the slow chat, which shows %q", model.times("a hard one"), s.api.Texts(slow.ID))
	}

	says := func(key string) {
		s.hubbub("pub", "tg:-100", "--as=agent:other", "--type=tg_reply", "--content", `{"text":"@tg--100500 is step 3 safe?","idempotencyKey":"`+key+`"}`)
	}
	n := len(s.api.Texts(quick.ID))
	says("once")
	s.awaitTexts(quick, n+2)
	says("again")
	s.await("the repetition", func() bool {
		return slices.ContainsFunc(recordsOf[protocol.AttentionDecision](s), func(a *protocol.AttentionDecision) bool { return a.Reason == "repeated" })
	})
	close(model.proceed)
	s.awaitTexts(slow, 9)
	if n := model.times("is step 3 safe"); n != 1 {
		t.Errorf("what was said twice took %d turns", n)
	}
}
