package cmd_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hubbub/activitylog"
	"hubbub/activitylog/read"
	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
)

// A scriptedModel calls the tool that a message names ("do chat_post {...}") and then says
// nothing. It answers any other message with a word.
type scriptedModel struct{}

var order = regexp.MustCompile(`do (chat_[a-z_]+) (\{.*\})`)

func (scriptedModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Messages []struct{ Role, Content string }
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || len(body.Messages) < 2 {
		http.Error(w, "no request", http.StatusBadRequest)
		return
	}
	answer, last := map[string]any{"role": "assistant", "content": ""}, body.Messages[len(body.Messages)-1]
	_, text, _ := strings.Cut(last.Content, "\nMESSAGE\n<<")
	if last.Role == "user" {
		if told := order.FindStringSubmatch(text); told != nil {
			answer["tool_calls"] = []any{map[string]any{"id": "call", "type": "function", "function": map[string]any{"name": told[1], "arguments": told[2]}}}
		} else {
			answer["content"] = "Well."
		}
	} else {
		answer["content"] = "Done."
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{"message": answer, "finish_reason": "stop"}}}) // the agent may have gone
}

// newScriptedFixture starts a system whose agents use a scriptedModel.
func newScriptedFixture(t *testing.T, agents ...string) *fixture {
	t.Helper()
	web := httptest.NewServer(scriptedModel{})
	t.Cleanup(web.Close)
	return newFixture(t, append([]string{"--harness=openai", "--model=obedient", "--base-url=" + web.URL + "/v1"}, agents...)...)
}

// hubbub runs a command on the system and returns its output.
func (s *fixture) hubbub(args ...string) string {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), built(s.t, "hubbub"), append(args, "--bus=ws://"+s.bus, "--data="+s.data)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("hubbub %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// why returns the output of hubbub why for an event or a record, once the log has it.
func (s *fixture) why(id string) (said string) {
	s.t.Helper()
	s.await("what the log has of "+id, func() bool {
		out, err := exec.CommandContext(s.t.Context(), built(s.t, "hubbub"), "why", id, "--data="+s.data).CombinedOutput()
		said = string(out)
		return err == nil
	})
	return said
}

// recordsOf returns the attention records of a kind.
func recordsOf[K any](s *fixture) (list []*K) {
	s.t.Helper()
	err := s.log.Attention(s.t.Context(), read.AttentionFilter{}, func(a *activitylog.AttentionRecord) error {
		if c, ok := a.Content.(*K); ok {
			list = append(list, c)
		}
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return list
}

// TestAgent_SpeaksFirst asks an agent in one chat to write into another. It may do so only where
// it is assigned. The other agent of that chat gets no turn, and why shows who wrote and why.
func TestAgent_SpeaksFirst(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts programs")
	}
	s := newScriptedFixture(t)
	will := s.api.User("Will")
	direct := s.api.DM(will)
	room := s.api.AddChat(models.Chat{ID: -100, Type: "group", Title: "Team"})
	s.api.Say(room, will, "@"+s.api.Bot().Username+" hello")
	s.awaitTexts(room, 1)
	s.api.Say(direct, will, "hello")
	s.awaitTexts(direct, 1)
	agent := "agent:tg-" + strings.TrimPrefix(string(topicOf(direct)), "tg:")

	post := `do chat_post {"target":"tg:-100","text":"The build is green.","reason":"Will wants the team to know"}`
	s.api.Say(direct, will, post)
	s.awaitTexts(direct, 2)
	if got := s.api.Texts(room.ID); len(got) != 1 {
		t.Fatalf("an agent that is not assigned to the room said there: %q", got)
	}
	s.hubbub("pub", "tg:-100", "--type", "route_assigned", "--content", `{"topic":"tg:-100","agent":"`+agent+`"}`)
	s.await("the assignment", func() bool {
		return slices.ContainsFunc(s.publications(), func(p *publication) bool {
			return p.message.Type == protocol.TypeConfigure && p.entry.Topic == agent && p.about("tg:-100") && p.status == activitylog.StatusOK
		})
	})
	s.api.Say(direct, will, post+" now")
	if got := s.awaitTexts(room, 2); got[1] != "The build is green." {
		t.Fatalf("the room reads %q", got)
	}
	s.awaitTexts(direct, 3)
	s.await("the sibling's decision", func() bool {
		return slices.ContainsFunc(recordsOf[protocol.AttentionDecision](s), func(a *protocol.AttentionDecision) bool {
			return a.Agent == "agent:tg--100" && a.Reason == "told_nobody"
		})
	})

	posts := recordsOf[protocol.PostRecord](s)
	if len(posts) != 1 {
		t.Fatalf("%d posts were recorded", len(posts))
	}
	line := "spoke first in tg:-100, ambient: " + string(posts[0].MessageID) + ", because Will wants the team to know"
	for _, of := range []string{posts[0].EventID, string(posts[0].MessageID)} {
		if said := s.why(of); !strings.Contains(said, line) {
			t.Errorf("hubbub why %s says\n%s", of, said)
		}
	}
	if n := len(s.api.Texts(room.ID)); n != 2 {
		t.Errorf("%d messages in the room", n)
	}
}

// TestAgent_IsReminded kills an agent that has set a reminder. The agent gets the reminder once,
// in its chat, and why shows the reason. A person lists its other reminder and cancels it.
func TestAgent_IsReminded(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts programs")
	}
	s := newScriptedFixture(t)
	will := s.api.User("Will")
	chat := s.api.DM(will)
	s.api.Say(chat, will, `do chat_remind {"when":"0 9 * * 1-5","zone":"Europe/Berlin","text":"Ask for the numbers."}`)
	s.awaitTexts(chat, 1)
	s.api.Say(chat, will, `do chat_remind {"when":"2s","text":"do chat_send_message {\"text\":\"It is time.\"}"}`)
	s.awaitTexts(chat, 2)
	s.restart("system")
	if got := s.awaitTexts(chat, 3); got[2] != "It is time." {
		t.Fatalf("the chat reads %q", got)
	}
	var due, set protocol.ReminderRecord
	s.await("the records", func() bool {
		for _, r := range recordsOf[protocol.ReminderRecord](s) {
			switch {
			case r.State == "due":
				due = *r
			case r.Reason != "Ask for the numbers.":
				set = *r
			}
		}
		return due.EventID != "" && set.EventID != ""
	})
	s.await("why", func() bool {
		said := s.why(due.EventID)
		return strings.Contains(said, "reminder "+due.ReminderID+" due") && strings.Contains(said, "the agent had set a reminder for it") && strings.Contains(said, "ended: responded")
	})
	if said := s.why(set.EventID); !strings.Contains(said, "reminder "+due.ReminderID+" set for ") {
		t.Errorf("hubbub why %s says\n%s", set.EventID, said)
	}
	listed := s.hubbub("reminders")
	id := regexp.MustCompile(`r-[0-9a-f]+`).FindAllString(listed, -1)
	if len(id) != 1 || !strings.Contains(listed, "0 9 * * 1-5 Europe/Berlin") {
		t.Fatalf("hubbub reminders says\n%s", listed)
	}
	s.hubbub("reminders", "cancel", id[0])
	if said := s.hubbub("reminders"); !strings.Contains(said, "no agent has set a reminder") {
		t.Errorf("hubbub reminders says\n%s", said)
	}
	s.api.Say(chat, will, "hello")
	s.await("its record", func() bool {
		return slices.ContainsFunc(recordsOf[protocol.ReminderRecord](s), func(r *protocol.ReminderRecord) bool {
			return r.ReminderID == id[0] && r.State == "cancelled" && strings.Contains(r.Reason, "cancelled by cli:")
		})
	})
	if n := len(s.awaitTexts(chat, 4)); n != 4 {
		t.Errorf("%d messages", n)
	}
}
