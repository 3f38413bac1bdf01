package cmd_test

import (
	"encoding/json"
	"fmt"
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

// An evasiveModel is the endpoint of a model that does not answer the question but signals done.
// To "silent" and to reminders it does neither.
type evasiveModel struct {
	mu    sync.Mutex
	knows []string // the events of reminders
}

func (d *evasiveModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Messages []struct{ Role, Content string }
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || len(asked.Messages) == 0 {
		http.Error(w, "no messages", http.StatusBadRequest)
		return
	}
	prompt, results := "", 0
	for _, m := range asked.Messages {
		switch m.Role {
		case "user":
			prompt, results = m.Content, 0
		case "tool":
			results++
		}
	}
	answer := map[string]any{"role": "assistant", "content": ""}
	_, knock, knocked := strings.Cut(prompt, "C2A KNOCK\nevent_id: ")
	switch {
	case knocked:
		event, _, _ := strings.Cut(knock, "\n")
		_, event, _ = strings.Cut(strings.TrimPrefix(event, "return:"), ":")
		d.mu.Lock()
		d.knows = append(d.knows, event)
		d.mu.Unlock()
	case strings.Contains(promptText(prompt), "silent"):
	case results < 2:
		tool, arguments := "chat_send_message", `{"text":"Nice weather today."}`
		if results == 1 {
			tool, arguments = "chat_react", `{"signal":"done"}`
		}
		answer["tool_calls"] = []any{map[string]any{"id": "call", "type": "function", "function": map[string]any{"name": tool, "arguments": arguments}}}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{"message": answer, "finish_reason": "stop"}}}) // the agent may be gone
}

// reminders returns in how many turns of the model an event came back.
func (d *evasiveModel) reminders(event string) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, one := range d.knows {
		if one == event {
			n++
		}
	}
	return n
}

// newObligationFixture starts a system with a broker and agents with an evasiveModel and draft
// 2026-08-11.
func newObligationFixture(t *testing.T, agents ...string) (*fixture, *evasiveModel) {
	model := &evasiveModel{}
	web := httptest.NewServer(model)
	t.Cleanup(web.Close)
	s := newFixture(t, append([]string{"--harness=openai", "--model=dodger", "--base-url=" + web.URL + "/v1", "--policy-version=2026-08-11"}, agents...)...)
	s.start("broker")
	return s, model
}

// sourceOf returns the event ID of a person's message.
func (s *fixture) sourceOf(m *models.Message) string {
	return fmt.Sprintf("tg:%d:%d:%d", s.api.Bot().ID, m.Chat.ID, m.ID)
}

// obliged lists the recorded states of an obligation, in order, without repetitions.
func (s *fixture) obliged(event string) (states []string) {
	for _, a := range recordsOf[protocol.ObligationRecord](s) {
		if a.ObligationID == event {
			states = append(states, a.State)
		}
	}
	return states
}

// TestObligations_EachResolution checks arms A, B and C and the control, for people in Telegram.
// The command line shows who waits for whom.
func TestObligations_EachResolution(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts programs")
	}
	s, model := newObligationFixture(t, "--obligation-buffered=1s", "--person=tg:1002")
	will, ana := s.api.User("Will"), s.api.User("Ana")
	if ana.ID != 1002 {
		t.Fatalf("Ana is %d, not the person of the settings", ana.ID)
	}
	dm, group := s.api.DM(will), s.api.Supergroup(-1002, "ops")
	came := func(what string, n int, event string) {
		t.Helper()
		s.await(what, func() bool { return model.reminders(event) >= n })
	}
	lists := func(command string, args ...string) string { return s.hubbub(append([]string{command}, args...)...) }
	thumb := func(by models.User, m *models.Message) { s.api.React(m.Chat, by, m.ID, nil, "👍") }
	answered := func(chat models.Chat) (found *models.Message) {
		t.Helper()
		s.await("an answer", func() bool {
			found = s.awaitMessage(chat, func(m *models.Message) bool { return m.Text == "Nice weather today." })
			return found != nil
		})
		return found
	}

	// A: the recipient answers something else and signals done. The event comes back, each time
	// in a turn.
	asked := s.api.Say(dm, will, "/ask is the deploy blocked?")
	a := s.sourceOf(asked)
	answer := answered(dm)
	came("a return", 1, a) // a busy machine may miss some; TestEvalArm_C checks the times
	agent, person := fmt.Sprint("agent:tg-", dm.ID), fmt.Sprint("tg:", will.ID)
	for _, list := range []string{lists("owe"), lists("owe", agent), lists("blocking", person)} {
		if !strings.Contains(list, a) || !strings.Contains(list, "obligation") || !strings.Contains(list, "is the deploy blocked?") {
			t.Errorf("listed is\n%s", list)
		}
	}
	if list := lists("owe", person); !strings.Contains(list, "nobody is waiting") {
		t.Errorf("Will owes\n%s", list)
	}
	s.await("that somebody else is asked", func() bool { return slices.Contains(s.obliged(a), "escalated") })
	why := lists("why", a)
	for _, part := range []string{"its author is waiting for the agent", "opened: " + person + " waits for it (degraded)", "came back", "goes to tg:1002 (person)"} {
		if !strings.Contains(why, part) {
			t.Errorf("why lacks %q:\n%s", part, why)
		}
	}

	// B: the author's thumb on the answer ends the obligation.
	thumb(will, answer)
	s.await("the end of it", func() bool { return slices.Contains(s.obliged(a), "discharged") })
	before := model.reminders(a)
	s.await("an empty list", func() bool { return strings.Contains(lists("owe", agent), "nobody is waiting") })

	// C: no reaction. The event comes back three times and is then escalated to Ana, who may
	// close it.
	s.api.Say(group, ana, "good morning")
	silent := s.api.Say(group, will, "/ask@"+s.api.Bot().Username+" are you silent?")
	c := s.sourceOf(silent)
	came("a return", 1, c)
	var shown *models.Message
	s.await("the escalation", func() bool {
		shown = s.awaitMessage(group, func(m *models.Message) bool { return strings.Contains(m.Text, "has not answered 1 obligation") })
		return shown != nil
	})
	owed := func(who models.User) string { return lists("owe", fmt.Sprint("tg:", who.ID)) }
	s.await("that Ana owes it", func() bool { return strings.Contains(owed(ana), "has not answered 1 obligation") })
	thumb(ana, shown)
	s.await("that Ana owes nothing", func() bool { return strings.Contains(owed(ana), "nobody is waiting") })
	if list := lists("blocking", person); !strings.Contains(list, c) {
		t.Errorf("after Ana closed the list, Will waits for\n%s", list)
	}
	s.api.Reply(silent, ana, "/close "+c)
	s.await("a refusal", func() bool {
		return s.awaitMessage(group, func(m *models.Message) bool { return strings.Contains(m.Text, "who is waiting can close that") }) != nil
	})
	s.api.Say(group, will, "/close "+c)
	s.await("an empty list", func() bool { return strings.Contains(lists("owe"), "nobody is waiting") })

	// A person at the command line waits and closes the obligation; nobody else may.
	lists("ask", agent, "are you silent?", "--blocks=halted", "--default=I go home", "--as=ops", "--id=q_ops")
	came("a return", 1, "q_ops")
	if list := lists("owe", agent); !strings.Contains(list, "q_ops") || !strings.Contains(list, "ops (cli:ops)") || strings.Count(list, "are you silent?") != 1 {
		t.Errorf("listed is\n%s", list)
	}
	refused := func(want string, args ...string) {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), built(t, "hubbub"), append(args, "--bus=ws://"+s.bus, "--data="+s.data)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%q: %v, %s; want %q", args, err, out, want)
		}
	}
	refused("may not discharge what cli:ops waits for", "owe", "close", "q_ops", "--as=eve")
	refused("no obligation from nothing is open", "owe", "close", "nothing", "--as=ops")
	if said := lists("owe", "close", "q_ops", "--as=ops"); !strings.Contains(said, "obligation of "+agent+" to cli:ops: discharged") {
		t.Errorf("closed is %s", said)
	}
	refused("already discharged by cli:ops", "owe", "close", "q_ops", agent, "--as=ops")
	s.await("an empty list", func() bool { return strings.Contains(lists("owe"), "nobody is waiting") })
	s.await("that the agent knows", func() bool { return slices.Contains(s.obliged("q_ops"), "discharged") })
	if why := lists("why", "q_ops"); !strings.Contains(why, "obligation of "+agent+" to cli:ops: open, halted meanwhile") || !strings.Contains(why, "discharged, after cli:ops: signal done") {
		t.Errorf("why says\n%s", why)
	}

	lists("ask", "tg:1002", "which region?", "--as=ops", "--id=q_region") // it is in the list of decisions
	refused("q_region is a question (open): `hubbub work answer q_region TEXT` answers it", "decisions", "allow", "q_region")
	refused("dec_nothing", "decisions", "deny", "dec_nothing")
	if n := model.reminders(c); n > 3 {
		t.Errorf("it came back %d times", n)
	}
	if n := model.reminders(a); n != before {
		t.Errorf("closed, it came back %d times more", n-before)
	}
}

// The steps of an obligation, in order.
var (
	waitSaid   = step{"what is asked", true, protocol.TypeTGMessage, "tg", "agent", nil}
	waitTold   = step{"the obligation", true, protocol.TypeCollabRequest, "agent", "broker", []string{"obligation.open"}}
	waitKept   = step{"what the broker keeps", true, protocol.TypeCollabResult, "broker", "agent", []string{"obligation", "open"}}
	waitBack   = step{"the record of its return", true, protocol.TypeAgentEvent, "agent", "", []string{"obligation", "returned"}}
	waitThumb  = step{"the thumb", false, protocol.TypeTGMessage, "tg", "agent", []string{"agree"}}
	waitClosed = step{"that it is closed", false, protocol.TypeCollabRequest, "agent", "broker", []string{"obligation.react", "agree"}}
	waitEnded  = step{"what the broker closed", false, protocol.TypeCollabResult, "broker", "agent", []string{"obligation", "discharged"}}
)

// obligationFaults kill the broker, the bus, the bridge and the agent where they have the most to
// lose. make chaos kills each at each frame of each step.
var obligationFaults = []decisionFault{
	{"tg", waitSaid, hopAccept},
	{"agent", waitTold, hopSend},
	{"broker", waitTold, hopAcknowledge},
	{"bus", waitKept, hopDeliver},
	{"bus", waitBack, hopAccept},
	{"tg", waitThumb, hopAccept},
	{"broker", waitClosed, hopAcknowledge},
	{"broker", waitEnded, hopSend},
}

// underChaos returns a few faults or, with make chaos, each program of a step at each of its
// frames.
func underChaos(few []decisionFault, steps ...step) (all []decisionFault) {
	if os.Getenv("HUBBUB_CHAOS_ROUNDS") == "" {
		return few
	}
	for _, at := range steps {
		for _, l := range legs {
			for _, program := range []string{"bus", at.from, at.to} {
				if program != "" {
					all = append(all, decisionFault{program, at, l})
				}
			}
		}
	}
	return all
}

// TestObligation_SurvivesEachKill kills a program at each step of an obligation. The obligation
// is opened once, comes back, is listed until it is closed, and is closed once.
func TestObligation_SurvivesEachKill(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts programs many times")
	}
	s, model := newObligationFixture(t, "--obligation-buffered=500ms")
	for _, f := range underChaos(obligationFaults, waitSaid, waitTold, waitKept, waitBack, waitThumb, waitClosed, waitEnded) {
		t.Run(f.String(), func(t *testing.T) { s.in(t).wait(f, model) })
	}
}

// wait asks for something in a new chat, closes it with a thumb after it came back, and kills a
// program in between.
func (s *fixture) wait(f decisionFault, model *evasiveModel) {
	will := s.api.User(f.String())
	dm := s.api.DM(will)
	var event string
	s.during(f, f.before, dm, func() { event = s.sourceOf(s.api.Say(dm, will, "/ask is it safe?")) })
	lists := func(want bool) func() bool { // fails while the broker is down
		return func() bool {
			list, err := exec.CommandContext(s.t.Context(), built(s.t, "hubbub"), "owe", "--bus=ws://"+s.bus, "--data="+s.data).Output()
			return err == nil && strings.Contains(string(list), event) == want
		}
	}
	var answer *models.Message
	s.await("the answer", func() bool {
		answer = s.awaitMessage(dm, func(m *models.Message) bool { return m.Text == "Nice weather today." })
		return answer != nil
	})
	s.await("that it is listed", lists(true))
	s.await("that it comes back", func() bool { return model.reminders(event) > 0 })
	s.during(f, !f.before, dm, func() { s.api.React(dm, will, answer.ID, nil, "👍") })
	s.await("that it is listed no more", lists(false))
	least := 1
	if f.program == "bus" { // the bus may lose the last 250 ms of its log
		least = 0
	}
	s.await("the record of its end", func() bool { return least == 0 || slices.Contains(s.obliged(event), "discharged") })
	s.api.Say(dm, will, "/close "+event) // any duplicate would come before this answer
	s.await("that it is closed already", func() bool { return slices.Contains(s.api.Texts(dm.ID), "That is already closed.") })
	states, count := s.obliged(event), map[string]int{}
	for _, state := range states {
		count[state]++
	}
	if count["opened"] > 1 || count["discharged"] > 1 || min(count["opened"], count["discharged"]) < least || count["escalated"] > 1 {
		s.t.Errorf("on record is %q", states)
	}
	if end := slices.Index(states, "discharged"); end >= 0 && slices.Contains(states[end:], "returned") {
		s.t.Errorf("it came back after its end: %q", states)
	}
}
