package cmd_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hubbub/activitylog/read"
	"hubbub/peers/tg/tgtest"
	"hubbub/protocol"
	"hubbub/protocol/collab"

	"github.com/go-telegram/bot/models"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A step of a decision is a message between two programs, with strings that distinguish it from
// others of its type.
type step struct {
	name     string
	before   bool // before somebody decides
	at       protocol.MessageType
	from, to string
	says     []string
}

// A decisionFault kills a program while a frame of a step is on its way.
type decisionFault struct {
	program string
	step
	leg hop
}

func (f decisionFault) String() string {
	return fmt.Sprintf("%s while %s is %s", f.program, f.name, f.leg)
}

// The steps of a decision, in order.
var (
	decisionAsked    = step{"the request", true, protocol.TypeCollabRequest, "agent", "broker", []string{"decision.ask"}}
	decisionStored   = step{"the decision", true, protocol.TypeCollabResult, "broker", "agent", []string{"decision", "pending"}}
	decisionShown    = step{"the question", true, protocol.TypeTGReply, "agent", "tg", []string{"buttons"}}
	decisionPressed  = step{"the press", false, protocol.TypeTGMessage, "tg", "agent", nil}
	decisionMade     = step{"the verdict", false, protocol.TypeCollabRequest, "agent", "broker", []string{"decision.decide"}}
	decisionLogged   = step{"the record of it", false, protocol.TypeAgentEvent, "agent", "", []string{"decision", "allowed"}}
	decisionReported = step{"the edited question", false, protocol.TypeTGReply, "agent", "tg", []string{"edits"}}
)

// decisionFaults kill each program at each step in which it takes part.
var decisionFaults = []decisionFault{
	{"broker", decisionAsked, hopAcknowledge},
	{"bus", decisionAsked, hopDeliver},
	{"broker", decisionStored, hopSend},
	{"bus", decisionStored, hopDeliver},
	{"broker", decisionShown, hopSend},
	{"tg", decisionShown, hopAcknowledge},
	{"bus", decisionShown, hopAccept},
	{"tg", decisionPressed, hopAccept},
	{"bus", decisionPressed, hopAcknowledge},
	{"agent", decisionPressed, hopAcknowledge},
	{"broker", decisionMade, hopAcknowledge},
	{"bus", decisionMade, hopDeliver},
	{"agent", decisionMade, hopSend},
	{"tg", decisionReported, hopAcknowledge},
	{"bus", decisionLogged, hopAccept},
	{"bus", decisionReported, hopSend},
}

// deployKey is an argument that nothing but its member's name reveals as a secret.
const deployKey = "swordfish7"

// A deployModel is a model that wants to deploy what it was asked for, and the MCP server that
// deploys once per call.
type deployModel struct {
	mu  sync.Mutex
	ran map[string]int // by what was deployed
}

func (d *deployModel) deploy(_ context.Context, _ *mcp.CallToolRequest, what struct {
	What string `json:"what"`
	Key  string `json:"Api_Key"`
}) (*mcp.CallToolResult, any, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ran[what.What]++
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "deployed " + what.What}}}, nil, nil
}

// play answers a request to the model: first with a tool call, then with its result.
func (d *deployModel) play(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
		Tools []struct {
			Function struct{ Name string }
		} `json:"tools"`
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || len(asked.Messages) == 0 {
		http.Error(w, "no messages", http.StatusBadRequest)
		return
	}
	last := asked.Messages[len(asked.Messages)-1]
	message := map[string]any{"role": "assistant"}
	_, what, wanted := strings.Cut(string(last.Content), "deploy [")
	switch {
	case last.Role == "tool":
		message["content"] = string(last.Content)
	case !wanted, strings.Contains(string(last.Content), "is all well?"):
		message["content"] = "nothing to deploy"
	default:
		what, _, _ = strings.Cut(what, "]")
		arguments, _ := json.Marshal(map[string]string{"what": what, "Api_Key": deployKey}) // strings only
		for _, tool := range asked.Tools {
			if strings.HasSuffix(tool.Function.Name, "deploy") {
				message["tool_calls"] = []any{map[string]any{"id": "c1", "type": "function", "function": map[string]any{"name": tool.Function.Name, "arguments": string(arguments)}}}
			}
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{"message": message}}}) // the agent may be gone
}

// serve serves the model and the tool. It returns the arguments of agents that use both and ask
// before the tool runs.
func (d *deployModel) serve(t *testing.T) []string {
	tools := mcp.NewServer(&mcp.Implementation{Name: "ops", Version: "1"}, nil)
	mcp.AddTool(tools, &mcp.Tool{Name: "deploy", Description: "Deploy something."}, d.deploy)
	paths := http.NewServeMux()
	paths.HandleFunc("/v1/chat/completions", d.play)
	paths.Handle("/mcp", mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return tools }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true}))
	web := httptest.NewServer(paths)
	t.Cleanup(web.Close)
	file := filepath.Join(t.TempDir(), "mcp.json")
	if err := os.WriteFile(file, []byte(`{"name":"ops","url":"`+web.URL+`/mcp"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"--harness=openai", "--model=deployer", "--base-url=" + web.URL + "/v1", "--mcp-file=" + file, "--approve=mcp:ops.*"}
}

// TestDecision_SurvivesEachKill kills a program at each step of a decision. The person sees the
// question, presses a button twice and sees the outcome. The broker has one decision, the log has
// one record that says who allowed it, and the tool has run once.
func TestDecision_SurvivesEachKill(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts programs many times")
	}
	d := &deployModel{ran: map[string]int{}}
	s := newFixture(t, d.serve(t)...)
	s.start("broker")
	for _, f := range underChaos(decisionFaults, decisionAsked, decisionStored, decisionShown, decisionPressed, decisionMade, decisionLogged, decisionReported) {
		t.Run(f.String(), func(t *testing.T) { s.in(t).decide(f, d) })
	}
	t.Run("buttons that Telegram refuses", func(t *testing.T) { s.in(t).decideInWords(d) })
	t.Run("a stop", func(t *testing.T) { s.in(t).stopQuestion(d) })
	for _, p := range s.publications() {
		if bytes.Contains(p.entry.Payload, []byte(deployKey)) {
			t.Errorf("the log has the secret argument: %s", p.entry.Payload)
		}
	}
}

// decide asks for a deployment in a new chat, allows it, and kills a program in between. An agent
// that dies after it may have started the call does not start it again: it asks again.
func (s *fixture) decide(f decisionFault, d *deployModel) {
	user := s.api.User(f.String())
	chat := s.api.DM(user)
	what, began := fmt.Sprint("site-", chat.ID), time.Now()
	s.during(f, f.before, chat, func() { s.api.Say(chat, user, "deploy ["+what+"]") })
	var shown *models.Message
	s.await("the question", func() bool {
		shown = s.awaitMessage(chat, func(m *models.Message) bool { return m.ReplyMarkup != nil })
		return shown != nil || s.unknownSince(began).holds(what)
	})
	by, name := fmt.Sprint("tg:", user.ID), user.FirstName
	if shown != nil {
		s.mustHideKey("the question", shown.Text)
	}
	s.during(f, !f.before, chat, func() {
		if shown == nil { // a bridge killed before the send reports the outcome as unknown
			by = "cli:somebody"
			s.hubbub("decisions", "allow", s.decisionsOf(chat)[0].ID, "--as=somebody")
			return
		}
		for range 2 {
			s.api.Press(shown, user, shown.ReplyMarkup.InlineKeyboard[0][0].CallbackData)
		}
	})
	says := func(text string) func() bool {
		return func() bool {
			return s.awaitMessage(chat, func(m *models.Message) bool { return strings.Contains(m.Text, text) }) != nil ||
				s.unknownSince(began).holds(text)
		}
	}
	if shown != nil {
		shows, stores := says("Decision: allowed by "+name), says("Decision: allowed by `"+name+"`")
		s.await("the verdict in the chat", func() bool { return shows() || stores() })
	}
	asked := 1
	s.await("the answer", func() bool {
		q := s.awaitMessage(chat, func(m *models.Message) bool { return m.ReplyMarkup != nil })
		if f.program == "agent" && shown != nil && q != nil && q.ID != shown.ID {
			shown, asked = q, asked+1
			s.api.Press(q, user, q.ReplyMarkup.InlineKeyboard[0][0].CallbackData)
		}
		return says("deployed " + what)()
	})
	s.api.Say(chat, user, "is all well?") // any duplicate would come before this answer
	s.await("one more answer", says("nothing to deploy"))

	d.mu.Lock()
	ran := d.ran[what]
	d.mu.Unlock()
	records := map[string]protocol.ApprovalRecord{} // by message, because the bus may receive it twice
	mayLose := f.program == "bus" && !f.before      // the bus may have the record and lose the last 250 ms of its log
	s.await("the record of the verdict", func() bool {
		for _, p := range s.publicationsOf(read.Filter{Types: []protocol.MessageType{protocol.TypeAgentEvent}, Since: began}) {
			if r := contentOf[protocol.ApprovalRecord](p); r.Event == "decision" && r.By == by {
				records[p.entry.MessageID] = r
			}
		}
		return mayLose || len(records) >= asked
	})
	kept := map[string]collab.Approval{}
	for _, a := range s.decisionsOf(chat) {
		kept[a.ID] = a
		s.mustHideKey("the broker's record", a.Arguments)
		if a.State != collab.ApprovalAllowed || a.By != by {
			s.t.Errorf("decided: %+v", a)
		}
	}
	if ran < 1 || ran > asked || len(records) > asked || len(records) < asked && !mayLose || len(kept) != asked {
		s.t.Fatalf("it ran %d times; want once for each of %d questions at most. On record: %+v. Decisions: %+v", ran, asked, records, kept)
	}
	for _, r := range records {
		if r.State != string(collab.ApprovalAllowed) || r.Digest == "" || r.Digest != kept[r.DecisionID].Digest || r.Tool != "mcp:ops.deploy" {
			s.t.Errorf("on record: %+v; want that one of %+v was allowed", r, kept)
		}
	}
}

// decideInWords asks for a deployment in a group where Telegram refuses buttons. The question names
// them in its text, and a reply in words decides.
func (s *fixture) decideInWords(d *deployModel) {
	user, chat := s.api.User("Wendy"), s.api.Group(-78, "House")
	s.api.Fail(tgtest.Fault{Method: "sendMessage", ChatID: chat.ID, Text: "asks to run", Status: http.StatusBadRequest, Description: "Bad Request: BUTTON_DATA_INVALID"})
	s.api.Say(chat, user, "@"+s.api.Bot().Username+" deploy [words]")
	var shown *models.Message
	s.await("the question as text", func() bool {
		shown = s.awaitMessage(chat, func(m *models.Message) bool {
			return strings.Contains(m.Text, "\n\nReply to this message with one of: Allow, ")
		})
		return shown != nil
	})
	if shown.ReplyMarkup != nil {
		s.t.Errorf("buttons are shown that were refused: %+v", shown)
	}
	s.mustHideKey("the question as text", shown.Text)
	s.api.Reply(shown, user, "allow")
	s.await("the answer", func() bool {
		return s.awaitMessage(chat, func(m *models.Message) bool { return strings.Contains(m.Text, "deployed words") }) != nil
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	if kept := s.decisionsOf(chat); d.ran["words"] != 1 || len(kept) != 1 || kept[0].By != fmt.Sprint("tg:", user.ID) {
		s.t.Errorf("it ran %d times; decisions: %+v", d.ran["words"], kept)
	}
}

// stopQuestion stops a chat that waits for a decision. The question says so and loses its buttons,
// a press says so, too, and nothing runs.
func (s *fixture) stopQuestion(d *deployModel) {
	const note = "This chat was stopped, so nobody waits for an answer."
	user := s.api.User("Stella")
	chat := s.api.DM(user)
	s.api.Say(chat, user, "deploy [stopped]")
	var shown *models.Message
	s.await("the question", func() bool {
		shown = s.awaitMessage(chat, func(m *models.Message) bool { return m.ReplyMarkup != nil })
		return shown != nil
	})
	pressed := shown.ReplyMarkup.InlineKeyboard[0][0].CallbackData
	s.api.Say(chat, user, "/stop")
	s.await("the note in the question", func() bool {
		return s.awaitMessage(chat, func(m *models.Message) bool {
			return m.ID == shown.ID && strings.HasSuffix(m.Text, note) && m.ReplyMarkup == nil
		}) != nil
	})
	s.api.Press(shown, user, pressed)
	s.await("the note for who presses", func() bool {
		return slices.ContainsFunc(s.api.Calls("answerCallbackQuery"), func(c tgtest.Call) bool { return strings.Contains(c.Text(), note) })
	})
	s.await("the end of the decision", func() bool {
		kept := s.decisionsOf(chat)
		return len(kept) == 1 && kept[0].State != collab.ApprovalPending && kept[0].State != collab.ApprovalAllowed
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ran["stopped"] != 0 {
		s.t.Errorf("it ran although the chat was stopped: %v", d.ran)
	}
}

// mustHideKey checks that what people see of a call has its arguments without the secret one.
func (s *fixture) mustHideKey(where, shows string) {
	s.t.Helper()
	if !strings.Contains(shows, "Api_Key") || strings.Contains(shows, deployKey) {
		s.t.Errorf("%s shows %s; want Api_Key without its value", where, shows)
	}
}

// during calls do. If the fault is to happen now, it kills the program while do runs.
func (s *fixture) during(f decisionFault, now bool, chat models.Chat, do func()) {
	s.t.Helper()
	if !now {
		do()
		return
	}
	h := s.tap.hold(f.leg, f.at, f.says...)
	do()
	s.awaitHeld(h, f.String())
	s.kill(f.program, chat)
	h.outcome <- f.program != f.leg.writer(f.from, f.to)
	if f.program != "agent" { // the spawner restarts agents
		s.start(f.program)
	}
}

// awaitMessage returns the newest message from the bot in a chat for which fits returns true, or
// nil.
func (s *fixture) awaitMessage(chat models.Chat, fits func(*models.Message) bool) (found *models.Message) {
	for _, m := range s.api.Messages(chat.ID) {
		if fits(m) {
			found = m
		}
	}
	return found
}

// decisionsOf returns the broker's decisions for a chat.
func (s *fixture) decisionsOf(chat models.Chat) (list []collab.Approval) {
	s.t.Helper()
	for _, a := range s.decisions() {
		if a.Chat == string(topicOf(chat)) {
			list = append(list, a)
		}
	}
	return list
}

// decisions returns all decisions of the broker.
func (s *fixture) decisions() (list []collab.Approval) {
	s.t.Helper()
	out, err := exec.CommandContext(s.t.Context(), built(s.t, "hubbub"), "decisions", "list", "--all", "--json", "--bus", "ws://"+s.bus, "--data", s.data).Output()
	if err != nil {
		s.t.Fatalf("hubbub decisions: %v", err)
	}
	for lines := json.NewDecoder(bytes.NewReader(out)); lines.More(); {
		var a collab.Approval
		if err := lines.Decode(&a); err != nil {
			s.t.Fatalf("hubbub decisions says %s: %v", out, err)
		}
		list = append(list, a)
	}
	return list
}
