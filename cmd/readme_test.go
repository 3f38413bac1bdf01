package cmd_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"hubbub/bus/bustest"
)

// documentBlock returns the fenced block of a language in a document.
func documentBlock(t *testing.T, document, language string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", document))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?s)```" + language + "\n(.*?)```").FindSubmatch(text)
	if m == nil {
		t.Fatalf("%s has no block of %s", document, language)
	}
	return string(m[1])
}

// TestDocumentedPeers_Answer runs the peers of README.md and docs/peers.md against a bus with
// credentials, with the documented token, and talks to them.
func TestDocumentedPeers_Answer(t *testing.T) {
	const needed = "from websockets import connect"
	python := "python3"
	if exec.CommandContext(t.Context(), python, "-c", needed).Run() != nil {
		python = "/usr/bin/python3" // Debian's Python has the Debian packages
	}
	for _, c := range []struct {
		document, language, file string
		command                  []string // before the file
		needs                    []string // a command that fails if the language is not installed
	}{
		{"README.md", "go", "main.go", nil, []string{"go", "version"}},
		{"docs/peers.md", "go", "main.go", nil, []string{"go", "version"}},
		{"docs/peers.md", "js", "peer.mjs", []string{"node", "--experimental-websocket"}, []string{"node", "--experimental-websocket", "-e", "new WebSocket('ws://127.0.0.1:1').onerror=()=>0"}},
		{"docs/peers.md", "python", "peer.py", []string{python}, []string{python, "-c", needed}},
	} {
		t.Run(c.document+" "+c.language, func(t *testing.T) {
			if exec.CommandContext(t.Context(), c.needs[0], c.needs[1:]...).Run() != nil {
				t.Skipf("%s cannot run here", strings.Join(c.needs, " "))
			}
			addr, data := bustest.FreeAddress(t), t.TempDir()
			hubbub(t, "token", "provision", "--data", data)
			t.Setenv("HUBBUB_TOKEN", hubbub(t, documentedToken(t, "--data", data)...))
			start(t, t, "hubbub-bus", nil, "--listen", addr, "--data", data)
			text := documentBlock(t, c.document, c.language)
			if !strings.Contains(text, "ws://127.0.0.1:7892") {
				t.Fatal("the block does not name the default address")
			}
			file := filepath.Join(t.TempDir(), c.file)
			if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "127.0.0.1:7892", addr)), 0o600); err != nil {
				t.Fatal(err)
			}
			if c.language == "go" {
				file = compile(t, file)
			}
			runPeer(t, append(c.command, file), "")
			os.Unsetenv("HUBBUB_TOKEN") //nolint:errcheck // it is the peer's alone
			if c.document == "README.md" {
				awaitEcho(t, "ws://"+addr, data)
				checkChat(t, "ws://"+addr, data)
				return
			}
			checkEcho(t, "ws://"+addr, data)
		})
	}
}

// compile builds a Go program of one file.
func compile(t *testing.T, file string) string {
	t.Helper()
	program := strings.TrimSuffix(file, ".go")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, file)
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as for the programs, to share their packages
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("compiling the documented peer: %v\n%s", err, out)
	}
	return program
}

// hubbub runs a command and returns its output.
func hubbub(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), built(t, "hubbub"), args...).Output()
	if err != nil {
		t.Fatalf("hubbub %q: %v", args, err)
	}
	return strings.TrimSpace(string(out))
}

// documentedToken returns the arguments of the documented command that creates the token of
// agent:echo.
func documentedToken(t *testing.T, more ...string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "docs", "peers.md"))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^    hubbub (token create echo .*) > echo.token$`).FindSubmatch(text)
	if m == nil {
		t.Fatal("docs/peers.md does not say how a peer gets a token")
	}
	return append(strings.Fields(strings.ReplaceAll(string(m[1]), "'", "")), more...)
}

// runPeer runs a peer until the test ends. It is ready once it has printed sign.
func runPeer(t *testing.T, command []string, sign string) *process {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{
		t: t, name: "the peer", cmd: exec.CommandContext(ctx, command[0], command[1:]...),
		ended: make(chan struct{}), ready: make(chan struct{}), sign: regexp.MustCompile(sign),
	}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.WaitDelay = p, p, patience
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		cancel()
		<-p.ended
		if t.Failed() {
			t.Logf("the peer said: %s", p.whole())
		}
	})
	return p
}

// checkEcho sends messages to agent:echo and checks the answers. data is the data folder of its
// bus.
func checkEcho(t *testing.T, bus, data string) {
	t.Helper()
	awaitEcho(t, bus, data)
	hubbub := echoCommand(t, bus, data)
	watch := &process{t: t, name: "hubbub sub", cmd: hubbub("sub", "cli:pub-*", "-n", "1", "--json"), sign: regexp.MustCompile(`watching cli:pub-`)}
	var seen strings.Builder
	watch.cmd.Stdout, watch.cmd.Stderr = &seen, watch
	watch.start(t)
	out, err := hubbub("pub", "agent:echo", "--type", "tg_message", "hello").CombinedOutput()
	id, said, _ := strings.Cut(string(out), " ")
	if err != nil || !strings.Contains(said, "processed by 1 peer") {
		t.Errorf("pub: %v: %s", err, out)
	}
	if <-watch.ended; watch.err != nil {
		t.Fatalf("sub: %v\n%s", watch.err, watch.text())
	}
	for _, want := range []string{`"type":"tg_reply"`, `"from":"agent:echo"`, `"text":"hello"`, `"inReplyTo":"` + id + `"`} {
		if !strings.Contains(strings.ReplaceAll(seen.String(), `": `, `":`), want) {
			t.Errorf("the answer lacks %s: %s", want, seen.String())
		}
	}
	checkChat(t, bus, data)
}

// echoCommand returns a function that makes commands for the bus of agent:echo.
func echoCommand(t *testing.T, bus, data string) func(args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(t.Context(), patience+patience)
	t.Cleanup(cancel)
	return func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, built(t, "hubbub"), append(args, "--bus", bus, "--data", data)...)
		cmd.WaitDelay = patience
		return cmd
	}
}

// awaitEcho waits until agent:echo has subscribed.
func awaitEcho(t *testing.T, bus, data string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience+patience)
	defer cancel()
	hubbub := echoCommand(t, bus, data)
	// A peer that is connected may not have subscribed yet.
	subscribed := regexp.MustCompile(`(?m)^agent:echo .* agent:echo$`)
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for out, err := hubbub("peers").Output(); err != nil || !subscribed.Match(out); out, err = hubbub("peers").Output() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Fatalf("agent:echo never subscribed: %v\n%s", err, out)
		}
	}
}

// checkChat talks to agent:echo as a person does.
func checkChat(t *testing.T, bus, data string) {
	t.Helper()
	if out, err := echoCommand(t, bus, data)("chat", "agent:echo", "--wait", patience.String(), "hello").CombinedOutput(); err != nil || string(out) != "hello\n" {
		t.Errorf("chat: %v: %s", err, out)
	}
}
