package cmd_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"hubbub/activitylog/read"
	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
)

// A programEvent is what a C2A program receives with chat/deliver.
type programEvent struct {
	EventID, Instructions, Signal string
	Knock, Content                json.RawMessage
	Reliability                   struct {
		IdempotencyKey string
		Attempt        int
	}
}

// programEvents returns the events in the file of a C2A program.
func programEvents(path string) (list []programEvent) {
	raw, _ := os.ReadFile(path) //nolint:errcheck // it comes with the first event
	for line := range strings.Lines(string(raw)) {
		var m struct {
			Method string
			Params programEvent
		}
		if json.Unmarshal([]byte(line), &m) == nil && m.Method == "chat/deliver" {
			list = append(list, m.Params)
		}
	}
	return list
}

// checkUnclear lets the program find a question unclear. The agent asks back and the question stays
// open, until its clearer text is answered in its place.
func checkUnclear(s *fixture, room models.Chat, will models.User, says func(string)) {
	s.t.Helper()
	asked := s.api.Say(room, will, "@"+s.api.Bot().Username+" mumble mumble")
	says("I do not understand this. Could you say what you mean?")
	id := fmt.Sprintf("tg:%d:%d:%d", s.api.Bot().ID, room.ID, asked.ID)
	ends := func() (list []string) {
		for _, r := range recordsOf[protocol.Disposition](s) {
			if r.EventID == id {
				list = append(list, r.Disposition)
			}
		}
		return list
	}
	if got := ends(); len(got) != 0 {
		s.t.Errorf("what is unclear ended as %q", got)
	}
	s.api.EditText(asked, "@"+s.api.Bot().Username+" is it warm?")
	says("I read: is it warm?")
	s.await("the end of the question", func() bool { return slices.Equal(ends(), []string{"superseded"}) })
}

// checkPosts lets the program post into a topic and send a file to the general one. Both say whom
// they are for.
func checkPosts(s *fixture, room models.Chat, will models.User, says func(string)) {
	s.t.Helper()
	topic := s.api.Topic(room, "Builds")
	s.api.Say(room, will, "@"+s.api.Bot().Username+" post into "+strconv.Itoa(topic))
	says("It is posted.")
	says("It is built.")
	m := s.awaitMessage(room, func(m *models.Message) bool { return m.Text == "It is built." })
	if m.MessageThreadID != topic {
		s.t.Errorf("posted into topic %d; want %d", m.MessageThreadID, topic)
	}
	sent := map[string]string{}
	s.await("what is sent in the log", func() bool {
		for _, p := range s.publicationsOf(read.Filter{Types: []protocol.MessageType{protocol.TypeTGReply}}) {
			if r := contentOf[protocol.ChatReply](p); r.Text != "" {
				sent[r.Text] = strings.TrimSpace(r.Visibility + " " + r.Directedness + " " + r.ThreadID)
			}
		}
		return sent["The plan."] != "" && sent["It is built."] != ""
	})
	if file, post := sent["The plan."], sent["It is built."]; file != "thread ambient 1" || post != "thread ambient "+strconv.Itoa(topic) {
		s.t.Errorf("the file is for %q, and the post for %q", file, post)
	}
}

// TestC2AProgram_InPython checks an independent C2A program in a group. What it claimed, and an
// edit, reach it under keys of their own. A receipt ends nothing, and a deferred event can be
// answered later. Each delivery carries the rules and the contract, and each answer says whom it is
// for.
func TestC2AProgram_InPython(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts programs")
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is missing")
	}
	file := filepath.Join(t.TempDir(), "events.jsonl")
	program, err := filepath.Abs(filepath.Join("testdata", "c2a", "program.py"))
	if err != nil {
		t.Fatal(err)
	}
	workspace := t.TempDir()
	if err := os.WriteFile(filepath.Join(workspace, "plan.txt"), []byte("first the walls"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newFixture(t, "--harness=c2a", "--harness-command="+python+" "+program+" "+file, "--role=backend-agents", "--workspace="+workspace)
	s.start("broker")
	will := s.api.User("Will")
	room := s.api.Forum(-100500, "Team")
	says := func(text string) {
		t.Helper()
		s.await(text, func() bool { return slices.Contains(s.api.Texts(room.ID), text) })
	}
	said := s.api.Say(room, will, "@"+s.api.Bot().Username+" look at this")
	says("I read: look at this")
	s.api.EditText(said, "@"+s.api.Bot().Username+" look at that")
	says("I read: look at that")
	s.api.Say(room, will, "@backend-agents is it up?")
	says("It is up.")
	s.api.Say(room, will, "@"+s.api.Bot().Username+" put off the rest")
	s.await("the deferral", func() bool {
		return slices.ContainsFunc(recordsOf[protocol.Disposition](s), func(r *protocol.Disposition) bool { return r.Disposition == "deferred" })
	})
	s.api.Say(room, will, "@"+s.api.Bot().Username+" and now?")
	says("And here is what I put off.")
	if got := s.api.Texts(room.ID); len(got) != 5 {
		t.Errorf("in the room: %q; want five answers", got)
	}
	replies := s.publicationsOf(read.Filter{Types: []protocol.MessageType{protocol.TypeTGReply}})
	for _, p := range replies {
		if r := contentOf[protocol.ChatReply](p); r.Text != "" && (r.Visibility != "channel" || r.Directedness != "ambient") {
			t.Errorf("an answer without its audience: %+v", r)
		}
	}
	checkUnclear(s, room, will, says)
	checkPosts(s, room, will, says)

	knocks, keys := 0, map[string][]string{}
	for _, e := range programEvents(file) {
		if len(e.Knock) > 0 {
			knocks++
		}
		if !slices.Contains(keys[e.EventID], e.Reliability.IdempotencyKey) {
			keys[e.EventID] = append(keys[e.EventID], e.Reliability.IdempotencyKey)
		}
		mustContain(t, e.Instructions, "must_not_respond", "delegate", "review", "You are")
	}
	granted := 0
	for _, of := range keys {
		if len(of) > 1 {
			granted++
		}
	}
	if knocks != 1 || granted == 0 {
		t.Errorf("%d knocks, and %d events under several keys: %v", knocks, granted, keys)
	}
}

// TestC2AProgram_RefusesCapabilities checks what an independent C2A program receives if it takes
// no event twice, no signals and no log: an event that it did not accept never comes again, even
// after it crashed or its agent was killed, and the author is notified each time.
func TestC2AProgram_RefusesCapabilities(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts programs")
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is missing")
	}
	program, err := filepath.Abs(filepath.Join("testdata", "c2a", "negotiated.py"))
	if err != nil {
		t.Fatal(err)
	}
	whole := newFixture(t)
	const asks, failed = "Shall I go on?", "I could not answer this message. Please send it again, or ask somebody else."
	for name, refused := range map[string][]string{"some": {"delivery.redelivery", "chatTools.reactionSignals", "utilities.logging"}, "none": nil} {
		t.Run(name, func(t *testing.T) {
			s, file := whole.in(t), filepath.Join(t.TempDir(), "lines.jsonl")
			run := func() {
				s.startAgent(name, "--harness=c2a", "--harness-command="+strings.Join(append([]string{python, program, file}, refused...), " "))
			}
			run()
			room, will, address := s.groupOf(name)
			first := len(s.api.Texts(room.ID))
			says := func(texts ...string) {
				t.Helper()
				s.await(strings.Join(texts, ", "), func() bool { return slices.Equal(s.api.Texts(room.ID)[first:], texts) })
			}
			received := func(text string) (attempts []int, signals []string) {
				for _, e := range programEvents(file) {
					if strings.Contains(string(e.Content), text) {
						attempts = append(attempts, e.Reliability.Attempt)
					}
					if strings.Contains(e.EventID, ":reaction:") {
						signals = append(signals, e.Signal)
					}
				}
				return attempts, signals
			}
			s.api.Say(room, will, "is it up?"+address)
			says(asks)
			said := s.api.Messages(room.ID)
			s.api.React(room, will, said[len(said)-1].ID, nil, "👍")
			s.await("the reaction", func() bool {
				_, signals := received("")
				return len(signals) == 1 && (signals[0] == "") == (name == "some")
			})
			if logged := strings.Contains(s.run[name].whole(), "a line of Python"); logged != (name == "none") {
				t.Errorf("a line of the program is logged: %t", logged)
			}
			s.api.Say(room, will, "this is lost"+address)
			if name == "none" {
				checkLogLines(t, s.run[name].whole())
				s.await("three attempts", func() bool {
					attempts, _ := received("this is lost")
					return slices.Equal(attempts, []int{1, 2, 3})
				})
				return
			}
			says(asks, failed)
			s.api.Say(room, will, "and a crash"+address)
			says(asks, failed, failed)
			s.api.Say(room, will, "again lost"+address)
			s.await("the delivery", func() bool {
				attempts, _ := received("again lost")
				return len(attempts) == 1
			})
			s.run[name].kill()
			run()
			says(asks, failed, failed, failed)
			s.api.Say(room, will, "is it up again?"+address)
			says(asks, failed, failed, failed, asks)
			for _, text := range []string{"this is lost", "and a crash", "again lost"} {
				if attempts, _ := received(text); !slices.Equal(attempts, []int{1}) {
					t.Errorf("%q came with the attempts %v", text, attempts)
				}
			}
		})
	}
}

// checkLogLines checks the lines of an agent's log that a program sent: each has one level.
func checkLogLines(t *testing.T, log string) {
	t.Helper()
	for line := range strings.Lines(log) {
		if strings.Contains(line, "a line of Python") && (strings.Count(line, `"level":`) != 1 || !strings.Contains(line, `"level":"warn"`)) {
			t.Errorf("a line of the program has other levels: %s", line)
		}
	}
}
