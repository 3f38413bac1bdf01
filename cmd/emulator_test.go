package cmd_test

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"hubbub/bus/bustest"
)

// emulatorEnv names the folder in which scripts/test-emulator has installed an independent server
// of the Bot API.
const emulatorEnv = "HUBBUB_EMULATOR"

// emulatorScript runs that server.
const emulatorScript = `const s = new (require("telegram-test-api"))({host: "127.0.0.1", port: +process.argv[1], storeTimeout: 600});
s.start().then(() => console.error("ready"))`

// An emulator is that server with users who write to the bot.
type emulator struct {
	t     *testing.T
	url   string
	token string
}

func startEmulator(t *testing.T) *emulator {
	t.Helper()
	folder := os.Getenv(emulatorEnv)
	if folder == "" {
		t.Skipf("%s is not set: make test-emulator installs the server and sets it", emulatorEnv)
	}
	address := bustest.FreeAddress(t)
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, name: "the emulator", sign: regexp.MustCompile(`^ready`)}
	p.cmd = exec.CommandContext(t.Context(), "node", "-e", emulatorScript, port)
	p.cmd.Dir, p.cmd.Stderr = folder, p
	p.cmd.Cancel = func() error { return p.cmd.Process.Kill() }
	p.start(t)
	return &emulator{t: t, url: "http://" + address, token: "666:emulated"}
}

// call makes a request to the emulator, as its users do.
func (e *emulator) call(path string, body map[string]any) json.RawMessage {
	e.t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		e.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(e.t.Context(), http.MethodPost, e.url+path, bytes.NewReader(raw))
	if err != nil {
		e.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		e.t.Fatal(err)
	}
	defer answer.Body.Close() //nolint:errcheck // it was read
	var result struct{ Result json.RawMessage }
	if err := json.NewDecoder(answer.Body).Decode(&result); err != nil || answer.StatusCode != http.StatusOK {
		e.t.Fatalf("%s: HTTP %d, %v", path, answer.StatusCode, err)
	}
	return result.Result
}

// say writes to a chat as a user.
func (e *emulator) say(chat int64, kind string, user int64, text string) {
	e.t.Helper()
	message := map[string]any{
		"botToken": e.token, "date": time.Now().Unix(), "text": text,
		"chat": map[string]any{"id": chat, "type": kind, "title": "Team"},
		"from": map[string]any{"id": user, "first_name": "Will", "is_bot": false},
	}
	if at := strings.Index(text, "@TestNameBot"); at >= 0 {
		message["entities"] = []any{map[string]any{"type": "mention", "offset": at, "length": len("@TestNameBot")}}
	}
	e.call("/sendMessage", message)
}

// said returns the messages from the bot in a chat.
func (e *emulator) said(chat string) (texts []string) {
	e.t.Helper()
	var history []struct {
		Message struct {
			Text   string
			ChatID json.RawMessage `json:"chat_id"`
		}
	}
	if err := json.Unmarshal(e.call("/getUpdatesHistory", map[string]any{"token": e.token}), &history); err != nil {
		e.t.Fatal(err)
	}
	for _, h := range history {
		if strings.Trim(string(h.Message.ChatID), `"`) == chat {
			texts = append(texts, h.Message.Text)
		}
	}
	return texts
}

// TestBotAPIEmulator_RunsChats runs the bridge with an independent server of the Bot API. A
// direct message and a mention in a group are answered, and other messages are not.
func TestBotAPIEmulator_RunsChats(t *testing.T) {
	e := startEmulator(t)
	s := &fixture{
		t: t, whole: t, data: t.TempDir(), bus: bustest.FreeAddress(t), run: map[string]*process{}, past: map[string][]*process{},
		botToken: e.token, tgArgs: []string{"--api-url", e.url}, agentArgs: []string{"--harness=scripted", "--compose-window=100ms", "--log-format=json"},
	}
	s.tap = newProxy(t, s.bus)
	for _, name := range programs {
		s.start(name)
	}
	await := func(chat string, n int) []string {
		t.Helper()
		s.await("what the bot says in "+chat, func() bool { return len(e.said(chat)) >= n })
		return e.said(chat)
	}

	e.say(77, "private", 77, "hello")
	if got := await("77", 1); len(got) != 1 || !strings.Contains(strings.ToLower(got[0]), "hello") {
		t.Errorf("in a direct chat: %q", got)
	}
	e.say(-100, "group", 77, "lunch is at noon")
	e.say(-100, "group", 78, "who takes the bicycles?")
	e.say(-100, "group", 79, "@TestNameBot which day is it?")
	if got := await("-100", 1); len(got) != 1 || !strings.Contains(got[0], "which day is it?") {
		t.Errorf("in a group: %q", got)
	}
	e.say(-100, "group", 78, "never mind")
	e.say(-100, "group", 77, "@TestNameBot hello")
	if got := await("-100", 2); len(got) != 2 || !strings.Contains(strings.ToLower(got[1]), "hello") {
		t.Errorf("in a group: %q", got)
	}
}
