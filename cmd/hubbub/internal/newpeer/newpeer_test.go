package newpeer_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"hubbub/cmd/hubbub/internal/newpeer"
	"hubbub/peers/agent/harness/conformance"
)

// TestNewPeer_NeedsNoFlag checks that one file is printed without any flag.
func TestNewPeer_NeedsNoFlag(t *testing.T) {
	cmd, out := newpeer.NewCommand(), new(bytes.Buffer)
	cmd.SetArgs([]string{"peer"})
	cmd.SetOut(out)
	if err := cmd.Execute(); err != nil || !strings.Contains(out.String(), "HUBBUB_TOKEN") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestNewC2A_PassesTheKit checks that the sample program conforms to every draft.
func TestNewC2A_PassesTheKit(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	cmd, out := newpeer.NewCommand(), new(bytes.Buffer)
	cmd.SetArgs([]string{"c2a"})
	cmd.SetOut(out)
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "agent.py")
	if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := 0
	o := &conformance.Options{Quiet: 30 * time.Millisecond, Timeout: time.Minute}
	if err := conformance.Program(t.Context(), []string{python, file}, o, func(v conformance.Verdict) {
		cases++
		if v.Result != conformance.OK {
			t.Errorf("%s %s: %s", v.Case, v.Title, v.Error)
		}
	}); err != nil || cases == 0 {
		t.Errorf("%d cases, %v", cases, err)
	}
}

// TestPythonPeers_UseNoProxy runs the Python peers with packages that stand in for websockets. From version 15
// on, connect has the parameter proxy. Before, it refuses parameters that it does not know.
func TestPythonPeers_UseNoProxy(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	cmd, printed := newpeer.NewCommand(), new(bytes.Buffer)
	cmd.SetArgs([]string{"peer", "--lang", "py"})
	cmd.SetOut(printed)
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "peers.md"))
	if err != nil {
		t.Fatal(err)
	}
	documented := regexp.MustCompile("(?s)```python\n(.*?)```").FindSubmatch(page)
	if documented == nil {
		t.Fatal("docs/peers.md has no peer in Python")
	}
	for what, peer := range map[string][]byte{"new peer": printed.Bytes(), "docs/peers.md": documented[1]} {
		for parameters, want := range map[string]string{
			"subprotocols=None, max_size=None, proxy=True": "proxy None",
			"subprotocols=None, max_size=None":             "no proxy",
		} {
			dir := t.TempDir()
			for name, text := range map[string]string{
				"peer.py":                  string(peer),
				"websockets/exceptions.py": "class ConnectionClosed(Exception): pass\nclass WebSocketException(Exception): pass\n",
				"websockets/__init__.py": "import os\nclass connect:\n    def __init__(self, uri, *, " + parameters + "):\n" +
					"        print(f'proxy {proxy}' if 'proxy' in locals() else 'no proxy', flush=True)\n" +
					"        os._exit(0)\n",
			} {
				file := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			run := exec.CommandContext(t.Context(), python, filepath.Join(dir, "peer.py")) // finds packages beside the file
			out, err := run.CombinedOutput()
			if got := strings.TrimSpace(string(out)); err != nil || got != want {
				t.Errorf("%s, connect(%s): %v: %s; want %s", what, parameters, err, got, want)
			}
		}
	}
}
