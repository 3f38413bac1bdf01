package cmd_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"hubbub/bus/bustest"

	"github.com/coder/websocket"
)

// TestNewPeer_AnswersInOrder runs the output of `hubbub new peer` unchanged, before a bus exists
// and on a bus that restarts.
func TestNewPeer_AnswersInOrder(t *testing.T) {
	const needed = "import sys; from websockets import connect; sys.exit(sys.version_info < (3, 10))"
	python := "python3"
	if exec.CommandContext(t.Context(), python, "-c", needed).Run() != nil {
		python = "/usr/bin/python3" // Debian's Python has the Debian packages
	}
	for _, c := range []struct {
		language, file string
		command        []string // before the file
		needs          []string // a command that fails if the language is not installed
	}{
		{"go", "main.go", nil, []string{"go", "version"}},
		{"ts", "peer.ts", []string{"node", "--experimental-strip-types"}, []string{"node", "--experimental-strip-types", "-e", "new WebSocket('ws://127.0.0.1:1').onerror=()=>0"}},
		{"py", "peer.py", []string{python}, []string{python, "-c", needed}},
	} {
		t.Run(c.language, func(t *testing.T) {
			if exec.CommandContext(t.Context(), c.needs[0], c.needs[1:]...).Run() != nil {
				t.Skipf("%s cannot run here", strings.Join(c.needs, " "))
			}
			addr, data := bustest.FreeAddress(t), t.TempDir()
			file := filepath.Join(t.TempDir(), c.file)
			if err := os.WriteFile(file, printPeer(t, c.language), 0o600); err != nil {
				t.Fatal(err)
			}
			if c.language == "go" {
				file = buildModule(t, file)
			}
			t.Setenv("HUBBUB_BUS", "ws://"+addr)
			peer := runPeer(t, append(c.command, file), `(?is)connect.*\n.*connect`)
			select {
			case <-peer.ready:
			case <-time.After(patience):
				t.Fatalf("without a bus it did not say twice that it tries:\n%s", peer.text())
			}
			bus := start(t, t, "hubbub-bus", nil, "--listen", addr, "--data", data)
			checkEcho(t, "ws://"+addr, data)
			before := dialChat(t, "ws://"+addr)
			before.say("held")
			if _, text := before.receive(); text != "held" {
				t.Errorf("answered %q", text)
			}
			if err := peer.cmd.Process.Signal(syscall.SIGSTOP); err != nil { // until the chat is connected again
				t.Fatal(err)
			}
			bus.kill() // before it knows that the answer was received
			start(t, t, "hubbub-bus", nil, "--listen", addr, "--data", data)
			after := dialChat(t, "ws://"+addr)
			if err := peer.cmd.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			id, text := after.receive()
			if text != "held" {
				t.Errorf("after a restart it repeated %q", text)
			}
			after.acknowledge(id)
			after.conn.CloseNow() //nolint:errcheck // it is only left
			checkEcho(t, "ws://"+addr, data)
			checkOrder(t, "ws://"+addr, 50)
		})
	}
}

// A chatClient is the chat tg:42, which talks to agent:echo.
type chatClient struct {
	t    *testing.T
	conn *websocket.Conn
}

func dialChat(t *testing.T, bus string) *chatClient {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), bus, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.CloseNow() }) //nolint:errcheck // it is only left
	c := &chatClient{t, conn}
	c.write(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"clientId":"tg:42","subscriptions":[{"topic":"tg:42"}]}}`)
	if _, answer, err := conn.Read(t.Context()); err != nil || !bytes.Contains(answer, []byte(`"result"`)) {
		t.Fatalf("not initialized: %s, %v", answer, err)
	}
	return c
}

func (c *chatClient) write(frame string) {
	c.t.Helper()
	if err := c.conn.Write(c.t.Context(), websocket.MessageText, []byte(frame)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *chatClient) say(text string) {
	c.t.Helper()
	c.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%[1]q,"method":"sendMessage","params":{"topic":"agent:echo","payload":{"messageId":%[1]q,`+
		`"type":"tg_message","from":"tg:42","timestamp":"2026-11-26T00:00:00Z","content":{"text":%[1]q}}}}`, text))
}

// receive waits for a message. acknowledge answers it.
func (c *chatClient) receive() (id json.RawMessage, text string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience+patience)
	defer cancel()
	for {
		_, raw, err := c.conn.Read(ctx)
		if err != nil {
			c.t.Fatal(err)
		}
		var frame struct {
			ID     json.RawMessage
			Method string
			Params struct {
				Payload struct{ Content struct{ Text string } }
			}
		}
		if json.Unmarshal(raw, &frame) == nil && frame.Method == "processMessage" {
			return frame.ID, frame.Params.Payload.Content.Text
		}
	}
}

func (c *chatClient) acknowledge(id json.RawMessage) {
	c.t.Helper()
	c.write(`{"jsonrpc":"2.0","id":` + string(id) + `,"result":{"processed":true}}`)
}

// checkOrder sends messages to agent:echo without waiting. Each must be answered once, in order.
func checkOrder(t *testing.T, bus string, messages int) {
	t.Helper()
	c := dialChat(t, bus)
	var want, got []string
	for i := range messages {
		want = append(want, fmt.Sprint("message ", i))
		c.say(want[i])
	}
	for len(got) < len(want) {
		id, text := c.receive()
		c.acknowledge(id)
		if strings.HasPrefix(text, "message ") { // an earlier answer may come first
			got = append(got, text)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("answered %q", got)
	}
}

// TestNewPeer_Shell checks that it answers, even after a restart of the bus.
func TestNewPeer_Shell(t *testing.T) {
	if _, err := exec.LookPath("jq"); err != nil {
		t.Skip("jq is missing")
	}
	addr, data, dir := bustest.FreeAddress(t), t.TempDir(), t.TempDir()
	bus := start(t, t, "hubbub-bus", nil, "--listen", addr, "--data", data)
	file := filepath.Join(dir, "peer.sh")
	if err := os.WriteFile(file, printPeer(t, "sh"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HUBBUB_BUS", "ws://"+addr)
	t.Setenv("PATH", filepath.Dir(built(t, "hubbub"))+":"+os.Getenv("PATH"))
	peer := exec.CommandContext(t.Context(), "sh", file)
	peer.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := peer.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		syscall.Kill(-peer.Process.Pid, syscall.SIGKILL) //nolint:errcheck // the pipeline, too
		_ = peer.Wait()                                  // it was killed
	})
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	watch := &process{t: t, name: "hubbub sub", cmd: exec.CommandContext(t.Context(), built(t, "hubbub"), "sub", "tg:42", "--json"), sign: regexp.MustCompile(`watching tg:42`)}
	watch.cmd.Stdout, watch.cmd.Stderr = watch, watch
	watch.start(t)
	answers := func(text string) { // repeated until it is received, because observers are not counted
		t.Helper()
		for answer := regexp.MustCompile(`"type": ?"tg_reply".*` + text); !answer.MatchString(watch.whole()); <-tick.C {
			if out, err := exec.CommandContext(t.Context(), built(t, "hubbub"), "pub", "agent:echo", "--type", "tg_message", "--as", "tg:42", text).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
	}
	answers("before")
	bus.stop()
	start(t, t, "hubbub-bus", nil, "--listen", addr, "--data", data)
	answers("after")
	checkOrder(t, "ws://"+addr, 10)
}

// printPeer returns the output of `hubbub new peer`.
func printPeer(t *testing.T, language string, name ...string) []byte {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), built(t, "hubbub"), append([]string{"new", "peer", "--lang", language}, name...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// buildModule builds a program as a separate module, as its comment says.
func buildModule(t *testing.T, file string) string {
	t.Helper()
	repository, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []string{
		"go mod init echo", "go mod edit -require=hubbub@v0.0.0 -replace=hubbub=" + repository, "go build -mod=mod -o echo .",
	} {
		words := strings.Fields(step)
		cmd := exec.CommandContext(t.Context(), words[0], words[1:]...)
		cmd.Dir = filepath.Dir(file)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GONOSUMDB=*", "GONOSUMCHECK=1", "GOSUMDB=off") // fetches what the module cache lacks
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", step, err, out)
		}
	}
	return filepath.Join(filepath.Dir(file), "echo")
}

// TestNewPeer_UsesGivenName also checks the errors for a wrong name or language.
func TestNewPeer_UsesGivenName(t *testing.T) {
	for _, language := range []string{"ts", "py", "go", "sh"} {
		text := printPeer(t, language, "reviewer")
		if !bytes.Contains(text, []byte("agent:reviewer")) || bytes.Contains(text, []byte("agent:echo")) || !bytes.Contains(text, []byte("HUBBUB_TOKEN")) {
			t.Errorf("%s:\n%s", language, text)
		}
	}
	for _, args := range [][]string{{"--lang", "cobol"}, {"--lang", "py", "a b"}, {"--lang", "py", `x"; evil()`}} {
		cmd := exec.CommandContext(context.Background(), built(t, "hubbub"), append([]string{"new", "peer"}, args...)...)
		if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != 2 {
			t.Errorf("%q: %v", args, err)
		}
	}
}
