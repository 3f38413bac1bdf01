package cmd_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestNewPeers runs what `hubbub new peer` prints, each as it stands, on a bus
// that is restarted under it.
func TestNewPeers(t *testing.T) {
	const needed = "import sys; from websockets import connect; sys.exit(sys.version_info < (3, 10))"
	python := "python3"
	if exec.CommandContext(t.Context(), python, "-c", needed).Run() != nil {
		python = "/usr/bin/python3" // Debian's, for which its packages are
	}
	for _, c := range []struct {
		language, file string
		command        []string // before the file
		needs          []string // a command that fails where the language cannot run
	}{
		{"go", "main.go", nil, []string{"go", "version"}},
		{"ts", "peer.ts", []string{"node", "--experimental-strip-types"}, []string{"node", "--experimental-strip-types", "-e", "new WebSocket('ws://127.0.0.1:1').onerror=()=>0"}},
		{"py", "peer.py", []string{python}, []string{python, "-c", needed}},
	} {
		t.Run(c.language, func(t *testing.T) {
			if exec.CommandContext(t.Context(), c.needs[0], c.needs[1:]...).Run() != nil {
				t.Skipf("%s cannot run here", strings.Join(c.needs, " "))
			}
			addr, data := freeAddress(t), t.TempDir()
			bus := start(t, t, "hubbub-bus", nil, "--listen", addr, "--data", data)
			file := filepath.Join(t.TempDir(), c.file)
			if err := os.WriteFile(file, printPeer(t, c.language), 0o600); err != nil {
				t.Fatal(err)
			}
			if c.language == "go" {
				file = buildModule(t, file)
			}
			t.Setenv("HUBBUB_BUS", "ws://"+addr)
			runPeer(t, append(c.command, file))
			checkEcho(t, "ws://"+addr)
			bus.stop()
			start(t, t, "hubbub-bus", nil, "--listen", addr, "--data", data)
			checkEcho(t, "ws://"+addr)
		})
	}
}

// printPeer returns what `hubbub new peer` prints.
func printPeer(t *testing.T, language string, name ...string) []byte {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), built(t, "hubbub"), append([]string{"new", "peer", "--lang", language}, name...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// buildModule builds a program as a module of its own, in the way that its comment says.
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
		cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "GOPROXY=off", "GONOSUMDB=*", "GONOSUMCHECK=1", "GOSUMDB=off") // from the module cache
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", step, err, out)
		}
	}
	return filepath.Join(filepath.Dir(file), "echo")
}

// TestNewPeerHasTheNameThatIsAsked, and says what is wrong with a name or language.
func TestNewPeerHasTheNameThatIsAsked(t *testing.T) {
	for _, language := range []string{"ts", "py", "go", "sh"} {
		text := printPeer(t, language, "reviewer")
		if !bytes.Contains(text, []byte("agent:reviewer")) || bytes.Contains(text, []byte("agent:echo")) || !bytes.Contains(text, []byte("HUBBUB_TOKEN")) {
			t.Errorf("%s:\n%s", language, text)
		}
	}
	for _, args := range [][]string{{"--lang", "cobol"}, {}, {"--lang", "py", "a b"}, {"--lang", "py", `x"; evil()`}} {
		cmd := exec.CommandContext(context.Background(), built(t, "hubbub"), append([]string{"new", "peer"}, args...)...)
		if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != 2 {
			t.Errorf("%q: %v", args, err)
		}
	}
}
