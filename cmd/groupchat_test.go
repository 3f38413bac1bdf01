package cmd_test

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
)

// A chatModel is the model of two agents in a group. Each agent does what a message asks, and
// endlessly answers the other agent with a new message to it.
type chatModel struct {
	mu    sync.Mutex
	turns []string // "AGENT PROMPT" of each turn
}

func (p *chatModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Messages []struct{ Role, Content string }
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || len(body.Messages) < 2 {
		http.Error(w, "no request", http.StatusBadRequest)
		return
	}
	_, me, _ := strings.Cut(body.Messages[0].Content, "You are the agent ")
	me, _, _ = strings.Cut(me, " ")
	last := body.Messages[len(body.Messages)-1]
	answer := map[string]any{"role": "assistant"}
	if last.Role == "user" { // otherwise it is the result of a tool
		p.mu.Lock()
		p.turns = append(p.turns, me+" "+last.Content)
		answer["content"] = reply(me, last.Content, len(p.turns))
		p.mu.Unlock()
		if tool, arguments := toolCall(last.Content); tool != "" {
			answer["tool_calls"] = []any{map[string]any{"id": "call", "type": "function", "function": map[string]any{"name": tool, "arguments": arguments}}}
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{"message": answer, "finish_reason": "stop"}}}) // the agent may be halted
}

// messageIn returns the message in a prompt.
func messageIn(prompt string) string {
	_, text, _ := strings.Cut(prompt, "\nMESSAGE\n<<")
	text, _, _ = strings.Cut(text, ">>")
	return text
}

// toolCall returns the tool that an agent calls in a turn, or "".
func toolCall(prompt string) (tool, arguments string) {
	switch text := messageIn(prompt); {
	case strings.Contains(text, "put off"):
		return "chat_defer", `{"reason":"no hurry","eta":"1h"}`
	case text != "": // reactions may accompany it
	case strings.Contains(prompt, "the reaction agree"):
		return "chat_send_message", `{"text":"I deploy now."}`
	case strings.Contains(prompt, "the reaction declined"):
		return "chat_send_message", `{"text":"I plan it again."}`
	}
	return "", ""
}

// reply returns the reply from an agent in its nth turn.
func reply(me, prompt string, n int) string {
	text := messageIn(prompt)
	other := map[string]string{"tg--100": "second", "second": "tg--100"}[me]
	if inbox, behind := strings.CutPrefix(me, "chorus-"); behind {
		inbox, _, _ = strings.Cut(inbox, "-")
		other = map[string]string{"alpha": "beta", "beta": "alpha", "one": "two", "two": "three", "three": "one"}[inbox]
	}
	switch {
	case text == "", strings.Contains(text, "put off"):
		return ""
	case strings.Contains(text, "ask me"):
		return "Shall I deploy?"
	case strings.Contains(text, "what was sung"):
		return "It was " + strings.Repeat("la la land", strings.Count(prompt, "La la land"))
	case strings.Contains(text, "sing"):
		return "La la land"
	case strings.Contains(text, "hello"):
		return fmt.Sprint("hello ", n)
	default:
		h := fnv.New64a()
		fmt.Fprint(h, n)
		return fmt.Sprintf("@%s and what of %x, %x?", other, h.Sum64(), h.Sum64()*31)
	}
}

// prompts returns the turns of all agents.
func (p *chatModel) prompts() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.turns)
}

// turnsOf counts the turns of an agent.
func (p *chatModel) turnsOf(agent string) int {
	return len(slices.DeleteFunc(p.prompts(), func(t string) bool { return !strings.HasPrefix(t, agent+" ") }))
}

// A groupFixture is a Telegram group with one agent, or two after addSecond.
type groupFixture struct {
	*fixture
	model *chatModel
	will  models.User
	room  models.Chat
}

func newGroupFixture(t *testing.T) *groupFixture {
	model := &chatModel{}
	web := httptest.NewServer(model)
	t.Cleanup(web.Close)
	s := newFixture(t, "--harness=openai", "--model=parrot", "--base-url="+web.URL+"/v1")
	f := &groupFixture{s, model, s.api.User("Will"), s.api.AddChat(models.Chat{ID: -100, Type: "group", Title: "Team"})}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("in the room:\n%s", strings.Join(s.api.Texts(f.room.ID), "\n"))
		}
	})
	f.ask("@"+s.api.Bot().Username+" hello", "hello")
	return f
}

// addSecond adds the agent "second".
func (f *groupFixture) addSecond() {
	f.t.Helper()
	f.hubbub("pub", "system:spawn", "--type", "spawn_request", "--content", `{"topic":"tg:-100","agent":"second"}`)
	f.await("the second agent", func() bool {
		return slices.ContainsFunc(f.publications(), func(p *publication) bool { return p.entry.Topic == "agent:second" && p.status != "" })
	})
}

// ask says a text and returns the texts after it, once one of them has want.
func (f *groupFixture) ask(text, want string) []string {
	f.t.Helper()
	from := len(f.api.Texts(f.room.ID))
	f.api.Say(f.room, f.will, text)
	f.await(want, func() bool {
		return slices.ContainsFunc(f.api.Texts(f.room.ID)[from:], func(said string) bool { return strings.Contains(said, want) })
	})
	return f.api.Texts(f.room.ID)[from:]
}

// turns counts the turns of both agents.
func (f *groupFixture) turns() int { return f.model.turnsOf("second") + f.model.turnsOf("tg--100") }

// TestGroupChat_AgentsReceiveEachOther checks that an agent in a Telegram group receives the
// messages of another without a turn.
func TestGroupChat_AgentsReceiveEachOther(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts programs")
	}
	f := newGroupFixture(t)
	f.addSecond()
	f.ask("@tg--100 sing", "La la land")
	f.await("what the second agent overhears", func() bool {
		return slices.ContainsFunc(f.publications(), func(p *publication) bool {
			return p.status != "" && strings.Contains(string(p.message.Content), "La la land") && p.entry.Topic == "agent:second"
		})
	})
	before := f.model.turnsOf("second")
	f.ask("@second what was sung?", "It was la la land")
	if n := f.model.turnsOf("second") - before; n != 1 {
		t.Errorf("the second agent took %d turns for one question and what it overheard", n)
	}
}

// TestGroupChat_ExchangeOfAgentsEnds checks that the exchange of two agents ends with one call for
// a person, and that a halt stops both.
func TestGroupChat_ExchangeOfAgentsEnds(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts programs")
	}
	f := newGroupFixture(t)
	f.addSecond()
	said := f.ask("@second talk to the other one", "Two agents have been talking here")
	said = append(said, f.ask("@tg--100 hello again", "hello")...)
	calls, exchanged := 0, 0
	for _, text := range said {
		switch {
		case strings.HasPrefix(text, "Two agents have been talking here"):
			calls++
		case strings.HasPrefix(text, "@"):
			exchanged++
		}
	}
	if calls != 1 || exchanged < 3 || exchanged > 12 {
		t.Errorf("%d calls for a person after %d messages of agents: %q", calls, exchanged, said)
	}

	f.ask("/halt", "tg--100: halted")
	f.await("the halt of the second agent", func() bool {
		return slices.ContainsFunc(f.api.Texts(f.room.ID), func(said string) bool { return strings.Contains(said, "second: halted") })
	})
	before := f.turns()
	f.ask("@second hello, are you there?", "halt")
	if n := f.turns() - before; n != 0 {
		t.Errorf("%d turns in a chat that is halted", n)
	}
	f.hubbub("resume", "tg:-100")
	f.ask("@second hello!", "hello")
}

// TestGroupChat_ReactionsAgreeOrClose checks that a thumb on an agent's question lets it continue or
// plan again, and that marking a message as done closes a deferred item.
func TestGroupChat_ReactionsAgreeOrClose(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts programs")
	}
	f := newGroupFixture(t)
	f.ask("@tg--100 ask me", "Shall I deploy?")
	messages := f.api.Messages(f.room.ID)
	i := slices.IndexFunc(messages, func(m *models.Message) bool { return m.Text == "Shall I deploy?" })
	for _, c := range [][2]string{{"👎", "I plan it again."}, {"👍", "I deploy now."}} {
		f.api.React(f.room, f.will, messages[i].ID, nil, c[0])
		f.await(c[1], func() bool { return slices.Contains(f.api.Texts(f.room.ID), c[1]) })
	}
	// More thumbs under the same question change nothing: taken back and set again, or another person's.
	ann, turns := f.api.User("Ann"), f.model.turnsOf("tg--100")
	for _, by := range []models.User{f.will, ann} {
		f.api.React(f.room, by, messages[i].ID, []string{"👍"})
		f.api.React(f.room, by, messages[i].ID, nil, "👍")
	}
	f.ask("@tg--100 hello after the thumbs", "hello") // what the thumbs begin would come before
	if n := f.model.turnsOf("tg--100") - turns; n != 1 {
		t.Errorf("%d turns after further thumbs; want 1, for the message", n)
	}
	disposed := func(as string) func() bool {
		return func() bool {
			return slices.ContainsFunc(recordsOf[protocol.Disposition](f.fixture), func(r *protocol.Disposition) bool {
				return r.Agent == "agent:tg--100" && r.Disposition == as && (as != "acknowledged" || strings.HasPrefix(r.Reason, "already done"))
			})
		}
	}
	later := f.api.Say(f.room, f.will, "@tg--100 put off watering the plants")
	f.await("a deferred event", disposed("deferred"))
	f.api.React(f.room, f.will, later.ID, nil, "👌")
	f.await("its end, as it is done", disposed("acknowledged"))
}
