package cmd_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"hubbub/activitylog"
	"hubbub/activitylog/read"
	"hubbub/peers/tg/tgtest"
	"hubbub/protocol"
)

// A messageModel is a model that is notified of undelivered answers. Asked "at length", it sends
// a long answer with the tool, waits until that is lost, and sends a shorter one after a tool
// result says so. It answers anything else at once.
type messageModel struct {
	lost chan struct{}

	mu   sync.Mutex
	told []string // the roles, "tool" or "user", in which it was notified of a loss
}

func (m *messageModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || len(asked.Messages) == 0 {
		http.Error(w, "no messages", http.StatusBadRequest)
		return
	}
	last := asked.Messages[len(asked.Messages)-1]
	said := string(last.Content)
	told := strings.Contains(said, "was not delivered")
	if told {
		m.mu.Lock()
		m.told = append(m.told, last.Role)
		m.mu.Unlock()
	}
	message := map[string]any{"role": "assistant"}
	call := func(tool, arguments string) {
		message["tool_calls"] = []any{map[string]any{"id": "c1", "type": "function", "function": map[string]any{"name": tool, "arguments": arguments}}}
	}
	switch {
	case last.Role == "tool" && told:
		call("chat_send_message", `{"text":"in short"}`)
	case last.Role == "tool" && strings.Contains(said, `"status`) && len(asked.Messages) < 6:
		<-m.lost
		call("chat_list_events", `{"limit":1}`)
	case last.Role == "tool", told:
		message["content"] = ""
	case !strings.Contains(said, "in a word"): // a later prompt quotes it
		call("chat_send_message", `{"text":"all of it"}`)
	default:
		message["content"] = "a word"
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{"message": message}}}) // the agent may be gone
}

// prompts returns the roles in which the model was notified of a loss.
func (m *messageModel) prompts() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.told)
}

// failedSends counts the reports of undelivered messages to agents.
func (s *fixture) failedSends() (n int) {
	s.t.Helper()
	for _, p := range s.publicationsOf(read.Filter{}) {
		var status protocol.DeliveryStatus
		if p.message.Type == protocol.TypeDeliveryStatus && p.status == activitylog.StatusOK && json.Unmarshal(p.message.Content, &status) == nil && status.Status == protocol.StatusFailed {
			n++
		}
	}
	return n
}

// TestUndelivered_AgentIsNotified checks that a model learns from a tool result in the same turn
// that its answer is too long, and sends a short one; and that an event reports once that its
// chat is gone.
func TestUndelivered_AgentIsNotified(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts programs")
	}
	model := &messageModel{lost: make(chan struct{})}
	web := httptest.NewServer(model)
	t.Cleanup(web.Close)
	s := newFixture(t, "--harness=openai", "--model=teller", "--base-url="+web.URL+"/v1")
	user := s.api.User("Will")
	chat := s.api.DM(user)
	s.api.Fail(tgtest.Fault{Method: "sendMessage", Text: "all of it", Status: http.StatusBadRequest, Description: "Bad Request: message is too long"})
	s.api.Say(chat, user, "at length, please")
	s.await("the report of the loss", func() bool { return s.failedSends() == 1 })
	close(model.lost)
	s.await("the shorter answer", func() bool { return slices.Contains(s.api.Texts(chat.ID), "in short") })

	s.api.Fail(tgtest.Fault{Method: "sendMessage", Text: "a word", Times: -1, Status: http.StatusForbidden, Description: "Forbidden: bot was blocked by the user"})
	s.api.Say(chat, user, "and in a word?")
	s.await("the event", func() bool { return len(model.prompts()) == 2 })
	if got := model.prompts(); !slices.Equal(got, []string{"tool", "user"}) {
		t.Errorf("the model was told as %q", got)
	}
	if got := s.api.Texts(chat.ID); slices.Contains(got, "all of it") || slices.Contains(got, "a word") {
		t.Errorf("the chat shows %q", got)
	}
}
