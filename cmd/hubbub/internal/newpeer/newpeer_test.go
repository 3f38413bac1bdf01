package newpeer_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
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
