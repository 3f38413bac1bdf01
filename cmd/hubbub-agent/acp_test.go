package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"hubbub/bus/bustest"
	"hubbub/peers/agent/harness/harnesstest"
	"hubbub/protocol"
)

// TestMain lets the test binary be hubbub-agent, and the ACP program that it
// starts.
func TestMain(m *testing.M) {
	switch {
	case os.Getenv("HUBBUB_AGENT_TEST") != "": // withheld from the ACP program
		main()
	case os.Getenv(harnesstest.ACPRoleEnv) != "":
		harnesstest.ServeACP()
	default:
		os.Exit(m.Run())
	}
}

// A fixture is hubbub-agent with an ACP program, on a bus with a chat.
type fixture struct {
	t    *testing.T
	bus  *bustest.Bus
	tg   *bustest.Scripted
	data string
	said int

	command string   // of the harness; default the fake ACP program
	args    []string // more flags
	env     []string // more environment

	program *exec.Cmd
	log     lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

const busToken = "secret-of-the-bus-0123456789"

func (h *fixture) start() {
	h.t.Helper()
	h.program = exec.Command(os.Args[0], append([]string{
		"--id", "lead", "--bus", h.bus.URL(), "--data", h.data, "--harness", "acp", "--harness-command", cmp.Or(h.command, os.Args[0]),
		"--compose-window", "20ms", "--log-level", "debug", "--log-format", "json",
	}, h.args...)...)
	h.program.Env = append(os.Environ(), "HUBBUB_AGENT_TEST=1", "HUBBUB_TOKEN="+busToken, harnesstest.ACPRoleEnv+"=fake", "GORACE=atexit_sleep_ms=0")
	h.program.Env = append(h.program.Env, h.env...)
	h.program.Stdout, h.program.Stderr = &h.log, &h.log
	if err := h.program.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { h.program.Process.Kill() }) //nolint:errcheck // it may have ended
}

func (h *fixture) stop() {
	h.t.Helper()
	h.program.Process.Signal(syscall.SIGTERM) //nolint:errcheck // Wait tells
	if err := h.program.Wait(); err != nil {
		h.t.Errorf("hubbub-agent ended: %v", err)
	}
}

// say sends a message from Will, on a topic of the bridge, until the agent has accepted it.
func (h *fixture) say(from protocol.PeerID, text string, mcp string) {
	h.t.Helper()
	h.said++
	m := protocol.ChatMessage{
		SourceID: fmt.Sprint("e", h.said), Text: text, Chat: &protocol.Chat{ID: from.Name(), Kind: "dm"}, Author: &protocol.Author{ID: "77", Kind: "human"},
	}
	kind := protocol.TypeTGMessage
	if mcp != "" {
		kind, m.MCP = protocol.TypeChatMessage, json.RawMessage(mcp)
	}
	harnesstest.Until(h.t, "the agent takes "+text, func() bool {
		return h.tg.SendAs(h.t, from, "agent:lead", kind, m).DeliveredTo == 1
	})
}

// reply returns the next text that the agent says.
func (h *fixture) reply() string {
	h.t.Helper()
	for {
		d := h.tg.Next(h.t)
		var r protocol.ChatReply
		if err := d.Decode(&r); err != nil {
			h.t.Fatal(err)
		}
		if r.Text != "" {
			return r.Text
		}
	}
}

func (h *fixture) ask(text, want string) {
	h.t.Helper()
	h.say("tg:42", text, "")
	if got := h.reply(); got != want {
		h.t.Errorf("%q is answered %q, want %q", text, got, want)
	}
}

// TestACP_AsksAPersonForPermission checks that with --permission ask the author of the message
// decides in the chat, and that reading needs no permission. With --approve, a person also
// decides on permitted calls.
func TestACP_AsksAPersonForPermission(t *testing.T) {
	for name, c := range map[string]struct {
		args           []string
		word, want     string
		asked, unasked string
	}{
		"allowed":   {[]string{"--permission", "ask"}, "yes", "once", "execute", "read"},
		"denied":    {[]string{"--permission", "ask"}, "no", "no", "execute", "read"},
		"sensitive": {[]string{"--permission", "everything", "--approve", "shell"}, "no", "no", "execute", "edit"},
	} {
		t.Run(name, func(t *testing.T) {
			h := &fixture{t: t, bus: bustest.Start(t, nil), data: t.TempDir(), args: c.args}
			h.tg = h.bus.Join(t, "tg:bot", "tg:*")
			h.start()
			h.ask("permission "+c.unasked+" notes", "once")
			h.say("tg:42", "permission "+c.asked+" rm", "")
			if got := h.reply(); !strings.Contains(got, "lead asks to run shell") || !strings.Contains(got, "yes or no") {
				t.Fatalf("asked %q", got)
			}
			h.say("tg:42", c.word, "")
			verdict := map[string]string{"yes": "allowed by tg:77", "no": "denied by tg:77"}[c.word]
			said := []string{h.reply(), h.reply()}
			slices.Sort(said) // the outbox may be faster than the program
			if !strings.Contains(said[0]+said[1], verdict) || !slices.Contains(said, c.want) {
				t.Errorf("told %q; want %q and %q", said, verdict, c.want)
			}
			h.stop()
		})
	}
}

// acpContents are commands of the fake program that end with more than text, and what the chat is shown.
var acpContents = map[string]string{
	`content [{"type":"text","text":"See"},{"type":"resource_link","name":"the report","uri":"https://a.example/r"},{"type":"text","text":"."}]`:                            "See [the report](https://a.example/r).",
	`content [{"type":"resource_link","name":"a.txt","uri":"file:///w/a.txt"}]`:                                                                                             "(file: a.txt, `/w/a.txt`)",
	`content [{"type":"text","text":"Here:"},{"type":"image","data":"UE5H","mimeType":"image/png"}]`:                                                                        "Here:\n(an image, image/png, that cannot be shown here)",
	`content [{"type":"image","data":"UE5H","mimeType":"image/png","uri":"https://a.example/i.png"}]`:                                                                       "[image](https://a.example/i.png)",
	`content [{"type":"audio","data":"UE5H","mimeType":"audio/ogg"},{"type":"text","text":"Listen."}]`:                                                                      "(a recording, audio/ogg, that cannot be played here)\nListen.",
	`content [{"type":"text","text":"Wrote"},{"type":"resource","resource":{"uri":"file:///w/a.py","text":"print(1)\n"}}]`:                                                  "Wrote\n`/w/a.py`:\n```\nprint(1)\n```",
	`content [{"type":"text","text":"Two:"},{"type":"resource_link","name":"x","uri":"http://a.example/x"},{"type":"resource_link","name":"y","uri":"http://a.example/y"}]`: "Two: [x](http://a.example/x) [y](http://a.example/y)",

	"stop-by end_turn All.":                "All.",
	"stop-by max_tokens Once upon":         "Once upon" + cutNote,
	"stop-by max_turn_requests Half of it": "Half of it" + cutNote,
	"stop-by refusal I will not.":          "I will not.",
	"stop-by refusal ":                     "My model declined to answer this. Rephrasing may help.",
}

const cutNote = "\n\n[The model's answer was cut here: it reached its maximum length.]"

// TestACP_AsksInWordsWhatAProgramWantsToKnow answers questions from a program in words.
func TestACP_AsksInWordsWhatAProgramWantsToKnow(t *testing.T) {
	h := &fixture{t: t, bus: bustest.Start(t, nil), data: t.TempDir(), args: []string{"--permission", "ask"}}
	h.tg = h.bus.Join(t, "tg:bot", "tg:*")
	h.start()
	one := func(field string) string {
		return `{"type":"object","properties":{"x":` + field + `},"required":["x"]}`
	}
	for _, c := range []struct{ schema, words, want string }{
		{one(`{"type":"string"}`), "release/2.1", `{"x":"release/2.1"}`},
		{one(`{"type":"string","enum":["small","large"]}`), "Large", `{"x":"large"}`},
		{one(`{"type":"integer","minimum":1}`), "3", `{"x":3}`},
		{one(`{"type":"string","format":"date"}`), "2027-05-03", `{"x":"2027-05-03"}`},
		{`{"type":"object","properties":{"city":{"type":"string"},"nights":{"type":"integer"}},"required":["city","nights"]}`, "city: Köln\nnights: 2", `{"city":"Köln","nights":2}`},
		{one(`{"type":"string"}`), "no thanks", "decline"},
	} {
		h.say("tg:42", "elicit "+c.schema, "")
		if asked := h.reply(); !strings.Contains(asked, "What?") {
			t.Errorf("%s is asked as %q", c.schema, asked)
		}
		h.say("tg:42", c.words, "")
		got := h.reply()
		for !strings.HasPrefix(got, "answered: ") {
			got = h.reply()
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%q to %s becomes %s; want %s", c.words, c.schema, got, c.want)
		}
	}
	h.stop()
}

// TestACP_CancelsTheRequestOfADeadProgram checks that the decision is cancelled in the chat and
// on record. A request of the restarted program is another decision.
func TestACP_CancelsTheRequestOfADeadProgram(t *testing.T) {
	h := &fixture{t: t, bus: bustest.Start(t, nil), data: t.TempDir(), args: []string{"--permission", "ask"}}
	h.tg = h.bus.Join(t, "tg:bot", "tg:*")
	records := h.bus.Join(t, "agent:system", "system:attention")
	h.start()
	file := filepath.Join(h.data, "pid")
	h.say("tg:42", "permission-of "+file+" execute rm", "")
	if got := h.reply(); !strings.Contains(got, "Decide with") {
		t.Fatalf("asked %q", got)
	}
	raw, err := os.ReadFile(file)
	pid, notANumber := strconv.Atoi(string(raw))
	if err = errors.Join(err, notANumber); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	said := []string{h.reply(), h.reply()}
	if all := strings.Join(said, "\n"); !strings.Contains(all, "Decision: cancelled by agent:lead (its turn ended).") || !strings.Contains(all, "Decide with") {
		t.Fatalf("after the program died: %q", said)
	}
	h.say("tg:42", "yes", "")
	for got := h.reply(); got != "once"; got = h.reply() {
		if !strings.Contains(got, "Decision: allowed by tg:77") {
			t.Errorf("after yes: %q", got)
		}
	}
	var states []string
	for len(states) < 2 {
		var r protocol.ApprovalRecord
		if d := records.Next(t); d.Decode(&r) == nil && r.Event == "decision" {
			states = append(states, r.DecisionID+" "+string(r.State)+" "+r.By)
		}
	}
	first, cancelled := strings.CutSuffix(states[0], " cancelled agent:lead")
	second, allowed := strings.CutSuffix(states[1], " allowed tg:77")
	if !cancelled || !allowed || first == second {
		t.Errorf("on record: %q", states)
	}
	h.stop()
}

// TestACP_AnswersBehindTheBus covers a prompt, tools, permissions, a stop, a crash during a turn,
// and a restart of the agent.
func TestACP_AnswersBehindTheBus(t *testing.T) {
	h := &fixture{t: t, bus: bustest.Start(t, nil), data: t.TempDir()}
	h.tg = h.bus.Join(t, "tg:bot", "tg:*")
	h.start()
	h.ask("say hello", "hello")
	for parts, want := range map[string]string{
		"I read the file.|The port is 80.": "I read the file.\n\nThe port is 80.",
		"Eins.|Zwei.|Drei.":                "Eins.\n\nZwei.\n\nDrei.",
		"读完了。|端口是 80。":                     "读完了。\n\n端口是 80。",
		"1. a|2. b":                        "1. a\n\n2. b",
		"It is| noon|, nearly.":            "It is noon\n\n, nearly.",
		"Done!\n|See below.":               "Done!\nSee below.",
	} {
		h.ask("parts "+parts, want)
	}
	for said, want := range acpContents {
		h.ask(said, want)
	}
	for _, reason := range []string{"max_tokens ", "max_turn_requests "} {
		h.say("tg:42", "stop-by "+reason, "")
		if got := h.reply(); !strings.Contains(got, "limit") {
			t.Errorf("after %q: %q", reason, got)
		}
	}
	h.ask("chat from its tools", "from its tools")
	h.ask("permission read notes", "once")
	h.ask("permission execute rm", "no")

	h.say("tg:42", "wait", "")
	harnesstest.Until(t, "the program waits", func() bool { return h.typing() })
	h.say("tg:42", "stop", "")
	if got := h.reply(); !strings.HasPrefix(got, "I could not answer") { // the fake has no words for stop
		t.Errorf("after stop: %q", got)
	}
	h.ask("crash-once "+filepath.Join(h.data, "crashed"), "survived")
	h.stop()
	h.start()
	h.ask("say back again", "back again")
	h.stop()
	if strings.Contains(h.log.String(), "panic") {
		t.Error(h.log.String())
	}
}

// typing waits for the sign that a turn is at work.
func (h *fixture) typing() bool {
	d := h.tg.Next(h.t)
	var r protocol.ChatReply
	return d.Decode(&r) == nil && r.Typing
}

// TestACP_GetsNoSecretOfTheAgent checks that neither the environment nor the input of the program
// contains the bus token or our variables, and that the tools' token, which it needs, does not
// appear in the log.
func TestACP_GetsNoSecretOfTheAgent(t *testing.T) {
	h := &fixture{t: t, bus: bustest.Start(t, nil), data: t.TempDir()}
	h.tg = h.bus.Join(t, "chorus:gateway", "chorus:*")
	h.start()
	path := filepath.Join(h.data, "told")
	h.say("chorus:ops.1", "tell "+path, `{"url":"http://127.0.0.1:9/mcp"}`)
	if got := h.reply(); got != "told" {
		t.Fatalf("%q", got)
	}
	h.stop()
	told, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(told), busToken) || strings.Contains(string(told), "HUBBUB_") || !strings.Contains(string(told), "/relay/") {
		t.Errorf("the program was told\n%s", told)
	}
	var own struct{ Token string }
	raw, err := os.ReadFile(filepath.Join(h.data, "mcp.json"))
	if err == nil {
		err = json.Unmarshal(raw, &own)
	}
	if err != nil || own.Token == "" {
		t.Fatal(err)
	}
	for _, shown := range regexp.MustCompile(`Bearer ([\w.-]+)`).FindAllStringSubmatch(string(told), -1) {
		if shown[1] == own.Token || strings.Contains(h.log.String(), shown[1]) {
			t.Errorf("the program was told the agent's own token, or the log says what it was told:\n%s\n%s", told, h.log.String())
		}
	}
	if log := h.log.String(); !strings.Contains(log, "my token is") || strings.Contains(log, own.Token) || strings.Contains(log, busToken) {
		t.Errorf("the log says\n%s", log)
	}
}
