package cmd_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hubbub/activitylog/read"
	"hubbub/bus/bustest"
	"hubbub/protocol"
)

// A chorusService is an independent Chorus service, written in Python from the protocol alone.
// Its channel has people, and agents behind inboxes.
type chorusService struct {
	s   *fixture
	url string
}

type chorusMessage struct{ Sender, Content string }

func newChorusService(s *fixture, channel ...string) *chorusService {
	s.t.Helper()
	if exec.CommandContext(s.t.Context(), "python3", "-c", "import sys; sys.exit(sys.version_info < (3, 8))").Run() != nil {
		s.t.Skip("python3 is missing")
	}
	address := bustest.FreeAddress(s.t)
	p := &process{t: s.t, name: "the service", sign: regexp.MustCompile(`(?m)^ready$`)}
	p.cmd = exec.CommandContext(context.Background(), "python3", append([]string{filepath.Join("testdata", "chorus", "service.py"), address[strings.LastIndex(address, ":")+1:]}, channel...)...)
	p.cmd.Stderr = p
	p.start(s.t)
	return &chorusService{s, "http://" + address}
}

func (c *chorusService) post(path string, body any) {
	c.s.t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		c.s.t.Fatal(err)
	}
	resp, err := http.Post(c.url+path, "application/json", bytes.NewReader(raw))
	if err != nil {
		c.s.t.Fatal(err)
	}
	resp.Body.Close()
}

// state returns the messages of the channel, and the violations of the protocol by agents.
func (c *chorusService) state() (said []chorusMessage, faults []string) {
	c.s.t.Helper()
	resp, err := http.Get(c.url + "/studio")
	if err != nil {
		c.s.t.Fatal(err)
	}
	defer resp.Body.Close()
	var state struct {
		Said   []chorusMessage
		Faults []string
	}
	if err := json.NewDecoder(resp.Body).Decode(&state); err != nil {
		c.s.t.Fatal(err)
	}
	return state.Said, state.Faults
}

// ask posts a message from a person. It returns the agents' messages after it as "sender: text",
// once all wanted texts have come.
func (c *chorusService) ask(text string, wants ...string) (then []string) {
	c.s.t.Helper()
	before, _ := c.state()
	c.post("/studio/say", map[string]string{"sender": "alice", "content": text})
	for _, want := range wants {
		c.s.await(want, func() bool {
			said, _ := c.state()
			then = nil
			for _, w := range said[len(before):] {
				if w.Sender != "alice" {
					then = append(then, w.Sender+": "+w.Content)
				}
			}
			return slices.ContainsFunc(then, func(line string) bool { return strings.Contains(line, want) })
		})
	}
	return then
}

// newChannelFixture starts a system with a gateway whose agents use a chatModel.
func newChannelFixture(t *testing.T) (*fixture, *chatModel) {
	model := &chatModel{}
	web := httptest.NewServer(model)
	t.Cleanup(web.Close)
	s := newFixture(t, "--harness=openai", "--model=parrot", "--base-url="+web.URL+"/v1")
	s.start("chorus", "--allow-target=127.0.0.0/8")
	return s, model
}

// addAgent puts a new agent behind an inbox of its own into the channel. The service forwards the
// agent's messages to the agent named to, or to all if it is empty.
func (c *chorusService) addAgent(name, to string) {
	c.s.t.Helper()
	agent := map[string]string{"name": name, "connection": strings.TrimSpace(c.s.hubbub("chorus", "inbox", "create", name))}
	if to != "" {
		agent["to"] = to
	}
	c.post("/studio/agents", agent)
}

// newTwoAgents returns a channel with the agents alpha and beta, which have answered once.
func newTwoAgents(t *testing.T) (*chorusService, *chatModel) {
	s, model := newChannelFixture(t)
	room := newChorusService(s)
	t.Cleanup(func() {
		if t.Failed() {
			said, faults := room.state()
			t.Logf("in the room: %q; faults: %q", said, faults)
		}
	})
	room.addAgent("alpha", "")
	room.addAgent("beta", "")
	room.ask("@alpha and @beta, hello", "alpha: hello", "beta: hello")
	return room, model
}

// mustBeFaultless checks that no agent has violated the protocol.
func (c *chorusService) mustBeFaultless() {
	c.s.t.Helper()
	if _, faults := c.state(); len(faults) != 0 {
		c.s.t.Errorf("the agents violated the protocol: %q", faults)
	}
}

// TestChorusChannel_ExchangeOfTwoAgentsEnds puts two agents behind two inboxes into a channel of an
// independent service. They receive each other's messages and do not answer for each other, and
// their exchange ends with one call for a person.
func TestChorusChannel_ExchangeOfTwoAgentsEnds(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts programs")
	}
	room, model := newTwoAgents(t)
	asked := model.prompts()[0]
	_, fence, _ := strings.Cut(asked, "\nfence: ")
	fence, _, _ = strings.Cut(fence, "\n")
	mustContain(t, asked, "<<"+fence+"\nservice: Studio\ncontext: The team uses this channel for ops coordination.\n"+fence+">>")
	// It is for nobody. What one author writes before a mention belongs to the mention.
	room.post("/studio/say", map[string]string{"sender": "bob", "content": "hello you two"})
	said := room.ask("@alpha sing", "alpha: La la land")
	said = append(said, room.ask("@beta what was sung?", "beta: It was la la land")...)
	if n := len(said); n != 2 {
		t.Errorf("two were asked, each one thing: %q", said)
	}

	said = room.ask("@beta talk to the other one", "Two agents have been talking here")
	said = append(said, room.ask("@alpha hello again", "alpha: hello")...)
	calls, exchanged := 0, 0
	for _, line := range said {
		_, words, _ := strings.Cut(line, ": ")
		switch {
		case strings.HasPrefix(words, "Two agents have been talking here"):
			calls++
		case strings.HasPrefix(words, "@"):
			exchanged++
		}
	}
	if calls != 1 || exchanged < 3 || exchanged > 12 {
		t.Errorf("%d calls for a person after %d messages of agents: %q", calls, exchanged, said)
	}
	room.mustBeFaultless()
}

// TestChorusChannel_HaltStopsEveryAgent halts the agents of a channel by a command in the channel and
// at the command line.
func TestChorusChannel_HaltStopsEveryAgent(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts programs")
	}
	room, model := newTwoAgents(t)
	for _, command := range [][2]string{{"/halt", ": halted by alice"}, {"/resume", ": resumed by alice"}} {
		turns := len(model.prompts())
		for _, line := range room.ask(command[0], "alpha: chorus-alpha", "beta: chorus-beta") {
			mustContain(t, line, command[1])
		}
		if n := len(model.prompts()) - turns; n != 0 {
			t.Errorf("%d turns for %s", n, command[0])
		}
		if command[0] == "/halt" {
			room.ask("@alpha @beta hello", "alpha: I was halted by alice", "beta: I was halted by alice")
		}
	}
	room.s.hubbub("halt")
	turns := len(model.prompts())
	room.ask("@beta hello, are you there?", "beta: ")
	if n := len(model.prompts()) - turns; n != 0 {
		t.Errorf("%d turns while all are halted", n)
	}
	room.s.hubbub("resume")
	room.ask("@beta hello!", "beta: hello")
	room.mustBeFaultless()
}

// TestChorusChannel_ExchangeInRingEnds puts three agents into a ring. Each receives the messages of the
// previous one, reworded and under an unknown name.
func TestChorusChannel_ExchangeInRingEnds(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts programs")
	}
	s, _ := newChannelFixture(t)
	ring := newChorusService(s, "ch_ring")
	for i, name := range ringOf {
		ring.addAgent(name, ringOf[(i+1)%len(ringOf)])
	}
	said := ring.ask("@one talk to the other one", "Two agents have been talking here")
	said = append(said, ring.ask("@two hello again", "two: hello")...)
	exchanged := 0
	callers := map[string]int{}
	for _, line := range said {
		if name, _, calls := strings.Cut(line, ": Two agents have been talking here"); calls {
			callers[name]++ // it has not received what another agent says at the same time
		} else if strings.Contains(line, ": @") {
			exchanged++
		}
	}
	for name, calls := range callers {
		if calls > 1 {
			t.Errorf("in a ring of three %s calls %d times for a person: %q", name, calls, said)
		}
	}
	if exchanged < 3 || exchanged > 18 { // no agent receives all messages
		t.Errorf("in a ring of three there are %d messages of agents: %q", exchanged, said)
	}
}

// TestChorusChannel_ExchangeWithProgramEnds puts an agent into a channel with a program that answers
// each message at once, and is marked as a bot or not.
func TestChorusChannel_ExchangeWithProgramEnds(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts programs")
	}
	s, _ := newChannelFixture(t)
	for kind, ends := range map[string]string{"": "Two agents have been talking here", "bot": "timber: And what of"} {
		room := newChorusService(s, "ch_program"+kind)
		room.addAgent("solo"+kind, "")
		room.post("/studio/programs", map[string]string{"name": "timber", "kind": kind})
		said := room.ask("talk, please", ends)
		if room.post("/studio/programs", map[string]string{"name": "timber", "kind": "bot"}); len(said) > 40 {
			t.Errorf("with a program of the kind %q there are %d messages", kind, len(said))
		}
		room.ask("hello again", "solo"+kind+": hello")
	}
}

// ringOf are the agents of a ring: each one's messages go to the next.
var ringOf = []string{"one", "two", "three"}

// TestChorusChannel_AgentSpeaksFirst checks messages by chat.post, by a reminder and by a hook.
// Each must arrive once, at the newest callback of the service.
func TestChorusChannel_AgentSpeaksFirst(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts programs")
	}
	s := newScriptedFixture(t)
	room := newChorusService(s)
	s.start("chorus", "--allow-target=127.0.0.0/8")
	connection := strings.TrimSpace(s.hubbub("chorus", "inbox", "create", "solo"))
	room.post("/studio/agents", map[string]string{"name": "solo", "connection": connection})
	room.ask("hello", "solo: Well.")
	room.ask(`do chat_post {"target":"chorus:solo.ch_room","text":"The build is green.","reason":"the team wants to know"}`, "solo: The build is green.")
	room.ask(`do chat_remind {"when":"1s","text":"do chat_send_message {\"text\":\"It is time.\"}"}`, "solo: It is time.")
	p := newSender(s, "ci", "--chat", "chorus:solo.ch_room", "--oblige")
	for _, status := range []string{"accepted", "duplicate"} {
		mustContain(t, p.post(asStandard, "msg_1", `do chat_send_message {"text":"The build is red."}`), status, " 200")
	}
	times := func(line string) (n int) {
		said, _ := room.state()
		for _, w := range said {
			if w.Content == line {
				n++
			}
		}
		return n
	}
	s.await("what the hook brought", func() bool { return times("The build is red.") == 1 })
	room.ask("bye", "solo: Well.")
	for _, line := range []string{"The build is green.", "It is time.", "The build is red."} {
		if n := times(line); n != 1 {
			t.Errorf("%q was said %d times", line, n)
		}
	}
	if _, faults := room.state(); len(faults) != 0 {
		t.Errorf("what the protocol does not have: %q", faults)
	}
	checkUnusualMessages(s, room)
}

// checkUnusualMessages lets a service in which solo is alone send messages that not every service
// sends: from a person with the agent's name, with attachments, and empty ones.
func checkUnusualMessages(s *fixture, room *chorusService) {
	s.t.Helper()
	const file, heard = "https://files.example/plan.pdf", "I heard my namesake."
	say := func(sender, content string, attachments ...any) {
		s.t.Helper()
		body := map[string]any{"sender": sender, "content": content}
		if len(attachments) > 0 {
			body["attachments"] = attachments
		}
		room.post("/studio/say", body)
	}
	say("solo", `do chat_send_message {"text":"`+heard+`"}`)
	s.await("the answer to the agent's namesake", func() bool {
		said, _ := room.state()
		return slices.Contains(said, chorusMessage{"solo", heard})
	})
	for _, refused := range []struct {
		content     string
		attachments []any
		why         string
	}{
		{"", nil, "message.content must not be blank"},
		{" \n", []any{}, "message.content must not be blank"},
		{"look", []any{"data:text/plain,x"}, "message.attachments[0] needs a url that begins with https://"},
		{"", []any{file, map[string]string{"name": "b.pdf"}}, "message.attachments[1] needs a url that begins with https://"},
	} {
		_, before := room.state()
		say("alice", refused.content, refused.attachments...)
		s.await(refused.why, func() bool {
			_, faults := room.state()
			return len(faults) > len(before) && strings.Contains(faults[len(before)], "solo answers 400") && strings.Contains(faults[len(before)], refused.why)
		})
	}
	say("alice", "", file, map[string]string{"url": file, "name": "the plan"})
	s.await("the attachments", func() bool {
		return slices.ContainsFunc(s.publicationsOf(read.Filter{Types: []protocol.MessageType{protocol.TypeChatMessage}}), func(p *publication) bool {
			return strings.Contains(string(p.message.Content), `a file: `+file+`\nthe plan: `+file)
		})
	})
	room.ask("and now?", "solo: Well.")
	if _, faults := room.state(); len(faults) != 4 {
		s.t.Errorf("refused: %q; want four messages", faults)
	}
}

// TestChorusChannel_ReportsRejectedMessages checks that a model learns from a tool result that
// the service rejected its answer or, if the turn has ended, from an event.
func TestChorusChannel_ReportsRejectedMessages(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts programs")
	}
	model := &messageModel{lost: make(chan struct{})}
	web := httptest.NewServer(model)
	t.Cleanup(web.Close)
	s := newFixture(t, "--harness=openai", "--model=teller", "--base-url="+web.URL+"/v1")
	room := newChorusService(s)
	s.start("chorus", "--allow-target=127.0.0.0/8")
	room.post("/studio/agents", map[string]string{"name": "solo", "connection": strings.TrimSpace(s.hubbub("chorus", "inbox", "create", "solo"))})
	for _, words := range []string{"all of it", "a word"} {
		room.post("/studio/refuse", map[string]string{"content": words})
	}
	room.ask("at length, please")
	s.await("the report of the loss", func() bool { return s.failedSends() == 1 })
	close(model.lost)
	s.await("the shorter answer", func() bool {
		said, _ := room.state()
		return slices.Contains(said, chorusMessage{"solo", "in short"})
	})
	room.ask("and in a word?")
	s.await("the event", func() bool { return len(model.prompts()) == 2 })
	if got := model.prompts(); !slices.Equal(got, []string{"tool", "user"}) {
		t.Errorf("the model was told as %q", got)
	}
	if said, faults := room.state(); len(said) != 3 || len(faults) != 0 {
		t.Errorf("in the room: %q; faults: %q", said, faults)
	}
}

// TestChorusChannel_PersonAnswersForAgent checks an agent that must answer but cannot, and whose
// lead is unreachable. The person named in its settings is asked where they write, and their next
// message is the answer. If that person is the one who waits, they are notified that there is no
// answer.
func TestChorusChannel_PersonAnswersForAgent(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts programs")
	}
	s := newFixture(t, "--harness=c2a", "--harness-command=false", "--deadline=1s", "--lead=boss", "--person=chorus:bob")
	room := newChorusService(s)
	s.start("chorus", "--allow-target=127.0.0.0/8")
	room.post("/studio/agents", map[string]string{"name": "solo", "connection": strings.TrimSpace(s.hubbub("chorus", "inbox", "create", "solo"))})
	said := func(words string) (n int) {
		all, _ := room.state()
		for _, w := range all {
			if w.Sender == "solo" && strings.Contains(w.Content, words) {
				n++
			}
		}
		return n
	}
	bob := func(words string) { room.post("/studio/say", map[string]string{"sender": "bob", "content": words}) }

	bob("can you deploy?")
	s.await("that nobody answers Bob", func() bool { return said("I could not answer") == 1 })
	room.ask("is the deploy blocked?", "cannot answer alice")
	room.ask("I think it is")
	bob("no, go ahead")
	s.await("the answer", func() bool { return said("bob answers: no, go ahead") == 1 })
	for i, wants := range [][]string{
		{"escalated no further", "the person to be called is the one waiting for the answer", "ended: failed"},
		{"escalated to chorus:bob (person)", "its lead can't be asked", "answered in its place by chorus:bob (person)", "ended: responded"},
	} {
		s.await("why "+wants[0], func() bool {
			events := recordsOf[protocol.EscalationRecord](s)
			if len(events) <= i {
				return false
			}
			why := s.why(events[i].EventID)
			return !slices.ContainsFunc(wants, func(want string) bool { return !strings.Contains(why, want) })
		})
	}
	if n := said("answers:"); n != 1 {
		t.Errorf("%d answers in the agent's place", n)
	}
	if _, faults := room.state(); len(faults) != 0 {
		t.Errorf("what the protocol does not have: %q", faults)
	}
}
