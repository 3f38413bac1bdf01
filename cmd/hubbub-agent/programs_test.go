package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/agent/harness/harnesstest"
	"hubbub/protocol"
)

// programsEnv names the folder in which scripts/test-agents has installed third-party coding
// agents.
const programsEnv = "HUBBUB_AGENTS"

// patience bounds the waits for a program, and its turns. Some programs take half a minute to
// start on a busy machine.
const patience = 5 * time.Minute

// A foreignProgram is a coding agent that others made, and what it needs to ask our model server.
type foreignProgram struct {
	name, module string
	command      string // below node_modules/.bin
	env          func(home, url string) []string
	files        func(url string) map[string]string // below its home
	shell        func(command string) (tool string, arguments obj)
}

var foreignPrograms = []foreignProgram{
	{
		name: "claude", module: "@agentclientprotocol/claude-agent-acp", command: "claude-agent-acp",
		env: func(_, url string) []string {
			return []string{
				"ANTHROPIC_BASE_URL=" + url, "ANTHROPIC_API_KEY=sk-ant-test", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
				"IS_SANDBOX=1", // it refuses root otherwise
			}
		},
		shell: func(command string) (string, obj) {
			return "Bash", obj{"command": command, "description": "run a command"}
		},
	},
	{
		name: "codex", module: "@zed-industries/codex-acp", command: "codex-acp",
		env: func(home, _ string) []string {
			return []string{"CODEX_HOME=" + filepath.Join(home, ".codex"), "MODEL_KEY=sk-test"}
		},
		files: func(url string) map[string]string {
			return map[string]string{".codex/config.toml": "model = \"test\"\nmodel_provider = \"local\"\n" +
				"[model_providers.local]\nname = \"local\"\nbase_url = \"" + url + "/v1\"\nenv_key = \"MODEL_KEY\"\nwire_api = \"responses\"\n"}
		},
		shell: func(command string) (string, obj) {
			return "shell_command", obj{"command": command, "sandbox_permissions": "require_escalated", "justification": "the test wants it"}
		},
	},
	{
		name: "gemini", module: "@google/gemini-cli", command: "gemini --acp",
		env: func(_, url string) []string {
			return []string{
				"GEMINI_API_KEY=test", "GOOGLE_GEMINI_BASE_URL=" + url,
				"GEMINI_CLI_TRUST_WORKSPACE=true", // otherwise it silently connects to no MCP server
			}
		},
		files: func(string) map[string]string {
			return map[string]string{".gemini/settings.json": `{"model":{"name":"gemini-3.8-flash"},"security":{"auth":{"selectedType":"gemini-api-key"}}}`}
		},
		shell: func(command string) (string, obj) { return "run_shell_command", obj{"command": command} },
	},
	{
		name: "opencode", module: "opencode-ai", command: "opencode acp",
		files: func(url string) map[string]string {
			return map[string]string{".config/opencode/opencode.json": `{"model":"local/test","permission":{"bash":"ask"},"provider":{"local":{"npm":"@ai-sdk/openai-compatible",` +
				`"options":{"baseURL":"` + url + `/v1","apiKey":"test"},"models":{"test":{"name":"test","tool_call":true}}}}}`}
		},
		env: func(_, _ string) []string { // it would fetch its models' names and a package
			return []string{"OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_PURE=1", "OPENCODE_DISABLE_DEFAULT_PLUGINS=1", "npm_config_registry=http://127.0.0.1:9"}
		},
		shell: func(command string) (string, obj) {
			return "bash", obj{"command": command, "description": "run a command"}
		},
	},
}

// A foreignFixture is a fixture whose agent drives a foreign program.
type foreignFixture struct {
	*fixture
	kind            *foreignProgram
	models          *modelServer
	records         *bustest.Scripted
	home, workspace string

	asked   chan string // commands whose model waits
	meet    sync.WaitGroup
	mu      sync.Mutex
	tries   map[string]int // by command
	results []string       // results of tools
	back    []string       // prompts that returned an obligation
}

func newForeignFixture(t *testing.T, f *foreignProgram, permission string, more ...string) *foreignFixture {
	folder := os.Getenv(programsEnv)
	if folder == "" {
		t.Skipf("%s is not set: make test-agents installs the programs and sets it", programsEnv)
	}
	dir := t.TempDir()
	h := &foreignFixture{
		fixture: &fixture{t: t, bus: bustest.Start(t, nil), data: filepath.Join(dir, "data")}, kind: f,
		home: filepath.Join(dir, "home"), workspace: filepath.Join(dir, "work"), asked: make(chan string, 16), tries: map[string]int{},
	}
	h.models = newModelServer(t, h.play)
	files := map[string]string{"../work/README": "a workspace\n", "../data/x": ""}
	if f.files != nil {
		for path, content := range f.files(h.models.URL) {
			files[path] = content
		}
	}
	os.Mkdir(h.home, 0o700) //nolint:errcheck // then what follows fails
	for path, content := range files {
		path = filepath.Join(h.home, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	words := strings.Fields(f.command)
	words[0] = filepath.Join(folder, "node_modules/.bin", words[0])
	if _, err := os.Stat(words[0]); err != nil {
		t.Fatalf("%s is not installed (%v): remove %s/installed and run make test-agents", f.module, err, folder)
	}
	h.command = strings.Join(words, " ")
	if trace := os.Getenv("HUBBUB_AGENTS_TRACE"); trace != "" {
		h.command = fmt.Sprintf("sh -c 'tee -a %[1]s/%[2]s.in | %[3]s | tee -a %[1]s/%[2]s.out'", trace, f.name, h.command)
	}
	h.args = []string{"--workspace", h.workspace, "--permission", permission, "--role", "backend", "--deadline", patience.String()}
	h.args = append(h.args, more...)
	h.env = []string{"HOME=" + h.home, "PATH=" + os.Getenv("PATH"), "XDG_CONFIG_HOME=", "XDG_DATA_HOME=", "XDG_CACHE_HOME=", "NO_PROXY=127.0.0.1"}
	if f.env != nil {
		h.env = append(h.env, f.env(h.home, h.models.URL)...)
	}
	h.tg = h.bus.Join(t, "tg:bot", "tg:*")
	h.tg.SetTimeout(patience)
	h.records = h.bus.Join(t, "agent:system", "system:attention")
	h.records.SetTimeout(patience)
	h.start()
	t.Cleanup(func() {
		h.stop()
		if t.Failed() {
			t.Log(h.log.String())
			for range h.records.Pending() {
				t.Logf("%s", h.records.Next(t).Message.Content)
			}
		}
	})
	return h
}

// play is the model: it does what the message says.
func (h *foreignFixture) play(r *request) move {
	h.mu.Lock()
	h.results = append(h.results, r.results...)
	h.mu.Unlock()
	n := len(r.results)
	if strings.Contains(r.prompt, "event_id: return:") {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.back = append(h.back, r.prompt)
		return move{text: "what ends the turn of a return"}
	}
	if strings.Contains(r.prompt, "C2A KNOCK\n") {
		h.mu.Lock()
		defer h.mu.Unlock()
		if n == 0 {
			h.tries["knocks"]++
		}
		if n > 0 || h.tries["knocks"] == 1 { // the first one leaves it cold
			return move{text: "what ends a knock's turn"}
		}
		return chat(r, "claim", obj{})
	}
	command, argument, _ := strings.Cut(messageIn(r.prompt), " ")
	h.mu.Lock()
	h.tries[command]++
	try := h.tries[command]
	h.mu.Unlock()
	switch {
	case command == "dodge" && n < 3:
		return []move{
			chat(r, "send_message", obj{"text": "nice weather today", "inReplyTo": eventOf(r.prompt)}),
			chat(r, "react", obj{"signal": "done", "inReplyTo": eventOf(r.prompt)}), chat(r, "react", obj{"signal": "seen", "inReplyTo": eventOf(r.prompt)}),
		}[n]
	case command == "read" && n == 0:
		return chat(r, "read_thread", obj{"conversation": "42"})
	case command == "read" && n == 1:
		return chat(r, "send_message", obj{"text": "I have read it", "inReplyTo": eventOf(r.prompt)})
	case command == "reply" && n == 0:
		return chat(r, "send_message", obj{"text": argument, "inReplyTo": eventOf(r.prompt)})
	case command == "nothing":
		return move{text: "what ends the turn: nothing"}
	case command == "run" && n == 0:
		tool, arguments := h.kind.shell(argument)
		return move{tool: tool, arguments: arguments}
	case command == "run" && n == 1:
		return chat(r, "send_message", obj{"text": "ran: " + r.results[0]})
	case n > 0:
		return move{text: "what ends the turn: " + command}
	case command == "answer":
		return chat(r, "send_message", obj{"text": argument})
	case command == "react":
		return chat(r, "react", obj{"signal": argument})
	case command == "wait", command == "crash" && try == 1:
		h.asked <- command
		<-r.gone
		return move{text: "too late"}
	case command == "crash":
		return chat(r, "send_message", obj{"text": "survived"})
	case command == "meet": // not before both chats are at work
		h.mu.Lock()
		if h.tries[argument]++; h.tries[argument] == 1 {
			h.meet.Done()
		}
		h.mu.Unlock()
		h.meet.Wait()
		return chat(r, "send_message", obj{"text": "I am in " + argument})
	}
	return move{text: "no such command: " + command}
}

// chat calls a chat tool under the name that the program gives it.
func chat(r *request, tool string, arguments obj) move {
	for name := range r.tools {
		plain := strings.NewReplacer(".", "_", "\x00", "_").Replace(name)
		if strings.HasSuffix(plain, "chat_"+tool) {
			return move{tool: name, arguments: arguments}
		}
	}
	if _, searches := r.tools["ToolSearch"]; searches { // claude shows most tools to models that search for them
		return move{tool: "ToolSearch", arguments: obj{"query": "select:mcp__hubbub__chat_" + tool}}
	}
	var names []string
	for name := range r.tools {
		names = append(names, name)
	}
	return move{text: fmt.Sprintf("there is no tool %s among %q", tool, names)}
}

// eventOf returns the id of the event in a prompt.
func eventOf(prompt string) string {
	_, id, _ := strings.Cut(prompt, "\nevent_id: ")
	id, _, _ = strings.Cut(id, "\n")
	return id
}

// messageIn is the message of a prompt.
func messageIn(prompt string) string {
	_, message, _ := strings.Cut(prompt, "\nMESSAGE\n<<")
	fence, text, _ := strings.Cut(message, "\n")
	text, _, _ = strings.Cut(text, "\n"+fence+">>")
	return text
}

func TestHarness_RunsForeignPrograms(t *testing.T) {
	for i := range foreignPrograms {
		f := &foreignPrograms[i]
		t.Run(f.name, func(t *testing.T) {
			t.Run("careful", func(t *testing.T) { careful(t, newForeignFixture(t, f, "reading")) })
			t.Run("asking", func(t *testing.T) { asking(t, newForeignFixture(t, f, "ask")) })
			t.Run("root", func(t *testing.T) { refusesRoot(t, f) })
			t.Run("obliged", func(t *testing.T) { obliged(t, f) })
			t.Run("dies", func(t *testing.T) { dies(t, newForeignFixture(t, f, "ask")) })
			t.Run("trusted", func(t *testing.T) { trusted(t, newForeignFixture(t, f, "everything")) })
		})
	}
}

// careful runs the rows of a program that may only read.
func careful(t *testing.T, h *foreignFixture) {
	row(t, "answer", func(t *testing.T) { h.ask("answer hello", "hello") })
	row(t, "silence", func(t *testing.T) {
		h.offer("answer nobody")
		harnesstest.Until(t, "the model is called", func() bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			return h.tries["knocks"] == 1
		})
		h.ask("answer after the silence", "after the silence")
	})
	row(t, "claim", func(t *testing.T) {
		h.offer("answer I have it")
		if got := h.reply(); got != "I have it" {
			t.Errorf("%q", got)
		}
	})
	row(t, "reaction", func(t *testing.T) {
		h.say("tg:42", "react done", "")
		for {
			if r := h.next(); r.Signal != "" || r.Text != "" {
				if r.Signal != "done" {
					t.Errorf("%+v", r)
				}
				return
			}
		}
	})
	row(t, "permission refused", func(t *testing.T) {
		file := filepath.Join(h.home, "refused")
		h.say("tg:42", "run touch "+file, "")
		t.Log(h.reply())
		if _, err := os.Stat(file); err == nil {
			t.Error("it ran what it may not")
		}
	})
	row(t, "edit", func(t *testing.T) {
		h.say("tg:42", "wait", "")
		<-h.asked
		h.event("tg:42", protocol.ChatMessage{Text: "answer as edited", Event: "edit", SourceID: fmt.Sprint("e", h.said)})
		if got := h.reply(); got != "as edited" {
			t.Errorf("%q", got)
		}
	})
	row(t, "two chats", func(t *testing.T) {
		h.meet.Add(2)
		h.say("tg:42", "meet tg:42", "")
		h.say("tg:43", "meet tg:43", "")
		for range 2 {
			for {
				d := h.tg.Next(t)
				var r protocol.ChatReply
				if d.Decode(&r) == nil && r.Text != "" {
					if r.Text != "I am in "+string(d.Topic) {
						t.Errorf("in %s: %q", d.Topic, r.Text)
					}
					break
				}
			}
		}
	})
	row(t, "crash", func(t *testing.T) {
		h.say("tg:42", "crash", "")
		<-h.asked
		for _, pid := range children(h.program.Process.Pid) {
			syscall.Kill(pid, syscall.SIGKILL) //nolint:errcheck // it may have ended
		}
		if got := h.reply(); got != "survived" {
			t.Errorf("%q", got)
		}
	})
	row(t, "secrets", func(t *testing.T) { h.secrets(t) })
}

// trusted has the rows of a program that may do anything.
func trusted(t *testing.T, h *foreignFixture) {
	row(t, "permission granted and workspace", func(t *testing.T) {
		h.say("tg:42", "run touch made && pwd", "")
		if got := h.reply(); !strings.Contains(got, h.workspace) {
			t.Errorf("%q", got)
		}
		if _, err := os.Stat(filepath.Join(h.workspace, "made")); err != nil {
			t.Error(err)
		}
	})
}

// asking checks the questions from a program about which a person decides.
func asking(t *testing.T, h *foreignFixture) {
	row(t, "permission asked and decided", func(t *testing.T) {
		for _, word := range []string{"no", "yes"} {
			file := filepath.Join(h.workspace, word)
			h.say("tg:42", "run touch "+file, "")
			if asked := h.reply(); !strings.Contains(asked, "lead asks to run shell") || !strings.Contains(asked, file) || !strings.Contains(asked, "yes or no") {
				t.Fatalf("asked %q", asked)
			}
			h.say("tg:42", word, "")
			said := []string{h.reply(), h.reply()} // the decision and its result, in either order
			verdict := map[string]string{"no": "denied by tg:77", "yes": "allowed by tg:77"}[word]
			if _, err := os.Stat(file); !strings.Contains(said[0]+said[1], verdict) || (err == nil) != (word == "yes") {
				t.Errorf("after %s: %q, %v", word, said, err)
			}
		}
	})
}

// obliged has the arms of draft 2026-08-11, and a program without returns as the control.
func obliged(t *testing.T, f *foreignProgram) {
	on := newForeignFixture(t, f, "reading", "--policy-version", "2026-08-11", "--obligation-buffered", "15s", "--person", "tg:88")
	off := newForeignFixture(t, f, "reading", "--policy-version", "2026-08-11", "--obligation-buffered", "0s", "--person", "tg:88")
	say := func(h *foreignFixture, author string, m protocol.ChatMessage) { // each from another author, because the messages of one author are one turn
		m.Chat, m.Author = &protocol.Chat{ID: "42", Kind: "dm"}, &protocol.Author{ID: author, Kind: "human"}
		harnesstest.Until(t, "the agent takes a message", func() bool {
			return h.tg.SendAs(t, "tg:42", "agent:lead", protocol.TypeTGMessage, m).DeliveredTo == 1
		})
	}
	wait := func(h *foreignFixture, id, author, text string) {
		say(h, author, protocol.ChatMessage{
			Text: text, SourceID: id, CreatedAt: protocol.FormatTime(time.Now()),
			Recipients: []protocol.Party{{ID: "lead", Kind: "agent"}}, Obligation: &protocol.Obligation{Blocks: "halted", DefaultAction: "I wait"},
		})
	}
	for _, h := range []*foreignFixture{on, off} {
		say(h, "88", protocol.ChatMessage{Text: "thanks", SourceID: "0"})
		wait(h, "a", "71", "dodge")
		wait(h, "c", "73", "nothing")
		wait(h, "d", "74", "read")
	}
	wait(on, "b", "72", "reply it is not blocked")
	for got := on.reply(); got != "it is not blocked"; got = on.reply() {
		t.Log(got)
	}
	say(on, "72", protocol.ChatMessage{
		Event: "reaction", SourceID: "r1", ReactionID: "r1", TargetEventID: "b", Signal: "done",
		Actor: &protocol.Party{ID: "tg:72", Kind: "human"}, Recipient: &protocol.Party{ID: "agent:lead", Kind: "agent"},
	})
	escalated, discharged := map[string]bool{}, false
	for len(escalated) < 3 {
		var r struct{ Event, State, ObligationID, To string }
		if d := on.records.Next(t); d.Decode(&r) == nil && r.Event == "obligation" {
			if r.State == "escalated" && r.To == "tg:88" {
				escalated[r.ObligationID] = true
			}
			discharged = discharged || r.State == "discharged" && r.ObligationID == "b"
		}
	}
	if !discharged || escalated["b"] {
		t.Errorf("what its author closed is discharged: %v; escalated are %v", discharged, escalated)
	}
	turns := map[string][]string{} // by event, without the parts that differ between returns
	on.mu.Lock()
	for _, prompt := range on.back {
		_, rest, _ := strings.Cut(prompt, "event_id: return:")
		slot, rest, _ := strings.Cut(rest, ":")
		id, _, _ := strings.Cut(rest, "\n")
		turns[id] = append(turns[id], slot)
	}
	on.mu.Unlock()
	for _, id := range []string{"a", "c", "d"} {
		if !slices.Equal(turns[id], []string{"1", "2", "3"}) {
			t.Errorf("%s came back in turns of the model at intervals %q", id, turns[id])
		}
	}
	off.mu.Lock()
	defer off.mu.Unlock()
	if len(turns["b"]) > 0 || len(off.back) > 0 {
		t.Errorf("what was closed came back at %q; with returns switched off %d did", turns["b"], len(off.back))
	}
}

// dies checks that a program that dies with an open request ends the decision as cancelled, in
// the chat and on record.
func dies(t *testing.T, h *foreignFixture) {
	h.say("tg:42", "run touch "+filepath.Join(h.workspace, "never"), "")
	if asked := h.reply(); !strings.Contains(asked, "Decide with") {
		t.Fatalf("asked %q", asked)
	}
	for _, pid := range children(h.program.Process.Pid) {
		syscall.Kill(pid, syscall.SIGKILL) //nolint:errcheck // it may have ended
	}
	for got := h.reply(); !strings.Contains(got, "Decision: cancelled by agent:lead (its turn ended)."); got = h.reply() {
		t.Log(got)
	}
	for {
		var r struct{ Event, State, By string }
		if d := h.records.Next(t); d.Decode(&r) == nil && r.Event == "decision" {
			if r.State != "cancelled" || r.By != "agent:lead" {
				t.Errorf("on record is %+v", r)
			}
			break
		}
	}
	if _, err := os.Stat(filepath.Join(h.workspace, "never")); err == nil {
		t.Error("it ran")
	}
}

// refusesRoot checks that `hubbub why` shows the output of a program that refuses to run as root.
func refusesRoot(t *testing.T, f *foreignProgram) {
	if os.Geteuid() != 0 || f.name != "claude" {
		t.Skip("of these programs only claude refuses root")
	}
	alone := *f
	alone.env = func(home, url string) []string {
		return slices.DeleteFunc(f.env(home, url), func(v string) bool { return v == "IS_SANDBOX=1" })
	}
	h := newForeignFixture(t, &alone, "reading")
	h.say("tg:42", "answer hello", "")
	for {
		var r struct{ Event, Disposition, Reason string }
		if d := h.records.Next(t); d.Decode(&r) == nil && r.Event == "disposition" {
			if r.Disposition != "failed" || !strings.Contains(r.Reason, "cannot be used with root") {
				t.Errorf("%+v", r)
			}
			return
		}
	}
}

// row runs one row of the table.
func row(t *testing.T, name string, do func(t *testing.T)) {
	t.Run(name, func(t *testing.T) {
		began := time.Now()
		do(t)
		t.Log(time.Since(began).Round(time.Millisecond))
	})
}

// event sends a message from Will, after adding the required members.
func (h *foreignFixture) event(from protocol.PeerID, m protocol.ChatMessage) {
	if m.Chat == nil {
		m.Chat = &protocol.Chat{ID: from.Name(), Kind: "dm"}
	}
	m.Author = &protocol.Author{ID: "77", Kind: "human"}
	h.tg.SendAs(h.t, from, "agent:lead", protocol.TypeTGMessage, m)
}

// offer sends a message to the agent's role.
func (h *foreignFixture) offer(text string) {
	h.said++
	h.event("tg:42", protocol.ChatMessage{
		Text: text, SourceID: fmt.Sprint("e", h.said), Mentions: []string{"role:backend"}, Chat: &protocol.Chat{ID: "42", Kind: "channel"},
	})
}

func (h *foreignFixture) next() protocol.ChatReply {
	var r protocol.ChatReply
	h.tg.Next(h.t).Decode(&r) //nolint:errcheck // then it is empty
	return r
}

// children lists the processes that a process has started.
func children(pid int) (all []int) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) //nolint:errcheck // the pattern is right
	for _, task := range tasks {
		raw, _ := os.ReadFile(task) //nolint:errcheck // it has ended
		for _, word := range strings.Fields(string(raw)) {
			if child, err := strconv.Atoi(word); err == nil {
				all = append(append(all, child), children(child)...)
			}
		}
	}
	return all
}

// secrets looks for our tokens where they must not be.
func (h *foreignFixture) secrets(t *testing.T) {
	var own struct{ Token string }
	raw, err := os.ReadFile(filepath.Join(h.data, "mcp.json"))
	if err == nil {
		err = json.Unmarshal(raw, &own)
	}
	if err != nil || own.Token == "" {
		t.Fatal(err)
	}
	look := func(where string, content []byte) {
		for name, secret := range map[string]string{"the bus token": busToken, "the agent's own token": own.Token} {
			if strings.Contains(string(content), secret) {
				t.Errorf("%s holds %s", where, name)
			}
		}
	}
	for _, pid := range children(h.program.Process.Pid) {
		for _, file := range []string{"environ", "cmdline"} {
			raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file)) //nolint:errcheck // it has ended
			look(fmt.Sprintf("%s of process %d", file, pid), raw)
			if strings.Contains(string(raw), "Bearer ") { // of the chat tools: see mcptools.ownUser
				t.Logf("%s of process %d holds the bearer token of a chat", file, pid)
			}
		}
	}
	for _, folder := range []string{h.home, h.workspace} {
		filepath.WalkDir(folder, func(path string, _ os.DirEntry, _ error) error { //nolint:errcheck // it returns none
			raw, _ := os.ReadFile(path) //nolint:errcheck // a folder
			look(path, raw)
			return nil
		})
	}
	for _, body := range h.models.seen {
		look("a request to the model", []byte(body))
	}
}
